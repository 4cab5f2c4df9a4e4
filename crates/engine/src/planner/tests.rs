use stepwell_mem::PolicyKind;

use super::*;
use crate::unit::GroupUnit;

const ONCE: Occurrence = Occurrence { examples: 1, positives: 0, importance: 0.0 };

fn keys(of: &[u64]) -> Vec<Key> {
    of.iter().copied().map(Key).collect()
}

struct Planned {
    slots: Vec<SlotIndex>,
    unit: GroupUnit,
}

fn learn(planner: &mut Planner, number: u32, of: &[u64]) {
    planner.learn(number, [&keys(of)[..]].into_iter());
}

/// Whether `of` fit; the division among the group's tables must not matter.
fn fits(planner: &mut Planner, of: &[u64]) -> Fit {
    let keys = keys(of);
    let (first, second) = keys.split_at(keys.len() / 2);
    let fit = planner.fits([first, second].into_iter());
    assert_eq!(planner.fits([&keys[..]].into_iter()), fit);
    fit
}

fn plan(planner: &mut Planner, number: u32, of: &[u64]) -> Planned {
    let (keys, mut unit, mut slots) = (keys(of), GroupUnit::default(), Vec::new());
    learn(planner, number, of);
    assert_eq!(fits(planner, of), Fit::Now);
    planner.begin_unit(1);
    let asked = Asked { table: 0, keys: &keys, slots: &mut slots };
    planner.plan(number, &mut [asked], &mut unit).unwrap();
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
fn rows_wait_for_pinned_slots_and_an_impossible_mini_batch_is_said_to_be_one() {
    let mut planner = Planner::new(3, 2, PolicyKind::LruLfu);
    let first = plan(&mut planner, 0, &[1, 2]);
    assert_eq!(fits(&mut planner, &[3, 4]), Fit::Later);
    assert_eq!(fits(&mut planner, &[1, 3]), Fit::Now);
    assert_eq!(fits(&mut planner, &[1, 2, 3, 4]), Fit::Never);
    retire(&mut planner, &first);
    assert_eq!(fits(&mut planner, &[3, 4]), Fit::Now);
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
    assert_eq!(fits(&mut planner, &[2, 3]), Fit::Later);
    retire(&mut planner, &second);
    assert_eq!(fits(&mut planner, &[2, 3]), Fit::Now);
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
    learn(&mut planner, 1, &[4]);
    learn(&mut planner, 2, &[1]);
    learn(&mut planner, 3, &[2]);
    retire(&mut planner, &first);
    let (mut unit, mut slots) = (GroupUnit::default(), Vec::new());
    assert_eq!(fits(&mut planner, &[4]), Fit::Now);
    let asked = Asked { table: 0, keys: &keys(&[4]), slots: &mut slots };
    planner.plan(1, &mut [asked], &mut unit).unwrap();
    // 3 leaves first, as it has no known use; then 2, whose use is farther than 1's.
    assert_eq!(unit.victims[0].key, Key(3));
}

#[test]
fn tables_of_a_group_are_planned_as_one_list() {
    let mut planner = Planner::new(3, 2, PolicyKind::LruLfu);
    let first = plan(&mut planner, 0, &[1, 2, 3]);
    retire(&mut planner, &first);
    let (ours, theirs) = (keys(&[4]), keys(&[1, 3]));
    planner.learn(1, [&ours[..], &theirs].into_iter());
    assert_eq!(planner.fits([&ours[..], &theirs].into_iter()), Fit::Now);
    let (mut unit, mut slots) = (GroupUnit::default(), [Vec::new(), Vec::new()]);
    planner.begin_unit(1);
    let [of_first, of_second] = &mut slots;
    let mut asked = [
        Asked { table: 0, keys: &ours, slots: of_first },
        Asked { table: 1, keys: &theirs, slots: of_second },
    ];
    planner.plan(1, &mut asked, &mut unit).unwrap();
    // A row that the second table requests is no victim of the first one.
    assert_eq!((unit.victims[0].key, unit.hits), (Key(2), 2));
    assert_eq!(slots[1], [first.slots[0], first.slots[2]]);
    assert_eq!(unit.fills[0].table, 0);
}

#[test]
fn of_a_whole_table_only_rows_leave_that_do_not_exist() {
    let mut planner = Planner::new(3, 2, PolicyKind::LruLfu).whole();
    let first = plan(&mut planner, 0, &[1, 2]);
    retire(&mut planner, &first);
    assert_eq!(planner.pinned(), 0);
    for (number, key) in (1..).zip(10..20) {
        let read = plan(&mut planner, number, &[1, key]);
        assert_eq!((read.unit.fills.len(), read.unit.victims.len()), (1, 0));
        planner.retire(&read.slots, &[]);
    }
    let third = plan(&mut planner, 11, &[3, 1]);
    retire(&mut planner, &third);
    assert_eq!(planner.cache().existing().count(), 3);
    assert_eq!(fits(&mut planner, &[3, 2, 1]), Fit::Now);
    assert_eq!(fits(&mut planner, &[4]), Fit::Never);
}

/// Keys learned while there was room for all rows are followed once there isn't: no row with a
/// known use is evicted, and a waiting mini-batch needs only its own slots.
#[test]
fn what_was_learned_before_rows_left_is_known_afterwards() {
    let mut planner = Planner::new(4, 8, PolicyKind::LruLfu);
    let batches: [&[u64]; 5] = [&[1, 2], &[3, 4], &[5], &[1, 2], &[3]];
    let mut anew = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        if planner.begins_anew(batch.len()) {
            anew.push(number);
            let waiting = batches.iter().enumerate().take(number);
            waiting.for_each(|(number, batch)| learn(&mut planner, number as u32, batch));
        }
        learn(&mut planner, number as u32, batch);
    }
    assert_eq!(anew, [2], "keys of two fit");
    let mut unit = GroupUnit::default();
    for (number, batch) in batches.iter().enumerate() {
        let (keys, mut slots) = (keys(batch), Vec::new());
        assert_eq!(fits(&mut planner, batch), Fit::Now);
        let asked = Asked { table: 0, keys: &keys, slots: &mut slots };
        planner.plan(number as u32, &mut [asked], &mut unit).unwrap();
        retire(&mut planner, &Planned { slots, unit: GroupUnit::default() });
    }
    let victims: Vec<u64> = unit.victims.iter().map(|victim| victim.key.0).collect();
    assert_eq!(victims, [4]);
}
