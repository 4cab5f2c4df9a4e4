//! Which version of a row counts, and which deletion kills it: what `FORMAT.md` says, once.
//!
//! - **Why.** Opening, checking and salvaging must agree on it.
//! - **How.** Footers do not list births, so it is told from the provenance of whole segments; what
//!   that leaves open, in stores that version 2 began, the version's page tells.

use crate::segment::Deletion;

/// *row* of a deletion from here on: a merge dropped the last version of that birth.
pub(crate) const ROW_DROPPED: u32 = 1 << 31;
/// *row* of a deletion: it kills what lies in the segment of its birth, and nothing that moved.
pub(crate) const ROW_UNMOVED: u32 = ROW_DROPPED - 1;

/// Where the rows of a segment come from, which is known of each version in it without reading its
/// page; numbers are those at the segment's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Provenance {
    pub(crate) number: u32,
    /// Whether a merge made it.
    pub(crate) merged: bool,
    /// The least and the greatest birth of its rows.
    pub(crate) births: (u32, u32),
}

impl Provenance {
    /// A segment that rows were put into.
    pub(crate) fn put(number: u32) -> Self {
        Self { number, merged: false, births: (number, number) }
    }

    /// Whether a version here is newer than one of the same key in another segment, or the same.
    pub(crate) fn is_newer(&self, other: &Self) -> bool {
        match (self.merged, other.merged) {
            (true, false) if self.number > other.number => other.births.1 <= self.births.1,
            (false, true) if self.number < other.number => self.births.1 > other.births.1,
            _ => self.number > other.number,
        }
    }

    /// Whether the version here that is left is dead by `deletion` of its key; it lies at one of
    /// the rows from `rows.0` to `rows.1`. None where only its page tells.
    pub(crate) fn is_dead(&self, rows: (u32, u32), deletion: &Deletion) -> Option<bool> {
        let Deletion { birth, row, .. } = *deletion;
        if birth > self.births.1 {
            return Some(true);
        }
        if birth < self.births.0 {
            return Some(false);
        }
        if row >= ROW_DROPPED {
            return Some(!self.merged || self.number < row - ROW_DROPPED);
        }
        if self.merged {
            return (row != ROW_UNMOVED).then_some(false);
        }
        if rows.1 < row {
            return Some(true);
        }
        (rows.0 >= row).then_some(false)
    }

    /// Whether a version whose birth and row are known is dead by `deletion` of its key.
    pub(crate) fn is_dead_version(&self, birth: u32, at: u32, deletion: &Deletion) -> bool {
        let own = birth == deletion.birth;
        let unmoved = birth == self.number;
        birth < deletion.birth
            || (own && deletion.row >= ROW_DROPPED)
            || (own && unmoved && at < deletion.row)
    }
}
