//! Checks with vector clocks that all conflicting accesses are ordered.
//!
//! - **Why.** A missing wait between two streams gives a wrong row once in a thousand runs, or
//!   never on a slow day. The check doesn't depend on what happened first, but on whether anything
//!   *made* it happen first.
//! - **How.** Every stream, and the host, is an actor with a clock: up to where it knows all others
//!   to be. An operation advances its actor's clock; an event carries a clock; waiting for the
//!   event merges it. For every region of memory, the last write and the reads since are recorded,
//!   with actor and time. An access whose actor doesn't know of a conflicting one is an error that
//!   names both places. This happens at submission, in that order, so the outcome doesn't depend on
//!   when the device does the work. Source: Mattern, "Virtual Time and Global States of Distributed
//!   Systems" (1989); for race detection: Flanagan, Freund, "FastTrack" (PLDI 2009).
//! - **Limits.** All threads of the host are one actor: if one of them waited, all did. An
//!   operation is assumed to touch what its arguments specify.
//! - **Cost.** A tree search for each row that an operation touches.

mod actors;
mod cells;

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use self::actors::{Actor, Clock, Place};
use self::cells::{By, Cells, Conflict};
use crate::access::{Access, Touched};
use crate::{Error, Result};

/// Two unordered accesses.
#[derive(Debug)]
pub(crate) struct Clash {
    pub(crate) earlier: Place,
    pub(crate) region: u64,
    pub(crate) byte: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Clock of each actor. // (actors)
    clocks: Vec<Clock>,
    regions: HashMap<u64, Cells>,
}

/// Checks the order of all operations on some devices.
#[derive(Debug)]
pub(crate) struct Checker(Mutex<State>);

impl Checker {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { clocks: vec![Clock::default()], regions: HashMap::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an actor.
    pub(crate) fn actor(&self, _name: &'static str) -> Actor {
        let clocks = &mut self.state().clocks;
        clocks.push(Clock::default());
        Actor((clocks.len() - 1) as u32)
    }

    /// Checks and records an operation of `actor`, submitted at `place`, with these accesses.
    pub(crate) fn operation(
        &self,
        actor: Actor,
        accesses: &[Access],
        place: Place,
    ) -> std::result::Result<(), Clash> {
        let state = &mut *self.state();
        // Everything that the host did before it submitted this happened before.
        let host = state.clocks[Actor::HOST.0 as usize].clone();
        let clock = &mut state.clocks[actor.0 as usize];
        clock.learn(&host);
        let time = clock.tick(actor);
        let clock = &state.clocks[actor.0 as usize];
        for access in accesses {
            let cells =
                state.regions.entry(access.region).or_insert_with(|| Cells::new(access.bytes));
            let by = By { actor, time, place };
            cells.access(access, by, clock).map_err(|Conflict { earlier, byte }| Clash {
                earlier,
                region: access.region,
                byte,
            })?;
        }
        Ok(())
    }

    /// Checks and records the host's access to pinned memory.
    #[track_caller]
    pub(crate) fn host(&self, device: &str, what: &'static str, access: Access) -> Result<()> {
        if matches!(&access.touched, Touched::Bytes(range) if range.is_empty()) {
            return Ok(());
        }
        let place = Place { what: "access", stream: "host", at: Location::caller() };
        self.operation(Actor::HOST, &[access], place).map_err(|clash| Error::Unordered {
            device: device.to_owned(),
            what: format!("byte {} of {what}", clash.byte),
            later: place.to_string(),
            earlier: clash.earlier.to_string(),
        })
    }

    /// The current clock of `actor`, for an event.
    pub(crate) fn record(&self, actor: Actor) -> Clock {
        let state = &mut *self.state();
        let host = state.clocks[Actor::HOST.0 as usize].clone();
        let clock = &mut state.clocks[actor.0 as usize];
        clock.learn(&host);
        clock.clone()
    }

    pub(crate) fn stream_waited(&self, actor: Actor, event: &Clock) {
        self.state().clocks[actor.0 as usize].learn(event);
    }

    pub(crate) fn host_waited(&self, event: &Clock) {
        self.stream_waited(Actor::HOST, event);
    }

    /// Forgets freed memory.
    pub(crate) fn forget(&self, region: u64) {
        self.state().regions.remove(&region);
    }
}
