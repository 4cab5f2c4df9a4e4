//! The store: segments on disk, the index in memory, and who may touch what.
//!
//! Shared state
//!
//! ```text
//! field     under            touched by
//! merging   Mutex            whoever merges, and scans that begin, which want segments to stay.
//!                            Held across I/O; one merge at a time.
//! writer    Mutex            whoever changes the store: put, delete, commit, snapshot, the
//!                            beginning of a merge's end; and scans that begin. Held across I/O.
//! settling  Mutex            a merge while its new segment takes the place of the old ones, and
//!                            commits while they look at what there is to name. Not held across
//!                            I/O.
//! state     RwLock           everybody, for moments: look-ups read it, changes write it.
//!                            Never held across I/O.
//! pins      Mutex            scans, snapshots, and reports
//! counters  atomics          everybody; they reach reports alone
//! ```
//!
//! Order of locks: merging, writer, settling, state.
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
//!   - I1 The index points at the version of a key that was put last, and at none after a deletion.
//!   - I2 A place that the index names is readable: from memory under the lock, from the file
//!     without it.
//!   - I3 Every segment's live count is the number of keys that point at it.
//!   - I4 A commit names a prefix of all rows that were put and keys that were deleted, in order.
//!   - I5 No file is removed that the last commit names.
//!   - I7 A commit names what a merge made or what it was made of, never both.
//!   - I6 A page holds two rows of one key only where it was deleted in between: the last counts.
//!
//! - **Failure.** What failed before anything of a segment was written is the failure of that call:
//!   the next one tries again. Rows whose write failed stay in memory, and the write is tried again
//!   before the next change; a segment whose sync failed, of which nobody knows what the disk has,
//!   is read back, checked and written anew before the next commit. A merge that fails leaves
//!   nothing behind and its segments as they were. A failed read is the failure of the call that
//!   wanted it; a merge leaves a segment alone from then on that it could not read. A panic inside
//!   a change refuses writes until the store is opened again.
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
use crate::segment::{Draft, NUMBER_END, PageBuffer, SegmentFile, Tail};
use crate::size::{Size, Sizes};
use crate::stats::Counters;
use crate::table::Table;
use crate::{Error, KeyShardSet, Manifest, Result, Stats, StoreId, StoreOptions};

/// A store of fixed-size rows under u64 keys; shared by any number of threads.
pub struct Store {
    core: Arc<Core>,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.core.closing.store(true, Ordering::SeqCst);
        // Its readers may live on; nobody compacts it any longer.
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

/// What the store's threads share.
pub(crate) struct Core {
    /// The directories; the first one has the manifest.
    disks: Vec<Arc<dyn Disk>>,
    /// Those of the directories, for as long as anybody has the store or a reader of it.
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
    /// Lookups under way: compaction that is not due lets them pass.
    looking: AtomicUsize,
    /// Writers and commits that wait for compaction: it does not rest then.
    waiting: AtomicUsize,
    /// Whether the store is going away.
    closing: AtomicBool,
    executor: Executor,
    aside: Aside,
    /// Segments that scans and snapshots hold.
    pins: Mutex<Pins>,
    counters: Counters,
}

/// What look-ups need.
struct State {
    /// The id of the store; a view may go on to another one's.
    id: StoreId,
    index: Index,
    table: Table,
    /// Segments with pages in memory, the one that rows are put into last.
    open: Vec<OpenPages>,
    /// Rows put and keys deleted so far.
    next_seq: u64,
    expire_before: u32,
    /// What merged segments take until they are removed.
    retired: Space,
    /// Those that the last commit may name.
    retiring: Vec<Retired>,
    /// What a scan that is beginning missed.
    watch: StaleInScan,
}

/// The pages of a segment that are not all in its file yet.
struct OpenPages {
    slot: u32,
    pages: PageBuffer,
}

/// Segments, rows and bytes that take space.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    segments: u64,
    rows: u64,
    bytes: u64,
}

/// What changes need.
struct Writer {
    queue: Box<dyn Queue>,
    open: Option<OpenSegment>,
    /// Segments whose last writes are under way, in order.
    ending: VecDeque<Ending>,
    /// The lists of one that ended, for the next.
    spare: Option<Draft>,
    /// Writes to be started, in order: those that failed are tried again.
    unwritten: Vec<Write>,
    /// Writes under way.
    writing: Vec<Write>,
    /// Sealed segments that were not synced yet.
    unsynced: Vec<Arc<SegmentFile>>,
    /// Those of them whose sync failed, by number: they are written anew.
    unsound: Vec<u64>,
    /// Merged segments that the next commit no longer names.
    leaving: Vec<Retired>,
    /// Merged segments that no commit names any longer.
    retired: Vec<Retired>,
    next_segment: u64,
    /// The last commit.
    manifest: Manifest,
    /// Whether there is anything that the last commit does not name.
    changed: bool,
    /// Where and why writes are refused, if they are: a store that is looked at.
    refused: Option<(PathBuf, String)>,
}

struct OpenSegment {
    slot: u32,
    birth: u32,
    file: Arc<SegmentFile>,
    draft: Draft,
    size: Size,
}

/// A segment whose last writes are under way.
struct Ending {
    slot: u32,
    file: Arc<SegmentFile>,
    draft: Draft,
    tail: Tail,
    writes_left: usize,
}

/// A write of a part of a segment, and its bytes.
struct Write {
    slot: u32,
    first_page: u32,
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
    /// The settings.
    pub fn options(&self) -> &StoreOptions {
        &self.core.options
    }

    /// The key shards whose keys the store may have.
    pub fn key_shards(&self) -> KeyShardSet {
        self.core.key_shards
    }

    /// Rows that the store has; expired ones count until compaction met them.
    pub fn len(&self) -> u64 {
        self.core.state().index.rows()
    }

    /// Whether the store has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the store has a row of `key`, expired perhaps.
    pub fn contains(&self, key: Key) -> bool {
        self.core.state().index.get(key).is_some()
    }

    /// Rows that were put and keys that were deleted so far.
    pub fn next_seq(&self) -> u64 {
        self.core.state().next_seq
    }

    /// Path of the directory with the manifest.
    pub fn path(&self) -> &Path {
        self.core.home().path()
    }

    /// The most bytes that the index ever took, those of a part being rewritten counted twice.
    pub fn index_bytes_peak(&self) -> u64 {
        self.core.state().index.bytes_peak()
    }

    /// Bytes of all sealed segments' files.
    pub fn bytes_files(&self) -> u64 {
        let state = self.core.state();
        state.table.bytes() + state.retired.bytes
    }

    /// Reads for look-ups so far, of a page or more.
    pub fn reads(&self) -> u64 {
        self.core.counters.reads.load(Ordering::Relaxed)
    }

    /// Pages read for look-ups so far.
    pub fn pages_read(&self) -> u64 {
        self.core.counters.pages_read.load(Ordering::Relaxed)
    }

    /// What the store has done and holds.
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }
}

impl Core {
    /// The directory with the manifest.
    fn home(&self) -> &Arc<dyn Disk> {
        &self.disks[0]
    }

    /// The size of new segments.
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
        let writer = self.writer.lock().map_err(|_| self.refusal("a change of it panicked"))?;
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
    /// A number for the next segment; numbers are never given twice, and births have 32 bits.
    fn number(&mut self) -> Result<u32> {
        let number = u32::try_from(self.next_segment).ok().filter(|number| *number < NUMBER_END);
        let number = number.ok_or_else(|| {
            Error::Options(
                "this store has written 2^31 segments: copy it into a new one".to_owned(),
            )
        })?;
        self.next_segment += 1;
        Ok(number)
    }
}
