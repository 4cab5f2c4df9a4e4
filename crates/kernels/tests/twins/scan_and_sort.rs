//! Exclusive sums and stable sorts give the results of plain loops.

use super::support::steps::{scan, sort};
use super::support::{Dice, SCHEDULES, sizes};

fn more_sizes() -> Vec<usize> {
    [sizes(), vec![2047, 2048, 2049, 20_000]].concat()
}

#[test]
fn sums_are_exclusive_and_wrap() {
    let mut dice = Dice(41);
    for count in more_sizes() {
        for wide in [1, 5, u32::MAX] {
            let values: Vec<u32> = (0..count).map(|_| dice.next() as u32 % wide).collect();
            let (mut before, mut expected) = (0u32, Vec::new());
            for value in &values {
                expected.push(before);
                before = before.wrapping_add(*value);
            }
            for schedule in SCHEDULES {
                assert_eq!(scan(&values, schedule), (expected.clone(), before), "{count}");
            }
        }
    }
}

#[test]
fn sums_go_over_three_levels() {
    // More than 2048 tiles of 2048.
    let values = vec![1; 2048 * 2048 + 3];
    let (scanned, total) = scan(&values, SCHEDULES[1]);
    assert_eq!(total as usize, values.len());
    assert!(scanned.iter().enumerate().all(|(index, before)| *before as usize == index));
}

#[test]
fn sorts_are_stable() {
    let mut dice = Dice(42);
    for count in more_sizes() {
        for bits in [8, 16, 32] {
            // Some keys are frequent.
            let key = |dice: &mut Dice| match dice.below(3) {
                0 => dice.below(4) as u32 * 0x0101_0101,
                _ => (dice.next() >> (64 - bits)) as u32,
            };
            let keys: Vec<u32> = (0..count).map(|_| key(&mut dice)).collect();
            let of = |index: &u32| u64::from(keys[*index as usize]) & ((1 << bits) - 1);
            let mut order: Vec<u32> = (0..count as u32).collect();
            order.sort_by_key(of);
            let sorted: Vec<u32> = order.iter().map(|index| keys[*index as usize]).collect();
            let schedules = if count > 5000 { &SCHEDULES[2..] } else { &SCHEDULES[..] };
            for schedule in schedules {
                let (got, got_order, _) = sort(&keys, bits as u32, *schedule);
                assert_eq!(got_order, order, "{count} keys, {bits} bits");
                assert_eq!(got, sorted);
            }
        }
    }
}
