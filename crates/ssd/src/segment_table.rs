//! The table of segments: the slots that the index refers to, and how much of each segment is live.
//!
//! A slot is reused after its segment was merged, so places never run out. Places are numbered
//! across slots; a segment larger than a slot takes several adjacent ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::index::Place;
use crate::layout::Counts;
use crate::numbers::{Birth, PageNumber, SegmentNumber, Slot, SlotPage};
use crate::row_versions::Provenance;
use crate::segment::{SegmentFile, Tail};

/// A segment in use.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<SegmentFile>,
    /// Rows in the segment; rows that the index does not point at are stale.
    pub(crate) rows: u32,
    pub(crate) live: u32,
    /// Origin and births, which decide which versions count; of an open segment, as if sealed now.
    pub(crate) provenance: Provenance,
    /// Number of rows the store had been given when the segment was sealed: its age.
    pub(crate) sealed_at: u64,
    /// Size and tail, once the segment can no longer change.
    pub(crate) sealed: Option<Sealed>,
    /// Whether merges skip it: it could not be read, or its rows had no room in the index.
    pub(crate) left_alone: bool,
    /// Number of slots that it takes, from its first one on.
    pub(crate) span: u32,
}

/// Size and tail of a segment that can no longer change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    pub(crate) bytes: u64,
    pub(crate) tail: Tail,
    /// The latest birth in a deletion.
    pub(crate) deleted_last: Option<Birth>,
}

impl Segment {
    /// A segment without rows.
    pub(crate) fn new(file: Arc<SegmentFile>, provenance: Provenance) -> Self {
        let (rows, live, sealed_at) = (0, 0, 0);
        Self { file, rows, live, provenance, sealed_at, sealed: None, left_alone: false, span: 1 }
    }

    /// The earliest birth that a row may have.
    pub(crate) fn birth_min(&self) -> Birth {
        self.provenance.births.least
    }

    /// Number of rows that the index does not point at.
    pub(crate) fn stale(&self) -> u32 {
        self.rows - self.live
    }

    /// Number of live rows that are not expired, estimated from the sample of last uses.
    pub(crate) fn live_unexpired(&self, expire_before: u32) -> u32 {
        let Some(Sealed { tail, .. }) = &self.sealed else { return self.live };
        let expired = tail.used.partition_point(|used| *used < expire_before);
        let kept = (tail.used.len() - expired) as u64;
        (u64::from(self.live) * kept).div_ceil(tail.used.len() as u64) as u32
    }

    /// Whether the sample has expired rows.
    pub(crate) fn is_suspect(&self, expire_before: u32) -> bool {
        self.live_unexpired(expire_before) < self.live
    }

    /// The latest birth in a deletion, `None` without deletions.
    pub(crate) fn deleted_last(&self) -> Option<Birth> {
        self.sealed.and_then(|sealed| sealed.deleted_last)
    }

    /// The most that a merge keeps of the segment, with expired rows estimated from the sample;
    /// `oldest` is the earliest birth of a stale row in segments that are not merged.
    pub(crate) fn kept(&self, expire_before: u32, oldest: Birth) -> Counts {
        let counts = self.sealed.map(|sealed| sealed.tail.counts).unwrap_or_default();
        let rows = self.live_unexpired(expire_before);
        let carried = self.deleted_last().is_some_and(|birth| oldest <= birth);
        // An expired row leaves a deletion if an older version may be elsewhere.
        let replaced = oldest <= self.provenance.births.greatest;
        let deletions = if carried { counts.deletions } else { 0 }
            + if replaced { self.live - rows } else { 0 };
        Counts { rows, runs: 0, deletions }
    }

    /// Bytes of the file, 0 while it is being written.
    pub(crate) fn bytes(&self) -> u64 {
        self.sealed.map_or(0, |sealed| sealed.bytes)
    }
}

/// Segments and bytes of a directory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InDirectory {
    pub(crate) segments: u64,
    /// Bytes of sealed segments.
    pub(crate) bytes: u64,
}

/// All segments in use.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Option<Segment>>,
    /// For each slot, the first slot of its segment.
    heads: Vec<Slot>,
    free: BTreeSet<Slot>,
    /// Slots by segment number.
    order: BTreeMap<SegmentNumber, Slot>,
    /// Number of places of a slot: the data pages of a segment of the initial size.
    pages_per_slot: u32,
    rows: u64,
    bytes: u64,
    /// Bytes of sealed segments that use the page cache.
    cached_bytes: u64,
    deletions: u64,
    directories: Vec<InDirectory>,
}

impl Table {
    /// Segments of up to `pages_per_slot` data pages take one slot, larger ones several.
    pub(crate) fn new(pages_per_slot: u32, directories: usize) -> Self {
        Self {
            slots: Vec::new(),
            heads: Vec::new(),
            free: BTreeSet::new(),
            order: BTreeMap::new(),
            pages_per_slot,
            rows: 0,
            bytes: 0,
            cached_bytes: 0,
            deletions: 0,
            directories: vec![InDirectory::default(); directories],
        }
    }

