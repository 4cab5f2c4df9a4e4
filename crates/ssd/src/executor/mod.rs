//! Resources that the stores of a process share: compaction threads, write buffers, idle read
//! queues.
//!
//! - **Why.** A process has a store for every table group and for every rank in it. If each had its
//!   own threads, buffers and rings, sixteen stores would take sixteen times as much and use it one
//!   after the other.
//! - **How.** A store has one write buffer of its own, which rows are put into. All other write
//!   buffers, which are on their way to the disk, belong to the executor; if it has none left, a
//!   store waits for its own writes, or writes its own one and reuses it. Threads take turns among
//!   the stores that compact in the background; idle queues of `get_many` can be used by every
//!   store.
//! - **Bounds.** `write_bytes` of write buffers in flight, one for each store and each merge, and
//!   [`QUEUES_IDLE_MAX`] idle queues.

mod turns;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use stepwell_disk::{Buffer, Queue, QueueOptions};

pub(crate) use self::turns::Compacts;
use self::turns::{Turns, Wakeup};
use crate::Result;
use crate::segment::PageBuffer;

/// The most idle queues that are kept.
const QUEUES_IDLE_MAX: usize = 8;

/// Threads, buffers and queues that several stores use. Clones are handles to the same executor.
///
/// All its stores must be on disks of one world: queues read the files of all of them.
#[derive(Clone)]
pub struct Executor(Arc<Shared>);

/// Settings of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutorOptions {
    /// Number of compaction threads.
    pub threads: usize,
    /// The most bytes of write buffers on their way to the disk, over all stores.
    pub write_bytes: u64,
}

impl Default for ExecutorOptions {
    /// One thread, and eight write buffers of 1 MiB.
    fn default() -> Self {
        Self { threads: 1, write_bytes: 8 << 20 }
    }
}

/// Contents of an executor: buffers, queues and stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutorStats {
    /// Bytes of write buffers that stores have now, including their own.
    pub buffer_bytes: u64,
    /// The most bytes of write buffers that stores had at once.
    pub buffer_bytes_most: u64,
    /// Number of idle queues.
    pub queues_idle: usize,
    /// Number of open stores that the executor compacts.
    pub stores: usize,
}

pub(crate) struct Shared {
    options: ExecutorOptions,
    buffers: Mutex<WriteBuffers>,
    queues: Mutex<Vec<(QueueOptions, Box<dyn Queue>)>>,
    turns: Arc<Turns>,
    wakeup: Arc<Wakeup>,
}

#[derive(Debug, Default)]
struct WriteBuffers {
    idle: Vec<Buffer>,
    /// Bytes of all buffers that stores have, and of those on their way to the disk.
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
    /// Makes an executor. Its threads start with the first store that compacts in the background,
    /// and end with the last handle.
    ///
    /// # Panics
    /// If `threads` is 0.
    pub fn new(options: ExecutorOptions) -> Self {
        assert!(options.threads > 0, "an executor needs a thread");
        let (turns, wakeup) = (Arc::default(), Arc::default());
        let (buffers, queues) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { options, buffers, queues, turns, wakeup }))
    }

    /// Returns the contents of the executor.
    pub fn stats(&self) -> ExecutorStats {
        let buffers = lock(&self.0.buffers);
        ExecutorStats {
            buffer_bytes: buffers.out,
            buffer_bytes_most: buffers.most,
            queues_idle: lock(&self.0.queues).len(),
            stores: self.0.turns.stores(),
        }
    }

    /// Returns a store's own buffer, which it always gets.
    pub(crate) fn own_buffer(&self, bytes: usize) -> Buffer {
        lock(&self.0.buffers).take(bytes)
    }

    /// Returns a buffer to replace one that goes to the disk, unless too many are in flight.
    pub(crate) fn next_buffer(&self, bytes: usize) -> Option<Buffer> {
        let mut buffers = lock(&self.0.buffers);
        if buffers.under_way + bytes as u64 > self.0.options.write_bytes {
            return None;
        }
        buffers.under_way += bytes as u64;
        Some(buffers.take(bytes))
    }

    /// Records that a store's own buffer goes to the disk and is not replaced.
    pub(crate) fn last_buffer(&self, bytes: usize) {
        lock(&self.0.buffers).under_way += bytes as u64;
    }

    /// Takes back a buffer that was written.
    pub(crate) fn landed(&self, buffer: Option<Buffer>, bytes: usize) {
        let mut buffers = lock(&self.0.buffers);
        buffers.under_way = buffers.under_way.saturating_sub(bytes as u64);
        buffers.give(buffer, bytes, self.0.options.write_bytes);
    }

    /// Whether more bytes of buffers are in flight than the bound, due to last buffers of segments.
    pub(crate) fn has_too_much_under_way(&self) -> bool {
        lock(&self.0.buffers).under_way > self.0.options.write_bytes
    }

    /// Takes back the memory of a segment that ended, successfully or not.
    pub(crate) fn end_pages(&self, pages: PageBuffer) {
        let bytes = pages.buffer_bytes();
        // Buffers whose writes failed, or were not waited for, are freed by their holders.
        (0..pages.in_flight()).for_each(|_| self.landed(None, bytes));
        let own = pages.into_buffer();
        // Empty if the last buffer went to the disk.
        if !own.is_empty() {
            lock(&self.0.buffers).give(Some(own), bytes, self.0.options.write_bytes);
        }
    }

    /// Returns an idle queue with these options, if there is one.
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

    /// Starts compacting a store in the background.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(crate) fn enter(&self, store: &Arc<dyn Compacts>) -> Result<()> {
        self.0.turns.enter(Arc::downgrade(store));
        Turns::start(&self.0.turns, &self.0.wakeup, self.0.options.threads, store.path())
    }

    /// Stops compacting a store; no thread does when this returns.
    pub(crate) fn leave(&self, store: &Weak<dyn Compacts>) {
        self.0.turns.leave(store);
    }

    /// Wakes a thread: there may be something to compact.
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

impl WriteBuffers {
    fn take(&mut self, bytes: usize) -> Buffer {
        self.out += bytes as u64;
        self.most = self.most.max(self.out);
        let at = self.idle.iter().position(|idle| idle.len() == bytes);
        at.map_or_else(|| Buffer::new(bytes), |at| self.idle.swap_remove(at))
    }

    /// Takes a buffer back; keeps idle ones of at most `kept_max` bytes.
    fn give(&mut self, buffer: Option<Buffer>, bytes: usize, kept_max: u64) {
        self.out = self.out.saturating_sub(bytes as u64);
        let kept: u64 = self.idle.iter().map(|idle| idle.len() as u64).sum();
        if kept + bytes as u64 <= kept_max {
            self.idle.extend(buffer);
        }
    }
}
