//! Everything known of each slot, in one place, as planning a row reads all of it.
//!
//! ```text
//! byte    0 .. 7     8, 9       10, 11    12                            13 .. 15
//!         key        next use   pins      flags (2 bits), state (6)     spare
//! ```
//!
//! State and spare bytes belong to the policy: the state for data of the row, the spare bytes for
//! anything. The cache never changes them.
//!
//! - **Invariants.** A slot that was never used is all zeros, like fresh memory.
//! - **Cost.** 16 bytes per slot; a record never crosses a cache line, which has room for four.

use bytemuck::Zeroable;
use stepwell_base::huge::HugeSlice;
use stepwell_base::prefetch::prefetch;
use stepwell_base::{Key, SlotIndex};

/// Bytes of a record.
pub(crate) const BYTES_PER_SLOT: u64 = size_of::<Record>() as u64;

/// Number of records of a cache line.
pub(crate) const PER_LINE: usize = 64 / size_of::<Record>();

/// Flags: whether the row changed since it was loaded, and whether it exists.
pub(crate) const DIRTY: u8 = 1;
pub(crate) const EXISTS: u8 = 2;
const FLAGS: u8 = DIRTY | EXISTS;
const STATE_SHIFT: u32 = FLAGS.count_ones();

/// Bytes of a record that a policy may use freely.
pub type Spare = [u8; 3];

#[derive(Clone, Copy, Debug, Zeroable)]
#[repr(C, align(16))]
struct Record {
    key: u64,
    /// Code of the batch that uses it next (see `uses`); zero if none is known.
    next_use: u16,
    pins: u16,
    flags_and_state: u8,
    spare: Spare,
}

const _: () = assert!(size_of::<Record>() == 16);

/// The records of all slots.
#[derive(Debug)]
pub struct Records {
    records: HugeSlice<Record>,
}

impl Records {
    /// Records of `slots` slots that were never used.
    pub fn new(slots: usize) -> Self {
        assert!(u32::try_from(slots).is_ok_and(|slots| slots < u32::MAX), "fewer than 2^32 slots");
        Self { records: HugeSlice::zeroed(slots) }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.records.len()
    }

    /// The key whose row is in `slot`.
    #[inline]
    pub fn key(&self, slot: SlotIndex) -> Key {
        Key(self.records[slot.at()].key)
    }

    /// Puts `key` into `slot`: unpinned, without a known use, clean, not existing.
    #[inline]
    pub fn put(&mut self, slot: SlotIndex, key: Key) {
        let record = &mut self.records[slot.at()];
        (record.key, record.next_use, record.pins) = (key.0, 0, 0);
        record.flags_and_state &= !FLAGS;
    }

    #[inline]
    pub(crate) fn next_use(&self, slot: SlotIndex) -> u16 {
        self.records[slot.at()].next_use
    }

    #[inline]
    pub(crate) fn set_next_use(&mut self, slot: SlotIndex, code: u16) {
        self.records[slot.at()].next_use = code;
    }

    #[inline]
    pub(crate) fn is_pinned(&self, slot: SlotIndex) -> bool {
        self.records[slot.at()].pins > 0
    }

    /// Adds a pin; returns the previous number.
    #[inline]
    pub(crate) fn pin(&mut self, slot: SlotIndex) -> u16 {
        let pins = &mut self.records[slot.at()].pins;
        let before = *pins;
        assert!(before < u16::MAX, "slot {} has 2^16 pins", slot.0);
        *pins += 1;
        before
    }

    /// Removes a pin; returns the remaining number.
    #[inline]
    pub(crate) fn unpin(&mut self, slot: SlotIndex) -> u16 {
        let pins = &mut self.records[slot.at()].pins;
        assert!(*pins > 0, "slot {} is unpinned more often than pinned", slot.0);
        *pins -= 1;
        *pins
    }

    #[inline]
    pub(crate) fn has(&self, slot: SlotIndex, flag: u8) -> bool {
        self.records[slot.at()].flags_and_state & flag != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: SlotIndex, flags: u8) {
        self.records[slot.at()].flags_and_state |= flags & FLAGS;
    }

