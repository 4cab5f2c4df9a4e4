//! Sven's importance weights: decaying uses in which clicks count more; the lightest row is evicted
//! first.
//!
//! - **Source.** Yang, doctoral thesis (Sven), equation 6.3: w' = (1 - β) w + β (p k + n l), with p
//!   positive and n negative examples of the row in a step. The thesis gives no values.
//!
//! - **How.** Time is counted in uses of rows, the only thing that a policy sees: a weight halves
//!   in [`HALF_LIFE`] uses per slot, which fixes β. The common factor β doesn't change the order
//!   and is left out.
//!
//! All weights decay alike, so instead of shrinking all of them over time, new uses are scaled up:
//! a row keeps its score, the logarithm of its weight plus the time in half-lives. Scores change
//! only on use. Rows are listed by score in steps of an eighth of an octave; within a step, the row
//! that was attached first is evicted first.
//!
//! ```text
//! lists    base                                             base + 511
//!          everything lighter │ 1/8 octave │ 1/8 octave │ ... │ the heaviest
//! ```
//!
//! When a row is too heavy for the last list, `base` moves up: the lowest list is appended to the
//! next one, in constant time.
//!
//! - **Bounds.** 512 lists, 64 octaves between the heaviest row and rows that are no longer
//!   distinguished. After 16 million half-lives, time stops.
//! - **Cost.** 12 bytes per slot, 8 of them links; every operation is O(1), `attach` amortized over
//!   time.

use stepwell_base::SlotIndex;

use super::{Occurrence, Policy, link, unlink};
use crate::links::{Links, ListId};
use crate::numbers::Numbers;
use crate::records::Records;

/// Uses per slot in which a weight halves.
const HALF_LIFE: u64 = 4;

/// Importance of an example that was clicked.
const POSITIVE: f32 = 4.0;

/// Importance of an example that was not clicked.
const NEGATIVE: f32 = 1.0;

/// Score units per octave.
const OCTAVE: u32 = 256;

/// Score units per list.
const LIST_UNITS: u32 = OCTAVE / 8;
const LISTS: u32 = 512;
const UNUSED: ListId = ListId(LISTS);

/// Score of a row that was never trained.
const NEVER: u32 = 0;

/// Decayed importance weights.
#[derive(Debug)]
pub struct Sven {
    links: Links,
    /// Logarithm of the weight plus time, in units; at least [`OCTAVE`], so never [`NEVER`].
    scores: Box<[u32]>,
    /// The lowest list that isn't merged with lower ones.
    base: u32,
    /// Lists with a slot, by their position in the ring.
    occupied: Numbers,
    uses: u64,
    uses_per_half_life: u64,
}

impl Sven {
    /// One more list, for rows that were never trained.
    const LISTS: usize = LISTS as usize + 1;

    /// A policy over `slots` slots.
    pub fn new(slots: usize) -> Self {
        Self {
            links: Links::new(slots, Self::LISTS),
            scores: vec![NEVER; slots].into(),
            base: 0,
            occupied: Numbers::new(LISTS as usize),
            uses: 0,
            uses_per_half_life: HALF_LIFE * (slots as u64).max(1),
        }
    }

    /// Bytes in addition to the records.
    pub fn bytes_for(slots: u64) -> u64 {
        let scores = slots * size_of::<u32>() as u64;
        Links::bytes_for(slots, Self::LISTS) + scores + Numbers::bytes_for(LISTS.into())
    }

    fn now(&self) -> u32 {
        let units = self.uses.saturating_mul(OCTAVE.into()) / self.uses_per_half_life;
        u32::try_from(units).unwrap_or(u32::MAX).saturating_add(OCTAVE)
    }

    /// The list of a row that was trained.
    fn list(&self, slot: SlotIndex) -> ListId {
        let list = (self.scores[slot.at()] / LIST_UNITS).max(self.base);
        ListId(list % LISTS)
    }

    /// Makes room for the list of `score` at the heavy end.
    fn raise(&mut self, score: u32) {
        let heaviest = score / LIST_UNITS;
        while heaviest >= self.base + LISTS {
            let (lowest, next) = (ListId(self.base % LISTS), ListId((self.base + 1) % LISTS));
            if !self.links.is_empty(lowest) {
                self.links.append(lowest, next);
                self.occupied.remove(lowest.0 as usize);
                self.occupied.insert(next.0 as usize);
            }
            self.base += 1;
        }
    }
}

impl Policy for Sven {
    fn admit(&mut self, _records: &mut Records, slot: SlotIndex) {
        self.scores[slot.at()] = NEVER;
    }

