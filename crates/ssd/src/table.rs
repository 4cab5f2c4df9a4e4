//! The table of segments: slots that the index names, and how much of each is live.
//!
//! A slot number is given again after its segment was merged away, so places never run out.

use std::sync::Arc;

use stepwell_base::Key;

use crate::index::RowPlace;
use crate::segment::{Sealed, SegmentFile};

/// More sealed segments than this with less than half of a full one's live rows get merged.
pub(crate) const SMALL_SEGMENTS_MAX: usize = 8;

/// A row that a merge moved, until the index follows.
pub(crate) type Move = (Key, RowPlace);
/// Bytes of a [`Move`].
pub(crate) const MOVE_BYTES: u64 = size_of::<Move>() as u64;

/// A segment in use.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<SegmentFile>,
    /// Rows in it; those that the index does not point at are stale.
    pub(crate) rows: u32,
    pub(crate) live: u32,
    pub(crate) seq_max: u64,
    /// Length and checksum, once it can no longer change.
    pub(crate) sealed: Option<Sealed>,
}

impl Segment {
    fn stale(&self) -> u32 {
        self.rows - self.live
    }

    fn is_mostly_stale(&self) -> bool {
        u64::from(self.stale()) * 2 > u64::from(self.rows)
    }
}

/// All segments in use.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Option<Segment>>,
    free: Vec<u32>,
    rows: u64,
}

impl Table {
    /// Rows in all segments, live and stale.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Number of slots, given or free.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Puts a segment into a slot.
    pub(crate) fn insert(&mut self, segment: Segment) -> u32 {
        self.rows += u64::from(segment.rows);
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(segment);
                slot
            }
            None => {
                self.slots.push(Some(segment));
                self.slots.len() as u32 - 1
            }
        }
    }

    pub(crate) fn get(&self, slot: u32) -> &Segment {
        #[expect(clippy::expect_used, reason = "the index names slots in use alone")]
        self.slots[slot as usize].as_ref().expect("a slot in use")
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut Segment {
        #[expect(clippy::expect_used, reason = "the index names slots in use alone")]
        self.slots[slot as usize].as_mut().expect("a slot in use")
    }

    /// Counts a row that was appended to `slot` and is live.
    pub(crate) fn appended(&mut self, slot: u32, seq: u64) {
        self.rows += 1;
        let segment = self.get_mut(slot);
        segment.rows += 1;
        segment.live += 1;
        segment.seq_max = segment.seq_max.max(seq);
    }

    /// Counts a row of `slot` that the index points at no longer.
    pub(crate) fn went_stale(&mut self, slot: u32) {
        let segment = self.get_mut(slot);
        assert!(segment.live > 0, "only a live row goes stale");
        segment.live -= 1;
    }

    /// Takes a segment without live rows out; its slot is free.
    pub(crate) fn remove(&mut self, slot: u32) -> Segment {
        assert!(self.get(slot).live == 0, "a segment with live rows stays");
        #[expect(clippy::expect_used, reason = "the line above found it in use")]
        let segment = self.slots[slot as usize].take().expect("a slot in use");
        self.free.push(slot);
        self.rows -= u64::from(segment.rows);
        segment
    }

    /// Slots in use, in order of segment numbers.
    pub(crate) fn in_order(&self) -> Vec<u32> {
        let used = |slot: &u32| self.slots[*slot as usize].is_some();
        let mut slots: Vec<u32> = (0..self.slots.len() as u32).filter(used).collect();
        slots.sort_by_key(|slot| self.get(*slot).file.number);
        slots
    }

    /// What one merge takes: the most stale segments of those more than half stale, and then, where
    /// there are too many small ones, the smallest; together not more than `rows_max` live rows,
    /// but for a first one that is larger.
    pub(crate) fn victims(&self, rows_max: u32) -> Vec<u32> {
        let sealed = |slot: &u32| self.get(*slot).sealed.is_some();
        let slots: Vec<u32> = self.in_order().into_iter().filter(sealed).collect();
        let mut victims = Vec::new();
        let mut room = u64::from(rows_max);
        for slot in self.most_stale(&slots) {
            let live = u64::from(self.get(slot).live);
            if live > room && !victims.is_empty() {
                break;
            }
            room = room.saturating_sub(live);
            victims.push(slot);
        }
        let small = self.smallest(&slots, rows_max);
        if small.len() > SMALL_SEGMENTS_MAX {
            for slot in small.into_iter().take(SMALL_SEGMENTS_MAX) {
                let live = u64::from(self.get(slot).live);
                if live <= room {
                    room -= live;
                    victims.push(slot);
                }
            }
        }
        victims
    }

    fn most_stale(&self, slots: &[u32]) -> Vec<u32> {
        let stale = |slot: &u32| self.get(*slot).is_mostly_stale();
        let mut stale: Vec<u32> = slots.iter().copied().filter(stale).collect();
        // Fractions compared crosswise; equal ones stay in order of segment numbers.
        stale.sort_by(|a, b| {
            let (a, b) = (self.get(*a), self.get(*b));
            let left = u64::from(a.stale()) * u64::from(b.rows);
            let right = u64::from(b.stale()) * u64::from(a.rows);
            right.cmp(&left)
        });
        stale
    }

    /// Segments not half stale with less than half of `rows_max` live rows, the smallest first.
    fn smallest(&self, slots: &[u32], rows_max: u32) -> Vec<u32> {
        let small = |slot: &u32| {
            let segment = self.get(*slot);
            !segment.is_mostly_stale() && segment.live < rows_max.div_ceil(2)
        };
        let mut small: Vec<u32> = slots.iter().copied().filter(small).collect();
        small.sort_by_key(|slot| self.get(*slot).live);
        small
    }
}
