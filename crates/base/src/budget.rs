//! The capacity plan: every bound on memory by name, and their sum.

use std::fmt;

use crate::ByteCount;

/// One buffer's bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What is bounded.
    pub name: String,
    /// The most bytes it ever takes.
    pub bytes: u64,
    /// The arithmetic behind it.
    pub why: String,
}

/// The list of all bounds of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    bounds: Vec<Bound>,
}

impl Budget {
    /// Adds a bound.
    pub fn add(&mut self, name: impl Into<String>, bytes: u64, why: impl Into<String>) {
        self.bounds.push(Bound { name: name.into(), bytes, why: why.into() });
    }

    /// The bounds in the order they were added.
    pub fn bounds(&self) -> &[Bound] {
        &self.bounds
    }

    /// The sum of all bounds.
    pub fn total(&self) -> u64 {
        self.bounds.iter().fold(0, |sum, bound| sum.saturating_add(bound.bytes))
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for bound in &self.bounds {
            let bytes = ByteCount(bound.bytes).to_string();
            writeln!(f, "  {:<22}{:>12}  {}", bound.name, bytes, bound.why)?;
        }
        write!(f, "  {:<22}{:>12}", "sum", ByteCount(self.total()).to_string())
    }
}
