//! Benchmarks of the parts, each against what the machine itself can do, in one run.
//!
//! A benchmark measures the limit first (the raw disk, bare loops over the same arrays), then the
//! part, in turns, and reports achieved over limit. Nothing here is a test: no figure fails.

#![forbid(unsafe_code)]

pub mod cpu;
mod error;
pub mod hbm;
mod home;
mod machine;
mod measure;
pub mod mem;
pub mod ranks;
pub mod ssd;
pub mod train;

pub use error::{Error, Result};
