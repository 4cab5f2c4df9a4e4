//! How much space the store takes, and how much it may take.
//!
//! Space is the bytes of the sealed segments' files; rows in segments being written count as if
//! sealed now. The limit is the setting times the bytes of live rows on pages. Compaction cannot
//! reclaim the list of keys and padding of full segments, nor the last few segments of a small
//! store, so these set a floor to the limit.
//!
//! If segments are tiny, merges may end above the limit ([`crate::space_target`]). Above that end,
//! there is always something to merge, except segments that cannot be read. Below it, a store above
//! its bound has merged files that a commit removes. So a writer never waits for impossible space.

use crate::options::{SPACE_HARD, StoreOptions};
use crate::segment_sizes::{Size, Sizes};
use crate::space_target::Held;
use crate::store::core::{Core, State};

/// Segments that may appear before a writer that must wait does.
const SEGMENTS_AHEAD: f64 = 2.0;
/// Segments above the live rows that are always admitted, in the limit and in the bound.
const SEGMENTS_FREE: [f64; 2] = [4.0, 8.0];
/// Segments above the space at rest that are always admitted in the bound.
const SEGMENTS_ABOVE: f64 = 6.0;

/// Deletions may take this fraction of the live rows' space, in addition to free bytes.
const DELETIONS_PART: u64 = 50;

/// The most bytes of a store's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSpace {
    /// After a commit.
    pub after_commit: u64,
    /// At any time.
    pub at_most: u64,
}

impl StoreOptions {
    /// Space of a store with `rows` live rows.
    pub fn space_of(&self, rows: u64) -> StoreSpace {
        let sizes = Sizes::new(self);
        let full = rows as f64 * sizes.least().target().row_full();
        let size = sizes.at((full * SPACE_HARD) as u64);
        let [limit, rest, hard] = size.limits(&Held { rows, unsealed: 0 }, self.space_max);
        let deletions = full as u64 / DELETIONS_PART + self.deletions_free;
        let bytes = |most: f64| (most as u64).saturating_add(deletions);
        StoreSpace { after_commit: bytes(limit.max(rest)), at_most: bytes(hard) }
    }
}

impl Size {
    /// Space that merges work towards, that they surely reach, and that is never exceeded.
    fn limits(&self, held: &Held, space_max: f64) -> [f64; 3] {
        let (target, segment) = (self.target(), self.bytes as f64);
        let limit = target.limit(held, space_max, SEGMENTS_FREE[0]);
        let rest = target.at_rest(held);
        // Writers must not wait at every segment for space that merging can't free.
        let above = rest + SEGMENTS_ABOVE * segment;
        [limit, rest, target.limit(held, SPACE_HARD, SEGMENTS_FREE[1]).max(above)]
    }
}

/// Bytes in use and their limits.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Pressure {
    used: f64,
    retired: f64,
    limit: f64,
    rest: f64,
    hard: f64,
}

impl Pressure {
    /// Bytes above the setting that merging is sure to reclaim.
    pub(in crate::store) fn debt(&self) -> u64 {
        (self.used - self.limit.max(self.rest)).max(0.0) as u64
    }

    /// Whether the store takes more than it does when no merge frees anything.
    pub(super) fn is_above_rest(&self) -> bool {
        self.used > self.limit.max(self.rest)
    }

    /// Whether the store takes more than the setting.
    pub(super) fn is_over(&self) -> bool {
        self.used > self.limit
    }

    /// Whether writers wait.
    pub(super) fn is_hard(&self) -> bool {
        self.used + self.retired > self.hard
    }

    /// Whether removing merged segments would be enough for writers to continue.
    pub(super) fn is_retired_alone(&self) -> bool {
        self.used <= self.hard
    }
}

impl Core {
    pub(in crate::store) fn pressure(&self, state: &State) -> Pressure {
        let size = self.size(state);
        let segment = size.bytes as f64;
        let unsealed: u64 = state.open.iter().map(|open| u64::from(open.pages.rows())).sum();
        let held = Held { rows: state.index.rows(), unsealed };
        let [limit, rest, hard] = size.limits(&held, self.options.space_max);
        Pressure {
            used: state.table.bytes() as f64 + unsealed as f64 * size.target().row_full(),
            retired: state.retired.bytes as f64,
            limit,
            rest,
            // A merge's new segment exists before the old ones are removed, and so does the next
            // segment of a writer that continued.
            hard: (hard - SEGMENTS_AHEAD * segment).max(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_grows_with_rows_and_is_less_after_a_commit() {
        let options = StoreOptions::new(0, 136);
        let none = options.space_of(0);
        assert!(none.after_commit < none.at_most && none.at_most < 1 << 30, "{none:?}");
        let many = options.space_of(1_000_000_000);
        let taken = |bytes: u64| bytes as f64 / (152.0 * 1e9);
        assert!((1.5..1.6).contains(&taken(many.after_commit)), "{many:?}");
        assert!((2.0..2.1).contains(&taken(many.at_most)), "{many:?}");
        assert!(options.space_of(u64::MAX).at_most > many.at_most);
    }
}
