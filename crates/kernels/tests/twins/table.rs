//! The hash table compared to a map: with any keys and chosen ones, full and overfull.

use std::collections::{HashMap, HashSet};

use super::support::{Arg, Dice, SCHEDULES, bits, run, sizes};
use stepwell_base::scatter::Scatter;
use stepwell_kernels::host::Schedule;
use stepwell_kernels::{NONE, TABLE_OWN_PLACES};

/// The two keys that equal the marks of the table, and adjacent ones.
const HARD: [u64; 6] = [0, 1, u64::MAX, u64::MAX - 1, u64::MAX - 2, 1 << 63];

struct Table {
    keys: Vec<u64>,
    values: Vec<u32>,
    capacity: u32,
    schedule: Schedule,
}

impl Table {
    fn new(capacity: usize, schedule: Schedule) -> Self {
        let places = capacity + TABLE_OWN_PLACES as usize;
        let (mut keys, mut values) = (vec![7; places], vec![7; places]);
        run(
            "table_clear",
            places as u64,
            schedule,
            &mut [Arg::LMut(&mut keys), Arg::WMut(&mut values), Arg::U32(capacity as u32)],
        );
        Self { keys, values, capacity: capacity as u32, schedule }
    }

    /// The value that each key has now; the numbers of new keys and of keys without a place.
    fn insert(&mut self, keys: &[u64], values: &[u32]) -> (Vec<u32>, [u32; 2]) {
        let (mut placed, mut counters) = (vec![7; keys.len()], [0; 2]);
        run(
            "table_insert",
            keys.len() as u64,
            self.schedule,
            &mut [
                Arg::LMut(&mut self.keys),
                Arg::WMut(&mut self.values),
                Arg::U32(self.capacity),
                Arg::L(keys),
                Arg::W(values),
                Arg::U32(keys.len() as u32),
                Arg::WMut(&mut placed),
                Arg::WMut(&mut counters),
            ],
        );
        (placed, counters)
    }

    fn get(&self, keys: &[u64]) -> Vec<u32> {
        let (mut found, mut counters) = (vec![7; keys.len()], [0]);
        run(
            "table_get",
            keys.len() as u64,
            self.schedule,
            &mut [
                Arg::L(&self.keys),
                Arg::W(&self.values),
                Arg::U32(self.capacity),
                Arg::L(keys),
                Arg::U32(keys.len() as u32),
                Arg::WMut(&mut found),
                Arg::WMut(&mut counters),
            ],
        );
        let missing = found.iter().filter(|value| **value == NONE).count();
        assert_eq!(counters, [missing as u32], "keys that are not there are counted");
        found
    }

    fn remove(&mut self, keys: &[u64]) -> (Vec<u32>, u32) {
        let (mut removed, mut counters) = (vec![7; keys.len()], [0]);
        run(
            "table_remove",
            keys.len() as u64,
            self.schedule,
            &mut [
                Arg::LMut(&mut self.keys),
                Arg::WMut(&mut self.values),
                Arg::U32(self.capacity),
                Arg::L(keys),
                Arg::U32(keys.len() as u32),
                Arg::WMut(&mut removed),
                Arg::WMut(&mut counters),
            ],
        );
        (removed, counters[0])
    }
}

/// `count` distinct keys, the hard ones first.
fn keys(count: usize, dice: &mut Dice) -> Vec<u64> {
    let mut seen = HashSet::new();
    let mut keys: Vec<u64> = HARD.into_iter().take(count).collect();
    seen.extend(keys.iter().copied());
    while keys.len() < count {
        let key = dice.next();
        if seen.insert(key) {
            keys.push(key);
        }
    }
    keys
}

/// Keys whose searches all begin at one place, for any capacity.
fn of_one_home(count: usize) -> Vec<u64> {
    (0..count as u64).map(|low| Scatter::KNOWN.key_of(0x7FFF_FFFF << 32 | low).0).collect()
}

#[test]
fn a_table_is_good_to_the_last_place() {
    let mut dice = Dice(31);
    for count in sizes() {
        let chosen = if count > 100_000 { Vec::new() } else { of_one_home(count) };
        let all = [keys(count, &mut dice), chosen];
        for (keys, schedule) in all.iter().flat_map(|keys| SCHEDULES.map(|order| (keys, order))) {
            // The keys that equal marks don't take up places.
            let own = keys.iter().filter(|key| **key >= u64::MAX - 1).count();
            let capacity = keys.len() - own;
            let values: Vec<u32> = (0..keys.len() as u32).map(|value| value * 3).collect();
            let mut table = Table::new(capacity, schedule);
            let (placed, counters) = table.insert(keys, &values);
            assert_eq!((placed, counters), (values.clone(), [keys.len() as u32, 0]), "{count}");
            assert_eq!(table.get(keys), values);
            // Existing keys keep their values; others find no place, and are counted.
            let others: Vec<u64> = (0..9).map(|_| dice.next()).collect();
            let mixed: Vec<u64> = keys.iter().chain(&others).copied().collect();
            let (placed, counters) = table.insert(&mixed, &vec![1; mixed.len()]);
            assert_eq!(placed[..keys.len()], values);
            assert_eq!((&placed[keys.len()..], counters), (&[NONE; 9][..], [0, 9]));
            assert_eq!(table.get(&others), [NONE; 9]);
        }
    }
}

