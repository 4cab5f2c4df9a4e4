//! Sums and sorts: launches of several kernels one after another.

use stepwell_kernels::host::Schedule;
use stepwell_kernels::{SCAN_TILE, SORT_DIGITS, SORT_TILE};

use super::{Arg, run};

/// The exclusive sums of `values`, and the sum of all.
pub fn scan(values: &[u32], schedule: Schedule) -> (Vec<u32>, u32) {
    if values.is_empty() {
        return (Vec::new(), 0);
    }
    let count = values.len() as u32;
    let tiles = count.div_ceil(SCAN_TILE);
    let mut scanned = vec![0xABAB_ABAB; values.len()];
    let mut totals = vec![0xABAB_ABAB; tiles as usize];
    run(
        "scan_tiles",
        u64::from(tiles),
        schedule,
        &mut [Arg::W(values), Arg::U32(count), Arg::WMut(&mut scanned), Arg::WMut(&mut totals)],
    );
    if tiles == 1 {
        return (scanned, totals[0]);
    }
    let (before, total) = scan(&totals, schedule);
    run(
        "scan_add",
        u64::from(count),
        schedule,
        &mut [Arg::WMut(&mut scanned), Arg::U32(count), Arg::W(&before)],
    );
    (scanned, total)
}

/// Keys sorted by their lowest `bits` bits, their original positions, and the starts of the last
/// pass.
pub fn sort(keys: &[u32], bits: u32, schedule: Schedule) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let count = keys.len() as u32;
    let tiles = count.div_ceil(SORT_TILE).max(1);
    let mut values = vec![7; keys.len()];
    run("sort_begin", u64::from(count), schedule, &mut [Arg::WMut(&mut values), Arg::U32(count)]);
    let (mut keys, mut starts) = (keys.to_vec(), Vec::new());
    for shift in (0..bits).step_by(8) {
        let mut counts = vec![0xABAB_ABAB; (SORT_DIGITS * tiles) as usize];
        run(
            "sort_count",
            u64::from(tiles),
            schedule,
            &mut [
                Arg::W(&keys),
                Arg::U32(count),
                Arg::U32(shift),
                Arg::WMut(&mut counts),
                Arg::U32(tiles),
            ],
        );
        starts = scan(&counts, schedule).0;
        let (mut to_keys, mut to_values) = (vec![7; keys.len()], vec![7; keys.len()]);
        run(
            "sort_place",
            u64::from(tiles),
            schedule,
            &mut [
                Arg::W(&keys),
                Arg::W(&values),
                Arg::U32(count),
                Arg::U32(shift),
                Arg::W(&starts),
                Arg::U32(tiles),
                Arg::WMut(&mut to_keys),
                Arg::WMut(&mut to_values),
            ],
        );
        (keys, values) = (to_keys, to_values);
    }
    (keys, values, starts)
}
