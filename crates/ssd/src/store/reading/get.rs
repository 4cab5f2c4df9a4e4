//! Synchronous look-ups: [`Store::get_many`].

use std::sync::atomic::Ordering;

use stepwell_base::Key;
use stepwell_disk::{Queue, QueueOptions};

use crate::Result;
use crate::fetch::{Destination, Fetch};
use crate::store::core::{Core, Store};

impl Store {
    /// Reads the rows of `keys`, which may be in any order and repeat. Sets `found` to whether each
    /// key has a row, and `rows` to the payloads; bytes of missing rows do not change.
    ///
    /// Holds 16 bytes for each key that is not in memory, and a queue's bytes.
    ///
    /// # Errors
    /// If a page cannot be read or is damaged; `rows` and `found` are then undefined.
    ///
    /// # Panics
    /// If the lengths do not match.
    pub fn get_many(&self, keys: &[Key], rows: &mut [u8], found: &mut [bool]) -> Result<()> {
        let core = &self.core;
        let mut destination = Destination::new(keys, rows, found, core.layout.row_bytes);
        let mut fetch = core.locate(&mut destination);
        if fetch.is_done() {
            return core.end_fetch(fetch, keys.len());
        }
        let mut queue = core.idle_queue()?;
        core.looking.fetch_add(1, Ordering::Relaxed);
        let outcome = core.drive(&mut fetch, &mut *queue, &mut destination);
        core.looking.fetch_sub(1, Ordering::Relaxed);
        outcome?;
        core.executor.keep_queue(core.queue_options(), queue);
        core.end_fetch(fetch, keys.len())
    }
}

impl Core {
    fn drive(
        &self,
        fetch: &mut Fetch,
        queue: &mut dyn Queue,
        destination: &mut Destination<'_>,
    ) -> Result<()> {
        while !fetch.is_done() {
            fetch.start(self.reading(), 0, queue)?;
            fetch.complete(self.reading(), queue, destination)?;
        }
        Ok(())
    }

    fn idle_queue(&self) -> Result<Box<dyn Queue>> {
        match self.executor.idle_queue(self.queue_options()) {
            Some(queue) => Ok(queue),
            None => self.new_queue(),
        }
    }

    fn queue_options(&self) -> QueueOptions {
        let (depth, read_bytes) = (self.options.read_depth, self.options.reader_bytes());
        QueueOptions { depth, read_bytes }
    }

    /// Makes a queue for look-ups.
    pub(super) fn new_queue(&self) -> Result<Box<dyn Queue>> {
        Ok(self.home().queue(self.queue_options())?)
    }
}
