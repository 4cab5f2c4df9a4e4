//! The policy compared with an independent reading of the paper's pseudo-code.

use std::collections::BTreeSet;

use stepwell_base::random::Stream;

use super::*;

fn local(bytes: u64) -> Data {
    Data { kind: Kind::Local, bytes }
}

fn parameters(bytes: u64) -> Data {
    Data { kind: Kind::Parameters, bytes }
}

/// All of entry `data`.
fn whole(usage: &[Data], data: usize) -> Used {
    Used { data, bytes: usage[data].bytes, is_whole: true }
}

/// The pseudo-code line by line, with sets and signed numbers, recomputing moments each time.
fn by_the_book(usage: &Usage, total: i64) -> Option<(BTreeSet<usize>, i64)> {
    let size = |data: usize| usage.data[data].bytes as i64;
    let is_local = |data: usize| usage.data[data].kind == Kind::Local;
    let at = |layer: &Vec<Used>, gpu: &BTreeSet<usize>| -> i64 {
        let is_gpu_local =
            |used: &Used| is_local(used.data) && gpu.contains(&used.data) && used.is_whole;
        layer.iter().filter(|used| !is_gpu_local(used)).map(|used| used.bytes as i64).sum()
    };
    let peak_size =
        |gpu: &BTreeSet<usize>| usage.moments.iter().map(|layer| at(layer, gpu)).max().unwrap_or(0);
    // All accessed data.
    let accessed = usage.moments.iter().flatten().map(|used| used.data);
    let mut cpu: BTreeSet<usize> = accessed.collect();
    let mut gpu = BTreeSet::new();
    let mut available = total - 2 * peak_size(&gpu);
    if available < 0 {
        return None;
    }
    loop {
        let peak = peak_size(&gpu);
        let peak_layer = usage.moments.iter().find(|layer| at(layer, &gpu) == peak);
        let used = |data: &usize| {
            let in_layer =
                |layer: &&Vec<Used>| layer.iter().any(|used| used.data == *data && used.is_whole);
            peak_layer.as_ref().is_some_and(in_layer)
        };
        let Some(data) = cpu.iter().copied().filter(|data| is_local(*data)).find(used) else {
            break;
        };
        let mut moved = gpu.clone();
        moved.insert(data);
        let peak_size_delta = peak_size(&moved) - peak_size(&gpu);
        let mem_size_delta = size(data) + 2 * peak_size_delta;
        if available < mem_size_delta {
            break;
        }
        cpu.remove(&data);
        gpu.insert(data);
        available -= mem_size_delta;
    }
    for wants_local in [true, false] {
        for data in cpu.clone() {
            if is_local(data) == wants_local && available >= size(data) {
                cpu.remove(&data);
                gpu.insert(data);
                available -= size(data);
            }
        }
    }
    let buffer = 2 * peak_size(&gpu) + available;
    Some((gpu, buffer))
}

fn drawn(seed: u64) -> (Usage, u64) {
    let mut stream = Stream::named(seed, b"placement");
    let mut below = |bound: u64| stream.next_u64() % bound;
    let entries = 1 + below(5) as usize;
    let data: Vec<Data> = (0..entries)
        .map(|_| if below(2) == 0 { local(below(12)) } else { parameters(below(12)) })
        .collect();
    let mut moment = || -> Vec<Used> {
        let mut used = Vec::new();
        for entry in 0..entries {
            match below(4) {
                0 => used.push(whole(&data, entry)),
                1 => {
                    let bytes = below(data[entry].bytes + 1);
                    used.push(Used { data: entry, bytes, is_whole: false });
                }
                _ => {}
            }
        }
        used
    };
    let moments = (0..4).map(|_| moment()).collect();
    (Usage { data, moments }, below(120))
}

#[test]
fn the_policy_is_the_papers() {
    let mut refused = 0;
    for seed in 0..20_000 {
        let (usage, total) = drawn(seed);
        let placed = place(&usage, total);
        let book = by_the_book(&usage, total as i64);
        let Some(placed) = placed else {
            refused += 1;
            assert_eq!(book, None, "seed {seed}: {usage:?} in {total}");
            continue;
        };
        let is_pinned = |entry: &usize| placed.pinned[*entry];
        let pinned: BTreeSet<usize> = (0..usage.data.len()).filter(is_pinned).collect();
        let bytes: u64 = pinned.iter().map(|entry| usage.data[*entry].bytes).sum();
        assert_eq!(bytes + placed.buffer_bytes, total, "seed {seed}");
        assert!(placed.buffer_bytes >= 2 * placed.peak_bytes, "seed {seed}");
        let placed = Some((pinned, placed.buffer_bytes as i64));
        assert_eq!(placed, book, "seed {seed}: {usage:?} in {total}");
    }
    assert!((1000..19_000).contains(&refused), "some are refused and some placed: {refused}");
}

#[test]
fn local_data_of_the_peak_comes_first_and_frees_buffers() {
    // Layers of 10 and 6 bytes, with 4 bytes of parameters each.
    let data = vec![parameters(4), local(6), parameters(4), local(2)];
    let moments =
        vec![vec![whole(&data, 0), whole(&data, 1)], vec![whole(&data, 2), whole(&data, 3)]];
    let usage = Usage { data, moments };
    assert_eq!(usage.peak_unpinned(), (0, 10));
    assert_eq!(place(&usage, 19), None, "twice 10 do not fit");
    // The peak falls from 10 to 6: 6 bytes are pinned, and 8 bytes of buffers become free. Then the
    // other layer is the peak, whose local data frees twice its size.
    let placed = place(&usage, 20).unwrap();
    assert_eq!(placed.pinned, [true, true, false, true]);
    assert_eq!((placed.peak_bytes, placed.buffer_bytes), (4, 8));
    // Everything.
    let placed = place(&usage, 24).unwrap();
    assert_eq!(placed.pinned, [true; 4]);
    assert_eq!(place(&usage, 100).unwrap().buffer_bytes, 100 - 16);
}

#[test]
fn nothing_accessed_needs_nothing() {
    let usage = Usage { data: vec![local(3)], moments: Vec::new() };
    let placed = place(&usage, 2).unwrap();
    assert_eq!((placed.pinned, placed.buffer_bytes), (vec![false], 2));
}

#[test]
fn with_nothing_pinned_all_bytes_are_buffers() {
    let data = vec![local(300), parameters(200)];
    let moments = vec![vec![whole(&data, 0), whole(&data, 1)]];
    let usage = Usage { data, moments };
    assert_eq!(pin_none(&usage, 999), None);
    let placement = pin_none(&usage, 5000).unwrap();
    assert_eq!((placement.peak_bytes, placement.buffer_bytes), (500, 5000));
    assert_eq!(placement.pinned, [false; 2]);
}