    fn touch(&mut self, _records: &mut Records, slot: SlotIndex, occurrence: Occurrence) {
        let now = self.now();
        let negatives = occurrence.examples.saturating_sub(occurrence.positives);
        let importance = occurrence.positives as f32 * POSITIVE + negatives as f32 * NEGATIVE;
        let octave = OCTAVE as f32;
        let score = &mut self.scores[slot.at()];
        let faded = match *score {
            // A row that keeps its history is as heavy as it was.
            NEVER => occurrence.importance,
            score => ((f64::from(score) - f64::from(now)) as f32 / octave).exp2(),
        };
        let weight = faded + importance.max(NEGATIVE);
        *score = now.saturating_add((weight.log2().max(0.0) * octave) as u32);
        self.uses += 1;
    }

    fn attach(&mut self, _records: &mut Records, slot: SlotIndex) {
        let score = self.scores[slot.at()];
        if score == NEVER {
            return link(&mut self.links, UNUSED, slot);
        }
        self.raise(score);
        let list = self.list(slot);
        link(&mut self.links, list, slot);
        self.occupied.insert(list.0 as usize);
    }

    fn detach(&mut self, _records: &mut Records, slot: SlotIndex) {
        unlink(&mut self.links, slot);
        let list = self.list(slot);
        if self.scores[slot.at()] != NEVER && self.links.is_empty(list) {
            self.occupied.remove(list.0 as usize);
        }
    }

    fn victim(&mut self, records: &mut Records) -> Option<SlotIndex> {
        let slot = match self.links.oldest(UNUSED) {
            Some(slot) => slot,
            None => {
                let lightest = self.occupied.next_in_turn((self.base % LISTS) as usize)?;
                self.links.oldest(ListId(lightest as u32))?
            }
        };
        self.detach(records, slot);
        Some(slot)
    }

    fn links(&self) -> Option<&Links> {
        Some(&self.links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::conformance::Driver;

    fn driver(slots: usize) -> Driver {
        Driver::new(Box::new(Sven::new(slots)), slots)
    }

    #[test]
    fn the_lightest_leaves_first_and_clicks_weigh_more() {
        let mut driver = driver(4);
        driver.visit_all(&[0, 0, 0, 1, 1, 2]);
        driver.visit(3, Occurrence { examples: 1, positives: 1, importance: 0.0 });
        assert_eq!(driver.victims(), [2, 1, 0, 3]);
    }

    #[test]
    fn examples_weigh_what_they_are_whether_they_come_at_once_or_one_by_one() {
        let mut driver = driver(3);
        let examples = |examples| Occurrence { examples, positives: 0, importance: 0.0 };
        driver.visit(0, examples(8));
        driver.visit_all(&[1; 6]);
        driver.visit(2, examples(4));
        assert_eq!(driver.victims(), [2, 1, 0]);
    }

    #[test]
    fn a_row_that_carries_its_history_is_as_heavy_as_it_was() {
        let mut driver = driver(3);
        driver.visit(0, Occurrence { examples: 1, positives: 0, importance: 9.0 });
        driver.visit_all(&[1, 1, 1, 2]);
        assert_eq!(driver.victims(), [2, 1, 0]);
    }

    #[test]
    fn weights_fade() {
        let mut driver = driver(3);
        (0..8).for_each(|_| driver.visit_all(&[0]));
        // Many half-lives later, two uses outweigh the eight.
        (0..40 * HALF_LIFE).for_each(|_| driver.visit_all(&[1]));
        driver.visit_all(&[2, 2]);
        assert_eq!(driver.victims(), [0, 2, 1]);
    }

    #[test]
    fn lists_are_raised_past_the_ring_any_number_of_times() {
        let mut driver = driver(2);
        driver.visit_all(&[0]);
        (0..2000 * HALF_LIFE).for_each(|_| driver.visit_all(&[1]));
        assert_eq!(driver.victims(), [0, 1]);
        driver.visit_all(&[1, 0]);
        assert_eq!(driver.victims(), [1, 0]);
    }

    #[test]
    fn the_heaviest_never_comes_round_to_the_lists_of_the_light() {
        // In two slots, each use is one list further, so these numbers cross the end of the ring.
        for uses in 400..600 {
            let mut driver = driver(2);
            driver.visit_all(&[0]);
            (0..uses).for_each(|_| driver.visit_all(&[1]));
            assert_eq!(driver.victims(), [0, 1], "{uses} uses");
        }
    }

    #[test]
    fn bytes_are_those_that_are_taken() {
        for slots in [0, 1, 9, 1000] {
            let policy = Sven::new(slots);
            let of_scores = size_of_val(&*policy.scores) as u64;
            let taken = policy.links.bytes() + policy.occupied.bytes() + of_scores;
            assert_eq!(Sven::bytes_for(slots as u64), taken, "{slots} slots");
        }
    }
}
