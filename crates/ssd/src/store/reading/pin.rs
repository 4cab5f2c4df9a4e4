//! The segments that a scan holds as of one moment, and which of their rows were live then.
//!
//! The bits are those of one moment because rows replaced or deleted while lists are read are
//! recorded ([`StaleInScan`]) and count as live, rows put meanwhile are in segments that the scan
//! does not read, and merges wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_base::Key;
use stepwell_base::hash::Checksum;

use crate::layout::Counts;
use crate::numbers::{PageNumber, SegmentNumber, Slot};
use crate::segment::SegmentFile;
use crate::segment_table::Segment;
use crate::store::core::{Core, Pins, State, Writer};
use crate::store::merging::live_rows::LOOKS_MAX;
use crate::store::stale_in_scan::StaleInScan;
use crate::{Error, Result};

/// A segment as it was when the scan began.
pub(super) struct Pinned {
    pub(super) file: Arc<SegmentFile>,
    /// Bytes of the segment's file; if it is being written, the bytes it would have if sealed now.
    bytes: u64,
    /// Whether each row was live, in one bit per row.
    pub(super) live: Vec<u64>,
    /// Pages that were not in the file.
    pub(super) pages: BTreeMap<PageNumber, Vec<u8>>,
}

/// The moment when a scan began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    /// Distinguishes this version of the store from others.
    pub(super) number: u64,
    pub(super) next_seq: u64,
    pub(super) expire_before: u32,
}

impl Pinned {
    fn new(segment: &Segment) -> Self {
        let (file, rows) = (Arc::clone(&segment.file), segment.rows);
        let sealed_now = file.layout.file_bytes(&Counts { rows, ..Counts::default() });
        let bytes = segment.sealed.map_or(sealed_now, |sealed| sealed.bytes);
        Self { file, bytes, live: vec![0; (rows as usize).div_ceil(64)], pages: BTreeMap::new() }
    }

    /// Number and bytes of the segment.
    pub(super) fn counted(&self) -> (SegmentNumber, u64) {
        (self.file.number, self.bytes)
    }

    fn set(&mut self, row: u32, is_live: bool) {
        let (word, bit) = (row as usize / 64, 1 << (row % 64));
        self.live[word] = if is_live { self.live[word] | bit } else { self.live[word] & !bit };
    }

    /// The first live row at or after `row`.
    pub(super) fn next_live(&self, row: u32) -> Option<u32> {
        let mut word = row as usize / 64;
        let mut bits = self.live.get(word)? & (u64::MAX << (row % 64));
        while bits == 0 {
            word += 1;
            bits = *self.live.get(word)?;
        }
        Some(word as u32 * 64 + bits.trailing_zeros())
    }

    /// Marks the rows of `rows` live that the index points at now; the segment is in `slot`.
    fn note(&mut self, state: &State, slot: Slot, rows: &[(u32, Key)]) {
        let layout = self.file.layout;
        let keys: Vec<Key> = rows.iter().map(|(_, key)| *key).collect();
        state.index.get_many(&keys, |at, place| {
            let row = rows[at].0;
            if place == Some(state.table.place(slot, layout.page_of(row))) {
                self.set(row, true);
            }
        });
    }

    /// If a key is on a page several times, because it was deleted in between, keeps only the last
    /// row live; `rows` are all rows of the segment that count.
    fn leave_last(&mut self, rows: &[(u32, Key)]) {
        let layout = self.file.layout;
        for on_page in rows.chunk_by(|a, b| layout.page_of(a.0) == layout.page_of(b.0)) {
            for (at, (row, key)) in on_page.iter().enumerate() {
                if on_page[at + 1..].iter().any(|(_, later)| later == key) {
                    self.set(*row, false);
                }
            }
        }
    }

    /// Marks rows live that went stale after the scan began.
    fn bring_back(&mut self, rows: &[(u32, Key)], stale: &[(PageNumber, Key)]) {
        let layout = self.file.layout;
        for (page, key) in stale {
            let end = rows.partition_point(|(row, _)| layout.page_of(*row) <= *page);
            let on_page = rows[..end].iter().rev();
            let mut on_page = on_page.take_while(|(row, _)| layout.page_of(*row) == *page);
            if let Some((row, _)) = on_page.find(|(_, other)| other == key) {
                self.set(*row, true);
            }
        }
    }
}

impl Core {
    /// The segments that have live rows now, and which rows these are. Refuses if the store has
    /// another version than `expected`.
    pub(super) fn pin(&self, expected: Option<u64>) -> Result<(Vec<Pinned>, Version)> {
        let _merging = self.hold_merges();
        // Reading continues even if writes are refused.
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state_mut();
        let version = self.version(&state);
        if expected.is_some_and(|expected| expected != version.number) {
            let path = self.home().path().to_owned();
            let why =
                "has another version than the scan: start the scan again, or continue it in a \
                 snapshot of its version"
                    .to_owned();
            return Err(Error::Mismatch { path, why });
        }
        let mut slots = state.table.in_order();
        slots.retain(|slot| state.table.get(*slot).live > 0);
        let is_sealed = |state: &State, slot: Slot| state.table.get(slot).sealed.is_some();
        let sealed = slots.iter().copied().filter(|slot| is_sealed(&state, *slot));
        state.watch = StaleInScan::over(sealed.collect::<Vec<_>>().into_iter());
        let mut pinned = Vec::new();
        for slot in slots {
            let segment = state.table.get(slot);
            let mut pin = Pinned::new(segment);
            if segment.sealed.is_none() {
                self.pin_open(&state, &writer, slot, &mut pin);
            }
            pinned.push((slot, pin));
        }
        drop(state);
        drop(writer);
        let filled = self.pin_all_sealed(&mut pinned);
        self.state_mut().watch = StaleInScan::default();
        filled?;
        Ok((pinned.into_iter().map(|(_, pin)| pin).collect(), version))
    }

