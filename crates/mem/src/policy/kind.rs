//! The policies by name.

use std::fmt::{Display, Formatter};

use super::Policy;
use super::lru_lfu::LruLfu;
use super::s3_fifo::S3Fifo;
use super::sven::Sven;

/// Kind of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Least recently used, whose victims go to least frequently used: [`LruLfu`].
    LruLfu,
    /// A small and a main queue, and ghosts: [`S3Fifo`].
    #[default]
    S3Fifo,
    /// Decayed importance: [`Sven`].
    Sven,
}

/// Name, constructor and memory of a kind.
struct Facts {
    name: &'static str,
    make: fn(usize) -> Box<dyn Policy>,
    bytes_for: fn(u64) -> u64,
}

impl PolicyKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::LruLfu, Self::S3Fifo, Self::Sven];

    const fn facts(self) -> Facts {
        macro_rules! facts {
            ($name:literal, $policy:ident) => {
                Facts {
                    name: $name,
                    make: |slots| Box::new($policy::new(slots)),
                    bytes_for: $policy::bytes_for,
                }
            };
        }
        match self {
            Self::LruLfu => facts!("lru-lfu", LruLfu),
            Self::S3Fifo => facts!("s3-fifo", S3Fifo),
            Self::Sven => facts!("sven", Sven),
        }
    }

    /// A policy of this kind over `slots` slots.
    pub fn make(self, slots: usize) -> Box<dyn Policy> {
        (self.facts().make)(slots)
    }

    /// Bytes for `slots` slots in addition to their records.
    pub fn bytes_for(self, slots: u64) -> u64 {
        (self.facts().bytes_for)(slots)
    }

    /// Whether it needs to know how often a key occurred in a mini-batch, not only that it did.
    pub const fn weighs_occurrences(self) -> bool {
        matches!(self, Self::Sven)
    }

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }
}

impl Display for PolicyKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
