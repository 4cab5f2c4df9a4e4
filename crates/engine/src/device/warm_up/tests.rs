use std::collections::BTreeMap;

use stepwell_base::random::Stream;

use super::*;

const SLOTS: usize = 7;

fn counts() -> Counts {
    Counts { slots: SLOTS, ..Counts::default() }
}

/// The keys that may go up, by a list of all keys that are counted.
fn plain(mini_batches: &[Vec<Key>]) -> Vec<Key> {
    let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
    for key in mini_batches.iter().flatten() {
        if seen.contains_key(&key.0) || seen.len() < COUNTED_OF_SLOT * SLOTS {
            *seen.entry(key.0).or_default() += 1;
        }
    }
    let mut all: Vec<(u32, u64)> = seen.into_iter().map(|(key, count)| (count, key)).collect();
    // Stable: keys ascend among equal counts.
    all.sort_by_key(|(count, _)| u32::MAX - count);
    all.into_iter().take(SLOTS).map(|(_, key)| Key(key)).collect()
}

#[test]
fn the_keys_of_most_mini_batches_may_go_up() {
    let mut random = Stream::from_state(5);
    for keys in [3, 7, 20, 500] {
        for length in [0, 1, 5, 40] {
            let mini = |_| {
                let mut drawn: Vec<Key> = (0..6)
                    .map(|_| Key((random.next_u64() % keys).min(random.next_u64() % keys)))
                    .collect();
                drawn.sort_unstable();
                drawn.dedup();
                drawn
            };
            let minis: Vec<Vec<Key>> = (0..length).map(mini).collect();
            let mut counts = counts();
            minis.iter().flatten().for_each(|key| counts.count(*key));
            assert!(counts.of_keys.len() <= COUNTED_OF_SLOT * SLOTS);
            counts.choose();
            let mut came: Vec<Key> = counts.of_keys.into_keys().collect();
            let mut wanted = plain(&minis);
            came.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(came, wanted, "{keys} keys in {length} mini-batches");
        }
    }
}

#[test]
fn what_follows_a_warm_up_waits_until_it_is_over() {
    let mut warm = WarmUp {
        left: 2,
        counts: vec![vec![counts()]],
        first: None,
        before: 0,
        rules: Rules::default(),
    };
    // One that is only evaluated is not counted, and its rows stay below.
    let next = [(0, true), (1, false), (2, true), (3, true)].map(|(number, trains)| {
        let is_of_it = warm.next(number, trains);
        if is_of_it {
            warm.count((0, 0), &[Key(9)]);
        }
        warm.counted();
        is_of_it
    });
    assert_eq!(next, [true, true, true, false]);
    assert!(warm.may_go_up((0, 0), Key(9)) && !warm.may_go_up((0, 0), Key(8)));
    for number in 0..3 {
        assert!(!warm.waits(number));
        warm.planned(number);
        assert!(warm.waits(3));
    }
    (0..3).for_each(|number| {
        assert!(warm.waits(3));
        warm.retired(number);
    });
    assert!(!warm.waits(3));
    warm.planned(3);
    assert!(!warm.waits(4));
    warm.retired(3);
}
