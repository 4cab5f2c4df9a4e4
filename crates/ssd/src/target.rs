//! How much space a store is held to, and how far merging gets for certain.
//!
//! - **Why.** Headers, lists of keys, tails and what is left over on pages and at the ends of
//!   segments take space that no merge gives back. Who waited for less would wait for ever. So it
//!   is counted here.
//! - **How.** [`Target::limit`] is what merges work towards: the setting times the bytes of live
//!   rows as they lie on pages, and never below what full segments take. They get there, unless
//!   segments are tiny and do not fit each other: then they end at [`Target::at_rest`], the most
//!   that a store takes in which no merge frees anything any more. Nobody is kept waiting below
//!   that.
//!
//! Why a store at rest keeps within that. With R the rows of a full segment, two segments whose
//! live rows fit one are merged, for that frees a header at least. At rest they do not fit: at most
//! one segment has R / 2 live rows or fewer. Nor does a segment hold pages or blocks of a footer
//! that merging it alone would free: it has the length of a segment of its live rows. So
//! - what it takes for each row is at most the worst there is between R / 2 and R rows; and
//! - there are at most 1 + 2 · live / (R + 1) segments, each with a header, an unfinished page and
//!   an unfinished block of its footer beside the room of its rows.
//!
//! Both bound the space, and the lesser of them counts: the first where segments are tiny, the
//! second where they are large. Deletions are no part of it: above it a merge is due that lets some
//! of them go (`victims`).

use crate::layout::{
    Counts, KEY_BYTES, KEY_SHARD_BYTES, KEYS_PER_SUM, KEYS_SUM_BYTES, Layout, PAGE_ALIGN_BYTES,
    TAIL_BYTES,
};

/// Space over that of full segments without a stale row that is always admitted.
const FLOOR: f64 = 1.15;
/// Segments of live rows from which on the setting alone counts.
const SEGMENTS_ENOUGH: f64 = 8.0;

/// Pages at which the worst segment is looked for, from half a full one on.
const PAGES_LOOKED_AT: u32 = 1024;

/// What takes space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    /// Live rows.
    pub(crate) rows: u64,
    /// Rows of segments that are being written.
    pub(crate) unsealed: u64,
}

/// Bytes that follow from the settings of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    stride: f64,
    /// Of a full segment.
    segment: f64,
    rows_max: f64,
    /// Of a row in a full segment without a stale one.
    row_full: f64,
    /// Of a row on its page and in the list of keys.
    row_alone: f64,
    /// Of a row in the worst segment with more than half of a full one's rows.
    row_worst: f64,
    /// Of a segment with half of a full one's rows, and of the ends of any one.
    half: f64,
    ends: f64,
}

impl Target {
    /// For segments of at most so many bytes.
    pub(crate) fn new(layout: &Layout, segment_bytes: u64) -> Self {
        let rows = layout.rows_max(segment_bytes);
        let bytes = |rows: u32| layout.file_bytes(&Counts { rows, ..Counts::default() }) as f64;
        let half = rows / 2;
        // The worst come right after the half, and after each page that is full.
        let end = layout.pages(rows);
        let first = half / layout.rows_per_page;
        // From a page on nothing is worse than a page and a block of the footer just begun.
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

    /// Bytes of a row in a full segment without a stale one.
    pub(crate) fn row_full(&self) -> f64 {
        self.row_full
    }

    /// The most bytes of a store without deletions in which no merge frees anything.
    pub(crate) fn at_rest(&self, held: &Held) -> f64 {
        let rows = held.rows as f64;
        let worst = self.half + rows * self.row_worst;
        let segments = 1.0 + 2.0 * rows / (self.rows_max + 1.0);
        let listed = rows * self.row_alone + segments * self.ends;
        // Of what is being written nothing can be merged yet.
        worst.min(listed) + held.unsealed as f64 * self.row_full
    }

    /// The bytes to work towards for a `setting` in bytes of live rows, where `free` segments above
    /// the live rows are always admitted.
    pub(crate) fn limit(&self, held: &Held, setting: f64, free: f64) -> f64 {
        let rows = held.rows as f64;
        // They are within the setting once the live rows fill so many, where segments are not
        // so small that their ends take more than the setting leaves.
        let enough = SEGMENTS_ENOUGH * (setting * self.stride / self.row_full - 1.0);
        let free = if enough >= 1.0 { free.min(enough) } else { free };
        let full = rows * self.row_full;
        let stored = setting * rows * self.stride;
        let few = full + free * self.segment;
        stored.max(FLOOR * full).max(few)
    }

    /// What a large store is held to at least, in bytes of its live rows, whatever the setting.
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

    /// Bytes of segments of so many live rows, each as long as its rows ask for.
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
            // Any two of them have more than a full segment's rows: one is small perhaps.
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
        // A header, a page of 170 rows and a footer: three blocks, for half as many rows at worst.
        let target = Target::new(&Layout::new(0, 8), 16 << 10);
        assert_eq!(target.row_full(), 12_288.0 / 170.0);
        let held = Held { rows: 8600, ..Held::default() };
        assert_eq!(target.at_rest(&held), 12_288.0 + 100.0 * 12_288.0);
        // What is left of the limit when merges end is no more than the other half.
        let limit = target.limit(&held, 1.5, 4.0);
        assert!(limit < target.at_rest(&held) && 2.0 * limit > target.at_rest(&held));
    }
}
