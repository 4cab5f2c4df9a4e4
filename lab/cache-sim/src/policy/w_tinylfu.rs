//! W-TinyLFU: a window of recent rows, then main, which admits a row only if it is used more than
//! its victim.
//!
//! - **Source.** Einziger, Friedman, Manes, "TinyLFU: a highly efficient cache admission policy",
//!   ACM Transactions on Storage 2017, section 4.
//!
//! ```text
//!   new ──► window (LRU) ──► contest ──candidate wins──► probation ◄──► protected (80 % of main)
//!                               │ loses                     │ oldest        used again: protected
//!                               ▼                           ▼
//!                              out                     out, when it lost
//! ```
//!
//! - **How.** A sketch counts recent uses of keys, including evicted ones. The paper rejects a
//!   newcomer if main's victim is used more often. A row that a mini-batch needs must be placed, so
//!   the contest is between the window's oldest and probation's oldest when room is needed: the
//!   less frequent one is evicted, the window's if equal, and a winner moves to probation.
//!
//! A row counts for its part also while it is detached. So a mini-batch with more new rows than the
//! window holds widens the window as long as it is in flight, instead of flooding main: once main
//! was full, rows enter it only by a contest.
//!
//! - **Bounds.** Tags collide; frequencies are at most 15 (see the sketch).
//! - **Cost.** 16 bytes per slot, 8 of them links; every operation is O(1), `victim` amortized over
//!   rows that entered the window.

use stepwell_base::SlotIndex;
use stepwell_mem::policy::{link, tag_of, unlink};
use stepwell_mem::{Links, ListId, Occurrence, Policy, Records};

use super::sketch::Sketch;

/// One slot in this many belongs to the window.
const WINDOW_PART: usize = 100;

/// Percentage of main's slots that are protected.
const PROTECTED_PERCENT: usize = 80;

const UNUSED: ListId = ListId(3);

/// State of a slot: its part, which is also its list, XOR [`state::EMPTY`], so that fresh memory is
/// empty; and two bits.
mod state {
    pub(super) const WINDOW: u8 = 0;
    pub(super) const PROBATION: u8 = 1;
    pub(super) const PROTECTED: u8 = 2;
    /// No row yet, or an evicted one.
    pub(super) const EMPTY: u8 = 3;
    pub(super) const PART: u8 = 3;
    /// Trained since it was admitted.
    pub(super) const USED: u8 = 4;
    /// Trained since it was detached.
    pub(super) const TOUCHED: u8 = 8;
}

const WINDOW: ListId = ListId(state::WINDOW as u32);
const PROBATION: ListId = ListId(state::PROBATION as u32);
const PROTECTED: ListId = ListId(state::PROTECTED as u32);

/// W-TinyLFU.
#[derive(Debug)]
pub(super) struct WTinyLfu {
    links: Links,
    sketch: Sketch,
    /// Number of slots of each part, attached or not, by its number.
    slots: [usize; 4],
    window_slots_goal: usize,
    main_slots_goal: usize,
    protected_slots_max: usize,
    /// Whether main ever had all its slots.
    main_was_full: bool,
}

impl WTinyLfu {
    const LISTS: usize = 4;

    /// A policy over `slots` slots.
    pub(super) fn new(slots: usize) -> Self {
        let window_slots_goal = (slots / WINDOW_PART).max(1);
        let main_slots_goal = slots.saturating_sub(window_slots_goal);
        Self {
            links: Links::new(slots, Self::LISTS),
            sketch: Sketch::new(slots),
            slots: [0; 4],
            window_slots_goal,
            main_slots_goal,
            protected_slots_max: main_slots_goal * PROTECTED_PERCENT / 100,
            main_was_full: false,
        }
    }

    fn part(records: &Records, slot: SlotIndex) -> u8 {
        (records.state(slot) & state::PART) ^ state::EMPTY
    }

    fn set_part(&mut self, records: &mut Records, slot: SlotIndex, part: u8) {
        let before = Self::part(records, slot);
        self.slots[usize::from(before)] -= usize::from(before != state::EMPTY);
        self.slots[usize::from(part)] += usize::from(part != state::EMPTY);
        let bits = records.state(slot) & !state::PART;
        records.set_state(slot, bits | (part ^ state::EMPTY));
    }

    fn has(records: &Records, slot: SlotIndex, bit: u8) -> bool {
        records.state(slot) & bit != 0
    }

    fn main_slots(&self) -> usize {
        self.slots[usize::from(state::PROBATION)] + self.slots[usize::from(state::PROTECTED)]
    }

    fn move_to(&mut self, records: &mut Records, slot: SlotIndex, part: u8) {
        unlink(&mut self.links, slot);
        self.set_part(records, slot, part);
        link(&mut self.links, ListId(part.into()), slot);
    }

    fn leave(&mut self, records: &mut Records, slot: SlotIndex) -> SlotIndex {
        unlink(&mut self.links, slot);
        self.set_part(records, slot, state::EMPTY);
        slot
    }

    /// Moves the oldest rows of the window to main, until main was full once.
    fn fill_main(&mut self, records: &mut Records) {
        while !self.main_was_full {
            self.main_was_full = self.main_slots() >= self.main_slots_goal;
            match self.links.oldest(WINDOW).filter(|_| !self.main_was_full) {
                Some(oldest) => self.move_to(records, oldest, state::PROBATION),
                None => return,
            }
        }
    }

    fn frequency(&self, records: &Records, slot: SlotIndex) -> u64 {
        self.sketch.frequency(tag_of(records.key(slot)))
    }
}

