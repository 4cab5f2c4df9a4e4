//! Actors of a check: their clocks, and the places of their operations.

use std::fmt;
use std::panic::Location;

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

    pub(super) fn learn(&mut self, other: &Self) {
        let len = self.0.len().max(other.0.len());
        self.0.resize(len, 0);
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }

    pub(super) fn tick(&mut self, actor: Actor) -> u64 {
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
