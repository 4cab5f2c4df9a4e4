//! The table of segments: slots that the index names, and how much of each is live.
//!
//! A slot number is given again after its segment was merged away, so places never run out.

use std::sync::Arc;

use crate::index::Place;
use crate::layout::Counts;
use crate::rule::Lie;
use crate::segment::{SegmentFile, Tail};

/// A segment in use.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<SegmentFile>,
    /// Rows in it; those that the index does not point at are stale.
    pub(crate) rows: u32,
    pub(crate) live: u32,
    /// What the rule of versions needs of it; of an open one as if it were sealed now.
    pub(crate) lie: Lie,
    /// Rows that the store had been given when it was sealed: its age.
    pub(crate) sealed_at: u64,
    /// Its end, once it can no longer change.
    pub(crate) sealed: Option<Sealed>,
    /// Whether merges pass over it: it could not be read, or its rows found no room in the index.
    pub(crate) left_alone: bool,
}

/// A segment that can no longer change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    pub(crate) bytes: u64,
    pub(crate) tail: Tail,
    /// The latest birth that one of its deletions has, 0 where there is none.
    pub(crate) deleted_last: u32,
}

impl Segment {
    /// A segment without a row.
    pub(crate) fn new(file: Arc<SegmentFile>, lie: Lie) -> Self {
        let (rows, live, sealed_at) = (0, 0, 0);
        Self { file, rows, live, lie, sealed_at, sealed: None, left_alone: false }
    }

    /// The earliest birth that one of its rows may have.
    pub(crate) fn birth_min(&self) -> u32 {
        self.lie.births.0
    }

    /// Rows that the index does not point at.
    pub(crate) fn stale(&self) -> u32 {
        self.rows - self.live
    }

    /// Live rows that are not expired, estimated from the sample of last uses.
    pub(crate) fn live_unexpired(&self, expire_before: u32) -> u32 {
        let Some(Sealed { tail, .. }) = &self.sealed else { return self.live };
        let expired = tail.used.partition_point(|used| *used < expire_before);
        let kept = (tail.used.len() - expired) as u64;
        (u64::from(self.live) * kept).div_ceil(tail.used.len() as u64) as u32
    }

    /// Whether rows of it may be expired, by the sample.
    pub(crate) fn is_suspect(&self, expire_before: u32) -> bool {
        self.live_unexpired(expire_before) < self.live
    }

    /// The latest birth that one of its deletions has, if there is one.
    pub(crate) fn deleted_last(&self) -> Option<u32> {
        self.sealed.map(|sealed| sealed.deleted_last).filter(|birth| *birth > 0)
    }

    /// What a merge keeps of it at most where the sample tells which rows are expired, `oldest`
    /// being the earliest birth of a stale row in the segments that are not merged.
    pub(crate) fn kept(&self, expire_before: u32, oldest: u32) -> Counts {
        let counts = self.sealed.map(|sealed| sealed.tail.counts).unwrap_or_default();
        let rows = self.live_unexpired(expire_before);
        let carried = self.deleted_last().is_some_and(|birth| oldest <= birth);
        // An expired row leaves a deletion where an older version may lie elsewhere.
        let replaced = oldest <= self.lie.births.1;
        let deletions = if carried { counts.deletions } else { 0 }
            + if replaced { self.live - rows } else { 0 };
        Counts { rows, runs: 0, deletions }
    }

    /// Bytes of its file, 0 while it is being written.
    pub(crate) fn bytes(&self) -> u64 {
        self.sealed.map_or(0, |sealed| sealed.bytes)
    }
}

/// All segments in use.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Option<Segment>>,
    free: Vec<u32>,
    /// Places of a slot: the most data pages of a segment.
    pages_per_slot: u32,
    rows: u64,
    bytes: u64,
    deletions: u64,
}

