//! The rules of `FORMAT.md` for which version of a row counts, and which deletions kill it.
//!
//! - **Why.** Opening, checking and salvaging must agree on them.
//! - **How.** Footers do not list births, so the provenance of whole segments decides; where that
//!   is not enough, in stores begun under version 2, the version's page does.

use stepwell_base::Key;

use crate::numbers::{Birth, Births, SegmentNumber};

/// From here up, *row* of a deletion means that a merge dropped the last version of that birth.
pub(crate) const ROW_DROPPED: u32 = 1 << 31;
/// *row* of a deletion that kills what is in the segment of its birth, and nothing merged from it.
pub(crate) const ROW_UNMOVED: u32 = ROW_DROPPED - 1;

/// A deleted key: earlier versions of it do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    pub(crate) key: Key,
    /// Number of the segment that was open at the time.
    pub(crate) birth: Birth,
    /// Number of that segment's rows at the time, [`ROW_DROPPED`] or more, or [`ROW_UNMOVED`].
    pub(crate) row: u32,
}

/// Where a segment's rows come from, known without reading pages. Numbers are those of the
/// segment's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Provenance {
    pub(crate) number: SegmentNumber,
    /// Whether a merge made the segment.
    pub(crate) merged: bool,
    /// Births of the segment's rows.
    pub(crate) births: Births,
}

impl Provenance {
    /// Provenance of a segment that rows are put into.
    pub(crate) fn put(number: SegmentNumber) -> Self {
        Self { number, merged: false, births: Births::all(number.birth()) }
    }

    /// Whether a version in this segment is newer than, or the same as, one of its key in `other`.
    pub(crate) fn is_newer(&self, other: &Self) -> bool {
        match (self.merged, other.merged) {
            (true, false) if self.number > other.number => {
                other.births.greatest <= self.births.greatest
            }
            (false, true) if self.number < other.number => {
                self.births.greatest > other.births.greatest
            }
            _ => self.number > other.number,
        }
    }

    /// Whether `deletion` kills the remaining version of its key in this segment, which is at row
    /// `at`. `None` if only the version's page decides.
    pub(crate) fn is_dead(&self, at: u32, deletion: &Deletion) -> Option<bool> {
        let Deletion { birth, row, .. } = *deletion;
        if birth > self.births.greatest {
            return Some(true);
        }
        if birth < self.births.least {
            return Some(false);
        }
        if row >= ROW_DROPPED {
            return Some(!self.merged || u32::from(self.number) < row - ROW_DROPPED);
        }
        if self.merged {
            return (row != ROW_UNMOVED).then_some(false);
        }
        Some(at < row)
    }

    /// Whether `deletion` of its key kills a version with a known birth and row.
    pub(crate) fn is_dead_version(&self, birth: Birth, at: u32, deletion: &Deletion) -> bool {
        let own = birth == deletion.birth;
        let unmoved = birth == self.number.birth();
        birth < deletion.birth
            || (own && deletion.row >= ROW_DROPPED)
            || (own && unmoved && at < deletion.row)
    }
}
