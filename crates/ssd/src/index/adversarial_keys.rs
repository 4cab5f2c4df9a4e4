//! Adversarial keys, and the secret that makes them harmless.

use std::collections::HashMap;

use stepwell_base::random::Stream;

use super::tests::check;
use super::*;

/// The key that [`Scatter::KNOWN`] maps to a shard and local value.
pub(super) fn known(shard: usize, local: u64) -> u64 {
    Scatter::KNOWN.key_of(permute::join(shard, local)).0
}

#[test]
fn keys_that_share_two_buckets_of_the_known_function_do_no_harm() {
    // Both choices of each are in the first 4096th of the values, so in one bucket of up to 4096;
    // knowing the function, finding such a key takes some thousand tries.
    let low = |value: &u64| value >> (54 - 12) == 0;
    let chosen = (0..).map(permute::turn_back).filter(low).map(|local| known(3, local));
    let chosen: Vec<u64> = chosen.take(64).collect();
    let bytes_max = 1 << 20;
    let put_all = |scatter| {
        let (mut index, mut map) = (Index::new(bytes_max, 0, 0, scatter), HashMap::new());
        for key in &chosen {
            index.put(Key(*key), Place(*key >> 40))?;
            map.insert(*key, *key >> 40);
        }
        check(&index, &map);
        Ok::<u64, Full>(index.bytes())
    };
    let full = put_all(Scatter::KNOWN).unwrap_err();
    assert!(full.rows < 20 && full.bytes + full.growth > bytes_max, "{full:?}");
    let seeds = (0..100).map(|seed| Scatter::new(Some(seed)));
    for scatter in seeds.chain((0..100).map(|_| Scatter::drawn())) {
        let bytes = put_all(scatter).unwrap();
        assert!(bytes < BYTES_MIN + 2 * 64 * Shard::bytes_for(1, 24), "{bytes} bytes");
    }
}

#[test]
fn answers_are_the_same_under_every_secret() {
    let mut dice = Stream::from_state(12);
    let changes: Vec<(Key, Place)> =
        (0..30_000u64).map(|at| (Key(dice.next_u64() % 8000), Place(at / 8))).collect();
    let answers = |scatter| {
        let mut index = Index::new(u64::MAX, 0, 0, scatter);
        let puts = changes.iter().map(|(key, place)| index.put(*key, *place).unwrap());
        let puts: Vec<_> = puts.collect();
        let removed: Vec<_> = (0..4000).map(|key| index.remove(Key(key))).collect();
        let found: Vec<_> = (0..8000).map(|key| index.get(Key(key))).collect();
        (puts, removed, found, index.rows())
    };
    let known = answers(Scatter::KNOWN);
    assert!((1..5).all(|seed| answers(Scatter::new(Some(seed))) == known));
    assert!(answers(Scatter::drawn()) == known);
}

#[test]
fn what_is_said_to_be_enough_is_so_under_any_secret() {
    let families: [fn(u64) -> u64; 3] =
        [|n| n, |n| n << 40, |n| known((n % 1024) as usize, n / 1024)];
    for rows in [100, 5_000, 40_000] {
        let enough = bytes_enough(rows, 1 << 20);
        for (seed, family) in (0..60).flat_map(|seed| families.map(|family| (seed, family))) {
            let mut index = Index::new(enough, 0, 0, Scatter::new(Some(seed)));
            for row in 0..rows {
                let put = index.put(Key(family(row)), Place(row));
                assert_eq!(put, Ok(None), "row {row} of {rows}, seed {seed}");
            }
        }
    }
}
