//! How much space a store may take, and how far merging is sure to get.
//!
//! - **Why.** Headers, lists of keys, tails, and unused ends of pages and segments take space that
//!   no merge reclaims. A writer that waited for less would wait forever, so that space is counted
//!   here.
//! - **How.** Merges work towards [`Target::limit`]: the setting times the bytes of live rows on
//!   pages, but at least what full segments take. They reach it unless segments are tiny and do not
//!   fit each other: then they end at [`Target::at_rest`], the most space of a store in which no
//!   merge frees anything. No writer waits for less than that.
//!
//! Proof of that bound. Let R be the rows of a full segment. Two segments whose live rows fit into
//! one are merged, since that frees at least a header. At rest, therefore, no two fit each other,
//! and at most one segment has R / 2 live rows or fewer. Nor does a segment have pages or footer
//! blocks that merging it alone would free: it has the length of a segment of its live rows. So
//! - it takes at most, for each row, the worst space per row of segments with R / 2 to R rows; and
//! - there are at most 1 + 2 · live / (R + 1) segments, each with a header, an unfinished page and
//!   an unfinished footer block in addition to its rows' own space.
//!
//! Both bound the space; the smaller one counts: the first for tiny segments, the second for large
//! ones. Deletions are not included: above the bound, a merge is due that drops some of them
//! (`victims`).

use crate::layout::{
    Counts, KEY_BYTES, KEY_SHARD_BYTES, KEYS_PER_SUM, KEYS_SUM_BYTES, Layout, PAGE_ALIGN_BYTES,
    TAIL_BYTES,
};

/// Space that is always admitted, as a multiple of full segments without stale rows.
const FLOOR: f64 = 1.15;
/// Number of segments of live rows from which on only the setting counts.
const SEGMENTS_ENOUGH: f64 = 8.0;

/// Number of pages, from half a full segment on, in the search for the worst segment.
const PAGES_LOOKED_AT: u32 = 1024;

/// Numbers of rows that take space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    /// Live rows.
    pub(crate) rows: u64,
    /// Rows of segments that are being written.
    pub(crate) unsealed: u64,
}

/// Sizes, in bytes unless said otherwise, that follow from the settings of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    stride: f64,
    /// A full segment.
    segment: f64,
    rows_max: f64,
    /// A row in a full segment without stale rows.
    row_full: f64,
    /// A row on its page and in the list of keys.
    row_alone: f64,
    /// A row in the worst segment with more than half of a full one's rows.
    row_worst: f64,
    /// A segment with half of a full one's rows, and the overhead of any segment.
    half: f64,
    ends: f64,
}

impl Target {
    /// The target for segments of at most `segment_bytes` bytes.
    pub(crate) fn new(layout: &Layout, segment_bytes: u64) -> Self {
        let rows = layout.rows_max(segment_bytes);
        let bytes = |rows: u32| layout.file_bytes(&Counts { rows, ..Counts::default() }) as f64;
        let half = rows / 2;
        // The worst segments end right after the half, or right after a full page.
        let end = layout.pages(rows);
        let first = half / layout.rows_per_page;
        // From a page on, the worst case is a page and a footer block that were just begun.
        let begun = (layout.page_bytes + PAGE_ALIGN_BYTES) as f64;
        let later = |page: u32| {
            let rows = page.saturating_mul(layout.rows_per_page);
            (bytes(rows) + begun) / f64::from(rows)
        };
        let starts = half + 1..=rows;
        let worst_of = |start: u32| match starts.contains(&start) {
            true => bytes(start) / f64::from(start),
            false => 0.0,
        };
        let (mut worst, mut page) = (worst_of(half + 1), first);
        let last = end.min(first.saturating_add(PAGES_LOOKED_AT));
        while page < last && (page == 0 || later(page) > worst) {
            worst = worst.max(worst_of(page * layout.rows_per_page + 1));
            page += 1;
        }
        let worst = if page < end { worst.max(later(page)) } else { worst };
        let page = layout.page_bytes as f64;
        Self {
            stride: layout.stride as f64,
            segment: bytes(rows),
            rows_max: f64::from(rows),
            row_full: bytes(rows) / f64::from(rows),
            row_alone: page / f64::from(layout.rows_per_page)
                + (KEY_BYTES + KEY_SHARD_BYTES) as f64
                + KEYS_SUM_BYTES as f64 / KEYS_PER_SUM as f64,
            row_worst: worst,
            half: bytes(half),
            ends: 2.0 * page + (TAIL_BYTES + PAGE_ALIGN_BYTES - 1 + KEYS_SUM_BYTES as usize) as f64,
        }
    }

    /// Bytes of a row in a full segment without stale rows.
    pub(crate) fn row_full(&self) -> f64 {
        self.row_full
    }

    /// The most bytes of a store without deletions in which no merge frees anything.
    pub(crate) fn at_rest(&self, held: &Held) -> f64 {
        let rows = held.rows as f64;
        let worst = self.half + rows * self.row_worst;
        let segments = 1.0 + 2.0 * rows / (self.rows_max + 1.0);
        let listed = rows * self.row_alone + segments * self.ends;
        // Segments that are being written cannot be merged yet.
        worst.min(listed) + held.unsealed as f64 * self.row_full
    }

