//! The ground floor through its public interface.

mod keys;
mod owner;
mod statistics;
