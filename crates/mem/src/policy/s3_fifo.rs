//! S3-FIFO: a small queue that sorts out rows of one use, a main queue, and a memory of ghosts.
//!
//! Source: Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction", SOSP
//! 2023, section 4 and algorithm 1.
//!
//! ```text
//!   new ──► small (10 %) ──► used twice since? ──yes──► main (90 %) ──► used since? ──no──► out
//!             ▲                    │ no                   ▲    └─────────── yes ┘ count - 1
//!   new, a ghost ─────────────────────────────────────────┘
//!                                  └──► out, its tag a ghost
//! ```
//!
//! How: rows stand in the order in which they came; a use only counts, up to 3. The small queue
//! gives the victim while it holds its share or more.
//!
//! So that rows keep their place while they are detached, the queues have links of their own, in
//! one direction. A detached row at the old end is in use: it leaves its queue, and joins the main
//! queue once it is attached again. Each detaching costs `victim` one step at most. Of a row that
//! left from elsewhere, because its known use was the farthest, the next one in the slot takes the
//! place.
//!
//! Bounds: ghosts are about as many as the slots of the main queue.
//! Cost: 11 bytes a slot beside the links; every operation is O(1), `victim` amortised over uses.

use stepwell_base::{Key, SlotIndex};

use super::ghost::Ghost;
use super::{Occurrence, Policy, link, tag_of, unlink};
use crate::{Links, ListId};

const UNUSED: ListId = ListId(0);

/// One slot in so many belongs to the small queue.
const SMALL_PART: usize = 10;

/// Uses beyond the first that take a row from the small queue to the main one.
const PROMOTED_FROM: u8 = 2;

/// What is known of a slot; zero is detached and never used.
mod state {
    /// Uses since the first, or since the row was last spared.
    pub(super) const COUNT: u8 = 3;
    pub(super) const ATTACHED: u8 = 4;
    /// Trained on since it came.
    pub(super) const USED: u8 = 8;
    /// Belongs to the main queue.
    pub(super) const MAIN: u8 = 16;
    /// Stands in its queue.
    pub(super) const QUEUED: u8 = 32;
}

/// No slot.
const NONE: u32 = u32::MAX;

/// Slots in the order in which they came.
#[derive(Clone, Copy, Debug)]
struct Queue {
    oldest: u32,
    newest: u32,
    slots: usize,
}

impl Queue {
    const EMPTY: Self = Self { oldest: NONE, newest: NONE, slots: 0 };

    /// `next` has the slot that came after each.
    fn push(&mut self, next: &mut [u32], slot: SlotIndex) {
        match self.newest {
            NONE => self.oldest = slot.0,
            newest => next[newest as usize] = slot.0,
        }
        (self.newest, next[slot.at()]) = (slot.0, NONE);
        self.slots += 1;
    }

    fn pop(&mut self, next: &[u32]) -> Option<SlotIndex> {
        if self.oldest == NONE {
            return None;
        }
        let slot = SlotIndex(self.oldest);
        self.oldest = next[slot.at()];
        if self.oldest == NONE {
            self.newest = NONE;
        }
        self.slots -= 1;
        Some(slot)
    }
}

/// S3-FIFO.
#[derive(Debug)]
pub struct S3Fifo {
    small: Queue,
    main: Queue,
    next: Box<[u32]>,
    state: Box<[u8]>,
    ghost: Ghost,
    small_slots_goal: usize,
}

impl S3Fifo {
    /// Bytes beside the links.
    pub const BYTES_PER_SLOT: usize = size_of::<u32>() + size_of::<u8>() + Ghost::BYTES_PER_ROW;

    /// Bytes beside those.
    pub const BYTES_FIXED: usize = Ghost::BYTES_FIXED;

    /// Number of lists of this policy: one, for rows that were never trained on.
    pub const LISTS: usize = 1;

