//! Rows are copied to their slots and back, as a whole or in part, in every storage.

use super::support::{Arg, Dice, Lists, SCHEDULES, bits, run, sizes};
use stepwell_base::random::Stream;
use stepwell_kernels::NONE;
use stepwell_optim::Storage;

/// A slab among other data, and slots in it for `count` rows.
struct Slab {
    rows: Vec<f32>,
    slab: u64,
    slots: Vec<u32>,
    lists: Lists,
    slots_at: u32,
}

fn slab(count: usize, row_lanes: usize, slab: usize, dice: &mut Dice) -> Slab {
    let places = count + count / 3 + 2;
    let slots: Vec<u32> = dice.order(places).into_iter().take(count).collect();
    let mut lists = Lists::default();
    let slots_at = lists.put(&slots);
    let rows = dice.numbers(slab + places * row_lanes + 5);
    Slab { rows, slab: slab as u64, slots, lists, slots_at }
}

#[test]
fn rows_go_up_and_come_down() {
    let mut dice = Dice(1);
    for count in sizes() {
        for (row_lanes, at) in [(1, 0), (3, 7), (4, 8), (4, 6), (16, 4), (17, 4), (33, 0), (0, 0)] {
            let staging = dice.numbers(count * row_lanes);
            let first = slab(count, row_lanes, at, &mut dice);
            let mut expected = first.rows.clone();
            for (row, slot) in first.slots.iter().enumerate() {
                let to = at + *slot as usize * row_lanes;
                expected[to..to + row_lanes]
                    .copy_from_slice(&staging[row * row_lanes..(row + 1) * row_lanes]);
            }
            for schedule in SCHEDULES {
                let mut rows = first.rows.clone();
                let items = (count * row_lanes) as u64;
                run(
                    "rows_up",
                    items,
                    schedule,
                    &mut [
                        Arg::F(&staging),
                        Arg::FMut(&mut rows),
                        Arg::W(&first.lists.0),
                        Arg::U64(first.slab),
                        Arg::U32(first.slots_at),
                        Arg::U32(count as u32),
                        Arg::U32(row_lanes as u32),
                    ],
                );
                assert_eq!(bits(&rows), bits(&expected), "{count} rows of {row_lanes}");
                let mut back = vec![f32::NAN; staging.len()];
                run(
                    "rows_down",
                    items,
                    schedule,
                    &mut [
                        Arg::F(&rows),
                        Arg::FMut(&mut back),
                        Arg::W(&first.lists.0),
                        Arg::U64(first.slab),
                        Arg::U32(first.slots_at),
                        Arg::U32(count as u32),
                        Arg::U32(row_lanes as u32),
                    ],
                );
                assert_eq!(bits(&back), bits(&staging), "{count} rows of {row_lanes}");
            }
        }
    }
}

#[test]
fn some_lanes_of_each_row_are_read_and_written() {
    let mut dice = Dice(2);
    for (count, (row_lanes, first_lane, lanes)) in [0, 1, 33, 257].into_iter().flat_map(|count| {
        [(5, 1, 3), (16, 4, 8), (16, 3, 4), (20, 16, 4), (9, 0, 9), (8, 8, 0)]
            .map(|shape| (count, shape))
    }) {
        let of = slab(count, row_lanes, 12, &mut dice);
        let from = dice.numbers(count * lanes);
        let place = |row: usize| 12 + of.slots[row] as usize * row_lanes + first_lane;
        let mut expected = of.rows.clone();
        let mut read = Vec::new();
        for row in 0..count {
            read.extend_from_slice(&of.rows[place(row)..place(row) + lanes]);
            expected[place(row)..place(row) + lanes]
                .copy_from_slice(&from[row * lanes..(row + 1) * lanes]);
        }
        for schedule in SCHEDULES {
            let shape = [of.slots_at, count as u32, row_lanes as u32, first_lane as u32];
            let [slots, count, row_lanes, first_lane] = shape.map(Arg::U32);
            let mut to = vec![f32::NAN; from.len()];
            run(
                "rows_read",
                100,
                schedule,
                &mut [
                    Arg::F(&of.rows),
                    Arg::FMut(&mut to),
                    Arg::W(&of.lists.0),
                    Arg::U64(of.slab),
                    slots,
                    count,
                    row_lanes,
                    first_lane,
                    Arg::U32(lanes as u32),
                ],
            );
            assert_eq!(bits(&to), bits(&read));
            let mut rows = of.rows.clone();
            let [slots, count, row_lanes, first_lane] = shape.map(Arg::U32);
            run(
                "rows_write",
                100,
                schedule,
                &mut [
                    Arg::F(&from),
                    Arg::FMut(&mut rows),
                    Arg::W(&of.lists.0),
                    Arg::U64(of.slab),
                    slots,
                    count,
                    row_lanes,
                    first_lane,
                    Arg::U32(lanes as u32),
                ],
            );
            assert_eq!(bits(&rows), bits(&expected));
        }
    }
}

