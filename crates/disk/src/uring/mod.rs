//! A queue over a ring of the Linux kernel (`io_uring`).
//!
//! - **How.** Each queue has its own ring and arena. Operations go into the ring as they are
//!   started and to the system in groups, so that many need one system call. The arena is
//!   registered, so that the system maps it once and not for each read. Files without a descriptor
//!   for engines are read and written synchronously in the calling thread, and so is a file if too
//!   many are in use while this queue has nothing in flight.
//! - **Unsafe.** Memory that the system reads and writes concurrently is accessed only in `arena`
//!   and `ring`; the safety arguments here rely on their invariants DISK-I2, DISK-I3 and DISK-I7 to
//!   DISK-I9.
//! - **Failure.** An attempt that was short, interrupted or cancelled is followed by another
//!   ([`crate::progress`]). If the system has no rings, [`probe`] fails and the caller uses
//!   threads.
//! - **Threads.** A ring may move to another thread between calls. When a thread ends, the system
//!   cancels its unfinished operations, and the next owner restarts them. A completion for a thread
//!   that is computing is delivered when that thread next enters the system, at the latest by the
//!   timer.
//! - **Cost.** One system call for each [`GROUP`] of operations, and one for each wait.
//! - **Bounds.** `depth`, at most 32,768; the arena's bytes; one flight of about 100 bytes a slot.

#![expect(unsafe_code, reason = "the system reads and writes memory while the program goes on")]

mod arena;
mod extents;
mod locked;
mod ring;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use self::ring::{Flight, Memory, Ring};
use crate::buffer::{BLOCK_BYTES, Buffer};
use crate::descriptor::{Access, Descriptor};
use crate::error::Operation;
use crate::file::File;
use crate::progress::{Next, Progress};
use crate::queue::{Done, GROUP, Queue, QueueOptions, Wait};
use crate::{Error, Result};

/// Checks that the system has rings that support reads and writes.
pub(crate) fn probe() -> io::Result<()> {
    ring::probe()
}

pub(crate) struct UringQueue {
    options: QueueOptions,
    ring: Ring,
    ready: Vec<Finished>,
    completions: Vec<(u32, io::Result<usize>)>,
    path: PathBuf,
}

/// An operation that was not submitted to the system yet.
struct Started {
    token: u64,
    file: Arc<dyn File>,
    offset: u64,
    memory: Memory,
    progress: Progress,
}

/// An operation that the system has finished.
struct Finished {
    token: u64,
    memory: Memory,
    outcome: Result<()>,
}

impl fmt::Debug for UringQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringQueue")
            .field("options", &self.options)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

impl UringQueue {
    /// Makes a queue of a disk at `path`, which messages name.
    pub(crate) fn new(options: QueueOptions, path: PathBuf) -> io::Result<Self> {
        let options = options.checked();
        let ring = Ring::new(options)?;
        let (ready, completions) = (Vec::new(), Vec::with_capacity(ring.depth()));
        Ok(Self { options, ring, ready, completions, path })
    }

    fn is_full(&self) -> bool {
        self.in_flight() >= self.ring.depth()
    }

    /// Starts an operation that has its memory. Returns false and frees the memory if too many
    /// files are in use to open this one before others are done.
    fn start(&mut self, operation: Started) -> bool {
        if !operation.file.has_descriptor() {
            self.perform(operation);
            return true;
        }
        match operation.file.descriptor(operation.memory.access()) {
            Ok(Some(descriptor)) => self.launch(operation, descriptor),
            // Synchronous only if nothing is in flight here: operations in flight may be what keeps
            // the files in use.
            Ok(None) if self.in_flight() == 0 => self.perform(operation),
            Ok(None) => {
                if let Memory::Lot(lot) = operation.memory {
                    self.ring.arena.give(lot);
                }
                return false;
            }
            Err(error) => {
                let Started { token, memory, .. } = operation;
                self.ready.push(Finished { token, memory, outcome: Err(error) });
            }
        }
        true
    }

    fn launch(&mut self, operation: Started, descriptor: Descriptor) {
        let Started { token, file, offset, memory, progress } = operation;
        self.ring.launch(Flight { token, file, descriptor, offset, memory, progress });
        if self.ring.waiting() >= GROUP {
            // If the system refuses again, `complete` reports it.
            let _ = self.ring.submit(0);
        }
    }

