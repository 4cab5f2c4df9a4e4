use std::collections::{HashMap, HashSet};

use stepwell_base::random::Stream;

use super::*;
use crate::policy::S3Fifo;

const ONCE: Occurrence = Occurrence { examples: 1, positives: 0, importance: 0.0 };

fn placed(cache: &mut Cache, key: u64) -> Placed {
    cache.place(Key(key)).expect("a slot is free")
}

#[test]
fn every_slot_can_hold_a_pinned_row() {
    let mut cache = Cache::new(1000, 2);
    for key in 0..1000 {
        assert_eq!(placed(&mut cache, key * 4096).victim, None);
    }
    assert_eq!(cache.unpinned(), 0);
    assert_eq!(cache.place(Key(7)), Err(NoPlace::Pinned));
    assert!((0..1000).all(|key| cache.find(Key(key * 4096)).is_some()));
}

#[test]
fn many_keys_are_found_as_each_is() {
    let mut cache = Cache::new(300, 2);
    for key in 0..250 {
        placed(&mut cache, key * key);
    }
    // With results of an earlier search in the list.
    let (mut found, mut met) = (vec![Some(SlotIndex(9)); 7], Vec::new());
    for count in [1000, 100, 64, 1, 0] {
        let keys: Vec<Key> = (0..count).map(Key).collect();
        let each: Vec<_> = keys.iter().map(|key| cache.find(*key)).collect();
        cache.find_many(&keys, &mut found);
        assert_eq!(found, each);
        met.clear();
        cache.find_each(&keys, |slot| met.push(slot));
        assert_eq!(met, each);
    }
}

/// With enough keys placed in between that the index grows repeatedly.
#[test]
fn keys_are_found_in_turn_while_those_that_miss_are_placed() {
    let (mut cache, mut model) = (Cache::new(60_000, 2), HashMap::new());
    let mut random = Stream::from_state(3);
    for count in [0, 1, 15, 16, 17, 64, 65, 30_000, 40_000] {
        let drawn = (0..count).map(|_| random.next_u64() % 50_000);
        let keys: Vec<Key> = drawn.collect::<HashSet<u64>>().into_iter().map(Key).collect();
        let mut seek = Seek::default();
        for (at, key) in keys.iter().enumerate() {
            let found = cache.seek(&mut seek, at, |at| keys.get(at).copied());
            assert_eq!(found, model.get(key).copied(), "key {at} of {count}");
            if found.is_none() {
                model.insert(*key, placed(&mut cache, key.0).slot);
            }
        }
        let mut seek = Seek::default();
        assert_eq!(cache.seek(&mut seek, 0, |_| None), None, "there is no such key");
    }
}

#[test]
fn the_farthest_known_use_leaves_first_and_only_after_all_others() {
    let mut cache = Cache::new(4, 6);
    let slots: Vec<_> = (0..4).map(|key| placed(&mut cache, key).slot).collect();
    for slot in &slots {
        cache.trained(*slot, ONCE);
    }
    cache.expect(slots[0], Some(3));
    cache.expect(slots[1], Some(6));
    cache.expect(slots[2], Some(4));
    slots.iter().for_each(|slot| cache.unpin(*slot));
    let left: Vec<_> =
        (10..14).map(|key| placed(&mut cache, key).victim.expect("all were used").key.0).collect();
    assert_eq!(left, [3, 1, 2, 0]);
}

