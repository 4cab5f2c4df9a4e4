//! SIEVE: one queue, and a hand that spares rows used since it last passed.
//!
//! - **Source.** Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is simpler than LRU", NSDI 2024,
//!   section 3.
//!
//! - **How.** Rows are queued in the order in which they were admitted and never move. The hand
//!   moves from the oldest to the newest and then starts over; it removes the mark of a marked row
//!   and continues, and evicts the first row without a mark. A use marks a row.
//!
//! Rows keep their place while they are detached. A detached row that the hand meets leaves the
//! queue, and joins the newest end when it is attached again: each detaching costs the hand at most
//! one step. Rows that were never trained are in a list of their own.
//!
//! - **Cost.** 8 bytes of links per slot; every operation is O(1), `victim` amortized over uses.

use stepwell_base::SlotIndex;
use stepwell_mem::policy::{link, unlink};
use stepwell_mem::{Links, ListId, Occurrence, Policy, Records};

const QUEUE: ListId = ListId(0);
const UNUSED: ListId = ListId(1);

/// State of a slot; zero is detached and never used.
mod state {
    pub(super) const ATTACHED: u8 = 1;
    /// Trained since it was admitted.
    pub(super) const USED: u8 = 2;
    /// Used since the hand last passed.
    pub(super) const MARKED: u8 = 4;
}

/// SIEVE.
#[derive(Debug)]
pub(super) struct Sieve {
    links: Links,
    /// The next row to check; `None` for the oldest.
    hand: Option<SlotIndex>,
}

impl Sieve {
    const LISTS: usize = 2;

    /// A policy over `slots` slots.
    pub(super) fn new(slots: usize) -> Self {
        Self { links: Links::new(slots, Self::LISTS), hand: None }
    }
}

impl Policy for Sieve {
    fn admit(&mut self, records: &mut Records, slot: SlotIndex) {
        if self.hand == Some(slot) {
            self.hand = self.links.newer(slot);
        }
        self.links.unlink(slot);
        records.set_state(slot, 0);
    }

    fn touch(&mut self, records: &mut Records, slot: SlotIndex, _occurrence: Occurrence) {
        let state = records.state(slot);
        let more = if state & state::USED == 0 { state::USED } else { state::MARKED };
        records.set_state(slot, state | more);
    }

    fn attach(&mut self, records: &mut Records, slot: SlotIndex) {
        let state = records.state(slot);
        assert!(state & state::ATTACHED == 0, "slot {} is attached twice", slot.0);
        records.set_state(slot, state | state::ATTACHED);
        if state & state::USED == 0 {
            link(&mut self.links, UNUSED, slot);
        } else if !self.links.is_linked(slot) {
            self.links.push(QUEUE, slot);
        }
    }

    fn detach(&mut self, records: &mut Records, slot: SlotIndex) {
        let state = records.state(slot);
        assert!(state & state::ATTACHED != 0, "slot {} is detached twice", slot.0);
        records.set_state(slot, state & !state::ATTACHED);
        if state & state::USED == 0 {
            unlink(&mut self.links, slot);
        }
    }

    fn victim(&mut self, records: &mut Records) -> Option<SlotIndex> {
        if let Some(slot) = self.links.oldest(UNUSED) {
            self.detach(records, slot);
            return Some(slot);
        }
        loop {
            let slot = self.hand.or_else(|| self.links.oldest(QUEUE))?;
            let state = records.state(slot);
            self.hand = self.links.newer(slot);
            if state & state::ATTACHED == 0 {
                self.links.unlink(slot);
            } else if state & state::MARKED != 0 {
                records.set_state(slot, state & !state::MARKED);
            } else {
                records.set_state(slot, state & !state::ATTACHED);
                self.links.unlink(slot);
                return Some(slot);
            }
        }
    }

    fn links(&self) -> Option<&Links> {
        Some(&self.links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stepwell_mem::policy::conformance::Driver;

    /// The example of figure 1 of the paper: A to G with A, B and G used again, then H, D, ...
    #[test]
    fn the_hand_spares_marked_rows_and_goes_on_where_it_was() {
        let mut driver = Driver::new(Box::new(Sieve::new(5)), 5);
        driver.visit_all(&[0, 1, 2, 3, 4]);
        driver.visit_all(&[0, 3]);
        // 0 is spared, 1 is evicted; its successor is the newest and is not checked before 2.
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
