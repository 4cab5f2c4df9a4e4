//! What the stores of a process share: threads that compact, buffers of writes, idle read queues.
//!
//! - **Why.** A process has a store for every group of tables and for every rank in it. Each with
//!   threads, buffers and rings of its own, sixteen take sixteen times as much, and use it one
//!   after the other.
//! - **How.** A store has one buffer of its own, the chunk that rows are put into. All other
//!   chunks, those on their way to the disk, are the executor's; where it has none left, a store
//!   waits for its own writes, or writes its one chunk and uses it again. Threads take turns among
//!   the stores that have one to compact; queues of `get_many` go back to all.
//! - **Bounds.** `write_bytes` of chunks under way, a chunk for each store and each merge, and
//!   [`QUEUES_IDLE_MAX`] idle queues.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use stepwell_disk::{Buffer, Queue, QueueOptions};

use crate::Result;
use crate::segment::PageBuffer;
use crate::store::{Core, Turns, Wakeup};

/// Idle queues that are kept.
const QUEUES_IDLE_MAX: usize = 8;

/// What several stores share; a handle of it, which may be cloned.
///
/// The stores lie on disks of one world: queues read the files of all of them.
#[derive(Clone)]
pub struct Executor(Arc<Shared>);

/// Settings of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutorOptions {
    /// Threads that compact.
    pub threads: usize,
    /// Bytes of chunks on their way to the disk at most, of all stores together.
    pub write_bytes: u64,
}

impl Default for ExecutorOptions {
    /// A thread, and eight chunks of 1 MiB.
    fn default() -> Self {
        Self { threads: 1, write_bytes: 8 << 20 }
    }
}

/// What an executor holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutorStats {
    /// Bytes of chunks that stores have now, their own among them.
    pub chunk_bytes: u64,
    /// The most there were at once.
    pub chunk_bytes_most: u64,
    /// Idle queues.
    pub queues_idle: usize,
    /// Stores that are open.
    pub stores: usize,
}

pub(crate) struct Shared {
    options: ExecutorOptions,
    chunks: Mutex<Chunks>,
    queues: Mutex<Vec<(QueueOptions, Box<dyn Queue>)>>,
    turns: Arc<Turns>,
    wakeup: Arc<Wakeup>,
}

#[derive(Debug, Default)]
struct Chunks {
    idle: Vec<Buffer>,
    /// Bytes that stores have, all of them, and of those on their way to the disk.
    out: u64,
    under_way: u64,
    most: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl PartialEq for Executor {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Executor {
    /// An executor; its threads begin with the first store that has itself compacted, and end with
    /// the last handle.
    ///
    /// # Panics
    /// When it has no thread.
    pub fn new(options: ExecutorOptions) -> Self {
        assert!(options.threads > 0, "an executor has a thread");
        let (turns, wakeup) = (Arc::default(), Arc::default());
        let (chunks, queues) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { options, chunks, queues, turns, wakeup }))
    }

    /// What it holds.
    pub fn stats(&self) -> ExecutorStats {
        let chunks = lock(&self.0.chunks);
        ExecutorStats {
            chunk_bytes: chunks.out,
            chunk_bytes_most: chunks.most,
            queues_idle: lock(&self.0.queues).len(),
            stores: self.0.turns.stores(),
        }
    }

    /// A chunk for a store's own, which it always gets.
    pub(crate) fn own_chunk(&self, bytes: usize) -> Buffer {
        lock(&self.0.chunks).take(bytes)
    }

    /// A chunk in the place of one that goes to the disk, unless too many do.
    pub(crate) fn next_chunk(&self, bytes: usize) -> Option<Buffer> {
        let mut chunks = lock(&self.0.chunks);
        if chunks.under_way + bytes as u64 > self.0.options.write_bytes {
            return None;
        }
        chunks.under_way += bytes as u64;
        Some(chunks.take(bytes))
    }

    /// A store's own chunk goes to the disk, and it takes no other in its place.
    pub(crate) fn last_chunk(&self, bytes: usize) {
        lock(&self.0.chunks).under_way += bytes as u64;
    }

    /// Takes back a chunk that went to the disk.
    pub(crate) fn landed(&self, chunk: Option<Buffer>, bytes: usize) {
        let mut chunks = lock(&self.0.chunks);
        chunks.under_way = chunks.under_way.saturating_sub(bytes as u64);
        chunks.give(chunk, bytes, self.0.options.write_bytes);
    }

    /// Whether more is on its way to the disk than should be: last chunks of segments.
    pub(crate) fn has_too_much_under_way(&self) -> bool {
        lock(&self.0.chunks).under_way > self.0.options.write_bytes
    }

    /// Takes back the memory of a segment that ended, however.
    pub(crate) fn end_pages(&self, pages: PageBuffer) {
        let bytes = pages.chunk_bytes();
        // Chunks whose writes failed, or were not waited for, are freed by who holds them.
        (0..pages.in_flight()).for_each(|_| self.landed(None, bytes));
        let own = pages.into_buffer();
        // None is left where the last chunk went to the disk.
        if !own.is_empty() {
            lock(&self.0.chunks).give(Some(own), bytes, self.0.options.write_bytes);
        }
    }

    /// An idle queue with these options, if there is one.
    pub(crate) fn idle_queue(&self, options: QueueOptions) -> Option<Box<dyn Queue>> {
        let mut idle = lock(&self.0.queues);
        let same =
            |of: &QueueOptions| (of.depth, of.read_bytes) == (options.depth, options.read_bytes);
        let at = idle.iter().position(|(of, _)| same(of))?;
        Some(idle.swap_remove(at).1)
    }

    /// Keeps a queue for another look-up.
    pub(crate) fn keep_queue(&self, options: QueueOptions, queue: Box<dyn Queue>) {
        let mut idle = lock(&self.0.queues);
        if idle.len() == QUEUES_IDLE_MAX {
            idle.remove(0);
        }
        idle.push((options, queue));
    }

    /// Has a store compacted from now on.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn enter(&self, core: &Arc<Core>) -> Result<()> {
        self.0.turns.enter(Arc::downgrade(core));
        Turns::start(&self.0.turns, &self.0.wakeup, self.0.options.threads, core)
    }

    /// Has a store compacted no longer; nobody does when this returns.
    pub(crate) fn leave(&self, core: &Weak<Core>) {
        self.0.turns.leave(core);
    }

    /// There may be something to compact.
    pub(crate) fn notify(&self) {
        self.0.wakeup.notify();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.turns.end();
        self.wakeup.notify_all();
    }
}

impl Chunks {
    fn take(&mut self, bytes: usize) -> Buffer {
        self.out += bytes as u64;
        self.most = self.most.max(self.out);
        let at = self.idle.iter().position(|idle| idle.len() == bytes);
        at.map_or_else(|| Buffer::new(bytes), |at| self.idle.swap_remove(at))
    }

    /// Takes a chunk back; keeps as many as may be under way at once.
    fn give(&mut self, chunk: Option<Buffer>, bytes: usize, kept_max: u64) {
        self.out = self.out.saturating_sub(bytes as u64);
        let kept: u64 = self.idle.iter().map(|idle| idle.len() as u64).sum();
        if kept + bytes as u64 <= kept_max {
            self.idle.extend(chunk);
        }
    }
}
