//! S3-FIFO: a small queue that filters rows of one use, a main queue, and a memory of ghosts.
//!
//! - **Source.** Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction",
//!   SOSP 2023, section 4 and algorithm 1.
//!
//! ```text
//!   new ──► small (10 %) ──► used twice since? ──yes──► main (90 %) ──► used since? ──no──► out
//!             ▲                    │ no                   ▲    └─────────── yes ┘ count - 1
//!   new, a ghost ─────────────────────────────────────────┘
//!                                  └──► out, its tag a ghost
//! ```
//!
//! - **How.** A use only increments a count, up to 3. The small queue is a ring of slots in the
//!   order in which their rows were admitted; it provides the victim while it has its share. The
//!   main queue is a clock: a hand moves over all slots and stops at each attached one, found by a
//!   tree of bits, so pinned slots cost nothing. A queue whose spared rows rejoin it is equivalent
//!   to such a clock, except for rows that join in between: their slot need not be just behind the
//!   hand. So that the hand doesn't reach them too early, rows join the main queue with a count of
//!   one.
//!
//! Rows keep their place in the ring while they are detached. A detached row at its old end is in
//! use, so it moves to main. If a row is evicted directly, because its known use was the farthest,
//! the next row in the slot takes its place. If the ring is full, a row stays out of it, and the
//! hand judges it as the ring would.
//!
//! A mini-batch takes its victims first and adds its rows to the ring when it retires, so the ring
//! has room for more than its share.
//!
//! - **Bounds.** The ring has room for a quarter of the slots; there are ghosts for about nine
//!   tenths of them.
//! - **Cost.** 1.3 bytes per slot, and the record's spare bytes; every operation takes a step per
//!   level of the trees, `victim` amortized over uses.

use stepwell_base::{Key, SlotIndex};

use super::ghost::Ghost;
use super::{Occurrence, Policy, tag_of};
use crate::numbers::Numbers;
use crate::records::Records;

/// One slot in this many belongs to the small queue.
const SMALL_PART: u64 = 10;

/// The ring has room for one slot in this many.
const ROOM_PART: u64 = 4;

/// Uses after the first that move a row from the small queue to the main one.
const PROMOTED_FROM: u8 = 2;

/// Slots of the ring between the prefetch of a record and its use.
const AHEAD: usize = 8;

/// State of a slot; zero is detached and never used.
mod state {
    /// Uses since the first, or since the row was last spared.
    pub(super) const COUNT: u8 = 3;
    pub(super) const ATTACHED: u8 = 4;
    /// Trained since it was admitted.
    pub(super) const USED: u8 = 8;
    /// Belongs to the main queue.
    pub(super) const MAIN: u8 = 16;
    /// In the ring.
    pub(super) const QUEUED: u8 = 32;
    /// Count of a row that joins the main queue.
    pub(super) const COUNT_AT_FIRST: u8 = 1;
}

/// Slots in the order in which they were pushed.
#[derive(Debug)]
struct Ring {
    slots: Box<[u32]>,
    oldest: usize,
    len: usize,
}

impl Ring {
    fn new(room: usize) -> Self {
        Self { slots: vec![0; room].into(), oldest: 0, len: 0 }
    }

    /// Appends a slot at the new end, if there is room.
    fn push(&mut self, slot: SlotIndex) -> bool {
        let room = self.len < self.slots.len();
        if room {
            let end = self.oldest + self.len;
            let end = if end < self.slots.len() { end } else { end - self.slots.len() };
            self.slots[end] = slot.0;
            self.len += 1;
        }
        room
    }

    /// Removes the oldest slot, and prefetches the record of one that will soon be the oldest.
    fn pop(&mut self, records: &Records) -> Option<SlotIndex> {
        if self.len == 0 {
            return None;
        }
        if let Some(ahead) = self.slots.get(self.oldest + AHEAD) {
            records.prefetch(SlotIndex(*ahead));
        }
        let slot = SlotIndex(self.slots[self.oldest]);
        self.oldest = if self.oldest + 1 < self.slots.len() { self.oldest + 1 } else { 0 };
        self.len -= 1;
        Some(slot)
    }
}