#[test]
fn rows_without_a_slot_are_passed_over() {
    let mut rows = vec![7.0; 12];
    let lists = [2, NONE, 0];
    let staging: Vec<f32> = (0..12).map(|lane| lane as f32).collect();
    let shape = [0, 3, 4].map(Arg::U32);
    let [slots, count, row_lanes] = shape;
    run(
        "rows_up",
        12,
        SCHEDULES[0],
        &mut [
            Arg::F(&staging),
            Arg::FMut(&mut rows),
            Arg::W(&lists),
            Arg::U64(0),
            slots,
            count,
            row_lanes,
        ],
    );
    assert_eq!(rows, [8.0, 9.0, 10.0, 11.0, 7.0, 7.0, 7.0, 7.0, 0.0, 1.0, 2.0, 3.0]);
}

/// Numbers that are hard to encode, and usual ones.
fn weights(count: usize, dice: &mut Dice) -> Vec<f32> {
    let hard = [0.0, -0.0, 65504.0, 65519.0, 65520.0, 1e6, -1e6, 6.1e-5, 6.0e-8, 2.9e-8, 1e-30]
        .into_iter()
        .chain([f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, 1e-45, f32::MAX]);
    let hard: Vec<f32> = hard.collect();
    let weight = |_| if dice.below(3) == 0 { hard[dice.below(hard.len())] } else { dice.number() };
    (0..count).map(weight).collect()
}

#[test]
fn weights_are_encoded_and_decoded_as_the_optimizer_does() {
    let mut dice = Dice(3);
    for storage in Storage::ALL {
        for (count, width) in [0, 1, 31, 33, 256, 1025]
            .into_iter()
            .flat_map(|count| [1, 2, 3, 5, 16, 17].map(|width| (count, width)))
        {
            let row_lanes = storage.lanes(width) + 3;
            let mut of = slab(count, row_lanes, 4, &mut dice);
            let from = weights(count * width, &mut dice);
            let states: Vec<u64> = (0..count).map(|_| dice.next()).collect();
            let rounding = of.lists.put_wide(&states);
            let mut expected = of.rows.clone();
            let mut decoded = vec![f32::NAN; from.len()];
            for (row, state) in states.iter().enumerate() {
                let at = 4 + of.slots[row] as usize * row_lanes;
                let lanes = &mut expected[at..at + storage.lanes(width)];
                let weights = row * width..(row + 1) * width;
                storage.encode(&from[weights.clone()], lanes, Stream::from_state(*state));
                storage.view(lanes, width).copy_to(&mut decoded[weights]);
            }
            for schedule in SCHEDULES {
                let mut rows = of.rows.clone();
                let shape = [of.slots_at, count as u32, row_lanes as u32, storage as u32];
                let [slots, count, lanes, as_kept] = shape.map(Arg::U32);
                run(
                    "rows_set_weights",
                    1000,
                    schedule,
                    &mut [
                        Arg::F(&from),
                        Arg::FMut(&mut rows),
                        Arg::W(&of.lists.0),
                        Arg::U64(of.slab),
                        slots,
                        count,
                        lanes,
                        as_kept,
                        Arg::U32(width as u32),
                        Arg::U32(rounding),
                    ],
                );
                assert_eq!(bits(&rows), bits(&expected), "{storage:?} {width}");
                let mut to = vec![0.0; from.len()];
                let [slots, count, lanes, as_kept] = shape.map(Arg::U32);
                run(
                    "rows_weights",
                    1000,
                    schedule,
                    &mut [
                        Arg::F(&rows),
                        Arg::FMut(&mut to),
                        Arg::W(&of.lists.0),
                        Arg::U64(of.slab),
                        slots,
                        count,
                        lanes,
                        as_kept,
                        Arg::U32(width as u32),
                    ],
                );
                assert_eq!(bits(&to), bits(&decoded), "{storage:?} {width}");
            }
        }
    }
}

/// Every 16-bit number is decoded as by the optimizer, and encoded to itself.
#[test]
fn every_half_is_what_it_is() {
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    let lanes: Vec<f32> =
        halves.chunks(2).map(|p| f32::from_bits(u32::from(p[0]) | u32::from(p[1]) << 16)).collect();
    for storage in [Storage::F16, Storage::Bf16] {
        let mut expected = vec![0.0; halves.len()];
        storage.view(&lanes, halves.len()).copy_to(&mut expected);
        let mut to = vec![0.0; halves.len()];
        let width = halves.len() as u32;
        run(
            "rows_weights",
            1 << 16,
            SCHEDULES[1],
            &mut [
                Arg::F(&lanes),
                Arg::FMut(&mut to),
                Arg::W(&[0]),
                Arg::U64(0),
                Arg::U32(0),
                Arg::U32(1),
                Arg::U32(lanes.len() as u32),
                Arg::U32(storage as u32),
                Arg::U32(width),
            ],
        );
        assert_eq!(bits(&to), bits(&expected));
        let mut rows = vec![0.0; lanes.len()];
        let mut back = rows.clone();
        let state = 77;
        storage.encode(&to, &mut back, Stream::from_state(state));
        run(
            "rows_set_weights",
            1 << 16,
            SCHEDULES[1],
            &mut [
                Arg::F(&to),
                Arg::FMut(&mut rows),
                Arg::W(&[0, state as u32, 0]),
                Arg::U64(0),
                Arg::U32(0),
                Arg::U32(1),
                Arg::U32(lanes.len() as u32),
                Arg::U32(storage as u32),
                Arg::U32(width),
                Arg::U32(1),
            ],
        );
        assert_eq!(bits(&rows), bits(&back));
    }
}
