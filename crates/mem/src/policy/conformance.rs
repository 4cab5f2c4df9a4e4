//! Properties of every policy, checked against plain sets.

#![expect(clippy::expect_used, reason = "a test ends where something is not as it should be")]

use std::collections::{BTreeMap, BTreeSet};

use stepwell_base::random::Stream;
use stepwell_base::{Key, SlotIndex};

use super::{Occurrence, Policy};
use crate::records::Records;

/// Makes a policy over a number of slots.
pub type Make<'a> = &'a dyn Fn(usize) -> Box<dyn Policy>;

const ONCE: Occurrence = Occurrence { examples: 1, positives: 0, importance: 0.0 };

/// Checks all that every policy must keep.
///
/// # Panics
/// If it does not.
pub fn check(make: Make<'_>) {
    attached_slots_leave_exactly_once_and_detached_ones_never(make);
    equal_calls_give_equal_victims(make);
    a_new_key_starts_without_the_history_of_its_slot(make);
    a_row_that_was_never_trained_on_leaves_before_all_that_were(make);
    an_empty_policy_has_no_victim_and_one_slot_is_enough(make);
    many_detached_rows_make_no_victim_dear(make);
}

/// A policy with the records of its slots, driven as the cache drives it.
#[derive(Debug)]
pub struct Driver {
    policy: Box<dyn Policy>,
    records: Records,
    attached: Vec<bool>,
    resident: Vec<bool>,
    next_key: u64,
}

impl Driver {
    /// A policy that was made for `slots` slots, all of them empty.
    pub fn new(policy: Box<dyn Policy>, slots: usize) -> Self {
        let (attached, resident) = (vec![false; slots], vec![false; slots]);
        Self { policy, records: Records::new(slots), attached, resident, next_key: 1 << 32 }
    }

    /// Puts `key` into a slot, which is detached.
    pub fn admit(&mut self, slot: u32, key: u64) {
        self.records.put(SlotIndex(slot), Key(key));
        self.policy.admit(&mut self.records, SlotIndex(slot));
        self.resident[slot as usize] = true;
    }

    /// A use; an empty slot gets the key of its own number.
    pub fn visit(&mut self, slot: u32, occurrence: Occurrence) {
        if !self.resident[slot as usize] {
            self.admit(slot, slot.into());
        }
        self.detach(slot);
        self.policy.touch(&mut self.records, SlotIndex(slot), occurrence);
        self.attach(slot);
    }

    /// Uses the slots in this order, each once.
    pub fn visit_all(&mut self, slots: &[u32]) {
        slots.iter().for_each(|slot| self.visit(*slot, ONCE));
    }

    /// A use of a new key.
    pub fn admit_and_visit(&mut self, slot: u32) {
        self.next_key += 1;
        self.admit(slot, self.next_key);
        self.visit(slot, ONCE);
    }

    /// Detaches a slot, if it is attached.
    pub fn detach(&mut self, slot: u32) {
        if std::mem::replace(&mut self.attached[slot as usize], false) {
            self.policy.detach(&mut self.records, SlotIndex(slot));
        }
    }

    /// Attaches a slot, if it is detached.
    pub fn attach(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.attached[slot as usize], true) {
            self.policy.attach(&mut self.records, SlotIndex(slot));
        }
    }

    /// The slot that leaves next, if there is one.
    pub fn victim(&mut self) -> Option<u32> {
        let slot = self.policy.victim(&mut self.records)?;
        assert!(self.attached[slot.at()], "slot {} leaves without being attached", slot.0);
        let linked = self.policy.links().is_some_and(|links| links.is_linked(slot));
        assert!(!linked, "slot {} leaves and is still in a list", slot.0);
        (self.attached[slot.at()], self.resident[slot.at()]) = (false, false);
        Some(slot.0)
    }

    /// All slots in the order in which they leave.
    pub fn victims(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.victim()).collect()
    }
}

/// A random run; returns all victims in order.
fn random_run(make: Make<'_>, seed: u64) -> Vec<u32> {
    let mut random = Stream::from_state(seed);
    let slots = 1 + random.next_u64() % 60;
    let mut driver = Driver::new(make(slots as usize), slots as usize);
    let mut victims = Vec::new();
    let mut attached = BTreeSet::new();
    let leave_weight = random.next_u64() % 4;
    for _ in 0..5000 {
        let slot = (random.next_u64() % slots) as u32;
        match random.next_u64() % (8 + leave_weight) {
            0..4 => {
                if !driver.resident[slot as usize] {
                    driver.admit(slot, random.next_u64() % 100);
                }
                driver.visit(slot, ONCE);
                attached.insert(slot);
            }
            4 => {
                if driver.resident[slot as usize] {
                    driver.attach(slot);
                    attached.insert(slot);
                }
            }
            5 | 6 => {
                driver.detach(slot);
                attached.remove(&slot);
            }
            7 => {
                // The row's known use was the farthest, or it is new: another key is admitted.
                driver.detach(slot);
                attached.remove(&slot);
                driver.admit(slot, random.next_u64() % 100);
            }
            _ => {
                let victim = driver.victim();
                assert_eq!(victim.is_some(), !attached.is_empty(), "seed {seed}");
                victims.extend(victim);
                if let Some(slot) = victim {
                    attached.remove(&slot);
                }
            }
        }
    }
    let drained = driver.victims();
    let set: BTreeSet<u32> = drained.iter().copied().collect();
    assert_eq!((set.len(), set), (drained.len(), attached), "seed {seed}");
    victims.extend(drained);
    victims
}

