//! Keys are sent to their devices in their original order.

use std::collections::BTreeMap;

use super::support::steps::sort;
use super::support::{Arg, Dice, SCHEDULES, run, sizes};
use stepwell_base::Key;
use stepwell_base::owner::owner;
use stepwell_base::scatter::Scatter;
use stepwell_kernels::{SORT_TILE, device_of};

#[test]
fn keys_are_shared_out_in_order() {
    let mut dice = Dice(51);
    for count in sizes() {
        for devices in [1, 2, 3, 8, 256] {
            let keys: Vec<u64> = (0..count)
                .map(|_| if dice.below(3) == 0 { dice.below(9) as u64 } else { dice.next() })
                .collect();
            let mut expected: Vec<Vec<u64>> = vec![Vec::new(); devices as usize];
            for key in &keys {
                expected[device_of(*key, devices) as usize].push(*key);
            }
            let counts: Vec<u32> = expected.iter().map(|keys| keys.len() as u32).collect();
            for schedule in SCHEDULES {
                let mut of = vec![7; count];
                run(
                    "partition_devices",
                    count as u64,
                    schedule,
                    &mut [
                        Arg::L(&keys),
                        Arg::U32(count as u32),
                        Arg::U32(devices),
                        Arg::WMut(&mut of),
                    ],
                );
                let (_, order, starts) = sort(&of, 8, schedule);
                let mut got = vec![7; count];
                run(
                    "partition_keys",
                    count as u64,
                    schedule,
                    &mut [
                        Arg::L(&keys),
                        Arg::W(&order),
                        Arg::U32(count as u32),
                        Arg::LMut(&mut got),
                    ],
                );
                assert_eq!(got, expected.concat(), "{count} keys, {devices} devices");
                let mut got = vec![7; devices as usize];
                run(
                    "partition_counts",
                    u64::from(devices),
                    schedule,
                    &mut [
                        Arg::W(&starts),
                        Arg::U32((count as u32).div_ceil(SORT_TILE).max(1)),
                        Arg::U32(count as u32),
                        Arg::U32(devices),
                        Arg::WMut(&mut got),
                    ],
                );
                assert_eq!(got, counts);
            }
        }
    }
}

#[test]
fn the_published_hash_stays_what_it_is() {
    // Computed in Python from the constants of XXH64's published finalizer.
    let devices = [0, 1, 2, 0x0123_4567_89AB_CDEF, u64::MAX].map(|key| device_of(key, 256));
    assert_eq!(devices, PUBLISHED);
    assert!((0..1000).all(|key| device_of(key, 1) == 0));
}

const PUBLISHED: [u32; 5] = [0, 40, 66, 184, 16];

/// Keys of one device are spread over ranks and over the places of a table as evenly as any keys.
#[test]
fn devices_share_no_bits_with_ranks_and_tables() {
    for devices in [2, 8] {
        let keys: Vec<u64> =
            (0..).filter(|key| device_of(*key, devices) == 1).take(40_000).collect();
        let even = |of: &dyn Fn(u64) -> usize| {
            let mut counts = BTreeMap::<usize, u32>::new();
            keys.iter().for_each(|key| *counts.entry(of(*key)).or_default() += 1);
            counts.len() == 16 && counts.values().all(|count| count.abs_diff(2500) < 250)
        };
        assert!(even(&|key| owner(Key(key), 16)));
        assert!(even(&|key| (Scatter::KNOWN.of(Key(key)) >> 60) as usize));
        assert!(even(&|key| (Scatter::KNOWN.of(Key(key)) & 15) as usize));
    }
    let all: Vec<u32> = (0..8)
        .map(|device| (0..80_000).filter(|key| device_of(*key, 8) == device).count() as u32)
        .collect();
    assert!(all.iter().all(|count| count.abs_diff(10_000) < 500), "{all:?}");
}
