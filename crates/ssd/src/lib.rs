//! SSD-PS: a store of fixed-size rows under u64 keys, larger than memory.
//!
//! Rows are appended in bulk to segments, which are immutable once sealed. An in-memory index maps
//! each key to the newest version of its row; every segment counts its versions that the index no
//! longer points at, and the segments with most of them are merged. `FORMAT.md` in this crate
//! specifies every byte, and what a reader does about each kind of damage.
//!
//! - **Source.** HPS paper, section 6 and appendix E (append, stale counters, compaction). The
//!   index, pages, checksums, commits, deletions and snapshots are Stepwell's own.

#![forbid(unsafe_code)]

mod bounds;
mod check;
mod error;
mod executor;
mod fetch;
mod harvest;
mod identity;
mod index;
mod key_shard;
mod layout;
mod lock;
mod manifest;
mod numbers;
mod options;
mod read_unit;
mod repair;
mod segment;
mod size;
mod stats;
mod store;
mod table;
mod target;
mod v1;
mod versions;
mod victims;

pub use check::{Checked, Damage, check};
pub use error::{Error, Result};
pub use executor::{Executor, ExecutorOptions, ExecutorStats};
pub use harvest::{Harvest, Wanted, Wasted};
pub use identity::StoreId;
pub use key_shard::{KEY_SHARDS, KeyShardSet, key_shard};
pub use lock::LOCK_NAME;
pub use manifest::{FORMAT_VERSION, MANIFEST_NAME, Manifest, SEGMENTS_MAX, SegmentEntry};
pub use options::{Compaction, OPEN_THREADS_MAX, SPACE_HARD, StoreOptions, WRITES_MAX};
pub use repair::{Salvaged, repair};
pub use segment::is_segment;
pub use size::SEGMENTS_MANY;
pub use stats::{AGE_PARTS, DirectoryStats, LIVE_PARTS, PageYield, Stats};
pub use store::{
    Aside, Cursor, IndexFill, Lookup, Reader, Refreshed, Scan, Store, StoreSpace, Ticket, Verify,
    View, Visit,
};

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
