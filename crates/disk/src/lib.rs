//! File access behind a small trait: real, in memory, or faulty.
//!
//! All other code accesses files only through [`Disk`], [`File`] and [`Queue`], so the same code
//! runs on a real directory, on one in memory that can crash, and on one that fails on demand. One
//! conformance suite, [`conformance::run`], checks that all of them keep the same promises.

#![deny(unsafe_code)]

mod buffer;
pub mod conformance;
mod descriptor;
mod disk;
mod error;
mod faulty_disk;
mod file;
mod file_disk;
mod gauge;
mod immediate;
mod mem_disk;
mod mutex;
mod name;
mod pool;
mod progress;
mod queue;
mod spares;
mod task;
mod uring;

pub use buffer::{BLOCK_BYTES, Buffer};
pub use descriptor::{Access, Descriptor};
pub use disk::{Disk, EntryKind, Identity, Lock, Placed, copy};
pub use error::{Error, Extent, Operation, Result};
pub use faulty_disk::{Failure, Faults, FaultyDisk, Flip, Lasting, Reason, Refusal};
pub use file::File;
pub use file_disk::{Engine, FileDisk, OpenFiles};
pub use gauge::OpenFilesStats;
pub use mem_disk::{MemDisk, Survival};
pub use queue::{Done, Queue, QueueOptions, Wait};
