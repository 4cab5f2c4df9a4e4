use stepwell_mem::PolicyKind;

use super::*;

const ONCE: Occurrence = Occurrence { examples: 1, positives: 0, importance: 0.0 };

fn keys(of: &[u64]) -> Vec<Key> {
    of.iter().copied().map(Key).collect()
}

struct Planned {
    slots: Vec<SlotIndex>,
    unit: GroupUnit,
}

fn plan(planner: &mut Planner, number: u32, of: &[u64]) -> Planned {
    let (keys, mut unit, mut slots) = (keys(of), GroupUnit::default(), Vec::new());
    planner.learn(number, &keys);
    assert_eq!(planner.fits(&keys), Fit::Now);
    planner.begin_unit();
    planner.plan(number, &keys, &mut unit, &mut slots).unwrap();
    Planned { slots, unit }
}

fn retire(planner: &mut Planner, planned: &Planned) {
    planner.retire(&planned.slots, &vec![ONCE; planned.slots.len()]);
}

#[test]
fn a_hit_moves_nothing_and_a_miss_evicts_a_dirty_row() {
    let mut planner = Planner::new(3, 2, PolicyKind::LruLfu);
    let first = plan(&mut planner, 0, &[1, 2, 3]);
    assert_eq!((first.unit.hits, first.unit.fills.len(), first.unit.evictions), (0, 3, 0));
    retire(&mut planner, &first);
    let second = plan(&mut planner, 1, &[4, 2]);
    assert_eq!((second.unit.hits, second.unit.fills.len(), second.unit.evictions), (1, 1, 1));
    let victim = second.unit.victims[0];
    assert!(victim.dirty && victim.key != Key(2));
    assert_eq!(victim.slot, second.unit.fills[0].slot);
}

#[test]
fn a_full_window_waits_and_an_impossible_mini_batch_is_said_to_be_one() {
    let mut planner = Planner::new(3, 2, PolicyKind::LruLfu);
    let first = plan(&mut planner, 0, &[1, 2]);
    assert_eq!(planner.fits(&keys(&[3, 4])), Fit::Later);
    assert_eq!(planner.fits(&keys(&[1, 3])), Fit::Now);
    assert_eq!(planner.fits(&keys(&[1, 2, 3, 4])), Fit::Never);
    retire(&mut planner, &first);
    assert_eq!(planner.fits(&keys(&[3, 4])), Fit::Now);
}

#[test]
fn a_row_of_the_same_mini_batch_is_no_victim() {
    let mut planner = Planner::new(2, 2, PolicyKind::LruLfu);
    let first = plan(&mut planner, 0, &[1, 2]);
    retire(&mut planner, &first);
    // 3 must take the slot of 2, although 1 was there as long and comes later in the list.
    let second = plan(&mut planner, 1, &[3, 1]);
    assert_eq!(second.unit.victims[0].key, Key(2));
    assert_eq!(second.unit.hits, 1);
}

#[test]
fn overlapping_mini_batches_pin_a_row_twice() {
    let mut planner = Planner::new(2, 2, PolicyKind::LruLfu);
    let first = plan(&mut planner, 0, &[1]);
    let second = plan(&mut planner, 1, &[1]);
    assert_eq!(second.slots, first.slots);
    retire(&mut planner, &first);
    assert_eq!(planner.fits(&keys(&[2, 3])), Fit::Later);
    retire(&mut planner, &second);
    assert_eq!(planner.fits(&keys(&[2, 3])), Fit::Now);
}

#[test]
fn reading_leaves_no_trace() {
    let mut planner = Planner::new(2, 2, PolicyKind::LruLfu);
    let read = plan(&mut planner, 0, &[1, 2]);
    planner.retire(&read.slots, &[]);
    assert_eq!(planner.cache().existing().count(), 0);
    let next = plan(&mut planner, 1, &[3]);
    assert!(next.unit.victims.is_empty());
    assert_eq!(next.unit.evictions, 1);
}

#[test]
fn the_row_needed_soonest_stays() {
    let mut planner = Planner::new(3, 8, PolicyKind::LruLfu);
    let first = plan(&mut planner, 0, &[1, 2, 3]);
    planner.learn(1, &keys(&[4]));
    planner.learn(2, &keys(&[1]));
    planner.learn(3, &keys(&[2]));
    retire(&mut planner, &first);
    let (mut unit, mut slots) = (GroupUnit::default(), Vec::new());
    assert_eq!(planner.fits(&keys(&[4])), Fit::Now);
    planner.plan(1, &keys(&[4]), &mut unit, &mut slots).unwrap();
    // 3 has no known use; then 2, whose use is farther than 1's.
    assert_eq!(unit.victims[0].key, Key(3));
}
