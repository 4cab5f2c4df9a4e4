//! Benchmarks of components, each compared with a limit of the machine in the same run.
//!
//! A benchmark measures the limit (the raw disk, bare loops over the same arrays) and the component
//! alternately, and reports the ratio. Benchmarks aren't tests: no result fails.

#![forbid(unsafe_code)]

pub mod cpu;
mod directory;
mod error;
pub mod hbm;
mod machine;
mod measure;
pub mod mem;
pub mod ranks;
pub mod ssd;
pub mod train;

pub use error::{Error, Result};
