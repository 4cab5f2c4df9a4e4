//! The policies to try: the product's, and others from the literature to compare them with.

mod lfu;
mod lru;
mod sieve;
mod sketch;
mod w_tinylfu;

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use stepwell_mem::{Policy, PolicyKind};

/// A policy to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// A policy of the product.
    Product(PolicyKind),
    /// Least recently used.
    Lru,
    /// Least frequently used.
    Lfu,
    /// A queue with a hand.
    Sieve,
    /// A window, and contests by frequency.
    WTinyLfu,
}

impl Candidate {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::Product(PolicyKind::LruLfu),
        Self::Lru,
        Self::Lfu,
        Self::Product(PolicyKind::S3Fifo),
        Self::Sieve,
        Self::WTinyLfu,
        Self::Product(PolicyKind::Sven),
    ];

    /// Makes the policy for a slab of `slots` slots.
    pub fn make(self, slots: usize) -> Box<dyn Policy> {
        match self {
            Self::Product(kind) => kind.make(slots),
            Self::Lru => Box::new(lru::Lru::new(slots)),
            Self::Lfu => Box::new(lfu::Lfu::new(slots)),
            Self::Sieve => Box::new(sieve::Sieve::new(slots)),
            Self::WTinyLfu => Box::new(w_tinylfu::WTinyLfu::new(slots)),
        }
    }

    /// Name in arguments and figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Product(kind) => kind.name(),
            Self::Lru => "lru",
            Self::Lfu => "lfu",
            Self::Sieve => "sieve",
            Self::WTinyLfu => "w-tinylfu",
        }
    }
}

impl Display for Candidate {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Candidate {
    type Err = String;

    /// Reads a name, with hyphens or underscores.
    fn from_str(name: &str) -> Result<Self, String> {
        let wanted = name.replace('_', "-");
        Self::ALL.into_iter().find(|of| of.name() == wanted).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no policy '{name}'; give one of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use stepwell_mem::policy::conformance::{check, misses_beside_a_scan};

    use super::*;

    #[test]
    fn names_lead_back() {
        for candidate in Candidate::ALL {
            assert_eq!(candidate.to_string().parse(), Ok(candidate));
            assert_eq!(candidate.to_string().replace('-', "_").parse(), Ok(candidate));
        }
        let error = "fifo".parse::<Candidate>().unwrap_err();
        assert!(error.contains("fifo") && error.contains("s3-fifo"), "{error}");
    }

    #[test]
    fn every_policy_keeps_what_all_must() {
        Candidate::ALL.into_iter().for_each(|of| check(&|slots| of.make(slots)));
    }

    #[test]
    fn every_policy_but_lru_keeps_a_hot_set_through_a_scan() {
        for candidate in Candidate::ALL {
            let missed = misses_beside_a_scan(&|slots| candidate.make(slots));
            let keeps = missed <= 44 * 4;
            assert_eq!(keeps, candidate != Candidate::Lru, "{candidate}: {missed}");
        }
    }
}