    /// The bytes to work towards if `setting` is a multiple of the live rows' bytes, and `free`
    /// segments in addition to the live rows are always admitted.
    pub(crate) fn limit(&self, held: &Held, setting: f64, free: f64) -> f64 {
        let rows = held.rows as f64;
        // The free segments stay within the setting once the live rows fill `enough` segments,
        // unless segments are so small that their overhead exceeds the setting.
        let enough = SEGMENTS_ENOUGH * (setting * self.stride / self.row_full - 1.0);
        let free = if enough >= 1.0 { free.min(enough) } else { free };
        let full = rows * self.row_full;
        let stored = setting * rows * self.stride;
        let few = full + free * self.segment;
        stored.max(FLOOR * full).max(few)
    }

    /// The least that a large store can be held to, as a multiple of its live rows' bytes.
    pub(crate) fn least(&self) -> f64 {
        let rows = 1 << 40;
        let held = Held { rows, ..Held::default() };
        self.at_rest(&held).max(FLOOR * rows as f64 * self.row_full) / (rows as f64 * self.stride)
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;

    /// Bytes of segments with these numbers of live rows and no others.
    fn bytes(layout: &Layout, segments: &[u32]) -> u64 {
        let of = |rows: &u32| layout.file_bytes(&Counts { rows: *rows, ..Counts::default() });
        segments.iter().map(of).sum()
    }

    #[test]
    fn looking_at_some_pages_bounds_all_and_gives_little_away() {
        for row_bytes in [1, 16, 68, 300, 1000, 5000] {
            let layout = Layout::new(0, row_bytes);
            for segment_bytes in [256 << 10, 4 << 20, 64 << 20] {
                let rows = layout.rows_max(segment_bytes);
                let each = layout.rows_per_page;
                let starts = (0..layout.pages(rows)).map(|page| page * each + 1);
                let starts = starts.chain([rows / 2 + 1]);
                let starts = starts.filter(|start| (rows / 2 + 1..=rows).contains(start));
                let of = |rows: u32| bytes(&layout, &[rows]) as f64 / f64::from(rows);
                let worst = starts.map(of).fold(0.0, f64::max);
                let looked = Target::new(&layout, segment_bytes).row_worst;
                assert!((1.0..1.0001).contains(&(looked / worst)), "{row_bytes} {looked} {worst}");
            }
        }
    }

    #[test]
    fn segments_that_do_not_fit_each_other_keep_within_it() {
        let mut dice = Stream::from_state(3);
        let mut most: f64 = 0.0;
        for _ in 0..3000 {
            let row_bytes = 1 + (dice.next_u64() % 6000) as usize;
            let layout = Layout::new(0, row_bytes);
            let least = 4 * layout.page_bytes as u64 + 4096;
            let segment_bytes = least << (dice.next_u64() % 8);
            let target = Target::new(&layout, segment_bytes);
            let rows_max = u64::from(layout.rows_max(segment_bytes));
            // Any two have more than a full segment's rows: at most one is small.
            let small = dice.next_u64() % (rows_max / 2 + 1);
            let tight = dice.next_u64() % 4;
            let rest = |dice: &mut Stream| {
                let from = rows_max - small.min(rows_max / 2) + 1;
                let to = rows_max.max(from);
                let more = dice.next_u64() % (to - from + 1);
                (from + if tight == 0 { more } else { 0 }).min(rows_max)
            };
            let count = dice.next_u64() % 20;
            let mut segments: Vec<u32> = (0..count).map(|_| rest(&mut dice) as u32).collect();
            segments.push(small as u32);
            let rows = segments.iter().map(|rows| u64::from(*rows)).sum();
            let held = Held { rows, unsealed: 0 };
            let (taken, bound) = (bytes(&layout, &segments) as f64, target.at_rest(&held));
            assert!(taken <= bound, "{taken} above {bound}: {layout:?}, {segments:?}");
            most = most.max(taken / bound);
        }
        assert!(most > 0.9, "a bound far from all that there is: {most}");
    }

    #[test]
    fn large_segments_leave_the_setting_alone() {
        for row_bytes in [64, 256, 1000] {
            let target = Target::new(&Layout::new(0, row_bytes), 16 << 20);
            let held = Held { rows: 10_000_000, unsealed: 1000 };
            let stored = 1.5 * 10_000_000.0 * (row_bytes as f64 + 16.0);
            assert_eq!(target.limit(&held, 1.5, 4.0), stored);
            assert!((1.1..1.4).contains(&target.least()), "{}", target.least());
        }
    }

    #[test]
    fn tiny_segments_count_their_ends() {
        // A header, a page of 170 rows and a footer: three blocks, at worst for half as many rows.
        let target = Target::new(&Layout::new(0, 8), 16 << 10);
        assert_eq!(target.row_full(), 12_288.0 / 170.0);
        let held = Held { rows: 8600, ..Held::default() };
        assert_eq!(target.at_rest(&held), 12_288.0 + 100.0 * 12_288.0);
        // When merges end, at most the other half is left above the limit.
        let limit = target.limit(&held, 1.5, 4.0);
        assert!(limit < target.at_rest(&held) && 2.0 * limit > target.at_rest(&held));
    }
}