impl Table {
    pub(crate) fn new(pages_per_slot: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            pages_per_slot,
            rows: 0,
            bytes: 0,
            deletions: 0,
        }
    }

    /// Rows in all segments, live and stale.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of all sealed segments' files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Deletions in all sealed segments.
    pub(crate) fn deletions(&self) -> u64 {
        self.deletions
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Number of slots, given or free.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The place of a page.
    #[inline]
    pub(crate) fn place(&self, slot: u32, page: u32) -> Place {
        assert!((1..=self.pages_per_slot).contains(&page), "a page of the slot");
        Place(u64::from(slot) * u64::from(self.pages_per_slot) + u64::from(page - 1))
    }

    /// The slot and page of a place.
    #[inline]
    pub(crate) fn page(&self, place: Place) -> (u32, u32) {
        let pages = u64::from(self.pages_per_slot);
        ((place.0 / pages) as u32, (place.0 % pages) as u32 + 1)
    }

    /// Puts a segment into a slot.
    pub(crate) fn insert(&mut self, segment: Segment) -> u32 {
        assert!(segment.sealed.is_none(), "a segment is sealed in its slot");
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

    fn get_mut(&mut self, slot: u32) -> &mut Segment {
        #[expect(clippy::expect_used, reason = "the index names slots in use alone")]
        self.slots[slot as usize].as_mut().expect("a slot in use")
    }

    /// Counts `rows` rows that were appended to `slot`, and that are live.
    pub(crate) fn appended(&mut self, slot: u32, rows: u32) {
        self.rows += u64::from(rows);
        let segment = self.get_mut(slot);
        segment.rows += rows;
        segment.live += rows;
    }

    /// Counts a row of `slot` that the index points at no longer.
    pub(crate) fn went_stale(&mut self, slot: u32) {
        let segment = self.get_mut(slot);
        assert!(segment.live > 0, "only a live row goes stale");
        segment.live -= 1;
    }

    /// Counts a row of `slot` that the index points at again.
    pub(crate) fn came_back(&mut self, slot: u32) {
        let segment = self.get_mut(slot);
        assert!(segment.live < segment.rows, "only a stale row comes back");
        segment.live += 1;
    }

    /// The segment of `slot` can no longer change.
    pub(crate) fn seal(&mut self, slot: u32, sealed: Sealed, lie: Lie, sealed_at: u64) {
        self.bytes += sealed.bytes;
        self.deletions += u64::from(sealed.tail.counts.deletions);
        let segment = self.get_mut(slot);
        assert!(segment.rows == sealed.tail.counts.rows, "the tail counts every row");
        segment.lie = lie;
        segment.sealed_at = sealed_at;
        segment.sealed = Some(sealed);
    }

    /// Takes a segment without live rows out; its slot is free.
    pub(crate) fn remove(&mut self, slot: u32) -> Segment {
        assert!(self.get(slot).live == 0, "a segment with live rows stays");
        self.discard(slot)
    }

    /// Takes a segment out that nothing points at, whatever it counts; its slot is free.
    pub(crate) fn discard(&mut self, slot: u32) -> Segment {
        #[expect(clippy::expect_used, reason = "a caller names a slot in use")]
        let segment = self.slots[slot as usize].take().expect("a slot in use");
        self.free.push(slot);
        self.rows -= u64::from(segment.rows);
        self.bytes -= segment.bytes();
        let deletions = segment.sealed.map_or(0, |sealed| sealed.tail.counts.deletions);
        self.deletions -= u64::from(deletions);
        segment
    }

    /// Slots in use, in order of segment numbers.
    pub(crate) fn in_order(&self) -> Vec<u32> {
        let used = |slot: &u32| self.slots[*slot as usize].is_some();
        let mut slots: Vec<u32> = (0..self.slots.len() as u32).filter(used).collect();
        slots.sort_by_key(|slot| self.get(*slot).file.number);
        slots
    }

    /// Merges pass over the segment of `slot` from now on.
    pub(crate) fn leave_alone(&mut self, slot: u32) {
        self.get_mut(slot).left_alone = true;
    }

    /// Slots of sealed segments, in order of segment numbers.
    pub(crate) fn sealed(&self) -> Vec<u32> {
        let mut slots = self.in_order();
        slots.retain(|slot| self.get(*slot).sealed.is_some());
        slots
    }
}