    #[inline]
    pub(crate) fn clear(&mut self, slot: SlotIndex, flags: u8) {
        self.records[slot.at()].flags_and_state &= !(flags & FLAGS);
    }

    /// The policy's state of a slot, six bits.
    #[inline]
    pub fn state(&self, slot: SlotIndex) -> u8 {
        self.records[slot.at()].flags_and_state >> STATE_SHIFT
    }

    /// Sets the policy's state of a slot.
    #[inline]
    pub fn set_state(&mut self, slot: SlotIndex, state: u8) {
        debug_assert!(state < 1 << (u8::BITS - STATE_SHIFT), "a state has six bits");
        let both = &mut self.records[slot.at()].flags_and_state;
        *both = (*both & FLAGS) | state << STATE_SHIFT;
    }

    /// Bytes of a slot that the policy may use.
    #[inline]
    pub fn spare(&self, slot: SlotIndex) -> Spare {
        self.records[slot.at()].spare
    }

    /// Sets the bytes of a slot that the policy may use.
    #[inline]
    pub fn set_spare(&mut self, slot: SlotIndex, spare: Spare) {
        self.records[slot.at()].spare = spare;
    }

    /// Prefetches the record of `slot`.
    #[inline]
    pub(crate) fn prefetch(&self, slot: SlotIndex) {
        prefetch(&self.records[slot.at()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_that_are_taken() {
        for slots in [0, 1, 1000] {
            let taken = size_of_val(&*Records::new(slots).records) as u64;
            assert_eq!(taken, slots as u64 * BYTES_PER_SLOT);
        }
    }

    #[test]
    fn flags_pins_and_the_state_of_a_policy_do_not_mix() {
        let (mut records, slot) = (Records::new(3), SlotIndex(1));
        records.put(slot, Key(7));
        records.set_state(slot, 0b10_1101);
        records.set_spare(slot, [1, 2, 3]);
        assert!(!records.has(slot, DIRTY) && !records.has(slot, EXISTS));
        records.set(slot, EXISTS);
        assert!(!records.has(slot, DIRTY) && records.has(slot, EXISTS));
        records.set(slot, DIRTY);
        records.set_state(slot, 0b01_0010);
        assert!(records.has(slot, DIRTY) && records.has(slot, EXISTS));
        records.clear(slot, DIRTY);
        assert!(!records.has(slot, DIRTY) && records.has(slot, EXISTS));
        assert_eq!((records.pin(slot), records.pin(slot), records.unpin(slot)), (0, 1, 1));
        records.set_next_use(slot, 500);
        assert_eq!((records.state(slot), records.spare(slot)), (0b01_0010, [1, 2, 3]));
        // With another key, the slot is clean and unpinned, and the policy's data stays.
        records.put(slot, Key(8));
        assert_eq!((records.key(slot), records.next_use(slot)), (Key(8), 0));
        assert!(!records.is_pinned(slot) && !records.has(slot, DIRTY | EXISTS));
        assert_eq!((records.state(slot), records.spare(slot)), (0b01_0010, [1, 2, 3]));
        // Adjacent slots are unchanged.
        for other in [SlotIndex(0), SlotIndex(2)] {
            assert_eq!((records.key(other), records.state(other)), (Key(0), 0));
            assert!(!records.is_pinned(other));
        }
    }

    #[test]
    fn pins_are_counted_to_the_last() {
        let (mut records, slot) = (Records::new(1), SlotIndex(0));
        (0..u16::MAX).for_each(|pins| assert_eq!(records.pin(slot), pins));
        (0..u16::MAX).rev().for_each(|left| assert_eq!(records.unpin(slot), left));
        assert!(!records.is_pinned(slot));
    }

    #[test]
    #[should_panic(expected = "slot 0 has 2^16 pins")]
    fn more_pins_than_are_counted_are_refused() {
        let mut records = Records::new(1);
        for _ in 0..=u16::MAX {
            records.pin(SlotIndex(0));
        }
    }

    #[test]
    #[should_panic(expected = "slot 0 is unpinned more often than pinned")]
    fn a_pin_is_given_back_once() {
        Records::new(1).unpin(SlotIndex(0));
    }
}
