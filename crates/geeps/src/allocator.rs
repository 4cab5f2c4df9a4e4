//! The allocator: serves requests for buffers, filled as requested, ahead of the application if it
//! knows the next requests.
//!
//! - **Order.** In the order of the line; a request that cannot be served yet delays those behind
//!   it, which were requested later or are only foreseen.
//! - **Read** waits until the cache is as fresh as its bound requires, at the table's clock at the
//!   time of the request; all shards count. A worker that is `clocks_ahead` clocks ahead of their
//!   answers waits, too, as does PreUpdate.
//! - **Local data** is in one place at a time: it is lent or fetched only after an earlier access
//!   was returned. Pinned data is lent in place if all of it is requested.
//! - **Memory.** Nothing is allocated beyond the pool: a request waits until others are returned if
//!   the pool is full, and is refused if the application itself holds too much.
//! - **Plan.** The plan of a virtual iteration is installed as soon as nothing is in use, before
//!   any later request is served.

use std::sync::Arc;

use stepwell_base::ByteCount;
use stepwell_base::stage::{Progress, Stage};
use stepwell_device::Event;

use crate::clocks::age_needed;
use crate::hazard_rules::Rule;
use crate::install_placement::install;
use crate::layout::Chosen;
use crate::memory::{Moved, Piece, Store, bytes_counted};
use crate::operation::{Fetch, What};
use crate::pool::Taken;
use crate::request_line::Served;
use crate::settings::FORESEEN_MAX;
use crate::state::{Shared, State};
use crate::{Error, Result};

#[derive(Debug)]
pub(crate) struct Allocator {
    shared: Arc<Shared>,
    busy: Option<Arc<Event>>,
}

/// Outcome of trying to serve a request.
enum Step {
    Served(Served),
    NotYet,
    Busy(Arc<Event>),
    Refused(Error),
}

impl Allocator {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), busy: None }
    }

    /// Extends the line by foreseen operations, up to the limit.
    fn foresee(&self, state: &mut State) {
        while self.shared.prefetch && state.line.foreseen() < FORESEEN_MAX {
            let Some(foreseen) = state.sequence.foresee() else { break };
            state.line.push_foreseen(foreseen);
        }
    }
}

/// Serves the last request if that takes no copy and no other waits before it, so that the
/// application need not wait for a thread to wake up.
///
/// # Errors
/// If memory cannot be allocated, although it should be available.
pub(crate) fn serve_at_once(shared: &Shared, state: &mut State) -> Result<()> {
    let Some(at) = state.line.next().filter(|_| state.plan.is_none()) else { return Ok(()) };
    let waiting = &state.line.waiting[at];
    let is_asked = waiting.ticket.is_some();
    let takes_no_copy = match waiting.acquire.what {
        What::Read(..) => false,
        What::PreUpdate(_) | What::Local(_, Fetch::NoFetch) => true,
        What::Local(local, Fetch::Fetch) => {
            matches!(state.locals[local].store, Store::Placed(_)) && waiting.acquire.index.is_whole
        }
    };
    if is_asked
        && takes_no_copy
        && let Step::Served(served) = serve(shared, state, at)?
    {
        state.line.waiting[at].outcome = Some(Ok(served));
    }
    Ok(())
}

fn serve(shared: &Shared, state: &mut State, at: usize) -> Result<Step> {
    let waiting = &state.line.waiting[at];
    let (clock, acquire) = (waiting.clock, &waiting.acquire);
    let floats = acquire.index.places.len() * state.rows(acquire.what).1.row_floats;
    match acquire.what {
        What::Read(table, staleness) => {
            let is_fresh = state.caches[table].age() >= age_needed(clock, staleness);
            if !is_fresh && shared.rules.hold(Rule::AgeAtRead) || waits(shared, state, table, clock)
            {
                return Ok(Step::NotYet);
            }
            let taken = take(state, at, floats)?;
            let Step::Served(Served { mut piece, .. }) = taken else { return Ok(taken) };
            let State { caches, memory, line, .. } = state;
            let (cache, index) = (&mut caches[table], &line.waiting[at].acquire.index);
            let chosen = Chosen { index, rows: &cache.layout.rows };
            let moved = memory.fetch(&mut cache.store, chosen, &mut piece)?;
            let age = cache.age();
            Ok(filled(state, piece, age, moved))
        }
        What::PreUpdate(table) => {
            if waits(shared, state, table, clock) {
                return Ok(Step::NotYet);
            }
            let mut taken = take(state, at, floats)?;
            if let Step::Served(Served { piece, .. }) = &mut taken {
                state.memory.clear(piece)?;
            }
            Ok(taken)
        }
        What::Local(local, fetch) => serve_local(shared, state, at, floats, local, fetch),
    }
}

/// Whether a table at this clock is as far ahead of its shards as it may be.
fn waits(shared: &Shared, state: &State, table: usize, clock: u64) -> bool {
    state.caches[table].ahead_at(clock) >= shared.clocks_ahead
}

