//! The capacity plan: every bound on memory by name, and their sum.

use std::fmt;

use crate::bytes::ByteCount;

/// One buffer's bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Name of the buffer.
    pub name: String,
    /// Most bytes that the buffer takes.
    pub bytes: u64,
    /// The calculation behind it.
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

    /// Adds the bounds of another list.
    pub fn extend(&mut self, other: &Self) {
        self.bounds.extend_from_slice(&other.bounds);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_listed_and_summed() {
        let mut budget = Budget::default();
        assert_eq!((budget.total(), budget.bounds().len()), (0, 0));
        budget.add("rows in memory", 3 << 20, "two slots");
        budget.add("batches", 512, String::from("four of them"));
        let named = |bound: &Bound| (bound.name.clone(), bound.bytes, bound.why.clone());
        let listed: Vec<_> = budget.bounds().iter().map(named).collect();
        let expected = [("rows in memory", 3 << 20, "two slots"), ("batches", 512, "four of them")];
        assert_eq!(listed, expected.map(|(name, bytes, why)| (name.into(), bytes, why.into())));
        assert_eq!(budget.total(), (3 << 20) + 512);
        let text = budget.to_string();
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["rows", "in", "memory", "3.0", "MiB", "two", "slots"]);
        assert_eq!(lines[1], ["batches", "512", "B", "four", "of", "them"]);
        assert_eq!(lines[2], ["sum", "3.0", "MiB"]);
        // A sum that overflows is not small.
        budget.add("all", u64::MAX, "");
        assert_eq!(budget.total(), u64::MAX);
    }
}
