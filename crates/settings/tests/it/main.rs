//! Tests of settings: parsing, checks, texts.

mod documented;
mod fields;
mod garbage;
mod named_tables;
mod none_is_forgotten;
