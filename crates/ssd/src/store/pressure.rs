//! How much space the store takes, and how much it may.
//!
//! Space is the bytes of the sealed segments' files; the share of segments being written counts
//! as if they were sealed now. The limit is the setting times the bytes of live rows as they lie
//! on pages. Two things cannot be compacted away and give the limit a floor: the list of keys and
//! padding of full segments, and the last few segments of a store that has but a few.
//!
//! Where segments are tiny, merges may end above the limit ([`crate::target`]). A store above that
//! end always has something to merge, but for segments that cannot be read. One below it and above
//! its bound has merged files that a commit removes. So nobody waits for what cannot come.

use super::{Core, State};
use crate::options::SPACE_HARD;
use crate::target::Held;
/// Segments that may come to be before a waiting writer waits.
const SEGMENTS_AHEAD: f64 = 2.0;
/// Segments above the live rows that are always admitted, as a limit and as a bound.
const SEGMENTS_FREE: [f64; 2] = [4.0, 8.0];
/// Segments above what a store at rest takes that are always admitted as a bound.
const SEGMENTS_ABOVE: f64 = 6.0;

/// Bytes of space and their limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    used: f64,
    retired: f64,
    limit: f64,
    rest: f64,
    hard: f64,
}

impl Pressure {
    /// Bytes above the setting that merging gives back for certain.
    pub(super) fn debt(&self) -> u64 {
        (self.used - self.limit.max(self.rest)).max(0.0) as u64
    }

    /// Whether there is more than a store takes in which no merge frees anything.
    pub(super) fn is_above_rest(&self) -> bool {
        self.used > self.limit.max(self.rest)
    }

    /// Whether there is more than the setting allows.
    pub(super) fn is_over(&self) -> bool {
        self.used > self.limit
    }

    /// Whether writers wait.
    pub(super) fn is_hard(&self) -> bool {
        self.used + self.retired > self.hard
    }

    /// Whether removing merged segments would be enough for them to go on.
    pub(super) fn is_retired_alone(&self) -> bool {
        self.used <= self.hard
    }
}

impl Core {
    pub(super) fn pressure(&self, state: &State) -> Pressure {
        let size = self.size(state);
        let (target, segment) = (&size.target, size.bytes as f64);
        let unsealed: u64 = state.open.iter().map(|open| u64::from(open.pages.rows())).sum();
        let held = Held { rows: state.index.rows(), unsealed };
        let limit = target.limit(&held, self.options.space_max, SEGMENTS_FREE[0]);
        let rest = target.at_rest(&held);
        // What merging cannot give back may not keep writers waiting at every segment.
        let above = rest + SEGMENTS_ABOVE * segment;
        let hard = target.limit(&held, SPACE_HARD, SEGMENTS_FREE[1]).max(above);
        Pressure {
            used: state.table.bytes() as f64 + unsealed as f64 * target.row_full(),
            retired: state.retired.bytes as f64,
            limit,
            rest,
            // A merge's new segment is there before the old ones are gone, and so is the next one
            // of the writer that was let go on.
            hard: (hard - SEGMENTS_AHEAD * segment).max(limit),
        }
    }
}
