//! The store: segments on disk, the index in memory, and who may access what.
//!
//! Shared state
//!
//! ```text
//! field     under            used by
//! merging   Mutex            merges, and scans as they begin, which need segments to stay.
//!                            Held across I/O; one merge at a time.
//! writer    Mutex            every change: put, delete, commit, snapshot, the first part of a
//!                            merge's end; and scans as they begin. Held across I/O.
//! settling  Mutex            a merge while its new segment replaces the old ones, and commits
//!                            while they collect what to name. Not held across I/O.
//! state     RwLock           everything, briefly: look-ups read it, changes write it.
//!                            Never held across I/O.
//! pins      Mutex            scans, snapshots, and reports
//! counters  atomics          everything; only reports read them
//! ```
//!
//! Lock order: merging, writer, settling, state.
//!
//! How a row moves
//!
//! ```text
//!  put ──► chunk ──► open segment ──► closing ──► sealed ──(merge)──► retired ──► removed after
//!          readable  (chunks are     (last       │                              the next commit
//!          at once    being written)  writes)    └──► commit: synced, in the manifest
//! ```
//!
//! - **Invariants.**
//!   - I1 The index points at the version of a key that was put last, at none after a deletion.
//!   - I2 Every place in the index is readable: from memory under the lock, from the file without
//!     it.
//!   - I3 A segment's live count is the number of keys that point at it.
//!   - I4 A commit names a prefix, in order, of all rows put and keys deleted.
//!   - I5 No file that the last commit names is removed.
//!   - I6 A page has two rows of one key only if the key was deleted in between: the last counts.
//!   - I7 A commit names either the result of a merge or its inputs, never both.
//!
//! - **Failure.** A failure before any byte of a segment is written fails only that call; the next
//!   call tries again. Rows whose write failed stay in memory, and the write is retried before the
//!   next change. After a failed sync, the disk's content is unknown: the segment is read back,
//!   checked and written anew before the next commit. A failed merge leaves no files and does not
//!   change its segments; later merges skip a segment that it could not read. A failed read fails
//!   the call that needed it. After a panic inside a change, writes are refused until the store is
//!   reopened.
//! - **Cost.** A row is written once when it is put and about once more when its segment is merged;
//!   a look-up reads its page.

mod aside;
mod commit;
mod compact;
mod compactor;
mod delete;
mod get;
mod index_room;
mod live;
mod load;
mod merge;
mod open;
mod pin;
mod pressure;
mod put;
mod reader;
mod refresh;
mod relay;
mod report;
mod reshard;
mod scan;
mod settle;
mod snapshot;
mod stale_in_scan;
mod sweep;
mod view;
mod write;

pub use aside::Aside;
pub(crate) use compactor::{Turns, Wakeup};
pub use index_room::IndexFill;
pub(crate) use load::{DELETIONS_HELD, listed_bytes, verify};
pub(crate) use pin::SCAN_BYTES;
pub use pressure::StoreSpace;
pub use reader::{Lookup, Reader, Ticket};
pub(crate) use relay::held_most;
pub use reshard::Verify;
pub use scan::{Cursor, Scan, Visit};
pub(crate) use sweep::Sweep;
pub use view::{Refreshed, View};

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use stepwell_base::Key;
use stepwell_disk::{Buffer, Disk, Queue};

use self::pin::Pins;
use self::stale_in_scan::StaleInScan;
use crate::executor::Executor;
use crate::index::Index;
use crate::layout::Layout;
use crate::lock::Locks;
use crate::numbers::{Birth, PageNumber, SegmentNumber, Slot};
use crate::segment::{Draft, PageBuffer, SegmentFile, Tail};
use crate::size::{Size, Sizes};
use crate::stats::Counters;
use crate::table::Table;
use crate::{Error, KeyShardSet, Manifest, Result, Stats, StoreId, StoreOptions};

/// A store of fixed-size rows under u64 keys; any number of threads may use it.
pub struct Store {
    core: Arc<Core>,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.core.closing.store(true, Ordering::SeqCst);
        // Readers may outlive the store, but compaction ends here.
        self.core.executor.leave(&Arc::downgrade(&self.core));
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let open = std::mem::take(&mut state.open);
        open.into_iter().for_each(|open| self.executor.end_pages(open.pages));
    }
}

/// State that the store's threads use.
pub(crate) struct Core {
    /// The directories; the first one has the manifest.
    disks: Vec<Arc<dyn Disk>>,
    /// Locks of the directories, held as long as the store or one of its readers exists.
    _locks: Locks,
    options: StoreOptions,
    id: StoreId,
    key_shards: KeyShardSet,
    layout: Layout,
    sizes: Sizes,
    merging: Mutex<Sweep>,
    writer: Mutex<Writer>,
    settling: Mutex<()>,
    state: RwLock<State>,
    /// Look-ups under way: compaction that is not urgent waits for them.
    looking: AtomicUsize,
    /// Writers and commits that wait for compaction, which does not rest then.
    waiting: AtomicUsize,
    /// Whether the store is being closed.
    closing: AtomicBool,
    executor: Executor,
    aside: Aside,
    /// Segments held by scans and snapshots.
    pins: Mutex<Pins>,
    counters: Counters,
}

