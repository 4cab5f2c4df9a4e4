//! SSD-PS: a store of fixed-size rows under u64 keys, larger than memory.
//!
//! Rows are appended in bulk to segments that are immutable once sealed; an index in memory says
//! where the newest version of each row lies; versions that it no longer points at are counted per
//! segment, and segments that are more than half stale are merged. `FORMAT.md` beside this crate
//! has every byte and what a reader does with each kind of damage.
//!
//! Source: HPS paper, section 6 and appendix E (append, stale counters, compaction above one half).
//! Pages, checksums, commits and snapshots are Stepwell's own.

#![forbid(unsafe_code)]

mod error;
mod fetch;
mod index;
mod layout;
mod manifest;
mod options;
mod segment;
mod stats;
mod store;
mod table;
mod verify;

pub use error::{Error, Result};
pub use manifest::{FORMAT_VERSION, MANIFEST_NAME, Manifest, SegmentEntry};
pub use options::StoreOptions;
pub use stats::Stats;
pub use store::{Store, Visit};
pub use verify::{Verified, verify};
