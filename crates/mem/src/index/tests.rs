use std::collections::HashMap;

use stepwell_base::owner::conformance::{assert_even, subsets};
use stepwell_base::random::Stream;

use super::seek::BURST;
use super::*;

/// An index under a known secret.
fn fresh(slots: usize) -> Index {
    Index::new(slots, Scatter::KNOWN)
}

/// Compares random changes to an index over `slots` slots, with keys drawn by `draw`, to a map.
fn agree(slots: usize, seed: u64, draw: impl Fn(u64) -> u64) -> usize {
    let mut random = Stream::from_state(seed);
    let (mut index, mut keys) = (fresh(slots), vec![Key(0); slots]);
    let mut model: HashMap<u64, u32> = HashMap::new();
    let mut free: Vec<u32> = (0..slots as u32).collect();
    let mut overflow = 0;
    for _ in 0..20_000 {
        let key = draw(random.next_u64());
        let found = index.find(Key(key), |slot| keys[slot.at()]);
        assert_eq!(found.map(|slot| slot.0), model.get(&key).copied());
        if let Some(slot) = model.remove(&key) {
            index.remove(Key(key), |slot| keys[slot.at()]);
            free.push(slot);
        } else if let Some(slot) = free.pop() {
            keys[slot as usize] = Key(key);
            index.insert(Key(key), SlotIndex(slot), |slot| keys[slot.at()]).unwrap();
            model.insert(key, slot);
        }
        overflow = overflow.max(index.overflow.len());
    }
    let mut elsewhere = vec![0; index.buckets.len()];
    for (key, slot) in &model {
        let home = index.home(Key(*key)).buckets[0];
        let here = index.buckets[home].slots.contains(&(slot + 1));
        elsewhere[home] += u32::from(!here);
    }
    let counted = index.buckets.iter().map(|bucket| bucket.elsewhere);
    assert!(counted.eq(elsewhere), "MEM-I2");
    let mut asked: Vec<Key> = model.keys().map(|key| Key(*key)).collect();
    asked.extend((0..100).map(|at| Key(draw(at))));
    let mut found = Vec::new();
    index.find_many(&asked, |slot| keys[slot.at()], |_| {}, |slot| found.push(slot));
    assert_eq!(found.len(), asked.len());
    for (key, found) in asked.iter().zip(found) {
        assert_eq!(found.map(|slot| slot.0), model.get(&key.0).copied());
    }
    overflow
}

#[test]
fn agrees_with_a_map_at_full_load() {
    for slots in [1usize, 2, 3, 9, 10, 18, 19, 50, 997] {
        let keys = 2 * slots as u64;
        assert_eq!(agree(slots, slots as u64, |random| random % keys), 0, "no overflow");
    }
}

#[test]
fn keys_that_share_their_buckets_go_to_the_overflow_and_come_back() {
    // With nine buckets, keys with the same two.
    let index = fresh(81);
    let of = index.home(Key(0)).buckets;
    let same: Vec<u64> = (0..).filter(|key| index.home(Key(*key)).buckets == of).take(60).collect();
    let overflow = agree(81, 5, |random| same[random as usize % same.len()]);
    assert!((20..=64).contains(&overflow), "{overflow} keys");
}

#[test]
fn keys_that_share_the_buckets_of_the_known_function_do_no_harm() {
    let slots = 20_000;
    // The high half of the value determines the first bucket, the low half the second.
    let chosen: Vec<Key> = (0..600).map(|n| Scatter::KNOWN.key_of(n << 7)).collect();
    let insert_all = |scatter| {
        let mut index = Index::new(slots, scatter);
        let put = |(slot, key): (u32, &Key)| {
            index.insert(*key, SlotIndex(slot), |slot| chosen[slot.at()])
        };
        (0..).zip(&chosen).try_for_each(put)?;
        let mut found = Vec::new();
        index.find_many(&chosen, |slot| chosen[slot.at()], |_| {}, |slot| found.push(slot));
        assert!(found.into_iter().eq((0..600).map(|slot| Some(SlotIndex(slot)))));
        Ok::<usize, usize>(index.overflow.len())
    };
    assert_eq!(insert_all(Scatter::KNOWN), Err(overflow_for(slots as u64) as usize));
    let seeds = (0..100).map(|seed| Scatter::new(Some(seed)));
    for scatter in seeds.chain((0..100).map(|_| Scatter::drawn())) {
        assert_eq!(insert_all(scatter), Ok(0), "{scatter:?}");
    }
}

#[test]
fn more_of_them_than_there_is_room_for_are_refused() {
    let mut index = fresh(200);
    let of = index.home(Key(0)).buckets;
    let same: Vec<u64> =
        (0..).filter(|key| index.home(Key(*key)).buckets == of).take(100).collect();
    let insert = |(slot, key): (u32, &u64)| {
        index.insert(Key(*key), SlotIndex(slot), |slot| Key(same[slot.at()]))
    };
    let outcomes: Vec<_> = (0..).zip(&same).map(insert).collect();
    let refused = outcomes.iter().position(Result::is_err);
    assert!(refused.is_some_and(|first| (64..90).contains(&first)), "{refused:?}");
    assert_eq!(outcomes.last(), Some(&Err(64)));
}

