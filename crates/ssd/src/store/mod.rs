//! The store: segments on disk, the index in memory, and who may touch what.
//!
//! Shared state
//!
//! ```text
//! field     under            touched by
//! writer    Mutex            whoever changes the store: put, compact, commit, snapshot; and scans,
//!                            which want it unchanged. Held across I/O.
//! state     RwLock           everybody, for moments: look-ups read it, changes write it.
//!                            Never held across I/O.
//! counters  atomics          everybody; they reach reports alone
//! ```
//!
//! Order of locks: writer before state.
//!
//! How a row moves
//!
//! ```text
//!  put ──► page buffer ──► open segment ──seal──► sealed ──(mostly stale)──► merged: retired
//!          readable at      (flush)                │                          │
//!          once                                    └──► commit: synced,       └──► removed after
//!                                                       in the manifest            the next commit
//! ```
//!
//! Invariants
//! - I1 The index points at the version of a key with the highest sequence number that was put.
//! - I2 A place that the index names is readable: from the buffer under the lock, from the file
//!   without it.
//! - I3 Every segment's live count is the number of keys that point at it.
//! - I4 A commit names a prefix of all rows that were put, in their order.
//! - I5 No file is removed that the last commit names.
//!
//! Failure   A failed write or sync leaves unknown what is on the disk: from then on writes are
//!           refused until the store is opened again, and look-ups go on. A failed read is the
//!           failure of the call that wanted it. A panic inside a change refuses writes too.
//! Cost      A row is written once when it is put and about once more when its segment is merged;
//!           a look-up reads its page. Space: live rows, as many stale ones, and some segments.

mod commit;
mod compact;
mod get;
mod open;
mod put;
mod scan;

pub use scan::Visit;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use stepwell_base::Key;
use stepwell_disk::Disk;

use crate::index::Index;
use crate::layout::Layout;
use crate::segment::{Builder, PageBuffer, SegmentFile};
use crate::stats::Counters;
use crate::table::Table;
use crate::{Error, Manifest, Result, Stats, StoreOptions};

/// A store of fixed-size rows under u64 keys; shared by any number of threads.
pub struct Store {
    disk: Arc<dyn Disk>,
    options: StoreOptions,
    layout: Layout,
    writer: Mutex<Writer>,
    state: RwLock<State>,
    counters: Counters,
}

/// What look-ups need.
struct State {
    index: Index,
    table: Table,
    open: Option<OpenPages>,
    next_seq: u64,
    retired: Space,
}

/// The pages of the open segment that are not in its file yet.
struct OpenPages {
    slot: u32,
    pages: PageBuffer,
}

/// Segments and rows that take space.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    segments: u64,
    rows: u64,
}

/// What changes need.
struct Writer {
    open: Option<OpenSegment>,
    /// Sealed segments that were not synced yet.
    unsynced: Vec<Arc<SegmentFile>>,
    /// Merged segments, named by the last commit perhaps, and their rows.
    retired: Vec<(u64, u32)>,
    next_segment: u64,
    /// The last commit.
    manifest: Manifest,
    /// Whether there is anything that the last commit does not name.
    changed: bool,
    /// Why writes are refused, if they are.
    refused: Option<String>,
}

struct OpenSegment {
    slot: u32,
    builder: Builder,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.disk.path())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// The settings.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// Rows that the store has.
    pub fn len(&self) -> u64 {
        self.state().index.rows()
    }

    /// Whether the store has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the store has a row of `key`.
    pub fn contains(&self, key: Key) -> bool {
        self.state().index.get(key).is_some()
    }

    /// One above the highest sequence number that was ever put.
    pub fn next_seq(&self) -> u64 {
        self.state().next_seq
    }

    /// What the store has done and holds.
    pub fn stats(&self) -> Stats {
        let state = self.state();
        let (live, stride) = (state.index.rows(), self.layout.stride as u64);
        let stale = state.table.rows() + state.retired.rows - live;
        Stats {
            rows_live: live,
            rows_stale: stale,
            bytes_live: live * stride,
            bytes_stale: stale * stride,
            segments: state.table.len() as u64,
            segments_retired: state.retired.segments,
            index_bytes: state.index.bytes(),
            ..self.counters.counted()
        }
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusal(&self, why: &str) -> Error {
        Error::Refused { path: self.disk.path().to_owned(), why: why.to_owned() }
    }

    /// The writer, unless writes are refused.
    fn writer(&self) -> Result<MutexGuard<'_, Writer>> {
        let writer = self.writer.lock().map_err(|_| self.refusal("a change of it panicked"))?;
        match &writer.refused {
            Some(why) => Err(self.refusal(why)),
            None => Ok(writer),
        }
    }
}

impl State {
    /// What the segments in use take.
    fn table_space(&self) -> Space {
        Space { segments: self.table.len() as u64, rows: self.table.rows() }
    }
}

impl Writer {
    /// Passes the outcome of a write on; after a failed one all later ones are refused.
    fn guard<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            self.refused.get_or_insert_with(|| error.to_string());
        }
        outcome
    }

    /// A number for the next segment.
    fn number(&mut self) -> u64 {
        let number = self.next_segment;
        self.next_segment += 1;
        number
    }
}