/// S3-FIFO.
#[derive(Debug)]
pub struct S3Fifo {
    small: Ring,
    small_slots_goal: usize,
    /// Attached slots that are not in the ring, and were trained.
    main: Numbers,
    /// Attached slots whose rows were never trained.
    unused: Numbers,
    /// Position of the clock's hand, and of the search for unused rows.
    hand: usize,
    hand_of_unused: usize,
    ghost: Ghost,
}

/// Number of slots of the small queue.
fn small_slots(slots: u64) -> u64 {
    (slots / SMALL_PART).max(1)
}

fn ring_slots(slots: u64) -> u64 {
    (slots / ROOM_PART).max(1)
}

impl S3Fifo {
    /// A policy over `slots` slots.
    pub fn new(slots: usize) -> Self {
        let small = small_slots(slots as u64) as usize;
        Self {
            small: Ring::new(ring_slots(slots as u64) as usize),
            small_slots_goal: small,
            main: Numbers::new(slots),
            unused: Numbers::new(slots),
            hand: 0,
            hand_of_unused: 0,
            ghost: Ghost::new(slots.saturating_sub(small).max(1)),
        }
    }

    /// Bytes in addition to the records.
    pub fn bytes_for(slots: u64) -> u64 {
        ring_slots(slots) * size_of::<u32>() as u64 + 2 * Numbers::bytes_for(slots)
    }

    /// Puts an attached row that was trained into its place.
    fn join(&mut self, records: &mut Records, slot: SlotIndex) {
        let state = records.state(slot);
        if state & (state::MAIN | state::QUEUED) == 0 && self.small.push(slot) {
            records.set_state(slot, state | state::QUEUED);
        } else if state & state::QUEUED == 0 {
            self.main.insert(slot.at());
        }
    }

    fn unused_victim(&mut self) -> Option<SlotIndex> {
        let at = self.unused.next_in_turn(self.hand_of_unused)?;
        self.hand_of_unused = at + 1;
        Some(SlotIndex(at as u32))
    }

    /// Takes the next row that the small queue or the clock must judge from its place.
    fn next(&mut self, records: &mut Records) -> Option<SlotIndex> {
        let small_has_its_share = self.small.len >= self.small_slots_goal;
        if small_has_its_share || self.main.is_empty() {
            let slot = self.small.pop(records)?;
            records.set_state(slot, records.state(slot) & !state::QUEUED);
            return Some(slot);
        }
        let at = self.main.next_in_turn(self.hand)?;
        self.hand = at + 1;
        Some(SlotIndex(at as u32))
    }
}

/// The new state of a row taken from its place, or `None` if it is evicted.
fn spared(state: u8) -> Option<u8> {
    let count = state & state::COUNT;
    if state & state::ATTACHED == 0 {
        return Some(state | state::MAIN);
    }
    if state & state::MAIN != 0 {
        return (count > 0).then(|| state - 1);
    }
    let promoted = (state & !state::COUNT) | state::MAIN | state::COUNT_AT_FIRST;
    (count >= PROMOTED_FROM).then_some(promoted)
}

impl Policy for S3Fifo {
    fn admit(&mut self, records: &mut Records, slot: SlotIndex) {
        let queued = records.state(slot) & state::QUEUED;
        let known = queued == 0 && self.ghost.take(records, tag_of(records.key(slot)));
        let main = state::MAIN | state::COUNT_AT_FIRST;
        records.set_state(slot, if known { main } else { queued });
    }

    fn touch(&mut self, records: &mut Records, slot: SlotIndex, _occurrence: Occurrence) {
        let state = records.state(slot);
        if state & state::USED == 0 {
            records.set_state(slot, state | state::USED);
        } else if state & state::COUNT < state::COUNT {
            records.set_state(slot, state + 1);
        }
    }

    fn attach(&mut self, records: &mut Records, slot: SlotIndex) {
        let state = records.state(slot);
        assert!(state & state::ATTACHED == 0, "slot {} is attached twice", slot.0);
        records.set_state(slot, state | state::ATTACHED);
        if state & state::USED == 0 {
            self.unused.insert(slot.at());
        } else {
            self.join(records, slot);
        }
    }