#[test]
fn keys_are_found_while_the_index_grows_and_afterwards() {
    for slots in [9 * BUCKETS_AT_FIRST as u32, 9 * BUCKETS_AT_FIRST as u32 + 1, 40_000] {
        let mut index = fresh(slots as usize);
        let keys: Vec<Key> = (0..slots).map(|slot| Key(u64::from(slot) * 77)).collect();
        let first = index.used;
        for slot in (0..slots).map(SlotIndex) {
            index.insert(keys[slot.at()], slot, |slot| keys[slot.at()]).unwrap();
            assert!(slot.at() >= first * 9 || index.used == first, "it grows when it is full");
            if slot.0 % 1000 == 0 || slot.0 + 1 == slots || slot.at() + 1 == first * 9 {
                let mut found = Vec::new();
                index.find_many(&keys, |slot| keys[slot.at()], |_| {}, |of| found.push(of));
                let here = (0..slots).map(|of| (of <= slot.0).then_some(SlotIndex(of)));
                assert!(found.into_iter().eq(here), "after slot {}", slot.0);
            }
        }
        assert_eq!(index.used, index.buckets.len());
        assert!(index.overflow.is_empty());
        // A full index whose slots get other keys in any order.
        for slot in [7, slots - 1, 0].map(SlotIndex) {
            index.remove(keys[slot.at()], |slot| keys[slot.at()]);
            assert_eq!(index.find(keys[slot.at()], |slot| keys[slot.at()]), None);
            index.insert(keys[slot.at()], slot, |slot| keys[slot.at()]).unwrap();
        }
    }
}

#[test]
fn bytes_are_those_that_are_taken() {
    for slots in [0, 1, 18, 19, 511, 512, 9 * BUCKETS_AT_FIRST, 100_000] {
        let index = fresh(slots);
        let overflow = index.overflow.capacity() * size_of::<(Key, SlotIndex)>();
        let taken = size_of_val(&*index.buckets) + overflow;
        assert_eq!(bytes_for(slots as u64), taken as u64, "{slots} slots");
    }
}

#[test]
fn what_is_found_was_asked_for_before() {
    let mut index = fresh(9 * 4000);
    let keys: Vec<Key> = (0..4000).map(|slot| Key(slot * 77)).collect();
    for (slot, key) in (0..).zip(&keys) {
        index.insert(*key, SlotIndex(slot), |slot| keys[slot.at()]).unwrap();
    }
    for count in [0, 1, AHEAD, AHEAD + 1, 2 * AHEAD, 1000] {
        let (asked, mut found) = (std::cell::RefCell::new(Vec::new()), Vec::new());
        let ask = |slot| asked.borrow_mut().push(slot);
        index.find_many(
            &keys[..count],
            |slot| keys[slot.at()],
            ask,
            |slot| {
                // The key's own slot was prefetched, and the slots of the keys ahead.
                let (least, most) = (found.len() + AHEAD - BURST + 1, found.len() + AHEAD);
                let asked = asked.borrow().len();
                assert!((least.min(count)..=most.min(count)).contains(&asked), "{asked}");
                found.push(slot.unwrap());
            },
        );
        assert_eq!(asked.into_inner(), found, "{count} keys");
    }
}

/// A slab of one rank has keys of one owner only.
#[test]
fn the_keys_of_one_owner_fill_it_as_any_keys_do() {
    let slots = 40_000;
    let mut elsewhere_of_any = 0;
    for (what, belongs) in subsets() {
        for scatter in [Scatter::KNOWN, Scatter::new(Some(1))] {
            let keys = (0..).map(Key).filter(|key| belongs(*key));
            let keys: Vec<Key> = keys.take(slots).collect();
            let mut index = Index::new(slots, scatter);
            for (slot, key) in (0..).zip(&keys) {
                index.insert(*key, SlotIndex(slot), |slot| keys[slot.at()]).unwrap();
            }
            let (mut buckets, mut tags) = ([0, 1].map(|_| vec![0; index.used]), vec![0; 1 << 12]);
            for home in keys.iter().map(|key| index.home(*key)) {
                home.buckets.iter().zip(&mut buckets).for_each(|(at, counts)| counts[*at] += 1);
                tags[usize::from(home.tag >> 4)] += 1;
            }
            buckets.iter().for_each(|counts| assert_even(counts, &what));
            assert_even(&tags, &what);
            assert_eq!(index.overflow.len(), 0, "{what}");
            // Look-ups that read two lines: a ninth more than with any keys is beyond chance,
            // because one key moves few others, so their deviation is some hundredths.
            let elsewhere: u32 = index.buckets.iter().map(|bucket| bucket.elsewhere).sum();
            elsewhere_of_any = elsewhere_of_any.max(if what == "any" { elsewhere } else { 0 });
            assert!(elsewhere * 9 < elsewhere_of_any * 10, "{what}: {elsewhere} of {slots}");
        }
    }
}