    /// Number of rows in all segments, live and stale.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of all sealed segments' files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of sealed segments' files that use the page cache.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.cached_bytes
    }

    /// Number of deletions in all sealed segments.
    pub(crate) fn deletions(&self) -> u64 {
        self.deletions
    }

    /// Segments and bytes of each directory.
    pub(crate) fn directories(&self) -> &[InDirectory] {
        &self.directories
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Number of slots, used or free.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Place of a page.
    #[inline]
    pub(crate) fn place(&self, slot: Slot, page: PageNumber) -> Place {
        let page = u64::from(page - PageNumber::FIRST);
        Place(u64::from(slot.0) * u64::from(self.pages_per_slot) + page)
    }

    /// Number of slots that a segment of `pages` data pages takes.
    pub(crate) fn span_of(pages_per_slot: u32, pages: u32) -> u32 {
        pages.div_ceil(pages_per_slot).max(1)
    }

    /// Slot and page of a place.
    #[inline]
    pub(crate) fn page(&self, place: Place) -> SlotPage {
        let pages = u64::from(self.pages_per_slot);
        let (slot, page) = ((place.0 / pages) as u32, (place.0 % pages) as u32);
        let head = self.heads[slot as usize];
        let before = (slot - head.0) * self.pages_per_slot;
        SlotPage { slot: head, page: PageNumber::FIRST + (before + page) }
    }

    /// Puts a segment of at most `pages` data pages into adjacent slots; returns the first.
    pub(crate) fn insert(&mut self, mut segment: Segment, pages: u32) -> Slot {
        assert!(segment.sealed.is_none(), "a segment is sealed after insertion");
        segment.span = Self::span_of(self.pages_per_slot, pages);
        let slot = self.vacant(segment.span);
        self.heads[slot.index()..][..segment.span as usize].fill(slot);
        self.rows += u64::from(segment.rows);
        self.order.insert(segment.file.number, slot);
        self.directories[segment.file.directory].segments += 1;
        self.slots[slot.index()] = Some(segment);
        slot
    }

    /// Takes `span` adjacent free slots; returns the first.
    fn vacant(&mut self, span: u32) -> Slot {
        let (mut first, mut count) = (0, 0);
        for Slot(slot) in &self.free {
            (first, count) =
                if count > 0 && *slot == first + count { (first, count + 1) } else { (*slot, 1) };
            if count == span {
                break;
            }
        }
        if count < span {
            first = self.slots.len() as u32;
            let end = self.slots.len() + span as usize;
            self.slots.resize_with(end, || None);
            self.heads.resize(end, Slot(0));
        }
        self.free.retain(|slot| !(first..first + span).contains(&slot.0));
        Slot(first)
    }

    pub(crate) fn get(&self, slot: Slot) -> &Segment {
        #[expect(clippy::expect_used, reason = "the index names slots in use alone")]
        self.slots[slot.index()].as_ref().expect("a slot in use")
    }

    fn get_mut(&mut self, slot: Slot) -> &mut Segment {
        #[expect(clippy::expect_used, reason = "the index names slots in use alone")]
        self.slots[slot.index()].as_mut().expect("a slot in use")
    }

    /// Counts `rows` live rows that were appended to `slot`.
    pub(crate) fn appended(&mut self, slot: Slot, rows: u32) {
        self.rows += u64::from(rows);
        let segment = self.get_mut(slot);
        segment.rows += rows;
        segment.live += rows;
    }

    /// Counts a row of `slot` that the index no longer points at.
    pub(crate) fn went_stale(&mut self, slot: Slot) {
        let segment = self.get_mut(slot);
        assert!(segment.live > 0, "only a live row goes stale");
        segment.live -= 1;
    }

    /// Counts a row of `slot` that the index points at again.
    pub(crate) fn came_back(&mut self, slot: Slot) {
        let segment = self.get_mut(slot);
        assert!(segment.live < segment.rows, "only a stale row comes back");
        segment.live += 1;
    }

    /// Adds rows of `slot` that became live, less those that went stale, to its live count.
    pub(crate) fn live_changed(&mut self, slot: Slot, change: i64) {
        let segment = self.get_mut(slot);
        let live = i64::from(segment.live) + change;
        assert!((0..=i64::from(segment.rows)).contains(&live), "{live} of {} rows", segment.rows);
        segment.live = live as u32;
    }

    /// Replaces a segment's file by one with the same bytes; returns the old one.
    pub(crate) fn replace_file(&mut self, slot: Slot, file: Arc<SegmentFile>) -> Arc<SegmentFile> {
        std::mem::replace(&mut self.get_mut(slot).file, file)
    }

    /// Records that the segment of `slot` can no longer change.
    pub(crate) fn seal(
        &mut self,
        slot: Slot,
        sealed: Sealed,
        provenance: Provenance,
        sealed_at: u64,
    ) {
        self.bytes += sealed.bytes;
        let file = &self.get(slot).file;
        let (directory, cached) = (file.directory, file.cached);
        self.directories[directory].bytes += sealed.bytes;
        self.cached_bytes += if cached { sealed.bytes } else { 0 };
        self.deletions += u64::from(sealed.tail.counts.deletions);
        let segment = self.get_mut(slot);
        assert!(segment.rows == sealed.tail.counts.rows, "the tail counts every row");
        segment.provenance = provenance;
        segment.sealed_at = sealed_at;
        segment.sealed = Some(sealed);
    }

    /// Removes a segment without live rows; its slots become free.
    pub(crate) fn remove(&mut self, slot: Slot) -> Segment {
        assert!(self.get(slot).live == 0, "a segment with live rows stays");
        self.discard(slot)
    }

    /// Removes a segment that nothing points at, whatever its counts; its slots become free.
    pub(crate) fn discard(&mut self, slot: Slot) -> Segment {
        #[expect(clippy::expect_used, reason = "a caller names a slot in use")]
        let segment = self.slots[slot.index()].take().expect("a slot in use");
        self.free.extend((slot.0..slot.0 + segment.span).map(Slot));
        self.order.remove(&segment.file.number);
        self.rows -= u64::from(segment.rows);
        self.bytes -= segment.bytes();
        let directory = &mut self.directories[segment.file.directory];
        directory.segments -= 1;
        directory.bytes -= segment.bytes();
        self.cached_bytes -= if segment.file.cached { segment.bytes() } else { 0 };
        let deletions = segment.sealed.map_or(0, |sealed| sealed.tail.counts.deletions);
        self.deletions -= u64::from(deletions);
        segment
    }

    /// Slot of the segment with this number, if it is in the table.
    pub(crate) fn slot_of(&self, number: SegmentNumber) -> Option<Slot> {
        self.order.get(&number).copied()
    }

    /// Slots in use, in order of segment numbers.
    pub(crate) fn in_order(&self) -> Vec<Slot> {
        self.order.values().copied().collect()
    }

    /// Makes merges skip the segment of `slot`.
    pub(crate) fn leave_alone(&mut self, slot: Slot) {
        self.get_mut(slot).left_alone = true;
    }

    /// Slots of sealed segments, in order of segment numbers.
    pub(crate) fn sealed(&self) -> Vec<Slot> {
        let mut slots = self.in_order();
        slots.retain(|slot| self.get(*slot).sealed.is_some());
        slots
    }
}

