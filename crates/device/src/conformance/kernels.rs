//! Kernels: parameters of every kind, blocks whose threads synchronize, atomic operations, replays.

use std::collections::HashMap;

use stepwell_base::random;
use stepwell_kernels::{NONE, named};

use super::support::{contents, drawn, filled};
use crate::device::Device;
use crate::launch::Arg;
use crate::stream::Stream;

/// Number of words that a block of `scan_tiles` sums.
const TILE: usize = 2048;

fn words(len: usize, seed: u64) -> Vec<u32> {
    (0..len as u64).map(|at| random::finalize(at ^ seed << 32) as u32).collect()
}

/// Rows are copied to slots and back: numbers of 32 and 64 bits, and parts of buffers.
pub(super) fn of_rows(device: &Device) {
    let stream = device.stream("rows").unwrap();
    for (count, row_lanes) in [(1, 1), (1000, 16), (77, 5)] {
        let (slab, slots_at) = (12, 3);
        let len = count * row_lanes;
        let numbers: Vec<f32> = words(len, 1).iter().map(|word| *word as f32).collect();
        let staging = filled(device, &stream, &numbers);
        let rows = filled(device, &stream, &vec![-1.0_f32; slab + 2 * len]);
        let slots = (0..count as u32).map(|row| (count as u32 - 1 - row) * 2);
        let lists: Vec<u32> = (0..slots_at).chain(slots).collect();
        let there = filled(device, &stream, &lists);
        let numbers_of = || {
            [slab as u64]
                .map(Arg::u64)
                .into_iter()
                .chain([slots_at, count as u32, row_lanes as u32].map(Arg::u32))
        };
        let memory = [Arg::all(&staging), Arg::all(&rows), Arg::all(&there)];
        let args = memory.into_iter().chain(numbers_of()).collect();
        stream.launch(named("rows_up"), len, args).unwrap();
        let back = device.buffer::<f32>(len + 4, "rows that came back").unwrap();
        stream.clear(&back, 0..len + 4).unwrap();
        let memory = [Arg::all(&rows), Arg::part(&back, 4..len + 4), Arg::all(&there)];
        let args = memory.into_iter().chain(numbers_of()).collect();
        stream.launch(named("rows_down"), len, args).unwrap();
        assert_eq!(contents(device, &stream, &back)[..4], [0.0; 4]);
        assert!(contents(device, &stream, &back)[4..] == numbers, "{count} rows of {row_lanes}");
        let rows = contents(device, &stream, &rows);
        assert_eq!(rows[..slab], [-1.0; 12]);
        let last = &rows[slab..slab + row_lanes];
        assert_eq!(last, &numbers[len - row_lanes..], "the last row is in slot 0");
        assert!(rows[slab + row_lanes..slab + 2 * row_lanes].iter().all(|lane| *lane == -1.0));
    }
}

/// Sums within tiles, by blocks whose threads synchronize, and a table that threads fill
/// concurrently.
pub(super) fn of_numbers(device: &Device) {
    let stream = device.stream("numbers").unwrap();
    for len in [1, TILE, 3 * TILE + 5] {
        let values: Vec<u32> = words(len, 2).iter().map(|word| word % 1000).collect();
        let tiles = len.div_ceil(TILE);
        let there = filled(device, &stream, &values);
        let sums = device.buffer::<u32>(len, "sums").unwrap();
        let totals = device.buffer::<u32>(tiles, "totals").unwrap();
        let count = Arg::u32(len as u32);
        let args = vec![Arg::all(&there), count, Arg::all(&sums), Arg::all(&totals)];
        stream.launch(named("scan_tiles"), tiles, args).unwrap();
        let before = |tile: &[u32]| {
            let sums = tile.iter().scan(0, |sum, value| Some(std::mem::replace(sum, *sum + value)));
            sums.collect::<Vec<u32>>()
        };
        let wanted: Vec<u32> = values.chunks(TILE).flat_map(before).collect();
        assert!(contents(device, &stream, &sums) == wanted, "sums of {len} words");
        let wanted: Vec<u32> = values.chunks(TILE).map(|tile| tile.iter().sum()).collect();
        assert_eq!(contents(device, &stream, &totals), wanted);
    }
    keys_find_their_places(device, &stream);
}

fn keys_find_their_places(device: &Device, stream: &Stream) {
    let (count, distinct, capacity) = (20_000, 700, 1024);
    let keys: Vec<u64> = drawn(count, 3)
        .iter()
        .zip(words(count, 4))
        .map(|(byte, word)| {
            let number = (u64::from(word) << 8 | u64::from(*byte)) % distinct;
            random::finalize(number + 1)
        })
        .collect();
    let there = filled(device, stream, &keys);
    // Two places are for keys that equal the table's marks.
    let table = device.buffer::<u64>(capacity + 2, "keys of a table").unwrap();
    let firsts = device.buffer::<u32>(capacity + 2, "first occurrences").unwrap();
    let places = device.buffer::<u32>(count, "places").unwrap();
    let counters = filled(device, stream, &[0_u32]);
    let slots = Arg::u32(capacity as u32);
    let args = vec![Arg::all(&table), Arg::all(&firsts), slots];
    stream.launch(named("table_clear"), capacity + 2, args).unwrap();
    let args = vec![
        Arg::all(&table),
        Arg::all(&firsts),
        Arg::u32(capacity as u32),
        Arg::all(&there),
        Arg::u64(77),
        Arg::u32(count as u32),
        Arg::all(&places),
        Arg::all(&counters),
    ];
    stream.launch(named("group_claim"), count, args).unwrap();
    let (places, firsts) = (contents(device, stream, &places), contents(device, stream, &firsts));
    assert_eq!(contents(device, stream, &counters), [0], "there is a place for every key");
    let mut first_of = HashMap::new();
    for (at, key) in keys.iter().enumerate() {
        let (place, first) = *first_of.entry(*key).or_insert((places[at], at as u32));
        assert_eq!(places[at], place, "a key has one place");
        assert_eq!(firsts[place as usize], first, "every place knows its first occurrence");
    }
    assert_eq!(firsts.iter().filter(|first| **first != NONE).count(), first_of.len());
}

/// A graph is replayed, between other operations of the stream and after its buffers were dropped.
pub(super) fn again_and_again(device: &Device) {
    let stream = device.stream("replays").unwrap();
    let len = 5000;
    let values = filled(device, &stream, &vec![0_u32; len]);
    let graph = {
        let added = filled(device, &stream, &(1..=3).collect::<Vec<u32>>());
        let count = Arg::u32(len as u32);
        let args = vec![Arg::all(&values), count, Arg::all(&added)];
        let capture = || stream.launch(named("scan_add"), len, args);
        stream.capture(capture).unwrap()
    };
    for round in 1..=10 {
        stream.run(&graph).unwrap();
        stream.run(&graph).unwrap();
        let came = contents(device, &stream, &values);
        let wanted = |at: usize| 2 * round * (at / TILE + 1) as u32;
        assert!(came.iter().enumerate().all(|(at, value)| *value == wanted(at)), "{round}");
    }
    drop(graph);
}
