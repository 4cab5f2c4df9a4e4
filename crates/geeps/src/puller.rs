//! The puller: takes rows that shards send, and refreshes the cache with them.
//!
//! - **Invariants.** The rows of a shard are of one moment, and so is their age: both change under
//!   one lock. Pinned data is written by a copy that waits for its last read.
//! - **Credit.** Each taken snapshot is acknowledged, so that shards never send more than a slow
//!   worker takes.
//! - **End.** Once the application has closed, the cache is not read, and further snapshots are
//!   ignored.

use std::sync::Arc;

use stepwell_base::stage::{Progress, Stage};
use stepwell_device::Event;
use stepwell_fabric::Message;

use crate::memory::Moved;
use crate::state::Shared;
use crate::wire::{About, Snapshot, tag};
use crate::{Error, Result};

#[derive(Debug)]
pub(crate) struct Puller {
    shared: Arc<Shared>,
    /// A snapshot that could not be copied yet: table, shard, message.
    left: Option<(usize, usize, Message)>,
    busy: Option<Arc<Event>>,
}

impl Puller {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), left: None, busy: None }
    }

    /// The next snapshot that has arrived.
    fn next(&mut self) -> Result<Option<(usize, usize, Message)>> {
        if self.left.is_some() {
            return Ok(self.left.take());
        }
        let Shared { fabric, layouts, first_tag, .. } = &*self.shared;
        for table in 0..layouts.len() {
            for shard in 0..fabric.size() {
                let tag = tag(*first_tag, table, About::Snapshot);
                if let Some(message) = fabric.receive(shard, tag)? {
                    return Ok(Some((table, shard, message)));
                }
            }
        }
        Ok(None)
    }

    /// Refreshes the cache; returns whether the snapshot could be taken now.
    fn refresh(&mut self, table: usize, shard: usize, message: &Message) -> Result<bool> {
        let layout = &self.shared.layouts[table];
        let snapshot = Snapshot::read(message, layout, shard);
        let snapshot = snapshot.map_err(|why| Error::malformed(shard, why))?;
        let at = layout.parts[shard].start * layout.rows.row_floats;
        let state = &mut *self.shared.lock();
        let cache = &mut state.caches[table];
        if !snapshot.values.is_empty()
            && let Moved::Busy(event) =
                state.memory.refresh(&mut cache.store, at, snapshot.values)?
        {
            self.busy = Some(event);
            return Ok(false);
        }
        cache.refreshed(shard, snapshot.age, snapshot.own);
        state.statistics.bytes_pulled += message.bytes() as u64;
        Ok(true)
    }
}

impl Stage for Puller {
    type Error = Error;

    fn name(&self) -> &'static str {
        "puller"
    }

    fn poll(&mut self) -> Result<Progress> {
        {
            let mut state = self.shared.lock();
            if state.is_closing {
                state.is_deaf = true;
                return Ok(Progress::Done);
            }
        }
        let Some((table, shard, message)) = self.next()? else { return Ok(Progress::Blocked) };
        if !self.refresh(table, shard, &message)? {
            self.left = Some((table, shard, message));
            return Ok(Progress::Pending);
        }
        let Shared { fabric, first_tag, events, .. } = &*self.shared;
        fabric.keep(message);
        fabric.send(shard, tag(*first_tag, table, About::Credit), fabric.message())?;
        events.notify();
        Ok(Progress::Progressed)
    }

    fn wait(&mut self) -> Result<()> {
        Ok(self.busy.take().map_or(Ok(()), |event| event.wait())?)
    }

    fn gives_way(&self) -> bool {
        false
    }
}
