//! One read or write of a queue, with the memory it needs.

use std::sync::Arc;

use crate::Result;
use crate::buffer::Buffer;
use crate::file::File;
use crate::queue::Done;
use crate::spares::Spares;

/// A read or write that a thread performs through [`File`].
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) token: u64,
    pub(crate) file: Arc<dyn File>,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    pub(crate) memory: Memory,
}

/// Source or target of the bytes.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Memory that a read fills.
    Own(Buffer),
    /// Memory that is written, also held by the caller.
    Lent(Arc<Buffer>),
}

/// A task and its outcome.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) task: Task,
    pub(crate) outcome: Result<()>,
}

impl Task {
    /// Performs the task synchronously.
    pub(crate) fn perform(&mut self) -> Result<()> {
        match &mut self.memory {
            Memory::Own(buffer) => self.file.read_at(self.offset, &mut buffer[..self.bytes]),
            Memory::Lent(buffer) => self.file.write_at(self.offset, &buffer[..self.bytes]),
        }
    }
}

impl Finished {
    pub(crate) fn now(mut task: Task) -> Self {
        let outcome = task.perform();
        Self { task, outcome }
    }

    /// Passes the outcome to the caller and the buffer to `spares`.
    pub(crate) fn hand(self, spares: &mut Spares, done: &mut dyn FnMut(Done<'_>)) {
        let Self { task: Task { token, bytes, memory, .. }, outcome } = self;
        match memory {
            Memory::Own(buffer) => {
                done(Done { token, outcome: outcome.map(|()| &buffer[..bytes]) });
                spares.give(buffer);
            }
            Memory::Lent(buffer) => {
                // Dropped before the call, so that the caller is the buffer's only owner.
                drop(buffer);
                done(Done { token, outcome: outcome.map(|()| &[][..]) });
            }
        }
    }
}
