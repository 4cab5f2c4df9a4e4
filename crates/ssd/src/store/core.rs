//! Parts of a store, and access to them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};

use stepwell_base::Key;
use stepwell_disk::{Buffer, Disk, Queue};

use super::stale_in_scan::StaleInScan;
use super::sweep_result::Sweep;
use crate::executor::{Compacts, Executor};
use crate::identity::StoreId;
use crate::index::Index;
use crate::key_shard::KeyShardSet;
use crate::layout::Layout;
use crate::lock::Locks;
use crate::manifest::Manifest;
use crate::numbers::{Birth, PageNumber, SegmentNumber, Slot};
use crate::options::StoreOptions;
use crate::segment::{Draft, PageBuffer, SegmentFile, Tail};
use crate::segment_sizes::{Size, Sizes};
use crate::segment_table::Table;
use crate::stats::{Aside, Counters, Stats};
use crate::{Error, Result};

/// A store of fixed-size rows under u64 keys; any number of threads may use it.
pub struct Store {
    pub(super) core: Arc<Core>,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.core.closing.store(true, Ordering::SeqCst);
        // Readers may outlive the store, but compaction ends here.
        let core = Arc::downgrade(&self.core) as Weak<dyn Compacts>;
        self.core.executor.leave(&core);
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
pub(super) struct Core {
    /// The directories; the first one has the manifest.
    pub(super) disks: Vec<Arc<dyn Disk>>,
    /// Locks of the directories, held as long as the store or one of its readers exists.
    pub(super) _locks: Locks,
    pub(super) options: StoreOptions,
    pub(super) id: StoreId,
    pub(super) key_shards: KeyShardSet,
    pub(super) layout: Layout,
    pub(super) sizes: Sizes,
    pub(super) merging: Mutex<Sweep>,
    pub(super) writer: Mutex<Writer>,
    pub(super) settling: Mutex<()>,
    pub(super) state: RwLock<State>,
    /// Look-ups under way: compaction that is not urgent waits for them.
    pub(super) looking: AtomicUsize,
    /// Writers and commits that wait for compaction, which does not rest then.
    pub(super) waiting: AtomicUsize,
    /// Whether the store is being closed.
    pub(super) closing: AtomicBool,
    /// Whether the last merge failed and will be tried again, which the log says once.
    pub(super) merge_repeats: AtomicBool,
    pub(super) executor: Executor,
    pub(super) aside: Aside,
    /// Segments held by scans and snapshots.
    pub(super) pins: Mutex<Pins>,
    pub(super) counters: Counters,
}

/// Segments held by scans and snapshots: for each number, the holders and the bytes.
pub(super) type Pins = HashMap<SegmentNumber, (u32, u64)>;

/// State that look-ups need.
pub(super) struct State {
    /// Id of the store; a view may switch to another store's.
    pub(super) id: StoreId,
    pub(super) index: Index,
    pub(super) table: Table,
    /// Segments with pages in memory; rows are put into the last one.
    pub(super) open: Vec<OpenPages>,
    /// Number of rows put and keys deleted so far.
    pub(super) next_seq: u64,
    pub(super) expire_before: u32,
    /// Space of merged segments until they are removed.
    pub(super) retired: Space,
    /// Merged segments that the last commit may name.
    pub(super) retiring: Vec<Retired>,
    /// Rows that went stale while a scan is beginning.
    pub(super) watch: StaleInScan,
}

/// A segment's pages that are not all in its file yet.
pub(super) struct OpenPages {
    pub(super) slot: Slot,
    pub(super) pages: PageBuffer,
}

/// Space in segments, rows and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Space {
    pub(super) segments: u64,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// State that changes need.
pub(super) struct Writer {
    pub(super) queue: Box<dyn Queue>,
    pub(super) open: Option<OpenSegment>,
    /// Segments whose last writes are in flight, in order.
    pub(super) ending: VecDeque<Ending>,
    /// Emptied lists of an earlier segment, for reuse.
    pub(super) spare: Option<Draft>,
    /// Writes to start, in order, including failed ones to retry.
    pub(super) unwritten: Vec<Write>,
    /// Writes in flight.
    pub(super) writing: Vec<Write>,
    /// Sealed segments that have not been synced.
    pub(super) unsynced: Vec<Arc<SegmentFile>>,
    /// Numbers of unsynced segments whose sync failed; they are rewritten.
    pub(super) unsound: Vec<SegmentNumber>,
    /// Merged segments that the next commit will no longer name.
    pub(super) leaving: Vec<Retired>,
    /// Merged segments that no commit names.
    pub(super) retired: Vec<Retired>,
    pub(super) next_segment: u64,
    /// The last commit.
    pub(super) manifest: Manifest,
    /// Whether anything has changed since the last commit.
    pub(super) changed: bool,
    /// Path and reason if writes are refused, as in a store opened to be looked at.
    pub(super) refused: Option<(PathBuf, String)>,
}

pub(super) struct OpenSegment {
    pub(super) slot: Slot,
    pub(super) birth: Birth,
    pub(super) file: Arc<SegmentFile>,
    pub(super) draft: Draft,
    pub(super) size: Size,
}

/// A segment whose last writes are in flight.
pub(super) struct Ending {
    pub(super) slot: Slot,
    pub(super) file: Arc<SegmentFile>,
    pub(super) draft: Draft,
    pub(super) tail: Tail,
    pub(super) writes_left: usize,
}

/// A write to part of a segment, with its bytes.
pub(super) struct Write {
    pub(super) slot: Slot,
    pub(super) first_page: PageNumber,
    pub(super) file: Arc<SegmentFile>,
    pub(super) offset: u64,
    pub(super) buffer: Arc<Buffer>,
    pub(super) bytes: usize,
}

/// A segment that was merged away.
#[derive(Debug)]
pub(super) struct Retired {
    pub(super) file: Arc<SegmentFile>,
    pub(super) rows: u32,
    pub(super) bytes: u64,
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

    /// Counts of the work done so far, and sizes of the contents.
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }
}

impl Core {
    /// The directory with the manifest.
    pub(super) fn home(&self) -> &Arc<dyn Disk> {
        &self.disks[0]
    }

    /// Size of new segments.
    pub(super) fn size(&self, state: &State) -> &Size {
        self.sizes.at(state.table.bytes())
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn refusal(&self, since: &str) -> Error {
        let why = format!("writes are refused until it is opened again, since {since}");
        Error::Refused { path: self.home().path().to_owned(), why }
    }

    /// The writer, unless writes are refused.
    pub(super) fn writer(&self) -> Result<MutexGuard<'_, Writer>> {
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
    pub(super) fn number(&mut self) -> Result<SegmentNumber> {
        let number = SegmentNumber::new(self.next_segment).ok_or_else(|| {
            Error::Options(
                "this store has written 2^31 segments: copy it into a new one".to_owned(),
            )
        })?;
        self.next_segment += 1;
        Ok(number)
    }
}
