use std::collections::BTreeMap;

use stepwell_base::random::Stream;

use super::*;

const SLOTS: usize = 7;

fn counts() -> Counts {
    Counts { slots: SLOTS, ..Counts::default() }
}

/// The keys that may be lifted, from a plain list of all counted keys.
fn plain(mini_batches: &[Vec<Key>]) -> Vec<Key> {
    const ROOM: usize = COUNTED_OF_SLOT * SLOTS;
    let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
    for key in mini_batches.iter().flatten() {
        if seen.len() == ROOM && !seen.contains_key(&key.0) {
            while seen.len() > ROOM - ROOM / 4 {
                let least = seen.values().min().copied().unwrap_or_default();
                seen.retain(|_, count| *count > least);
            }
        }
        *seen.entry(key.0).or_default() += 1;
    }
    let mut all: Vec<(u32, u64)> = seen.into_iter().map(|(key, count)| (count, key)).collect();
    // Stable: keys ascend among equal counts.
    all.sort_by_key(|(count, _)| u32::MAX - count);
    all.into_iter().take(SLOTS).map(|(_, key)| Key(key)).collect()
}

fn chosen(mini_batches: &[Vec<Key>]) -> Vec<Key> {
    let mut counts = counts();
    for key in mini_batches.iter().flatten() {
        counts.count(*key);
        assert!(counts.of_keys.len() <= COUNTED_OF_SLOT * SLOTS);
    }
    counts.choose();
    let mut chosen: Vec<Key> = counts.of_keys.into_keys().collect();
    chosen.sort_unstable();
    chosen
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
            let mut wanted = plain(&minis);
            wanted.sort_unstable();
            assert_eq!(chosen(&minis), wanted, "{keys} keys in {length} mini-batches");
        }
    }
}

/// The room is full before the key occurs, and keys that occur once fill it again and again.
#[test]
fn a_key_that_comes_late_and_often_may_go_up() {
    let mini = |number: u64| {
        let others = (0..6).map(|at| Key(1000 + 6 * number + at));
        let late = (number > 5 && number.is_multiple_of(2)).then_some(Key(3));
        others.chain(late).collect::<Vec<Key>>()
    };
    assert!(chosen(&(0..30).map(mini).collect::<Vec<_>>()).contains(&Key(3)));
}

#[test]
fn what_follows_a_warm_up_waits_until_it_is_over() {
    let mut warm = WarmUp {
        left: 3,
        counts: vec![vec![counts()]],
        first: None,
        before: 0,
        rules: Rules::default(),
    };
    let next = [0, 1, 2, 3].map(|number| {
        let is_of_it = warm.next(number);
        if is_of_it {
            warm.count(0, 0, &[Key(9)]);
        }
        warm.counted();
        is_of_it
    });
    assert_eq!(next, [true, true, true, false]);
    assert!(warm.may_go_up(0, 0, Key(9)) && !warm.may_go_up(0, 0, Key(8)));
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
