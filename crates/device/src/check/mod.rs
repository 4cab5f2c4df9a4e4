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

mod cells;

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::cells::Cells;
use crate::access::{Access, Touched};
use crate::driver::Keeps;
use crate::memory::Region;
use crate::{Error, Result};

/// The host or a stream, which access memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Actor(pub(crate) u32);

impl Actor {
    pub(crate) const HOST: Self = Self(0);
}

/// Time up to which the owner knows each actor. // (actors)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<u64>);

impl Clock {
    pub(crate) fn of(&self, actor: Actor) -> u64 {
        self.0.get(actor.0 as usize).copied().unwrap_or(0)
    }

    fn learn(&mut self, other: &Self) {
        let len = self.0.len().max(other.0.len());
        self.0.resize(len, 0);
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }

    fn tick(&mut self, actor: Actor) -> u64 {
        let index = actor.0 as usize;
        self.0.resize(self.0.len().max(index + 1), 0);
        self.0[index] += 1;
        self.0[index]
    }
}

/// Where an operation was submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) what: &'static str,
    pub(crate) stream: &'static str,
    pub(crate) at: &'static Location<'static>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, stream, at } = self;
        write!(f, "'{what}' of '{stream}' at {}:{}", at.file(), at.line())
    }
}

/// Two unordered accesses.
#[derive(Debug)]
pub(crate) struct Clash {
    pub(crate) earlier: Place,
    region: u64,
    byte: usize,
}

impl Clash {
    /// The memory that both touch.
    pub(crate) fn region(&self, keeps: &Keeps) -> String {
        let mut regions = keeps.iter().filter_map(|kept| kept.downcast_ref::<Region>());
        let what = regions.find(|region| region.id == self.region).map(|region| region.what);
        format!("byte {} of {}", self.byte, what.unwrap_or("memory"))
    }
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
            cells.access(access, (actor, time, place), clock).map_err(|(earlier, byte)| Clash {
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
