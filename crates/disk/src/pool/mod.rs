//! Threads that perform the operations of queues.
//!
//! - **Why.** If the system has no rings, several operations are in flight at once only if several
//!   threads wait for them.
//! - **How.** Queues push tasks onto one list; a thread takes one, performs it and puts it into the
//!   outbox of its queue. Threads start with the first queue and end when the pool is dropped,
//!   after the remaining tasks.
//! - **Concurrency.** `list` has tasks not yet taken; an outbox has one queue's finished tasks that
//!   it has not returned. Each has its own lock, not held while a task is performed.
//! - **Failure.** A task that panics is returned as failed; its thread continues.
//! - **Bounds.** Same as the queues': the list holds no more than all of them have in flight.

mod queue;

use std::collections::VecDeque;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

pub(crate) use self::queue::PoolQueue;
use crate::error::Operation;
use crate::mutex::lock;
use crate::queue::Wait;
use crate::task::{Finished, Memory, Task};
use crate::{Error, Result};

#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    threads_max: usize,
}

#[derive(Debug, Default)]
struct Shared {
    list: Mutex<List>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct List {
    jobs: VecDeque<Job>,
    idle: usize,
    is_closing: bool,
}

#[derive(Debug)]
struct Job {
    outbox: Arc<Outbox>,
    task: Task,
}

/// Finished tasks of one queue, waiting for it.
#[derive(Debug, Default)]
struct Outbox {
    finished: Mutex<Vec<Finished>>,
    some: Condvar,
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(crate) fn new(threads_max: usize) -> Self {
        assert!(threads_max > 0, "a pool has at least one thread");
        Self { shared: Arc::default(), threads: Mutex::default(), threads_max }
    }

    /// Starts the threads that are not running yet; fewer than wanted are enough.
    fn start(&self, path: &Path) -> Result<()> {
        let mut threads = lock(&self.threads);
        while threads.len() < self.threads_max {
            let shared = Arc::clone(&self.shared);
            let name = format!("disk-{}", threads.len());
            match thread::Builder::new().name(name).spawn(move || shared.work_off()) {
                Ok(thread) => threads.push(thread),
                Err(_) if !threads.is_empty() => break,
                Err(error) => return Err(Error::io(Operation::Submit, path, error)),
            }
        }
        Ok(())
    }

    /// Adds tasks of one queue to the list.
    fn push(&self, outbox: &Arc<Outbox>, tasks: &mut Vec<Task>) {
        let count = tasks.len();
        let mut list = lock(&self.shared.list);
        let jobs = tasks.drain(..).map(|task| Job { outbox: Arc::clone(outbox), task });
        list.jobs.extend(jobs);
        let wake = count.min(list.idle);
        drop(list);
        for _ in 0..wake {
            self.shared.work.notify_one();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.list).is_closing = true;
        self.shared.work.notify_all();
        for thread in lock(&self.threads).drain(..) {
            // A thread ends only by returning: its tasks' panics are caught.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Main loop of a thread.
    fn work_off(&self) {
        while let Some(Job { outbox, mut task }) = self.next() {
            let performed = panic::catch_unwind(AssertUnwindSafe(|| task.perform()));
            let outcome = performed.unwrap_or_else(|_| Err(panicked(&task)));
            outbox.put(Finished { task, outcome });
        }
    }

    fn next(&self) -> Option<Job> {
        let mut list = lock(&self.list);
        loop {
            if let Some(job) = list.jobs.pop_front() {
                return Some(job);
            }
            if list.is_closing {
                return None;
            }
            list.idle += 1;
            list = wait(&self.work, list);
            list.idle -= 1;
        }
    }
}

fn panicked(task: &Task) -> Error {
    let operation = match task.memory {
        Memory::Own(_) => Operation::Read,
        Memory::Lent(_) => Operation::Write,
    };
    let error = io::Error::other("its thread panicked");
    Error::io_at(operation, task.file.path(), task.offset, task.bytes, error)
}

impl Outbox {
    fn put(&self, finished: Finished) {
        let mut all = lock(&self.finished);
        all.push(finished);
        let is_first = all.len() == 1;
        drop(all);
        // One thread waits for the queue's first finished task, then takes all.
        if is_first {
            self.some.notify_one();
        }
    }

    /// Moves finished tasks to the end of `into`; if it waits, it moves at least one.
    fn take(&self, wait_for: Wait, into: &mut Vec<Finished>) {
        let mut all = lock(&self.finished);
        while wait_for == Wait::ForOne && all.is_empty() {
            all = wait(&self.some, all);
        }
        into.append(&mut all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BLOCK_BYTES;
    use crate::file::File;
    use crate::queue::{Done, Queue, QueueOptions};

    /// A file whose reads at odd blocks panic.
    #[derive(Debug)]
    struct Treacherous;

    impl File for Treacherous {
        fn path(&self) -> &Path {
            Path::new("treacherous")
        }

        fn len(&self) -> Result<u64> {
            Ok(0)
        }

        fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
            Ok(())
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            assert!(offset.is_multiple_of(2 * BLOCK_BYTES as u64), "an odd block");
            buffer.fill(1);
            Ok(())
        }

        fn truncate(&self, _: u64) -> Result<()> {
            Ok(())
        }

        fn sync(&self) -> Result<()> {
            Ok(())
        }

        fn is_direct(&self) -> bool {
            true
        }

        fn has_descriptor(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_task_that_panics_fails_alone() {
        let file: Arc<dyn File> = Arc::new(Treacherous);
        let pool = Arc::new(Pool::new(2));
        let options = QueueOptions { depth: 100, read_bytes: 1 << 20 };
        let mut queue = PoolQueue::new(options, &pool, Path::new("here")).unwrap();
        for token in 0..50 {
            assert!(queue.read(token, &file, token * BLOCK_BYTES as u64, BLOCK_BYTES).unwrap());
        }
        let mut seen = 0;
        while queue.in_flight() > 0 {
            let mut check = |done: Done<'_>| match done.outcome {
                Ok(bytes) => assert!(done.token.is_multiple_of(2) && bytes[0] == 1),
                Err(error) => {
                    assert!(!done.token.is_multiple_of(2));
                    let message = error.to_string();
                    assert!(message.contains("cannot read treacherous at offset"), "{message}");
                }
            };
            seen += queue.complete(Wait::ForOne, &mut check).unwrap();
        }
        assert_eq!(seen, 50);
        // Both threads continue.
        assert!(queue.read(0, &file, 0, BLOCK_BYTES).unwrap());
        assert_eq!(
            queue.complete(Wait::ForOne, &mut |done| assert!(done.outcome.is_ok())).unwrap(),
            1
        );
    }

    #[test]
    fn many_queues_share_a_few_threads() {
        let file: Arc<dyn File> = Arc::new(Treacherous);
        let pool = Arc::new(Pool::new(3));
        let options = QueueOptions { depth: 40, read_bytes: 1 << 20 };
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let here = Path::new("here");
                    let mut queue = PoolQueue::new(options, &pool, here).unwrap();
                    let (mut started, mut handed) = (0, 0);
                    while handed < 2_000 {
                        while started < 2_000 && queue.read(7, &file, 0, 4096).unwrap() {
                            started += 1;
                        }
                        handed += queue.complete(Wait::ForOne, &mut |_| ()).unwrap();
                    }
                    assert_eq!((started, queue.in_flight()), (2_000, 0));
                });
            }
        });
        assert!(lock(&pool.threads).len() <= 3);
    }
}