fn serve_local(
    shared: &Shared,
    state: &mut State,
    at: usize,
    floats: usize,
    number: usize,
    fetch: Fetch,
) -> Result<Step> {
    let is_whole = state.line.waiting[at].acquire.index.is_whole;
    let local = &mut state.locals[number];
    let is_lent = matches!(local.store, Store::Lent);
    if is_lent || local.is_out && shared.rules.hold(Rule::SaveBeforeFetch) {
        return Ok(Step::NotYet);
    }
    if is_whole {
        match std::mem::replace(&mut local.store, Store::Lent) {
            Store::Placed(piece) => {
                local.is_out = true;
                return Ok(Step::Served(Served { piece, is_lent: true, age: 0 }));
            }
            store => local.store = store,
        }
    }
    if is_whole
        && fetch == Fetch::Fetch
        && shared.hands_over
        && let Some(piece) = state.pool.take_saved(number, floats)
    {
        state.locals[number].is_out = true;
        state.statistics.handed_over += 1;
        return Ok(Step::Served(Served { piece, is_lent: false, age: 0 }));
    }
    let taken = take(state, at, floats)?;
    let Step::Served(Served { mut piece, is_lent, age }) = taken else { return Ok(taken) };
    let State { locals, memory, line, .. } = state;
    let (local, index) = (&mut locals[number], &line.waiting[at].acquire.index);
    if fetch == Fetch::Fetch {
        let chosen = Chosen { index, rows: &local.rows };
        let moved = memory.fetch(&mut local.store, chosen, &mut piece)?;
        local.is_out |= matches!(moved, Moved::Now(()));
        return Ok(filled(state, piece, age, moved));
    }
    local.is_out = true;
    Ok(Step::Served(Served { piece, is_lent, age }))
}

/// Takes a buffer for the request at `at`.
fn take(state: &mut State, at: usize, floats: usize) -> Result<Step> {
    let taken = state.pool.take(&state.memory, floats)?;
    state.note_peak();
    Ok(match taken {
        Taken::Piece(piece) => Step::Served(Served { piece, is_lent: false, age: 0 }),
        Taken::Busy(event) => Step::Busy(event),
        Taken::Full => {
            let waiting = &state.line.waiting;
            let (held, wanted) = (held_bytes(state), bytes_counted(floats));
            if waiting[at].ticket.is_none() || held + wanted <= state.pool.bytes() {
                return Ok(Step::NotYet);
            }
            Step::Refused(Error::TooLarge {
                wanted: ByteCount(wanted),
                what: state.rows(waiting[at].acquire.what).0.to_owned(),
                held: ByteCount(held),
                pool: ByteCount(state.pool.bytes()),
            })
        }
    })
}

/// Bytes of buffers that the application holds, or can take.
fn held_bytes(state: &State) -> u64 {
    let asked = state.line.waiting.iter().filter(|waiting| waiting.ticket.is_some());
    let served = asked.filter_map(|waiting| match &waiting.outcome {
        Some(Ok(served)) if !served.is_lent => Some(bytes_counted(served.piece.floats())),
        _ => None,
    });
    state.taken_bytes + served.sum::<u64>()
}

/// Serves the filled buffer, or returns it to the pool.
fn filled(state: &mut State, piece: Piece, age: u64, moved: Moved) -> Step {
    match moved {
        Moved::Now(()) => Step::Served(Served { piece, is_lent: false, age }),
        Moved::Busy(event) => {
            state.pool.give(piece);
            Step::Busy(event)
        }
    }
}

impl Stage for Allocator {
    type Error = Error;

    fn name(&self) -> &'static str {
        "allocator"
    }

    fn poll(&mut self) -> Result<Progress> {
        let state = &mut *self.shared.lock();
        if state.is_closing {
            state.drop_foreseen();
            return Ok(Progress::Done);
        }
        if state.plan.is_some() {
            if !state.reclaims.is_empty() || !state.lowered.is_empty() {
                return Ok(Progress::Blocked);
            }
            install(state)?;
        }
        self.foresee(state);
        let mut progress = Progress::Blocked;
        while let Some(at) = state.line.next() {
            match serve(&self.shared, state, at)? {
                Step::Served(served) => state.line.waiting[at].outcome = Some(Ok(served)),
                Step::Refused(error) => state.line.fail(at, error),
                Step::NotYet => break,
                Step::Busy(event) => {
                    self.busy = Some(event);
                    progress = Progress::Pending;
                    break;
                }
            }
            progress = Progress::Progressed;
        }
        if progress == Progress::Progressed {
            self.shared.events.notify();
        }
        Ok(progress)
    }

    fn wait(&mut self) -> Result<()> {
        Ok(self.busy.take().map_or(Ok(()), |event| event.wait())?)
    }
}
