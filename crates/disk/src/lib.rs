//! The outside world of files behind a small trait: real, in memory, faulty.
//!
//! Everything above reaches files through [`Disk`] and [`File`] and nowhere else, so that the same
//! code runs on a real directory, on one in memory that can crash, and on one that fails on demand.
//! One conformance suite, [`conformance::run`], holds all of them to the same promises.

#![forbid(unsafe_code)]

pub mod conformance;
mod disk;
mod error;
mod faulty_disk;
mod file_disk;
mod mem_disk;
mod name;
mod readers;

pub use disk::{Disk, File, Pending, Placed, Read, Ticket};
pub use error::{Error, Extent, Operation, Result};
pub use faulty_disk::{Failure, Faults, FaultyDisk, Lasting};
pub use file_disk::{FileDisk, READER_THREADS};
pub use mem_disk::{MemDisk, Survival};
pub use readers::IN_FLIGHT_BYTES_MAX;