    fn detach(&mut self, records: &mut Records, slot: SlotIndex) {
        let state = records.state(slot);
        assert!(state & state::ATTACHED != 0, "slot {} is detached twice", slot.0);
        records.set_state(slot, state & !state::ATTACHED);
        if state & state::USED == 0 {
            self.unused.remove(slot.at());
        } else if state & state::QUEUED == 0 {
            self.main.remove(slot.at());
        }
    }

    fn may_begin_late(&self) -> bool {
        true
    }

    fn prefetch(&self, slot: SlotIndex) {
        self.main.prefetch(slot.at());
    }

    fn prefetch_admit(&self, records: &Records, key: Key) {
        self.ghost.prefetch(records, tag_of(key));
    }

    fn victim(&mut self, records: &mut Records) -> Option<SlotIndex> {
        if let Some(slot) = self.unused_victim() {
            self.detach(records, slot);
            return Some(slot);
        }
        loop {
            let slot = self.next(records)?;
            let state = records.state(slot);
            if let Some(state) = spared(state) {
                records.set_state(slot, state);
                if state & state::ATTACHED != 0 {
                    self.main.insert(slot.at());
                }
                continue;
            }
            self.detach(records, slot);
            if state & state::MAIN == 0 {
                self.ghost.insert(records, tag_of(records.key(slot)));
            }
            return Some(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::conformance::Driver;

    fn driver() -> Driver {
        Driver::new(Box::new(S3Fifo::new(10)), 10)
    }

    #[test]
    fn rows_of_one_use_leave_before_those_that_were_used_again_twice() {
        let mut driver = driver();
        driver.visit_all(&[0, 1, 2, 3, 0, 0, 2, 1, 1, 1]);
        assert_eq!(driver.victims(), [2, 3, 0, 1]);
    }

    #[test]
    fn one_slot_in_ten_is_small_and_one_in_four_has_room_in_the_ring() {
        assert_eq!([0, 1, 9, 10, 99, 100].map(small_slots), [1, 1, 1, 1, 9, 10]);
        assert_eq!([0, 1, 7, 8, 99, 100].map(ring_slots), [1, 1, 1, 2, 24, 25]);
    }

    #[test]
    fn a_ring_gives_slots_in_the_order_in_which_they_came() {
        let (mut ring, records) = (Ring::new(3), Records::new(100));
        for round in 0..7 {
            (round..round + 3).for_each(|slot| assert!(ring.push(SlotIndex(slot))));
            assert!(!ring.push(SlotIndex(99)), "three have room");
            (round..round + 3)
                .for_each(|slot| assert_eq!(ring.pop(&records), Some(SlotIndex(slot))));
            assert_eq!((ring.pop(&records), ring.len), (None, 0));
            // One more, so that the next ones begin one place further.
            assert!(ring.push(SlotIndex(5)) && ring.pop(&records) == Some(SlotIndex(5)));
        }
    }

    #[test]
    fn a_row_that_comes_back_goes_to_the_main_queue() {
        let mut driver = driver();
        driver.visit_all(&[0, 1]);
        assert_eq!(driver.victim(), Some(0));
        // The key of slot 0 returns into slot 5, another one comes into slot 6.
        driver.admit(5, 0);
        driver.admit(6, 77);
        driver.visit_all(&[5, 6]);
        assert_eq!(driver.victims(), [1, 6, 5]);
    }

    #[test]
    fn a_row_keeps_its_place_while_it_is_detached() {
        let mut driver = driver();
        driver.visit_all(&[0, 1, 2]);
        driver.detach(0);
        driver.attach(0);
        assert_eq!(driver.victims(), [0, 1, 2]);
    }

    #[test]
    fn bytes_are_those_that_are_taken() {
        for slots in [0, 1, 9, 1000] {
            let policy = S3Fifo::new(slots);
            let of_ring = size_of_val(&*policy.small.slots) as u64;
            let taken = of_ring + policy.main.bytes() + policy.unused.bytes();
            assert_eq!(S3Fifo::bytes_for(slots as u64), taken, "{slots} slots");
        }
    }
}
