//! The reclaimer: processes the application's returns, in order.
//!
//! - **Buffers** of reads go back to the pool, with the event of the application's last use.
//! - **Updates** are added to the sums of their clock. From a device they are copied down first;
//!   the buffer goes back at once, and is reused after the event of that copy.
//! - **Local data** is saved, unless the application declined, and may then be fetched again; on a
//!   device the fetch waits for the copy, in its own stream.
//! - **Commits** wait for all earlier updates: a clock has the updates before the application's
//!   call, and no others.

use std::sync::Arc;

use stepwell_base::stage::{Progress, Stage};
use stepwell_device::Event;

use crate::layout::Chosen;
use crate::memory::{Moved, Piece, Store};
use crate::operation::{Acquire, Save};
use crate::request_line::Served;
use crate::state::{Lowered, Reclaim, Shared, State};
use crate::{Error, Result};

#[derive(Debug)]
pub(crate) struct Reclaimer {
    shared: Arc<Shared>,
    busy: Option<Arc<Event>>,
}

impl Reclaimer {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), busy: None }
    }
}

/// Adds updates that have arrived on the host; returns whether there were any.
fn arrived(state: &mut State) -> Result<bool> {
    let mut moved = false;
    while let Some(lowered) = state.lowered.front() {
        if !lowered.staged.event().is_over()? {
            break;
        }
        let Some(Lowered { table, index, mut staged }) = state.lowered.pop_front() else { break };
        state.caches[table].update(&index, staged.values()?);
        state.memory.give_back(staged);
        moved = true;
    }
    Ok(moved)
}

/// Processes the first return, or reports the event that it waits for.
fn reclaim(state: &mut State) -> Result<Option<Moved>> {
    let Some(first) = state.reclaims.pop_front() else { return Ok(None) };
    match first {
        Reclaim::Buffer(piece) => state.pool.give(piece),
        Reclaim::Update(acquire, Piece::Host(values)) => {
            if let Some(table) = acquire.table() {
                state.caches[table].update(&acquire.index, &values);
            }
            state.pool.give(Piece::Host(values));
        }
        Reclaim::Update(acquire, Piece::Device(mut piece)) => {
            let staged = match state.memory.lower(&mut piece)? {
                Moved::Now(staged) => staged,
                Moved::Busy(event) => {
                    state.reclaims.push_front(Reclaim::Update(acquire, Piece::Device(piece)));
                    return Ok(Some(Moved::Busy(event)));
                }
            };
            state.pool.give(Piece::Device(piece));
            if let Some(table) = acquire.table() {
                state.lowered.push_back(Lowered { table, index: acquire.index, staged });
            }
        }
        Reclaim::Local(acquire, served, save) => local(state, acquire, served, save)?,
        Reclaim::Commit(table) => {
            let last = state.lowered.iter().rfind(|lowered| lowered.table == table);
            if let Some(event) = last.map(|lowered| Arc::clone(lowered.staged.event())) {
                state.reclaims.push_front(Reclaim::Commit(table));
                return Ok(Some(Moved::Busy(event)));
            }
            state.caches[table].commit();
        }
    }
    Ok(Some(Moved::Now(())))
}

fn local(state: &mut State, acquire: Acquire, mut served: Served, save: Save) -> Result<()> {
    let State { locals, memory, pool, .. } = state;
    let Some(number) = acquire.local() else { return Ok(()) };
    let local = &mut locals[number];
    local.is_out = false;
    if served.is_lent {
        local.store = Store::Placed(served.piece);
        return Ok(());
    }
    if save == Save::Save {
        let chosen = Chosen { index: &acquire.index, rows: &local.rows };
        memory.save(&mut served.piece, chosen, &mut local.store)?;
        pool.forget(number);
        if acquire.index.is_whole {
            pool.give_saved(served.piece, number);
            return Ok(());
        }
    }
    pool.give(served.piece);
    Ok(())
}

impl Stage for Reclaimer {
    type Error = Error;

    fn name(&self) -> &'static str {
        "reclaimer"
    }

    fn poll(&mut self) -> Result<Progress> {
        let state = &mut *self.shared.lock();
        let mut moved = arrived(state)?;
        self.busy = state.lowered.front().map(|lowered| Arc::clone(lowered.staged.event()));
        while let Some(reclaimed) = reclaim(state)? {
            if let Moved::Busy(event) = reclaimed {
                self.busy = Some(event);
                break;
            }
            moved = true;
        }
        if moved {
            self.shared.events.notify();
            return Ok(Progress::Progressed);
        }
        if self.busy.is_some() {
            return Ok(Progress::Pending);
        }
        let is_over = state.is_closing && state.reclaims.is_empty() && state.lowered.is_empty();
        Ok(if is_over { Progress::Done } else { Progress::Blocked })
    }

    fn wait(&mut self) -> Result<()> {
        Ok(self.busy.take().map_or(Ok(()), |event| event.wait())?)
    }

    fn gives_way(&self) -> bool {
        false
    }
}