impl Policy for WTinyLfu {
    fn admit(&mut self, records: &mut Records, slot: SlotIndex) {
        records.set_state(slot, records.state(slot) & state::PART);
        self.set_part(records, slot, state::WINDOW);
    }

    fn touch(&mut self, records: &mut Records, slot: SlotIndex, _occurrence: Occurrence) {
        self.sketch.increment(tag_of(records.key(slot)));
        let again = if Self::has(records, slot, state::USED) { state::TOUCHED } else { 0 };
        records.set_state(slot, records.state(slot) | state::USED | again);
    }

    fn attach(&mut self, records: &mut Records, slot: SlotIndex) {
        if !Self::has(records, slot, state::USED) {
            return link(&mut self.links, UNUSED, slot);
        }
        let touched = Self::has(records, slot, state::TOUCHED);
        if touched && Self::part(records, slot) == state::PROBATION {
            self.set_part(records, slot, state::PROTECTED);
        }
        records.set_state(slot, records.state(slot) & !state::TOUCHED);
        link(&mut self.links, ListId(Self::part(records, slot).into()), slot);
        while self.slots[usize::from(state::PROTECTED)] > self.protected_slots_max {
            let Some(oldest) = self.links.oldest(PROTECTED) else { break };
            self.move_to(records, oldest, state::PROBATION);
        }
    }

    fn detach(&mut self, _records: &mut Records, slot: SlotIndex) {
        unlink(&mut self.links, slot);
    }

    fn victim(&mut self, records: &mut Records) -> Option<SlotIndex> {
        if let Some(slot) = self.links.oldest(UNUSED) {
            return Some(self.leave(records, slot));
        }
        self.fill_main(records);
        loop {
            let window_is_full = self.slots[usize::from(state::WINDOW)] >= self.window_slots_goal;
            let candidate = self.links.oldest(WINDOW).filter(|_| window_is_full);
            let of_main = self.links.oldest(PROBATION).or(self.links.oldest(PROTECTED));
            let (candidate, victim) = match (candidate, of_main) {
                (Some(candidate), Some(victim)) => (candidate, victim),
                (one, other) => {
                    let slot = one.or(other).or(self.links.oldest(WINDOW))?;
                    return Some(self.leave(records, slot));
                }
            };
            if self.frequency(records, candidate) <= self.frequency(records, victim) {
                return Some(self.leave(records, candidate));
            }
            self.move_to(records, candidate, state::PROBATION);
            if self.main_slots() > self.main_slots_goal {
                return Some(self.leave(records, victim));
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

    fn driver(slots: usize) -> Driver {
        Driver::new(Box::new(WTinyLfu::new(slots)), slots)
    }

    #[test]
    fn a_newcomer_leaves_before_what_is_used_more_often() {
        let mut driver = driver(4);
        driver.visit_all(&[0, 1, 2, 0, 1, 2, 3]);
        // Main has 0, 1 and 2; the window's 3 was used once.
        assert_eq!(driver.victim(), Some(3));
        driver.admit(3, 100);
        (0..4).for_each(|_| driver.visit_all(&[3]));
        // Now it wins, and the oldest of main is evicted.
        assert_eq!(driver.victim(), Some(0));
    }

    #[test]
    fn a_winner_takes_the_place_that_main_has_before_anybody_leaves_main() {
        let mut driver = driver(4);
        driver.visit_all(&[0, 1, 2, 0, 1, 2, 3]);
        assert_eq!(driver.victim(), Some(3));
        // The row of slot 0 leaves main directly; then two newcomers are in the window.
        driver.detach(0);
        driver.admit(0, 200);
        driver.admit(3, 100);
        driver.visit_all(&[0, 0, 0, 3]);
        // The one in slot 0 is used most and moves to main; the other is used least, and is
        // evicted.
        assert_eq!(driver.victim(), Some(3));
        assert_eq!(driver.victims(), [1, 2, 0]);
    }

    #[test]
    fn what_is_used_again_in_main_is_protected_and_what_only_comes_back_is_not() {
        let mut driver = driver(4);
        driver.visit_all(&[0, 1, 2, 0, 1, 2, 3]);
        assert_eq!(driver.victim(), Some(3));
        driver.visit_all(&[0]);
        for planned in [1, 2] {
            driver.detach(planned);
            driver.attach(planned);
        }
        // The oldest of main is 0, but probation's oldest is 1.
        assert_eq!(driver.victims(), [1, 2, 0]);
    }

    #[test]
    fn nobody_leaves_main_while_it_has_places() {
        let mut driver = driver(5);
        driver.visit_all(&[0, 1, 2, 3, 0, 1, 2, 3, 4]);
        assert_eq!(driver.victim(), Some(4));
        // Two rows leave main directly, and their newcomers win their contests.
        for (slot, key) in [(0, 200), (1, 201), (4, 202)] {
            driver.detach(slot);
            driver.admit(slot, key);
        }
        driver.visit_all(&[0, 0, 0, 1, 1, 1, 4]);
        assert_eq!(driver.victim(), Some(4));
        assert_eq!(driver.victims(), [2, 3, 0, 1]);
    }

    #[test]
    fn frequencies_outlive_their_rows() {
        let mut driver = driver(4);
        driver.visit_all(&[0, 1, 2, 3]);
        for left in [3, 3, 0] {
            // The key is admitted for the third time, now used more often than any of main's.
            assert_eq!(driver.victim(), Some(left));
            driver.admit(left, 100);
            driver.visit_all(&[left]);
        }
    }
}