/// State that look-ups need.
struct State {
    /// Id of the store; a view may switch to another store's.
    id: StoreId,
    index: Index,
    table: Table,
    /// Segments with pages in memory; rows are put into the last one.
    open: Vec<OpenPages>,
    /// Number of rows put and keys deleted so far.
    next_seq: u64,
    expire_before: u32,
    /// Space of merged segments until they are removed.
    retired: Space,
    /// Merged segments that the last commit may name.
    retiring: Vec<Retired>,
    /// Rows that went stale while a scan is beginning.
    watch: StaleInScan,
}

/// A segment's pages that are not all in its file yet.
struct OpenPages {
    slot: Slot,
    pages: PageBuffer,
}

/// Space in segments, rows and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    segments: u64,
    rows: u64,
    bytes: u64,
}

/// State that changes need.
struct Writer {
    queue: Box<dyn Queue>,
    open: Option<OpenSegment>,
    /// Segments whose last writes are in flight, in order.
    ending: VecDeque<Ending>,
    /// Emptied lists of an earlier segment, for reuse.
    spare: Option<Draft>,
    /// Writes to start, in order, including failed ones to retry.
    unwritten: Vec<Write>,
    /// Writes in flight.
    writing: Vec<Write>,
    /// Sealed segments that have not been synced.
    unsynced: Vec<Arc<SegmentFile>>,
    /// Numbers of unsynced segments whose sync failed; they are rewritten.
    unsound: Vec<SegmentNumber>,
    /// Merged segments that the next commit will no longer name.
    leaving: Vec<Retired>,
    /// Merged segments that no commit names.
    retired: Vec<Retired>,
    next_segment: u64,
    /// The last commit.
    manifest: Manifest,
    /// Whether anything has changed since the last commit.
    changed: bool,
    /// Path and reason if writes are refused, as in a store opened to be looked at.
    refused: Option<(PathBuf, String)>,
}

struct OpenSegment {
    slot: Slot,
    birth: Birth,
    file: Arc<SegmentFile>,
    draft: Draft,
    size: Size,
}

/// A segment whose last writes are in flight.
struct Ending {
    slot: Slot,
    file: Arc<SegmentFile>,
    draft: Draft,
    tail: Tail,
    writes_left: usize,
}

/// A write to part of a segment, with its bytes.
struct Write {
    slot: Slot,
    first_page: PageNumber,
    file: Arc<SegmentFile>,
    offset: u64,
    buffer: Arc<Buffer>,
    bytes: usize,
}

/// A segment that was merged away.
#[derive(Debug)]
struct Retired {
    file: Arc<SegmentFile>,
    rows: u32,
    bytes: u64,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Core({})", self.home().path().display())
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.core.home().path())
            .field("options", &self.core.options)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// The store's settings.
    pub fn options(&self) -> &StoreOptions {
        &self.core.options
    }

    /// The key shards whose keys the store may have.
    pub fn key_shards(&self) -> KeyShardSet {
        self.core.key_shards
    }

    /// Number of rows in the store, including expired ones that compaction has not met.
    pub fn len(&self) -> u64 {
        self.core.state().index.rows()
    }

    /// Whether the store has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the store has a row of `key`, possibly expired.
    pub fn contains(&self, key: Key) -> bool {
        self.core.state().index.get(key).is_some()
    }

    /// Number of rows put and keys deleted so far.
    pub fn next_seq(&self) -> u64 {
        self.core.state().next_seq
    }

    /// Path of the directory with the manifest.
    pub fn path(&self) -> &Path {
        self.core.home().path()
    }

    /// The most bytes that the index ever took; a part being rewritten counts twice.
    pub fn index_bytes_peak(&self) -> u64 {
        self.core.state().index.bytes_peak()
    }

    /// Bytes of all sealed segments' files.
    pub fn bytes_files(&self) -> u64 {
        let state = self.core.state();
        state.table.bytes() + state.retired.bytes
    }

    /// Number of reads for look-ups so far, each of one or more pages.
    pub fn reads(&self) -> u64 {
        self.core.counters.reads.load(Ordering::Relaxed)
    }

    /// Number of pages read for look-ups so far.
    pub fn pages_read(&self) -> u64 {
        self.core.counters.pages_read.load(Ordering::Relaxed)
    }

    /// Figures of what the store has done and holds.
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }
}

impl Core {
    /// The directory with the manifest.
    fn home(&self) -> &Arc<dyn Disk> {
        &self.disks[0]
    }

    /// Size of new segments.
    fn size(&self, state: &State) -> &Size {
        self.sizes.at(state.table.bytes())
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusal(&self, since: &str) -> Error {
        let why = format!("writes are refused until it is opened again, since {since}");
        Error::Refused { path: self.home().path().to_owned(), why }
    }

    /// The writer, unless writes are refused.
    fn writer(&self) -> Result<MutexGuard<'_, Writer>> {
        let writer = self.writer.lock().map_err(|_| self.refusal("a change panicked"))?;
        if self.settling.is_poisoned() {
            return Err(self.refusal("a merge panicked"));
        }
        match &writer.refused {
            Some((path, why)) => Err(Error::Refused { path: path.clone(), why: why.clone() }),
            None => Ok(writer),
        }
    }
}

impl Writer {
    /// Returns the next segment's number.
    fn number(&mut self) -> Result<SegmentNumber> {
        let number = SegmentNumber::new(self.next_segment).ok_or_else(|| {
            Error::Options(
                "this store has written 2^31 segments: copy it into a new one".to_owned(),
            )
        })?;
        self.next_segment += 1;
        Ok(number)
    }
}
