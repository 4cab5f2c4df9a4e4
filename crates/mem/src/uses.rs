//! Rows in the slab with a known next use, by the batch that uses them.
//!
//! Such rows are evicted only if no other can be, the farthest next use first (Belady's rule within
//! the horizon). Batches are numbered in order; the horizon bounds how many are known at once, so a
//! ring of lists suffices, and 16 bits of a record identify the batch.
//!
//! - **How.** A row is noted in the list of its batch when it is unpinned. Notes aren't removed: a
//!   note counts as long as its slot is unpinned and next used by that batch. When the batch is
//!   planned, all of its rows are pinned, and the whole list is dropped.
//!
//! - **Invariants.** `attached` of a list is the number of slots whose notes in it count.
//! - **Bounds.** A list has as many notes as rows, or twice as many if its rows were pinned and
//!   unpinned repeatedly; a row is noted once between two plans of the planner.
//! - **Cost.** 4 bytes per row with a known use, up to 8 while the list grows.

use stepwell_base::SlotIndex;

use crate::numbers::Numbers;
use crate::records::Records;

/// No use known.
pub(crate) const NEVER: u16 = 0;

/// Number of batches that codes distinguish.
const CODES: u32 = u16::MAX as u32;

/// Lists shorter than this are not cleaned up.
const NOTES_MIN: usize = 64;

/// Rows that one batch uses next.
#[derive(Clone, Debug, Default)]
struct Notes {
    slots: Vec<SlotIndex>,
    attached: u32,
}

#[derive(Debug)]
pub(crate) struct KnownUses {
    notes: Box<[Notes]>,
    /// Lists with a row, counted backwards, so that the farthest come first.
    with_rows: Numbers,
    /// The farthest batch ever passed; the search for victims goes backwards from here.
    farthest: u32,
}

impl KnownUses {
    /// Room for `ring` batches known at once.
    pub(crate) fn new(ring: usize) -> Self {
        assert!(ring < CODES as usize, "{ring} batches known at once do not fit into 16 bits");
        let notes = vec![Notes::default(); ring].into();
        Self { notes, with_rows: Numbers::new(ring), farthest: 0 }
    }

    /// Bytes of `ring` empty lists.
    pub(crate) fn bytes_for(ring: u64) -> u64 {
        ring * size_of::<Notes>() as u64 + Numbers::bytes_for(ring)
    }

    /// Bytes of the notes of `rows` rows.
    pub(crate) fn bytes_of_notes(rows: u64) -> u64 {
        rows * 2 * size_of::<SlotIndex>() as u64
    }

    #[inline]
    fn ring(&self) -> u32 {
        self.notes.len() as u32
    }

    /// The code of `batch` in a record; [`NEVER`] if it is before all that the ring has.
    #[inline]
    pub(crate) fn code(&self, batch: u32) -> u16 {
        let passed = u64::from(batch) + u64::from(self.ring()) <= u64::from(self.farthest);
        if passed { NEVER } else { (batch % CODES) as u16 + 1 }
    }

    /// The batch of a code other than [`NEVER`].
    #[inline]
    pub(crate) fn batch(&self, code: u16) -> u32 {
        let behind = (self.farthest % CODES + CODES + 1 - u32::from(code)) % CODES;
        self.farthest - behind
    }

    /// Extends the ring to `batch`, one batch at a time: returns a row that the batch leaving the
    /// ring was to use, until there is none.
    #[inline]
    pub(crate) fn advance(&mut self, records: &Records, batch: u32) -> Option<SlotIndex> {
        while self.farthest < batch {
            let next = self.farthest + 1;
            if next >= self.ring()
                && let Some(slot) = self.take(records, next - self.ring())
            {
                return Some(slot);
            }
            self.farthest = next;
            if self.with_rows.is_empty() {
                self.farthest = batch;
            }
        }
        None
    }