#[cfg(test)]
mod tests {
    use stepwell_disk::{Disk, MemDisk};

    use super::*;
    use crate::identity::{Origin, StoreId};
    use crate::layout::Layout;
    use crate::segment::Spot;

    fn segment(disk: &dyn Disk, number: u64) -> Segment {
        let (layout, number) = (Layout::new(0, 64), SegmentNumber::of_manifest(number));
        let origin = Origin { store: StoreId::from_number(1), number };
        let counting = crate::key_shard::KeyShardSet::ALL;
        let spot = Spot { directory: 0, number, cached: false, layout, origin, counting };
        let file = SegmentFile::create(disk, &spot, 0).unwrap();
        Segment::new(Arc::new(file), Provenance::put(SegmentNumber::of_manifest(1)))
    }

    #[test]
    fn segments_of_any_size_have_places_of_their_own() {
        let disk = MemDisk::new();
        let mut table = Table::new(4, 1);
        let slots: Vec<Slot> = [3, 4, 9, 1, 16, 4]
            .into_iter()
            .zip(1..)
            .map(|(pages, number)| table.insert(segment(&disk, number), pages))
            .collect();
        assert_eq!(slots, [0, 1, 2, 5, 6, 10].map(Slot));
        for (slot, pages) in slots.iter().zip([3, 4, 9, 1, 16, 4]) {
            for page in (1..=pages).map(PageNumber) {
                assert_eq!(table.page(table.place(*slot, page)), SlotPage { slot: *slot, page });
            }
        }
        for slot in [1, 5, 2].map(Slot) {
            table.discard(slot);
        }
        assert_eq!(table.in_order(), [0, 6, 10].map(Slot));
        // Slots 1 to 5 are free.
        assert_eq!(table.insert(segment(&disk, 7), 21), Slot(11), "a run of five is the longest");
        assert_eq!(table.insert(segment(&disk, 8), 14), Slot(1));
        assert_eq!(table.insert(segment(&disk, 9), 5), Slot(17));
        assert_eq!(table.insert(segment(&disk, 10), 2), Slot(5));
        assert_eq!((table.slots(), table.len(), table.directories()[0].segments), (19, 7, 7));
    }
}
