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

mod check;
mod error;
mod executor;
mod fetch;
mod format_v1;
mod harvest;
mod identity;
mod index;
mod key_shard;
mod layout;
mod lock;
mod manifest;
mod memory_bounds;
mod numbers;
mod options;
mod read_unit;
mod repair;
mod row_versions;
mod segment;
mod segment_sizes;
mod segment_table;
mod space_target;
mod stats;
mod store;
mod victims;

pub use check::{Checked, Damage, check};
pub use error::{Error, Result};
pub use executor::{Executor, ExecutorOptions, ExecutorStats};
pub use harvest::{Harvest, Wanted};
pub use identity::StoreId;
pub use key_shard::{KEY_SHARDS, KeyShardSet, key_shard};
pub use layout::FORMAT_VERSION;
pub use lock::LOCK_NAME;
pub use manifest::{MANIFEST_NAME, Manifest, SEGMENTS_MAX};
pub use options::{
    Compaction, OPEN_THREADS_MAX, SEGMENTS_MANY, SPACE_HARD, StoreOptions, WRITES_MAX,
};
pub use read_unit::Wasted;
pub use repair::{Salvaged, repair};
pub use segment::entry::SegmentEntry;
pub use segment::is_segment;
pub use stats::{AGE_PARTS, Aside, DirectoryStats, LIVE_PARTS, PageYield, Stats};
pub use store::{
    Cursor, IndexFill, Lookup, Reader, Refreshed, Scan, Store, StoreSpace, Ticket, Verify, View,
    Visit,
};

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
