//! The pusher: takes updates that a clock committed from the cache, and sends each shard its part.
//!
//! - **At once.** A table's updates leave when its clock is committed, while the application
//!   computes on other tables.
//! - **Order.** Clocks of a table leave in order, each to all shards. When the application has
//!   closed and everything has left, the pusher announces to all ranks that nothing will follow.
//! - **Bounds.** The lists of updates belong to the cache; messages reuse the fabric's buffers.

use std::sync::Arc;

use stepwell_base::stage::{Progress, Stage};

use crate::cache::Committed;
use crate::state::Shared;
use crate::wire::{About, Push, ended, tag};
use crate::{Error, Result};

#[derive(Debug)]
pub(crate) struct Pusher {
    shared: Arc<Shared>,
}

impl Pusher {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared) }
    }

    /// The next updates to send, and their table.
    fn next(&self) -> Option<(usize, Committed)> {
        let mut state = self.shared.lock();
        let caches = state.caches.iter_mut().enumerate();
        let mut outgoing = caches.filter_map(|(table, cache)| {
            cache.outgoing.pop_front().map(|committed| (table, committed))
        });
        outgoing.next()
    }

    /// Sends the updates of a clock to all shards; returns their bytes.
    fn push(&self, table: usize, committed: &Committed) -> Result<u64> {
        let Shared { fabric, layouts, first_tag, .. } = &*self.shared;
        let layout = &layouts[table];
        let row = layout.rows.row_floats;
        let mut bytes = 0;
        // Each begins with its neighbour, so that not all send to the same rank at once.
        for distance in 1..=fabric.size() {
            let shard = (fabric.rank() + distance) % fabric.size();
            let part = &layout.parts[shard];
            let updates = committed.updates.as_ref();
            let touched = updates.map_or_else(Vec::new, |updates| updates.touched(part));
            let mut message = fabric.message_of(64 + 4 * touched.len() * (row + 1));
            let (digest, clock) = (layout.digest, committed.clock);
            Push::put(&mut message, digest, clock, part.len(), &touched);
            let values = message.room::<f32>(touched.len() * row);
            if let Some(updates) = updates {
                for (to, place) in values.chunks_exact_mut(row).zip(&touched) {
                    let start = (part.start + *place as usize) * row;
                    to.copy_from_slice(&updates.values[start..start + row]);
                }
            }
            bytes += message.bytes() as u64;
            fabric.send(shard, tag(*first_tag, table, About::Push), message)?;
        }
        Ok(bytes)
    }

    /// Announces to all ranks that no pushes or credit will follow.
    fn end(&self) -> Result<()> {
        let Shared { fabric, layouts, first_tag, .. } = &*self.shared;
        for to in 0..fabric.size() {
            fabric.send(to, ended(*first_tag, layouts.len()), fabric.message())?;
        }
        Ok(())
    }
}

impl Stage for Pusher {
    type Error = Error;

    fn name(&self) -> &'static str {
        "pusher"
    }

    fn poll(&mut self) -> Result<Progress> {
        if let Some((table, committed)) = self.next() {
            let bytes = self.push(table, &committed)?;
            let mut state = self.shared.lock();
            state.statistics.bytes_pushed += bytes;
            if let Some(updates) = committed.updates {
                state.caches[table].keep(updates);
            }
            drop(state);
            // A rank's messages to itself wake no thread.
            self.shared.events.notify();
            return Ok(Progress::Progressed);
        }
        let state = self.shared.lock();
        let is_over = state.is_deaf && state.reclaims.is_empty() && state.lowered.is_empty();
        let has_left = state.caches.iter().all(|cache| cache.outgoing.is_empty());
        drop(state);
        if is_over && has_left {
            self.end()?;
            self.shared.events.notify();
            return Ok(Progress::Done);
        }
        Ok(Progress::Blocked)
    }

    fn gives_way(&self) -> bool {
        false
    }
}