    /// A policy over `slots` slots.
    pub fn new(slots: usize) -> Self {
        let small_slots_goal = (slots / SMALL_PART).max(1);
        Self {
            small: Queue::EMPTY,
            main: Queue::EMPTY,
            next: vec![0; slots].into(),
            state: vec![0; slots].into(),
            ghost: Ghost::new(slots.saturating_sub(small_slots_goal).max(1)),
            small_slots_goal,
        }
    }

    fn join_queue(&mut self, slot: SlotIndex) {
        let state = &mut self.state[slot.at()];
        let queue = if *state & state::MAIN != 0 { &mut self.main } else { &mut self.small };
        queue.push(&mut self.next, slot);
        *state |= state::QUEUED;
    }

    /// Takes the oldest out of the queue that gives the victim.
    fn pop(&mut self) -> Option<SlotIndex> {
        let of_small = self.small.slots >= self.small_slots_goal || self.main.slots == 0;
        let queue = if of_small { &mut self.small } else { &mut self.main };
        let slot = queue.pop(&self.next)?;
        self.state[slot.at()] &= !state::QUEUED;
        Some(slot)
    }

    /// Whether the row that was taken out of its queue goes; where it does not, it was given its
    /// place.
    fn goes(&mut self, slot: SlotIndex) -> bool {
        let state = &mut self.state[slot.at()];
        let count = *state & state::COUNT;
        if *state & state::ATTACHED == 0 {
            *state |= state::MAIN;
            return false;
        }
        if *state & state::MAIN != 0 && count > 0 {
            *state -= 1;
        } else if *state & state::MAIN == 0 && count >= PROMOTED_FROM {
            *state = (*state & !state::COUNT) | state::MAIN;
        } else {
            return true;
        }
        self.join_queue(slot);
        false
    }
}

impl Policy for S3Fifo {
    fn lists(&self) -> usize {
        Self::LISTS
    }

    fn admit(&mut self, slot: SlotIndex, key: Key) {
        let place = self.state[slot.at()] & (state::QUEUED | state::MAIN);
        self.state[slot.at()] = if place & state::QUEUED != 0 {
            place
        } else if self.ghost.take(tag_of(key)) {
            state::MAIN
        } else {
            0
        };
    }

    fn touch(&mut self, slot: SlotIndex, _occurrence: Occurrence) {
        let state = &mut self.state[slot.at()];
        if *state & state::USED == 0 {
            *state |= state::USED;
        } else if *state & state::COUNT < state::COUNT {
            *state += 1;
        }
    }

    fn attach(&mut self, links: &mut Links, slot: SlotIndex) {
        let state = &mut self.state[slot.at()];
        assert!(*state & state::ATTACHED == 0, "slot {} is attached twice", slot.0);
        *state |= state::ATTACHED;
        if *state & state::USED == 0 {
            link(links, UNUSED, slot);
        } else if *state & state::QUEUED == 0 {
            self.join_queue(slot);
        }
    }

    fn detach(&mut self, links: &mut Links, slot: SlotIndex) {
        let state = &mut self.state[slot.at()];
        assert!(*state & state::ATTACHED != 0, "slot {} is detached twice", slot.0);
        *state &= !state::ATTACHED;
        if *state & state::USED == 0 {
            unlink(links, slot);
        }
    }

    fn victim(&mut self, links: &mut Links) -> Option<SlotIndex> {
        if let Some(slot) = links.oldest(UNUSED) {
            self.detach(links, slot);
            return Some(slot);
        }
        loop {
            let slot = self.pop()?;
            if self.goes(slot) {
                self.state[slot.at()] &= !state::ATTACHED;
                return Some(slot);
            }
        }
    }

    fn left(&mut self, slot: SlotIndex, key: Key) {
        let state = self.state[slot.at()];
        if state & state::USED != 0 && state & state::MAIN == 0 {
            self.ghost.insert(tag_of(key));
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
    fn a_row_that_comes_back_goes_to_the_main_queue() {
        let mut driver = driver();
        driver.visit_all(&[0, 1]);
        assert_eq!(driver.victim(), Some(0));
        // The key of slot 0 comes back into slot 5, another one into slot 6.
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
}