    /// Marks the live rows of a segment that is being written, and copies pages that are not in its
    /// file.
    fn pin_open(&self, state: &State, writer: &Writer, slot: Slot, pin: &mut Pinned) {
        let draft = writer.draft(slot);
        assert!(draft.is_some(), "a segment is sealed, or its keys are listed");
        let keys = draft.map_or(&[][..], |draft| draft.keys());
        let rows: Vec<(u32, Key)> = (0..).zip(keys.iter().copied()).collect();
        rows.chunks(LOOKS_MAX).for_each(|rows| pin.note(state, slot, rows));
        if draft.is_some_and(|draft| draft.counts().deletions > 0) {
            pin.leave_last(&rows);
        }
        let layout = self.layout;
        for page in (1..=layout.pages(rows.len() as u32)).map(PageNumber) {
            let held = state.pages(slot).and_then(|pages| pages.page(page));
            if let Some((bytes, _)) = held {
                pin.pages.insert(page, bytes.to_vec());
            }
        }
    }

    /// Marks the rows of sealed segments that were live when the scan began. Writers wait if too
    /// many have gone stale since.
    fn pin_all_sealed(&self, pinned: &mut [(Slot, Pinned)]) -> Result<()> {
        let mut held = None;
        for (slot, pin) in pinned {
            let (watched, noted) = {
                let state = self.state();
                (state.watch.has(*slot), state.watch.len())
            };
            if noted > self.options.stale_noted() && held.is_none() {
                held = Some(self.writer.lock().unwrap_or_else(PoisonError::into_inner));
            }
            if watched {
                self.pin_sealed(*slot, pin)?;
            }
        }
        Ok(())
    }

    fn pin_sealed(&self, slot: Slot, pin: &mut Pinned) -> Result<()> {
        let sealed = self.state().table.get(slot).sealed;
        let Some(sealed) = sealed else { unreachable!("watched segments are sealed") };
        let rows = pin.file.counting(&sealed.tail, &self.counters)?.rows;
        for rows in rows.chunks(LOOKS_MAX) {
            pin.note(&self.state(), slot, rows);
        }
        let stale = self.state_mut().watch.take(slot);
        pin.bring_back(&rows, &stale);
        if sealed.tail.counts.deletions > 0 {
            pin.leave_last(&rows);
        }
        Ok(())
    }

    fn version(&self, state: &State) -> Version {
        let (next_seq, expire_before) = (state.next_seq, state.expire_before);
        let mut sum = Checksum::new();
        sum.update(&state.id.to_bytes());
        sum.update(&state.next_seq.to_le_bytes());
        sum.update(&state.expire_before.to_le_bytes());
        for slot in state.table.in_order() {
            let segment = state.table.get(slot);
            if segment.rows > 0 {
                sum.update(&u64::from(segment.file.number).to_le_bytes());
                sum.update(&segment.rows.to_le_bytes());
                sum.update(&segment.live.to_le_bytes());
            }
        }
        Version { number: sum.value(), next_seq, expire_before }
    }

    /// Counts segments, given by number and bytes, as held.
    pub(in crate::store) fn count_pins(
        &self,
        segments: impl Iterator<Item = (SegmentNumber, u64)>,
    ) {
        let mut pins = lock(&self.pins);
        for (number, bytes) in segments {
            pins.entry(number).or_insert((0, bytes)).0 += 1;
        }
    }

    /// Counts segments as no longer held.
    pub(in crate::store) fn unpin(&self, numbers: impl Iterator<Item = SegmentNumber>) {
        let mut pins = lock(&self.pins);
        for number in numbers {
            let Some((holders, _)) = pins.get_mut(&number) else { continue };
            *holders -= 1;
            if *holders == 0 {
                pins.remove(&number);
            }
        }
    }

    /// Number and bytes of segments that only scans and snapshots hold.
    pub(in crate::store) fn pinned(&self, state: &State) -> (u64, u64) {
        let pins = lock(&self.pins);
        if pins.is_empty() {
            return (0, 0);
        }
        let used = state.table.in_order();
        let used: Vec<SegmentNumber> =
            used.iter().map(|slot| state.table.get(*slot).file.number).collect();
        let alone = pins.iter().filter(|(number, _)| used.binary_search(number).is_err());
        alone.fold((0, 0), |(count, sum), (_, (_, bytes))| (count + 1, sum + bytes))
    }
}

fn lock(pins: &Mutex<Pins>) -> MutexGuard<'_, Pins> {
    pins.lock().unwrap_or_else(PoisonError::into_inner)
}