    /// Performs an operation synchronously.
    fn perform(&mut self, operation: Started) {
        let Started { token, file, offset, mut memory, progress } = operation;
        let outcome = match &mut memory {
            // SAFETY: the operation was not launched.
            Memory::Lot(lot) => file.read_at(offset, unsafe { self.ring.arena.write(lot) }),
            Memory::Lent(buffer) => file.write_at(offset, &buffer[..progress.bytes()]),
        };
        self.ready.push(Finished { token, memory, outcome });
    }

    /// Processes every completion; moves finished operations to `ready`.
    fn reap(&mut self) {
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.reap(&mut completions);
        for (slot, outcome) in completions.drain(..) {
            let outcome = match self.ring.flight_mut(slot).progress.after(outcome) {
                Next::Again => {
                    self.ring.launch_again(slot);
                    continue;
                }
                Next::Done => Ok(()),
                Next::Failed(error) => Err(error),
            };
            let flight = self.ring.land(slot);
            let outcome = outcome.map_err(|error| flight.failed(error));
            let Flight { token, memory, .. } = flight;
            self.ready.push(Finished { token, memory, outcome });
        }
        self.completions = completions;
    }

    /// Calls `done` for each operation in `ready`.
    fn hand(&mut self, done: &mut dyn FnMut(Done<'_>)) -> usize {
        let mut handed = 0;
        while let Some(Finished { token, memory, outcome }) = self.ready.pop() {
            match memory {
                Memory::Lot(lot) => {
                    // SAFETY: the operation has landed, or was never launched.
                    let bytes = unsafe { self.ring.arena.read(&lot) };
                    done(Done { token, outcome: outcome.map(|()| bytes) });
                    self.ring.arena.give(lot);
                }
                Memory::Lent(buffer) => {
                    // Dropped before the call, so that the caller is the buffer's only owner.
                    drop(buffer);
                    done(Done { token, outcome: outcome.map(|()| &[][..]) });
                }
            }
            handed += 1;
        }
        handed
    }

    /// Submits waiting operations, and waits for `want` completions.
    fn submit(&mut self, want: usize) -> Result<()> {
        if want == 0 && self.ring.waiting() == 0 && !self.ring.must_enter() {
            return Ok(());
        }
        let refused = |error| Error::io(Operation::Submit, &self.path, error);
        self.ring.submit(want).map_err(refused)
    }
}

impl Flight {
    fn failed(&self, error: io::Error) -> Error {
        let operation = match self.memory.access() {
            Access::Read => Operation::Read,
            Access::Write => Operation::Write,
        };
        Error::io_at(operation, self.file.path(), self.offset, self.progress.bytes(), error)
    }
}

/// Attempts on a file start at multiples of this.
fn step(file: &dyn File) -> usize {
    if file.is_direct() { BLOCK_BYTES } else { 1 }
}

impl Queue for UringQueue {
    fn in_flight(&self) -> usize {
        self.ring.in_flight() + self.ready.len()
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
        let Some(lot) = self.ring.arena.take(bytes) else { return Ok(false) };
        let progress = Progress::of_read(bytes, step(&**file));
        let (file, memory) = (Arc::clone(file), Memory::Lot(lot));
        Ok(self.start(Started { token, file, offset, memory, progress }))
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
        let progress = Progress::of_write(bytes, step(&**file));
        let (file, memory) = (Arc::clone(file), Memory::Lent(Arc::clone(buffer)));
        Ok(self.start(Started { token, file, offset, memory, progress }))
    }

    fn complete(&mut self, wait: Wait, done: &mut dyn FnMut(Done<'_>)) -> Result<usize> {
        let waits = wait == Wait::ForOne;
        self.reap();
        let mut handed = self.hand(done);
        let mut want = usize::from(waits && handed == 0 && self.in_flight() > 0);
        self.submit(want)?;
        loop {
            self.reap();
            // The rest of a short attempt is submitted before this call ends.
            handed += self.hand(done);
            want = usize::from(waits && handed == 0 && self.in_flight() > 0);
            if want == 0 && self.ring.waiting() == 0 {
                return Ok(handed);
            }
            self.submit(want)?;
        }
    }
}
