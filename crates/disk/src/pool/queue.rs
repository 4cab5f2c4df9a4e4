//! A queue whose operations the threads of a pool perform.
//!
//! - **How.** Operations are collected and pushed to the pool in groups; each read has its own
//!   buffer, which the queue reuses. Files without a descriptor for engines are read and written
//!   synchronously in the calling thread.

use std::path::Path;
use std::sync::Arc;

use super::{Outbox, Pool};
use crate::Result;
use crate::buffer::Buffer;
use crate::file::File;
use crate::queue::{Done, GROUP, Queue, QueueOptions, Wait};
use crate::spares::Spares;
use crate::task::{Finished, Memory, Task};

#[derive(Debug)]
pub(crate) struct PoolQueue {
    options: QueueOptions,
    pool: Arc<Pool>,
    outbox: Arc<Outbox>,
    spares: Spares,
    /// Started, but not pushed.
    waiting: Vec<Task>,
    /// Number of tasks pushed, but not taken from the outbox.
    under_way: usize,
    /// Finished, but not returned.
    ready: Vec<Finished>,
}

impl PoolQueue {
    /// Makes a queue of a disk at `path`, which messages name.
    pub(crate) fn new(options: QueueOptions, pool: &Arc<Pool>, path: &Path) -> Result<Self> {
        let options = options.checked();
        pool.start(path)?;
        Ok(Self {
            options,
            pool: Arc::clone(pool),
            outbox: Arc::default(),
            spares: Spares::new(options.read_bytes),
            waiting: Vec::new(),
            under_way: 0,
            ready: Vec::new(),
        })
    }

    fn is_full(&self) -> bool {
        self.in_flight() >= self.options.depth
    }

    fn start(&mut self, task: Task) {
        if !task.file.has_descriptor() {
            self.ready.push(Finished::now(task));
            return;
        }
        self.waiting.push(task);
        if self.waiting.len() >= GROUP {
            self.push();
        }
    }

    fn push(&mut self) {
        if !self.waiting.is_empty() {
            self.under_way += self.waiting.len();
            self.pool.push(&self.outbox, &mut self.waiting);
        }
    }

    fn take(&mut self, wait: Wait) {
        let before = self.ready.len();
        self.outbox.take(wait, &mut self.ready);
        self.under_way -= self.ready.len() - before;
    }
}

impl Queue for PoolQueue {
    fn in_flight(&self) -> usize {
        self.waiting.len() + self.under_way + self.ready.len()
    }

    fn read(
        &mut self,
        token: u64,
        file: &Arc<dyn File>,
        offset: u64,
        bytes: usize,
    ) -> Result<bool> {
        self.options.check_read(&**file, offset, bytes);
        if self.is_full() {
            return Ok(false);
        }
        let Some(buffer) = self.spares.take(bytes) else { return Ok(false) };
        let (file, memory) = (Arc::clone(file), Memory::Own(buffer));
        self.start(Task { token, file, offset, bytes, memory });
        Ok(true)
    }

    fn write(
        &mut self,
        token: u64,
        file: &Arc<dyn File>,
        offset: u64,
        buffer: &Arc<Buffer>,
        bytes: usize,
    ) -> Result<bool> {
        self.options.check_write(&**file, offset, buffer, bytes);
        if self.is_full() {
            return Ok(false);
        }
        let (file, memory) = (Arc::clone(file), Memory::Lent(Arc::clone(buffer)));
        self.start(Task { token, file, offset, bytes, memory });
        Ok(true)
    }

    fn complete(&mut self, wait: Wait, done: &mut dyn FnMut(Done<'_>)) -> Result<usize> {
        self.push();
        if self.under_way > 0 {
            self.take(if self.ready.is_empty() { wait } else { Wait::No });
        }
        let count = self.ready.len();
        while let Some(finished) = self.ready.pop() {
            finished.hand(&mut self.spares, done);
        }
        Ok(count)
    }
}

impl Drop for PoolQueue {
    fn drop(&mut self) {
        while self.under_way > 0 {
            self.take(Wait::ForOne);
        }
    }
}
