//! The policies by name.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use super::{Lfu, Lru, LruLfu, Policy, S3Fifo, Sieve, Sven, WTinyLfu};

/// Kind of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Least recently used, whose victims go to least frequently used: [`LruLfu`].
    LruLfu,
    /// Least recently used: [`Lru`].
    Lru,
    /// Least frequently used: [`Lfu`].
    Lfu,
    /// A small and a main queue, and ghosts: [`S3Fifo`].
    #[default]
    S3Fifo,
    /// A queue with a hand: [`Sieve`].
    Sieve,
    /// A window, and contests by frequency: [`WTinyLfu`].
    WTinyLfu,
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
    pub const ALL: [Self; 7] =
        [Self::LruLfu, Self::Lru, Self::Lfu, Self::S3Fifo, Self::Sieve, Self::WTinyLfu, Self::Sven];

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
            Self::Lru => facts!("lru", Lru),
            Self::Lfu => facts!("lfu", Lfu),
            Self::S3Fifo => facts!("s3-fifo", S3Fifo),
            Self::Sieve => facts!("sieve", Sieve),
            Self::WTinyLfu => facts!("w-tinylfu", WTinyLfu),
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

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl Display for UnknownPolicy {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let names = PolicyKind::ALL.map(PolicyKind::name).join(", ");
        write!(f, "no policy is called '{}'; there are {names}", self.0)
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "fifo".parse::<PolicyKind>().unwrap_err().to_string();
        assert!(error.contains("fifo") && error.contains("s3-fifo"), "{error}");
    }
}