fn attached_slots_leave_exactly_once_and_detached_ones_never(make: Make<'_>) {
    (0..100).for_each(|seed| drop(random_run(make, seed)));
}

fn equal_calls_give_equal_victims(make: Make<'_>) {
    for seed in 0..20 {
        assert_eq!(random_run(make, seed), random_run(make, seed));
    }
}

fn a_new_key_starts_without_the_history_of_its_slot(make: Make<'_>) {
    let others: Vec<u32> = (0..20).filter(|slot| *slot != 7).collect();
    let after = |uses: usize| {
        let mut driver = Driver::new(make(20), 20);
        driver.visit_all(&(0..20).collect::<Vec<_>>());
        (0..uses).for_each(|_| driver.visit_all(&[7]));
        // The row of slot 7 leaves from elsewhere; a new one comes and is used once.
        driver.detach(7);
        driver.admit_and_visit(7);
        (0..3).for_each(|_| driver.visit_all(&others));
        driver.victims()
    };
    assert_eq!(after(0), after(50));
}

fn a_row_that_was_never_trained_on_leaves_before_all_that_were(make: Make<'_>) {
    let mut driver = Driver::new(make(8), 8);
    driver.visit_all(&[0, 1, 2]);
    driver.admit(5, 500);
    driver.attach(5);
    driver.visit_all(&[3, 4, 0]);
    driver.detach(5);
    driver.attach(5);
    assert_eq!(driver.victim(), Some(5));
    assert_eq!(driver.victims().len(), 5);
}

fn an_empty_policy_has_no_victim_and_one_slot_is_enough(make: Make<'_>) {
    let mut driver = Driver::new(make(1), 1);
    assert_eq!(driver.victim(), None);
    for _ in 0..100 {
        driver.admit_and_visit(0);
        driver.visit_all(&[0, 0]);
        assert_eq!(driver.victims(), [0]);
    }
}

/// With many rows in use and few that may be evicted, no victim may cost a walk over all rows.
fn many_detached_rows_make_no_victim_dear(make: Make<'_>) {
    let slots = 100_000;
    let mut driver = Driver::new(make(slots as usize), slots as usize);
    (0..slots).for_each(|slot| driver.admit_and_visit(slot));
    (0..slots - 1).for_each(|slot| driver.detach(slot));
    for _ in 0..200_000 {
        assert_eq!(driver.victim(), Some(slots - 1));
        driver.admit_and_visit(slots - 1);
    }
}

/// Misses of forty keys that are used again and again while a scan passes through a cache of a
/// hundred slots: at most 176 if the policy keeps them, 1760 if it keeps none.
pub fn misses_beside_a_scan(make: Make<'_>) -> usize {
    let slots = 100;
    let mut driver = Driver::new(make(slots), slots);
    let mut slot_of = BTreeMap::new();
    let mut held: Vec<u64> = Vec::new();
    let mut missed = 0;
    let mut use_key = |key: u64, counts: bool| {
        if let Some(slot) = slot_of.get(&key) {
            return driver.visit(*slot, ONCE);
        }
        missed += usize::from(counts);
        let slot = if held.len() < slots {
            held.push(key);
            held.len() as u32 - 1
        } else {
            let slot = driver.victim().expect("every slot is attached");
            slot_of.remove(&std::mem::replace(&mut held[slot as usize], key));
            slot
        };
        slot_of.insert(key, slot);
        driver.admit(slot, key);
        driver.visit(slot, ONCE);
    };
    for round in 0..50 {
        (0..3).for_each(|_| (0..40).for_each(|key| use_key(key, round > 5)));
        (0..200).for_each(|scan| use_key(1000 + round * 200 + scan, false));
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::kind::PolicyKind;

    #[test]
    fn every_policy_keeps_what_all_must() {
        PolicyKind::ALL.into_iter().for_each(|kind| check(&|slots| kind.make(slots)));
    }

    #[test]
    fn every_policy_keeps_a_hot_set_through_a_scan() {
        for kind in PolicyKind::ALL {
            let missed = misses_beside_a_scan(&|slots| kind.make(slots));
            assert!(missed <= 44 * 4, "{kind}: {missed}");
        }
    }
}
