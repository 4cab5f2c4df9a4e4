//! Occurrences are grouped into rows, and bags by row, as in the engine.

use std::collections::HashMap;

use super::support::steps::{scan, sort};
use super::support::{Arg, Dice, SCHEDULES, bits, run, sizes};
use stepwell_kernels::TABLE_OWN_PLACES;
use stepwell_kernels::host::Schedule;

/// A grouping of bags of keys.
#[derive(Debug, Default, PartialEq)]
struct Grouped {
    distinct: Vec<u64>,
    occurrence_rows: Vec<u32>,
    /// Where the bags of each row end; bags by row, in the order of bags, and their factors.
    row_ends: Vec<u32>,
    bags: Vec<u32>,
    factors: Vec<u32>,
}

/// Keys of all bags, and where each bag ends.
struct Bags {
    keys: Vec<u64>,
    ends: Vec<u32>,
    factors: Vec<f32>,
    salt: u64,
}

fn plain(of: &Bags) -> Grouped {
    let mut grouped = Grouped::default();
    let mut row_of = HashMap::new();
    let mut by_row: Vec<Vec<(u32, u32)>> = Vec::new();
    let mut bag = 0;
    for (occurrence, key) in of.keys.iter().enumerate() {
        while of.ends[bag] as usize <= occurrence {
            bag += 1;
        }
        let row = *row_of.entry(key ^ of.salt).or_insert_with(|| {
            grouped.distinct.push(key ^ of.salt);
            by_row.push(Vec::new());
            by_row.len() - 1
        });
        grouped.occurrence_rows.push(row as u32);
        by_row[row].push((bag as u32, of.factors[occurrence].to_bits()));
    }
    for bags in by_row {
        grouped.bags.extend(bags.iter().map(|(bag, _)| bag));
        grouped.factors.extend(bags.iter().map(|(_, factor)| factor));
        grouped.row_ends.push(grouped.bags.len() as u32);
    }
    grouped
}

/// The row of each occurrence, and the key of each row.
fn rows_of(of: &Bags, capacity: usize, schedule: Schedule) -> (Vec<u64>, Vec<u32>) {
    let count = of.keys.len();
    let places = capacity + TABLE_OWN_PLACES as usize;
    let (mut slots_keys, mut firsts) = (vec![7; places], vec![7; places]);
    run(
        "table_clear",
        places as u64,
        schedule,
        &mut [Arg::LMut(&mut slots_keys), Arg::WMut(&mut firsts), Arg::U32(capacity as u32)],
    );
    let (mut places, mut counters) = (vec![7; count], [0]);
    run(
        "group_claim",
        count as u64,
        schedule,
        &mut [
            Arg::LMut(&mut slots_keys),
            Arg::WMut(&mut firsts),
            Arg::U32(capacity as u32),
            Arg::L(&of.keys),
            Arg::U64(of.salt),
            Arg::U32(count as u32),
            Arg::WMut(&mut places),
            Arg::WMut(&mut counters),
        ],
    );
    assert_eq!(counters, [0]);
    let mut marks = vec![7; count];
    run(
        "group_mark",
        count as u64,
        schedule,
        &mut [Arg::W(&firsts), Arg::W(&places), Arg::U32(count as u32), Arg::WMut(&mut marks)],
    );
    let (ranks, total) = scan(&marks, schedule);
    let (mut distinct, mut occurrence_rows) = (vec![7; total as usize], vec![7; count]);
    run(
        "group_rows",
        count as u64,
        schedule,
        &mut [
            Arg::W(&firsts),
            Arg::W(&places),
            Arg::W(&ranks),
            Arg::L(&of.keys),
            Arg::U64(of.salt),
            Arg::U32(count as u32),
            Arg::LMut(&mut distinct),
            Arg::WMut(&mut occurrence_rows),
        ],
    );
    (distinct, occurrence_rows)
}

fn grouped(of: &Bags, capacity: usize, schedule: Schedule) -> Grouped {
    let (distinct, occurrence_rows) = rows_of(of, capacity, schedule);
    let count = of.keys.len();
    let mut bag_of = vec![7; count];
    run(
        "group_bags",
        count as u64,
        schedule,
        &mut [
            Arg::W(&of.ends),
            Arg::U32(of.ends.len() as u32),
            Arg::U32(count as u32),
            Arg::WMut(&mut bag_of),
        ],
    );
    let bits_of_row = u32::BITS - (distinct.len() as u32).leading_zeros();
    let (sorted, order, _) = sort(&occurrence_rows, bits_of_row.max(1), schedule);
    let mut row_ends = vec![7; distinct.len()];
    run(
        "group_ends",
        count as u64,
        schedule,
        &mut [Arg::W(&sorted), Arg::U32(count as u32), Arg::WMut(&mut row_ends)],
    );
    let take = |from: &[u32]| {
        let mut to = vec![7; count];
        run(
            "group_take",
            count as u64,
            schedule,
            &mut [Arg::W(&order), Arg::W(from), Arg::U32(count as u32), Arg::WMut(&mut to)],
        );
        to
    };
    let (bags, factors) = (take(&bag_of), take(&bits(&of.factors)));
    Grouped { distinct, occurrence_rows, row_ends, bags, factors }
}

fn drawn(count: usize, keys: usize, dice: &mut Dice) -> Bags {
    let universe: Vec<u64> =
        [0, u64::MAX, u64::MAX - 1].into_iter().chain((3..keys).map(|_| dice.next())).collect();
    let (mut of, mut ends) = (Vec::new(), Vec::new());
    while of.len() < count {
        let bag = dice.below(4).min(count - of.len());
        of.extend((0..bag).map(|_| universe[dice.below(universe.len().min(keys))]));
        ends.push(of.len() as u32);
    }
    // Empty bags also at the end.
    ends.extend([count as u32; 3]);
    let factors = dice.numbers(count);
    Bags { keys: of, ends, factors, salt: if keys.is_multiple_of(2) { 0 } else { dice.next() } }
}

#[test]
fn rows_are_numbered_as_they_come_and_know_their_bags() {
    let mut dice = Dice(61);
    for count in sizes() {
        for keys in [1, 2, 40, 1001] {
            let of = drawn(count, keys, &mut dice);
            let expected = plain(&of);
            for schedule in SCHEDULES {
                // A table with no spare place, and one that is never full.
                let own = expected.distinct.iter().filter(|key| **key >= u64::MAX - 1).count();
                for capacity in [expected.distinct.len() - own, 2 * count] {
                    let got = grouped(&of, capacity, schedule);
                    assert_eq!(got, expected, "{count} occurrences, {keys} keys");
                }
            }
        }
    }
}
