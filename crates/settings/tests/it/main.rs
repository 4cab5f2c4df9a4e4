//! Settings, from text to text.

mod documented;
mod fields;
mod garbage;
mod named_tables;
mod none_is_forgotten;