#[test]
fn an_overfull_table_takes_as_many_as_it_has_places() {
    let mut dice = Dice(32);
    for schedule in SCHEDULES {
        for (keys, capacity) in
            [(keys(1000, &mut dice), 600), (of_one_home(1000), 600), (keys(50, &mut dice), 0)]
        {
            let own = keys.iter().filter(|key| **key >= u64::MAX - 1).count();
            let room = capacity + own;
            let values: Vec<u32> = (0..keys.len() as u32).collect();
            let mut table = Table::new(capacity, schedule);
            let (placed, counters) = table.insert(&keys, &values);
            assert_eq!(counters, [room as u32, (keys.len() - room) as u32]);
            assert_eq!(placed.iter().filter(|value| **value != NONE).count(), room);
            let right = |(placed, value): (&u32, &u32)| *placed == NONE || placed == value;
            assert!(placed.iter().zip(&values).all(right));
            assert_eq!(table.get(&keys), placed);
        }
    }
}

#[test]
fn equal_keys_of_a_launch_get_one_value() {
    let mut dice = Dice(33);
    for schedule in SCHEDULES {
        let distinct = keys(40, &mut dice);
        let all: Vec<u64> = (0..4000).map(|_| distinct[dice.below(40)]).collect();
        let values: Vec<u32> = (0..4000).collect();
        let mut table = Table::new(40, schedule);
        let (placed, counters) = table.insert(&all, &values);
        assert_eq!(counters, [40, 0]);
        let mut of = HashMap::new();
        for (key, value) in all.iter().zip(&placed) {
            assert_eq!(*of.entry(*key).or_insert(*value), *value);
            assert_eq!(all[*value as usize], *key);
        }
        assert_eq!(table.get(&all), placed);
    }
}

#[test]
fn any_operations_are_those_of_a_map() {
    let mut dice = Dice(34);
    for (round, schedule) in SCHEDULES.into_iter().cycle().take(30).enumerate() {
        let universe = [keys(60, &mut dice), of_one_home(60)].concat();
        let mut table = Table::new(if round % 2 == 0 { 100 } else { 150 }, schedule);
        let mut model = HashMap::new();
        for _ in 0..40 {
            let some: Vec<u64> = dice
                .order(universe.len())
                .iter()
                .take(30)
                .map(|of| universe[*of as usize])
                .collect();
            if dice.below(2) == 0 {
                // No more than there is room for, so that the map has the same keys.
                let room = 100 - model.len().min(100);
                let new = some.iter().filter(|key| !model.contains_key(*key)).count();
                if new > room {
                    continue;
                }
                let values: Vec<u32> = some.iter().map(|_| dice.next() as u32 >> 1).collect();
                let (placed, counters) = table.insert(&some, &values);
                let kept = some.iter().zip(&values);
                let kept = kept.map(|(key, value)| *model.entry(*key).or_insert(*value));
                assert_eq!(placed, kept.collect::<Vec<u32>>());
                assert_eq!(counters, [new as u32, 0]);
            } else {
                let (removed, count) = table.remove(&some);
                let expected = some.iter().map(|key| model.remove(key).unwrap_or(NONE));
                let expected: Vec<u32> = expected.collect();
                let there = expected.iter().filter(|value| **value != NONE).count();
                assert_eq!((removed, count), (expected, there as u32));
            }
            let expected: Vec<u32> =
                universe.iter().map(|key| model.get(key).copied().unwrap_or(NONE)).collect();
            assert_eq!(table.get(&universe), expected);
        }
    }
}

#[test]
fn equal_keys_of_a_launch_are_removed_once() {
    for schedule in SCHEDULES {
        let mut table = Table::new(64, schedule);
        let of: Vec<u64> = (0..32).chain(HARD).collect();
        let of: Vec<u64> = of.into_iter().collect::<HashSet<_>>().into_iter().collect();
        let values: Vec<u32> = (0..of.len() as u32).collect();
        table.insert(&of, &values);
        let twice: Vec<u64> = of.iter().chain(&of).copied().collect();
        let (removed, count) = table.remove(&twice);
        assert_eq!(count as usize, of.len());
        for (index, value) in values.iter().enumerate() {
            let mut both = [removed[index], removed[index + of.len()]];
            both.sort_unstable();
            assert_eq!(both, [*value, NONE]);
        }
        assert_eq!(table.get(&of), vec![NONE; of.len()]);
    }
}

#[test]
fn vectors_of_many_launches_add_up_in_order() {
    let mut dice = Dice(35);
    for schedule in SCHEDULES {
        for lanes in [1, 3, 16, 17] {
            let known = keys(200, &mut dice);
            let mut table = Table::new(256, schedule);
            let values: Vec<u32> = dice.order(200);
            table.insert(&known, &values);
            let mut sums = dice.numbers(200 * lanes);
            let mut expected = sums.clone();
            for _ in 0..10 {
                let order = dice.order(200);
                let mut some: Vec<u64> =
                    order.iter().take(77).map(|of| known[*of as usize]).collect();
                some.extend([12_345, 54_321]);
                let vectors = dice.numbers(some.len() * lanes);
                for (row, of) in order.iter().take(77).enumerate() {
                    let at = values[*of as usize] as usize * lanes;
                    for lane in 0..lanes {
                        expected[at + lane] += vectors[row * lanes + lane];
                    }
                }
                let mut counters = [0];
                run(
                    "table_accumulate",
                    vectors.len() as u64,
                    schedule,
                    &mut [
                        Arg::L(&table.keys),
                        Arg::W(&table.values),
                        Arg::U32(table.capacity),
                        Arg::L(&some),
                        Arg::U32(some.len() as u32),
                        Arg::F(&vectors),
                        Arg::FMut(&mut sums),
                        Arg::U32(lanes as u32),
                        Arg::WMut(&mut counters),
                    ],
                );
                assert_eq!(counters, [2]);
            }
            assert_eq!(bits(&sums), bits(&expected));
        }
    }
}
