//! A queue that performs operations when they are started.
//!
//! - **Why.** In memory, waiting has no benefit, and a faulty disk counts operations in the order
//!   they are started.
//! - **How.** Outcomes wait for [`Queue::complete`], which returns some of them; a seed determines
//!   how many and in which order, so that callers cannot rely on either.

use std::sync::Arc;

use stepwell_base::random::Stream;

use crate::Result;
use crate::buffer::Buffer;
use crate::file::File;
use crate::queue::{Done, Queue, QueueOptions, Wait};
use crate::spares::Spares;
use crate::task::{Finished, Memory, Task};

#[derive(Debug)]
pub(crate) struct ImmediateQueue {
    options: QueueOptions,
    spares: Spares,
    finished: Vec<Finished>,
    dice: Stream,
}

impl ImmediateQueue {
    pub(crate) fn new(options: QueueOptions, seed: u64) -> Self {
        let options = options.checked();
        let spares = Spares::new(options.read_bytes);
        Self { options, spares, finished: Vec::new(), dice: Stream::named(seed, b"queue") }
    }
}

impl Queue for ImmediateQueue {
    fn in_flight(&self) -> usize {
        self.finished.len()
    }

    fn read(
        &mut self,
        token: u64,
        file: &Arc<dyn File>,
        offset: u64,
        bytes: usize,
    ) -> Result<bool> {
        self.options.check_read(&**file, offset, bytes);
        if self.finished.len() == self.options.depth {
            return Ok(false);
        }
        let Some(buffer) = self.spares.take(bytes) else { return Ok(false) };
        let (file, memory) = (Arc::clone(file), Memory::Own(buffer));
        self.finished.push(Finished::now(Task { token, file, offset, bytes, memory }));
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
        if self.finished.len() == self.options.depth {
            return Ok(false);
        }
        let (file, memory) = (Arc::clone(file), Memory::Lent(Arc::clone(buffer)));
        self.finished.push(Finished::now(Task { token, file, offset, bytes, memory }));
        Ok(true)
    }

    fn complete(&mut self, wait: Wait, done: &mut dyn FnMut(Done<'_>)) -> Result<usize> {
        let in_flight = self.finished.len();
        if in_flight == 0 {
            return Ok(0);
        }
        let least = usize::from(wait == Wait::ForOne);
        let count = least + self.dice.next_u64() as usize % (in_flight + 1 - least);
        for _ in 0..count {
            let at = self.dice.next_u64() as usize % self.finished.len();
            self.finished.swap_remove(at).hand(&mut self.spares, done);
        }
        Ok(count)
    }
}