    /// Notes the unpinned `slot`, whose next use is in its record.
    pub(crate) fn attach(&mut self, records: &Records, slot: SlotIndex) {
        let code = records.next_use(slot);
        let at = self.at(self.batch(code));
        let notes = &mut self.notes[at];
        if notes.slots.len() >= NOTES_MIN.max(2 * notes.attached as usize) {
            notes.slots.sort_unstable_by_key(|slot| slot.0);
            notes.slots.dedup();
            notes.slots.retain(|noted| *noted != slot && counts(records, *noted, code));
        }
        notes.slots.push(slot);
        notes.attached += 1;
        self.with_rows.insert(self.backwards(at));
    }

    /// Records that a row next used by `batch` is pinned, or gets another next use.
    pub(crate) fn detach(&mut self, batch: u32) {
        let at = self.at(batch);
        self.notes[at].attached -= 1;
        if self.notes[at].attached == 0 {
            self.notes[at].slots = Vec::new();
            self.with_rows.remove(self.backwards(at));
        }
    }

    /// Removes and returns the slot whose next use is farthest; its record keeps the use.
    pub(crate) fn victim(&mut self, records: &Records) -> Option<SlotIndex> {
        let from = self.backwards(self.at(self.farthest));
        let at = self.backwards(self.with_rows.next_in_turn(from)?);
        let behind = (self.at(self.farthest) + self.notes.len() - at) % self.notes.len();
        self.take(records, self.farthest - behind as u32)
    }

    /// Removes and returns a row that `batch` uses next.
    fn take(&mut self, records: &Records, batch: u32) -> Option<SlotIndex> {
        let (at, code) = (self.at(batch), (batch % CODES) as u16 + 1);
        if self.notes[at].attached == 0 {
            return None;
        }
        let notes = &mut self.notes[at].slots;
        let slot = std::iter::from_fn(|| notes.pop()).find(|slot| counts(records, *slot, code));
        assert!(slot.is_some(), "batch {batch} uses rows that are not recorded");
        self.detach(batch);
        slot
    }

    #[cfg(test)]
    pub(crate) fn notes_count(&self) -> usize {
        self.notes.iter().map(|notes| notes.slots.len()).sum()
    }

    #[inline]
    fn at(&self, batch: u32) -> usize {
        (batch % self.ring()) as usize
    }

    /// The number of a list in `with_rows`, or back.
    #[inline]
    fn backwards(&self, at: usize) -> usize {
        self.notes.len() - 1 - at
    }
}

#[inline]
fn counts(records: &Records, slot: SlotIndex, code: u16) -> bool {
    !records.is_pinned(slot) && records.next_use(slot) == code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_that_are_taken() {
        for ring in [1, 2, 64, 65, 5000] {
            let uses = KnownUses::new(ring);
            let taken = size_of_val(&*uses.notes) as u64 + uses.with_rows.bytes();
            assert_eq!(KnownUses::bytes_for(ring as u64), taken, "{ring} batches");
        }
    }

    #[test]
    fn sixteen_bits_identify_a_batch_of_the_ring_and_none_before_it() {
        for ring in [1u32, 2, 3, 64, CODES - 1] {
            let mut uses = KnownUses::new(ring as usize);
            for farthest in [0, 1, 63, CODES - 2, CODES - 1, CODES, 3 * CODES + 1, u32::MAX] {
                assert_eq!(uses.advance(&Records::new(0), farthest), None, "nobody is noted");
                assert_eq!(uses.farthest, farthest);
                let first = (u64::from(farthest) + 1).saturating_sub(ring.into()) as u32;
                let middle = first + (farthest - first) / 2;
                for batch in [first, middle, farthest] {
                    let code = uses.code(batch);
                    assert_ne!(code, NEVER, "batch {batch} of {first} to {farthest}");
                    assert_eq!(uses.batch(code), batch);
                }
                if let Some(before) = first.checked_sub(1) {
                    assert_eq!(uses.code(before), NEVER, "batch {before} lies before {first}");
                }
            }
        }
    }
}
