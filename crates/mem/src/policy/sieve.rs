//! SIEVE: one queue, a hand that spares what was used since it came by.
//!
//! Source: Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is simpler than LRU", NSDI 2024, section 3.
//!
//! How: rows stand in the order in which they came and never move. The hand goes from the oldest to
//! the newest and then starts again; it takes the mark from a marked row and goes on, and takes
//! the first row without a mark. A use marks a row.
//!
//! So that rows keep their place while they are detached, the queue has links of its own. A
//! detached row that the hand meets leaves the queue and stands at the newest end once it is
//! attached again: each detaching costs the hand one step at most.
//!
//! Cost: 9 bytes a slot beside the links; every operation is O(1), `victim` amortised over uses.

use stepwell_base::{Key, SlotIndex};

use super::{Occurrence, Policy, link, unlink};
use crate::{Links, ListId};

const UNUSED: ListId = ListId(0);
const QUEUE: ListId = ListId(0);

/// What is known of a slot; zero is detached and never used.
mod state {
    pub(super) const ATTACHED: u8 = 1;
    /// Trained on since it came.
    pub(super) const USED: u8 = 2;
    /// Used since the hand came by.
    pub(super) const MARKED: u8 = 4;
}

/// SIEVE.
#[derive(Debug)]
pub struct Sieve {
    queue: Links,
    state: Box<[u8]>,
    /// The next row to look at; the oldest where there is none.
    hand: Option<SlotIndex>,
}

impl Sieve {
    /// Bytes beside the links.
    pub const BYTES_PER_SLOT: usize = 2 * size_of::<u32>() + size_of::<u8>();

    /// Number of lists of this policy: one, for rows that were never trained on.
    pub const LISTS: usize = 1;

    /// A policy over `slots` slots.
    pub fn new(slots: usize) -> Self {
        Self { queue: Links::new(slots, 1), state: vec![0; slots].into(), hand: None }
    }

    fn leave_queue(&mut self, slot: SlotIndex) {
        if self.hand == Some(slot) {
            self.hand = self.queue.newer(slot);
        }
        self.queue.unlink(slot);
    }
}

impl Policy for Sieve {
    fn lists(&self) -> usize {
        Self::LISTS
    }

    fn admit(&mut self, slot: SlotIndex, _key: Key) {
        self.leave_queue(slot);
        self.state[slot.at()] = 0;
    }

    fn touch(&mut self, slot: SlotIndex, _occurrence: Occurrence) {
        let state = &mut self.state[slot.at()];
        *state |= if *state & state::USED == 0 { state::USED } else { state::MARKED };
    }

    fn attach(&mut self, links: &mut Links, slot: SlotIndex) {
        let state = &mut self.state[slot.at()];
        assert!(*state & state::ATTACHED == 0, "slot {} is attached twice", slot.0);
        *state |= state::ATTACHED;
        if *state & state::USED == 0 {
            link(links, UNUSED, slot);
        } else if !self.queue.is_linked(slot) {
            self.queue.push(QUEUE, slot);
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
            let slot = self.hand.or_else(|| self.queue.oldest(QUEUE))?;
            let state = &mut self.state[slot.at()];
            self.hand = self.queue.newer(slot);
            if *state & state::ATTACHED == 0 {
                self.queue.unlink(slot);
            } else if *state & state::MARKED != 0 {
                *state &= !state::MARKED;
            } else {
                *state &= !state::ATTACHED;
                self.queue.unlink(slot);
                return Some(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::conformance::Driver;

    /// The example of figure 1 of the paper: A to G with A, B and G used again, then H, D, ...
    #[test]
    fn the_hand_spares_marked_rows_and_goes_on_where_it_was() {
        let mut driver = Driver::new(Box::new(Sieve::new(5)), 5);
        driver.visit_all(&[0, 1, 2, 3, 4]);
        driver.visit_all(&[0, 3]);
        // 0 is spared, 1 goes; its successor stands newest and is not looked at before 2.
        assert_eq!(driver.victim(), Some(1));
        driver.admit_and_visit(1);
        assert_eq!(driver.victim(), Some(2));
        driver.admit_and_visit(2);
        driver.visit_all(&[4]);
        // 3 and 4 are spared; then come the new ones, and 0 without its mark.
        assert_eq!(driver.victims(), [1, 2, 0, 3, 4]);
    }

    #[test]
    fn a_row_keeps_its_place_while_it_is_detached() {
        let mut driver = Driver::new(Box::new(Sieve::new(3)), 3);
        driver.visit_all(&[0, 1, 2]);
        driver.detach(0);
        driver.attach(0);
        assert_eq!(driver.victims(), [0, 1, 2]);
    }
}