#[test]
fn a_row_exists_from_its_first_update() {
    let mut cache = Cache::new(4, 1);
    let read = placed(&mut cache, 1).slot;
    let trained = placed(&mut cache, 2).slot;
    let filled = placed(&mut cache, 3).slot;
    cache.trained(trained, ONCE);
    cache.came_from_below(filled);
    assert_eq!(cache.existing().map(|row| row.key.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(cache.dirty().map(|row| row.key.0).collect::<Vec<_>>(), [2]);
    cache.all_clean();
    assert_eq!(cache.dirty().count(), 0);
    cache.unpin(read);
    assert_eq!(cache.existing().count(), 2);
}

/// Choosing victims together picks the same rows as choosing them one by one, as long as the policy
/// remembers none of the placed keys. Rows whose known use was noted twice are picked once.
#[test]
fn victims_are_the_same_however_many_are_chosen_at_once() {
    let victims = |announced: usize| {
        let mut cache = Cache::new(100, 6);
        let slots: Vec<SlotIndex> = (0..100).map(|key| placed(&mut cache, key).slot).collect();
        for (number, slot) in (0..).zip(&slots) {
            cache.trained(*slot, ONCE);
            cache.expect(*slot, (number % 3 > 0).then_some(number % 5));
            for _ in 0..number % 4 {
                cache.unpin(*slot);
                cache.pin(*slot);
            }
        }
        slots[..70].iter().for_each(|slot| cache.unpin(*slot));
        let mut victims = Vec::new();
        for number in 0..70 {
            if number % announced.max(1) == 0 {
                cache.will_place(announced.min(70 - number));
            }
            let placed = placed(&mut cache, 1000 + number as u64);
            victims.push((placed.victim.expect("all slots are taken").key, placed.next_use));
        }
        assert_eq!(cache.place(Key(7)), Err(NoPlace::Pinned));
        victims
    };
    let one_by_one = victims(0);
    assert!(one_by_one.iter().any(|(_, next)| next.is_some()));
    for announced in [1, 2, 32, 70, 1000] {
        assert_eq!(victims(announced), one_by_one, "{announced} at once");
    }
}

/// S3-FIFO, attached from the start.
#[derive(Debug)]
struct Eager(S3Fifo);

impl Policy for Eager {
    fn admit(&mut self, records: &mut Records, slot: SlotIndex) {
        self.0.admit(records, slot);
    }

    fn touch(&mut self, records: &mut Records, slot: SlotIndex, occurrence: Occurrence) {
        self.0.touch(records, slot, occurrence);
    }

    fn attach(&mut self, records: &mut Records, slot: SlotIndex) {
        self.0.attach(records, slot);
    }

    fn detach(&mut self, records: &mut Records, slot: SlotIndex) {
        self.0.detach(records, slot);
    }

    fn victim(&mut self, records: &mut Records) -> Option<SlotIndex> {
        self.0.victim(records)
    }
}

#[test]
fn rows_that_are_attached_late_leave_in_the_same_order() {
    const SLOTS: usize = 200;
    let victims = |policy: Box<dyn Policy>| {
        let mut cache = Cache::with(SLOTS, 3, policy);
        let mut random = Stream::from_state(6);
        for key in 0..SLOTS as u64 {
            let slot = placed(&mut cache, key).slot;
            cache.trained_and_unpinned(slot, ONCE);
            if random.next_u64().is_multiple_of(2) {
                let again = SlotIndex((random.next_u64() % (key + 1)) as u32);
                cache.pin(again);
                cache.trained_and_unpinned(again, ONCE);
            }
        }
        let mut victim = |key| {
            let Placed { slot, victim, .. } = placed(&mut cache, key);
            cache.trained_and_unpinned(slot, ONCE);
            victim.expect("all slots are taken").key.0
        };
        (1000..1000 + 3 * SLOTS as u64).map(&mut victim).collect::<Vec<_>>()
    };
    let late = victims(Box::new(S3Fifo::new(SLOTS)));
    assert_eq!(late, victims(Box::new(Eager(S3Fifo::new(SLOTS)))));
}

/// Random plans compared to a plain map: no pinned row is lost, no key is in two slots, dirty rows
/// are evicted as dirty.
#[test]
fn agrees_with_a_plain_map() {
    for seed in 0..20 {
        let mut random = Stream::from_state(seed);
        let slots = 1 + (random.next_u64() % 40) as usize;
        let mut cache = Cache::new(slots, 3);
        let mut model: HashMap<u64, (SlotIndex, u32, bool)> = HashMap::new();
        for step in 0..4000u32 {
            let key = random.next_u64() % 60;
            match random.next_u64() % 4 {
                0 | 1 => plan(&mut cache, &mut model, key, slots),
                2 => retire(&mut cache, &mut model, key, random.next_u64().is_multiple_of(2)),
                _ => {
                    if let Some((slot, ..)) = model.get(&key) {
                        let batch = step / 100 + (random.next_u64() % 4) as u32;
                        cache.expect(*slot, (!batch.is_multiple_of(3)).then_some(batch));
                    }
                }
            }
            let pinned = model.values().filter(|(_, pins, _)| *pins > 0).count();
            assert_eq!(cache.unpinned(), slots - pinned);
            for (key, (slot, ..)) in &model {
                assert_eq!(cache.find(Key(*key)), Some(*slot));
            }
        }
    }
}

/// Policies remember tags by a public hash function: keys made to share a tag are only confused
/// with each other.
#[test]
fn keys_of_one_tag_are_rows_like_others() {
    let key = |n: u64| Scatter::KNOWN.key_of(0xABCD_EF01 << 32 | n).0;
    for kind in PolicyKind::ALL {
        let (mut random, slots) = (Stream::from_state(5), 500);
        let mut cache = Cache::with_policy(slots, 3, kind);
        let mut model = HashMap::new();
        for _ in 0..20_000 {
            let key = key(random.next_u64() % 1500);
            plan(&mut cache, &mut model, key, slots);
            retire(&mut cache, &mut model, key, true);
        }
        assert_eq!(model.len(), slots, "{kind:?}");
        for (key, (slot, ..)) in &model {
            assert_eq!(cache.find(Key(*key)), Some(*slot));
        }
    }
}

fn plan(
    cache: &mut Cache,
    model: &mut HashMap<u64, (SlotIndex, u32, bool)>,
    key: u64,
    slots: usize,
) {
    if let Some((slot, pins, _)) = model.get_mut(&key) {
        cache.pin(*slot);
        *pins += 1;
        return;
    }
    let Ok(Placed { slot, victim, .. }) = cache.place(Key(key)) else {
        assert_eq!(model.values().filter(|(_, pins, _)| *pins > 0).count(), slots);
        return;
    };
    if let Some(victim) = victim {
        let (was, pins, dirty) = model.remove(&victim.key.0).expect("a victim was there");
        assert_eq!((was, pins, dirty), (slot, 0, victim.dirty));
    }
    model.insert(key, (slot, 1, false));
}

fn retire(
    cache: &mut Cache,
    model: &mut HashMap<u64, (SlotIndex, u32, bool)>,
    key: u64,
    trained: bool,
) {
    let Some((slot, pins, dirty)) = model.get_mut(&key).filter(|(_, pins, _)| *pins > 0) else {
        return;
    };
    if trained {
        cache.trained(*slot, ONCE);
        *dirty = true;
    }
    cache.unpin(*slot);
    *pins -= 1;
}

/// Random uses, some of them unplanned: a victim has no known use if any unpinned row has none, and
/// otherwise the farthest.
#[test]
fn victims_agree_with_a_plain_list_of_next_uses() {
    for seed in 0..30 {
        let mut random = Stream::from_state(seed);
        let (slots, horizon) = (2 + random.next_u64() % 100, 1 + random.next_u64() % 9);
        let mut cache = Cache::new(slots as usize, horizon as usize);
        let (mut now, mut farthest, mut next_key) = (70_000u32, 0, 0u64);
        // Key, pinned, next use, by slot.
        let mut rows: Vec<(u64, bool, Option<u32>)> = Vec::new();
        for _ in 0..6000 {
            now += u32::from(random.next_u64().is_multiple_of(40));
            let at = (random.next_u64() % slots) as usize;
            match random.next_u64() % 6 {
                0 | 1 => replace(&mut cache, &mut rows, &mut next_key, slots as usize),
                2 | 3 if at < rows.len() => {
                    let batch = now + (random.next_u64() % (horizon + 1)) as u32;
                    let batch = (!random.next_u64().is_multiple_of(5)).then_some(batch);
                    cache.expect(SlotIndex(at as u32), batch);
                    farthest = farthest.max(batch.unwrap_or(0));
                    rows[at].2 = batch;
                }
                _ if at < rows.len() => {
                    let slot = SlotIndex(at as u32);
                    if rows[at].1 {
                        cache.unpin(slot);
                    } else {
                        cache.pin(slot);
                    }
                    rows[at].1 = !rows[at].1;
                }
                _ => {}
            }
            let known = |batch: &u32| u64::from(*batch) + horizon + 2 > u64::from(farthest);
            rows.iter_mut().for_each(|row| row.2 = row.2.filter(known));
        }
    }
}

fn replace(
    cache: &mut Cache,
    rows: &mut Vec<(u64, bool, Option<u32>)>,
    next_key: &mut u64,
    slots: usize,
) {
    *next_key += 1;
    let unpinned = || rows.iter().filter(|(_, pinned, _)| !pinned);
    let farthest = unpinned().map(|(.., next)| next.unwrap_or(u32::MAX)).max();
    let Ok(placed) = cache.place(Key(*next_key)) else {
        assert!(rows.len() == slots && farthest.is_none());
        return;
    };
    let row = (*next_key, true, None);
    if rows.len() < slots {
        assert_eq!(placed.victim, None);
        return rows.push(row);
    }
    let (key, pinned, next) = std::mem::replace(&mut rows[placed.slot.at()], row);
    assert_eq!((Some(Key(key)), pinned), (placed.victim.map(|victim| victim.key), false));
    assert_eq!(Some(next.unwrap_or(u32::MAX)), farthest);
}

#[test]
fn a_row_that_is_pinned_again_and_again_is_noted_a_few_times() {
    let mut cache = Cache::new(2, 3);
    let slot = placed(&mut cache, 1).slot;
    cache.expect(slot, Some(2));
    for _ in 0..10_000 {
        cache.unpin(slot);
        cache.pin(slot);
    }
    cache.unpin(slot);
    let other = placed(&mut cache, 2).slot;
    cache.expect(other, Some(2));
    for _ in 0..10_000 {
        cache.unpin(other);
        cache.pin(other);
    }
    assert!(cache.uses.notes_count() <= 64, "{} notes", cache.uses.notes_count());
    assert_eq!(placed(&mut cache, 3).victim.map(|victim| victim.key), Some(Key(1)));
    assert_eq!(cache.place(Key(4)), Err(NoPlace::Pinned));
}

#[test]
fn the_next_use_is_the_one_that_was_named_last() {
    let mut cache = Cache::new(2, 4);
    let slot = placed(&mut cache, 1).slot;
    assert_eq!(cache.next_use(slot), None, "a new key is expected by nobody");
    for batch in [0, 1, 4] {
        cache.expect(slot, Some(batch));
        assert_eq!(cache.next_use(slot), Some(batch));
    }
    cache.unpin(slot);
    assert_eq!(cache.next_use(slot), Some(4), "unpinned, it is still expected");
    cache.expect(slot, None);
    assert_eq!(cache.next_use(slot), None);
    cache.expect(slot, Some(2));
    assert_eq!(cache.next_use(slot), Some(2));
    // Batches 2 to 7 can be known at once: knowing batch 8 means that batch 2 has passed.
    let other = placed(&mut cache, 2).slot;
    cache.expect(other, Some(7));
    assert_eq!(cache.next_use(slot), Some(2));
    cache.expect(other, Some(8));
    assert_eq!((cache.next_use(slot), cache.next_use(other)), (None, Some(8)));
    // A new key in a slot inherits nothing.
    cache.expect(slot, Some(8));
    let victim = placed(&mut cache, 3);
    assert_eq!((victim.slot, cache.next_use(slot)), (slot, None));
}

#[test]
fn a_trained_row_is_dirty_and_exists_until_its_slot_changes_hands() {
    let mut cache = Cache::new(1, 1);
    let slot = placed(&mut cache, 1).slot;
    let seen = |cache: &Cache| (cache.find_existing(Key(1)).is_some(), cache.dirty().count());
    assert_eq!(seen(&cache), (false, 0), "it was only read");
    cache.came_from_below(slot);
    assert_eq!(seen(&cache), (true, 0), "below is the same version");
    cache.trained(slot, ONCE);
    assert_eq!(seen(&cache), (true, 1), "below is an older one");
    cache.all_clean();
    assert_eq!(seen(&cache), (true, 0), "written down, it exists all the same");
    cache.trained(slot, ONCE);
    cache.unpin(slot);
    assert_eq!(placed(&mut cache, 2).victim, Some(Victim { key: Key(1), slot, dirty: true }));
    assert_eq!(cache.existing().count(), 0, "of the next key nothing is known");
    cache.unpin(slot);
    assert_eq!(placed(&mut cache, 3).victim, Some(Victim { key: Key(2), slot, dirty: false }));
}

#[test]
#[should_panic(expected = "slot 0 was trained without a pin")]
fn a_row_is_trained_while_it_is_pinned() {
    let mut cache = Cache::new(1, 1);
    let slot = placed(&mut cache, 1).slot;
    cache.unpin(slot);
    cache.trained(slot, ONCE);
}

#[test]
fn room_is_what_was_never_taken() {
    let mut cache = Cache::new(3, 1);
    for (key, more) in [(1, 3), (2, 2), (3, 1)] {
        assert!(cache.has_room_for(more) && !cache.has_room_for(more + 1));
        assert_eq!(cache.rows(), 3 - more);
        let slot = placed(&mut cache, key).slot;
        cache.unpin(slot);
    }
    assert!(cache.has_room_for(0) && !cache.has_room_for(1), "unpinned rows are not room");
}
