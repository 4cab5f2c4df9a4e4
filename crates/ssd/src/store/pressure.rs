//! How much space the store takes, and how much it may.
//!
//! Space is the bytes of the sealed segments' files; the share of segments being written counts
//! as if they were sealed now. The limit is the setting times the bytes of live rows as they lie
//! on pages. Two things cannot be compacted away and give the limit a floor: the list of keys and
//! padding of full segments, and the last few segments of a store that has but a few.

use super::{Core, State};
use crate::layout::Counts;
use crate::options::SPACE_HARD;

/// Space over that of full segments without a stale row that is always admitted.
const FLOOR: f64 = 1.15;
/// Segments of live rows from which on the setting alone counts.
const SEGMENTS_ENOUGH: f64 = 8.0;
/// Segments that may come to be before a waiting writer waits.
const SEGMENTS_AHEAD: f64 = 2.0;
/// Segments above the live rows that are always admitted, as a limit and as a bound.
const SEGMENTS_FREE: [f64; 2] = [4.0, 8.0];

/// Bytes of space and their limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    used: f64,
    retired: f64,
    limit: f64,
    hard: f64,
}

impl Pressure {
    /// Bytes above the setting.
    pub(super) fn debt(&self) -> u64 {
        (self.used - self.limit).max(0.0) as u64
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
        let full = self.full_row_bytes();
        let unsealed: u32 = state.open.iter().map(|open| open.pages.rows()).sum();
        let live = state.index.rows() as f64;
        let segment = self.options.segment_bytes as f64;
        let limit = |setting: f64, free: f64| {
            let stride = self.layout.stride as f64;
            let stored = setting * live * stride;
            // They are within the setting once the live rows fill so many, where segments are not
            // so small that their ends take more than the setting leaves.
            let enough = SEGMENTS_ENOUGH * (setting * stride / full - 1.0);
            let free = if enough >= 1.0 { free.min(enough) } else { free };
            stored.max(FLOOR * live * full).max(live * full + free * segment)
        };
        let setting = limit(self.options.space_max, SEGMENTS_FREE[0]);
        // A merge's new segment is there before the old ones are gone, and so is the next one of
        // the writer that was let go on.
        let hard = limit(SPACE_HARD, SEGMENTS_FREE[1]) - SEGMENTS_AHEAD * segment;
        Pressure {
            used: state.table.bytes() as f64 + f64::from(unsealed) * full,
            retired: state.retired.bytes as f64,
            limit: setting,
            hard: hard.max(setting),
        }
    }

    /// Bytes of a row in a full segment without a stale one.
    fn full_row_bytes(&self) -> f64 {
        let rows = self.options.segment_rows();
        let bytes = self.layout.file_bytes(&Counts { rows, runs: 1, deletions: 0 });
        bytes as f64 / f64::from(rows)
    }
}
