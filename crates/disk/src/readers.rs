//! A fixed pool of threads that perform submitted reads.
//!
//! How       A submission is cut into jobs of a few neighbouring reads each; threads take jobs in
//!           order and put the outcomes into the submission's batch, where its ticket waits.
//!           Threads start with the first submission and end when the pool is dropped, after the
//!           jobs that are left.
//! Shared    `queue`: jobs not yet taken and the bytes not yet read, under one lock. A batch's
//!           outcomes, under the batch's own. Neither is held while a read is performed.
//! Bounds    At most [`IN_FLIGHT_BYTES_MAX`] bytes of unfinished reads, or one submission if that
//!           alone is larger: a submission waits for room. Unfinished reads need nothing of their
//!           ticket's owner, so waiting for room always ends.

use std::collections::VecDeque;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::{Error, Operation, Pending, Read, Result, Ticket};

/// The most bytes of submitted reads that are unfinished at once, but for a larger submission.
pub const IN_FLIGHT_BYTES_MAX: u64 = 64 << 20;

/// Reads of one job at most: enough to spare the locks, few enough to spread over the threads.
const JOB_READS_MAX: usize = 16;

#[derive(Debug)]
pub(crate) struct Readers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    threads_max: usize,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    room: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    bytes_unfinished: u64,
    closing: bool,
}

#[derive(Debug)]
struct Job {
    batch: Arc<Batch>,
    index: usize,
    bytes: u64,
    reads: Vec<Read>,
}

#[derive(Debug)]
struct Batch {
    state: Mutex<BatchState>,
    finished: Condvar,
}

#[derive(Debug)]
struct BatchState {
    jobs_left: usize,
    /// One for each job; one that is still missing at the end was lost in a panic.
    outcomes: Vec<Option<Result<Vec<Read>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Readers {
    pub(crate) fn new(threads_max: usize) -> Self {
        assert!(threads_max > 0, "reads need at least one thread");
        Self { shared: Arc::default(), threads: Mutex::default(), threads_max }
    }

    pub(crate) fn submit(&self, reads: Vec<Read>, path: &Path) -> Result<Ticket> {
        self.start(path)?;
        let jobs = cut(reads, self.threads_max);
        let outcomes = jobs.iter().map(|_| None).collect();
        let state = BatchState { jobs_left: jobs.len(), outcomes };
        let batch = Arc::new(Batch { state: Mutex::new(state), finished: Condvar::new() });
        self.shared.enqueue(&batch, jobs);
        Ok(Ticket::new(Waiting { batch, path: path.to_owned() }))
    }

    /// Starts the threads if they are not running yet; fewer than asked for will do.
    fn start(&self, path: &Path) -> Result<()> {
        let mut threads = lock(&self.threads);
        if !threads.is_empty() {
            return Ok(());
        }
        for number in 0..self.threads_max {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name(format!("disk-read-{number}"));
            match builder.spawn(move || shared.work_off()) {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => {
                    return Err(Error::io(Operation::Read, path, error));
                }
                Err(_) => break,
            }
        }
        Ok(())
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        lock(&self.shared.queue).closing = true;
        self.shared.work.notify_all();
        for thread in lock(&self.threads).drain(..) {
            // A thread that panicked has failed its ticket already.
            let _ = thread.join();
        }
    }
}

/// Cuts reads into jobs: small ones where there are few reads, so that every thread gets some.
fn cut(reads: Vec<Read>, threads: usize) -> Vec<Vec<Read>> {
    let per_job = (reads.len() / (threads * 4)).clamp(1, JOB_READS_MAX);
    let mut jobs = Vec::with_capacity(reads.len().div_ceil(per_job));
    let mut reads = reads.into_iter().peekable();
    while reads.peek().is_some() {
        jobs.push(reads.by_ref().take(per_job).collect());
    }
    jobs
}

impl Shared {
    fn enqueue(&self, batch: &Arc<Batch>, jobs: Vec<Vec<Read>>) {
        let bytes_of = |reads: &[Read]| reads.iter().map(|read| read.buffer.len() as u64).sum();
        let bytes: u64 = jobs.iter().map(|reads| bytes_of(reads)).sum();
        let mut queue = lock(&self.queue);
        while queue.bytes_unfinished > 0 && queue.bytes_unfinished + bytes > IN_FLIGHT_BYTES_MAX {
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.bytes_unfinished += bytes;
        for (index, reads) in jobs.into_iter().enumerate() {
            let bytes = bytes_of(&reads);
            queue.jobs.push_back(Job { batch: Arc::clone(batch), index, bytes, reads });
        }
        drop(queue);
        self.work.notify_all();
    }

    /// The life of a thread.
    fn work_off(&self) {
        while let Some(Job { batch, index, bytes, mut reads }) = self.next() {
            // A panic must neither end the thread nor leave the ticket waiting: its outcome stays
            // missing, and the ticket says so.
            let perform = AssertUnwindSafe(|| {
                let outcome = reads.iter_mut().try_for_each(Read::perform);
                outcome.map(|()| std::mem::take(&mut reads))
            });
            let outcome = panic::catch_unwind(perform).ok();
            lock(&self.queue).bytes_unfinished -= bytes;
            self.room.notify_all();
            batch.report(index, outcome);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closing {
                return None;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Batch {
    fn report(&self, index: usize, outcome: Option<Result<Vec<Read>>>) {
        let mut state = lock(&self.state);
        if let Some(place) = state.outcomes.get_mut(index) {
            *place = outcome;
        }
        state.jobs_left -= 1;
        if state.jobs_left == 0 {
            self.finished.notify_all();
        }
    }
}

struct Waiting {
    batch: Arc<Batch>,
    path: PathBuf,
}

impl Pending for Waiting {
    fn wait(self: Box<Self>) -> Result<Vec<Read>> {
        let mut state = lock(&self.batch.state);
        while state.jobs_left > 0 {
            state = self.batch.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut all = Vec::new();
        for outcome in state.outcomes.drain(..) {
            let lost = || {
                let error = io::Error::other("a reading thread panicked");
                Err(Error::io(Operation::Read, &self.path, error))
            };
            all.extend(outcome.unwrap_or_else(lost)?);
        }
        Ok(all)
    }
}
