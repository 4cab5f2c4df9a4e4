//! The index against a plain map, at its bounds, and the bytes that it takes.

use std::collections::HashMap;

use stepwell_base::random::Stream;

use super::adversarial_keys::known;
use super::ahead::AHEAD;
use super::*;

/// An index under one secret, the same each time.
fn fresh(bytes_max: u64, rows_hint: u64, places_hint: u64) -> Index {
    Index::new(bytes_max, rows_hint, places_hint, Scatter::KNOWN)
}

/// Fails unless index and map have the same entries, the index's bytes are as reported, and every
/// slot, read by itself, encodes its key.
pub(super) fn check(index: &Index, map: &HashMap<u64, u64>) {
    assert_eq!(index.rows(), map.len() as u64);
    let arrays: u64 = index.shards.iter().map(Shard::bytes).sum();
    assert_eq!(index.bytes(), arrays + (SHARDS * size_of::<Shard>()) as u64);
    assert!(index.bytes_peak() >= index.bytes() && index.bytes_peak() <= index.bytes_max);
    let mut seen = 0;
    for (number, shard) in index.shards.iter().enumerate() {
        for (local, place) in shard.entries() {
            let key = index.scatter.key_of(permute::join(number, local));
            assert_eq!(map.get(&key.0), Some(&place.0), "{key:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, map.len());
    for (key, place) in map {
        assert_eq!(index.get(Key(*key)), Some(Place(*place)), "key {key}");
    }
}

/// One random change or look-up; all results must match the map.
fn act(index: &mut Index, map: &mut HashMap<u64, u64>, key: u64, choice: u64, place: u64) {
    let now = map.get(&key).copied();
    match choice % 16 {
        0..=5 => {
            assert_eq!(index.put(Key(key), Place(place)), Ok(now.map(Place)));
            map.insert(key, place);
        }
        6..=7 => {
            // A shard may grow between the prefetch and the put.
            let asked = index.ask(Key(key));
            let other = key ^ 1;
            let before = map.insert(other, place).map(Place);
            assert_eq!(index.put(Key(other), Place(place)), Ok(before));
            assert_eq!(index.put_asked(&asked, Place(place)), Ok(now.map(Place)));
            map.insert(key, place);
        }
        8..=9 => {
            let from = if choice & 16 == 0 { now.unwrap_or(place) } else { place ^ 1 };
            let (moves, asked) = (now == Some(from), index.ask(Key(key)));
            assert_eq!(index.move_row(&asked, Place(from), Place(place)), Ok(moves));
            if moves {
                map.insert(key, place);
            }
        }
        10..=12 => {
            assert_eq!(index.remove(Key(key)), now.map(Place));
            map.remove(&key);
        }
        _ => assert_eq!(index.get(Key(key)), now.map(Place)),
    }
}

#[test]
fn answers_as_a_plain_map_does() {
    // Keys that are consecutive, of equal low bits, of equal high bits, of one shard, and random.
    let families: [fn(u64) -> u64; 6] = [
        |n| n,
        |n| n << 40,
        |n| u64::MAX - n,
        |n| known(5, n * 0x1234_5678_9ABC % permute::LOCAL_SPAN),
        |n| known(n as usize % 2, n),
        |n| Stream::from_state(n).next_u64(),
    ];
    for (seed, family) in families.into_iter().enumerate() {
        for (hint, keys) in [(0, 300), (0, 20_000), (20_000, 20_000), (1, 3000)] {
            let mut stream = Stream::from_state(seed as u64);
            let scatter = if hint == 1 { Scatter::KNOWN } else { Scatter::new(Some(hint)) };
            let mut index = Index::new(u64::MAX, hint, hint / 8, scatter);
            let mut map = HashMap::new();
            for step in 0..60_000u64 {
                let key = family(stream.next_u64() % keys);
                // Places get wider over time, up to the maximum.
                let bits = (4 + step / 1500).min(u64::from(PLACE_BITS_MAX));
                let place = stream.next_u64() >> (64 - bits);
                act(&mut index, &mut map, key, stream.next_u64(), place);
                if step % 9973 == 0 {
                    check(&index, &map);
                }
            }
            check(&index, &map);
        }
    }
}

#[test]
fn the_first_and_the_last_key_are_keys_like_others() {
    let mut index = fresh(u64::MAX, 0, 0);
    assert_eq!(index.get(Key(0)), None);
    assert_eq!(index.remove(Key(0)), None);
    let asked = index.ask(Key(0));
    assert_eq!(index.move_row(&asked, Place(0), Place(0)), Ok(false));
    let highest = Place((1 << PLACE_BITS_MAX) - 1);
    for (key, place) in [(0, highest), (u64::MAX, Place(0)), (1, Place(1))] {
        assert_eq!(index.put(Key(key), place), Ok(None));
        assert_eq!(index.get(Key(key)), Some(place));
    }
    assert_eq!(index.rows(), 3);
    for key in [2, 3, 1 << 63, u64::MAX - 1] {
        assert_eq!(index.get(Key(key)), None);
    }
    assert_eq!(index.put(Key(0), Place(7)), Ok(Some(highest)));
    assert_eq!(index.remove(Key(0)), Some(Place(7)));
    assert_eq!(index.remove(Key(0)), None);
    assert_eq!(index.rows(), 2);
}

#[test]
#[should_panic(expected = "more than 40 bits")]
fn a_place_of_41_bits_is_a_broken_promise() {
    let _ = fresh(u64::MAX, 0, 0).put(Key(1), Place(1 << PLACE_BITS_MAX));
}

#[test]
#[should_panic(expected = "has more than")]
fn a_place_beyond_all_bits_is_a_broken_promise() {
    let mut index = fresh(u64::MAX, 0, 0);
    assert_eq!(index.put(Key(1), Place(1)), Ok(None));
    let asked = index.ask(Key(1));
    let _ = index.move_row(&asked, Place(1), Place(1 << PLACE_BITS_MAX));
}

#[test]
fn keys_are_looked_up_many_at_a_time() {
    let mut index = fresh(u64::MAX, 0, 0);
    for key in 0..5000 {
        index.put(Key(3 * key), Place(key)).unwrap();
    }
    for count in [0, 1, AHEAD - 1, AHEAD, AHEAD + 1, 1000] {
        let keys: Vec<Key> = (0..count as u64).map(|n| Key(n * n)).collect();
        let mut answers = Vec::new();
        index.get_many(&keys, |number, place| answers.push((number, place)));
        let single = keys.iter().map(|key| index.get(*key)).enumerate();
        assert!(answers.iter().copied().eq(single));
        assert_eq!(answers.len(), count);
    }
}

#[test]
fn a_full_index_refuses_and_stays_as_it_was() {
    for bytes_max in [0, 1 << 16, (1 << 16) + 64, 100_000, 1 << 20] {
        let mut index = fresh(bytes_max, 0, 0);
        let mut map = HashMap::new();
        let mut refused = 0;
        for key in 0..100_000u64 {
            let before = (index.rows(), index.bytes());
            match index.put(Key(key), Place(key / 8)) {
                Ok(previous) => {
                    assert_eq!(previous, None);
                    map.insert(key, key / 8);
                }
                Err(full) => {
                    refused += 1;
                    assert_eq!((index.rows(), index.bytes()), before);
                    assert_eq!((full.rows, full.bytes), before);
                    assert_eq!(full.bytes_max, bytes_max);
                    assert!(full.growth > 0 && full.bytes + full.growth > bytes_max);
                    assert_eq!(index.get(Key(key)), None);
                    if refused == 2000 {
                        break;
                    }
                }
            }
        }
        assert!(refused > 0);
        assert!(index.bytes() <= bytes_max.max(SHARDS as u64 * 64));
        assert!(bytes_max < 1 << 20 || map.len() > 50_000, "{} rows", map.len());
        if bytes_max > 1 << 16 {
            check(&index, &map);
        }
        // Existing keys can still be pointed elsewhere, within their bits, and removed.
        for (key, place) in &map {
            assert_eq!(index.put(Key(*key), Place(0)), Ok(Some(Place(*place))));
        }
        if let Some(key) = map.keys().next() {
            assert_eq!(index.remove(Key(*key)), Some(Place(0)));
            assert_eq!(index.put(Key(*key), Place(1)), Ok(None));
        }
    }
}

#[test]
fn wider_places_are_refused_where_their_bits_do_not_fit() {
    let mut index = fresh(u64::MAX, 0, 0);
    let mut map = HashMap::new();
    for key in 0..20_000u64 {
        index.put(Key(key), Place(key % 64)).unwrap();
        map.insert(key, key % 64);
    }
    index.bytes_max = index.bytes_peak();
    let wide = (1 << PLACE_BITS_MAX) - 1;
    let mut refused = 0;
    for key in 0..20_000u64 {
        match index.put(Key(key), Place(wide - key)) {
            Ok(before) => assert_eq!(before.map(|place| place.0), map.insert(key, wide - key)),
            Err(full) => {
                refused += 1;
                assert!(full.growth > 0 && full.bytes + full.growth > full.bytes_max);
                assert_eq!(full.bytes, index.bytes());
            }
        }
    }
    assert!(refused > 0);
    check(&index, &map);
}

#[test]
fn the_bound_is_reached_to_its_last_byte() {
    let full = |index: &Index, growth| {
        let (rows, bytes, bytes_max) = (index.rows(), index.bytes(), index.bytes_max);
        Full { rows, bytes, growth, bytes_max }
    };
    // The first key of a shard, which needs one bucket.
    let bucket = Shard::bytes_for(1, 0);
    let mut index = fresh(BYTES_MIN + bucket - 1, 0, 0);
    assert_eq!(index.put(Key(7), Place(0)), Err(full(&index, bucket)));
    index.bytes_max += 1;
    assert_eq!(index.put(Key(7), Place(0)), Ok(None));
    assert_eq!((index.bytes(), index.bytes_peak()), (index.bytes_max, index.bytes_max));
    // The key's place gets all bits: extra bits are allocated, the words stay.
    let wide = Place((1 << PLACE_BITS_MAX) - 1);
    let extra = Shard::bytes_for(1, PLACE_BITS_MAX) - bucket;
    index.bytes_max += extra - 1;
    assert_eq!(index.put(Key(7), wide), Err(full(&index, extra)));
    index.bytes_max += 1;
    assert_eq!(index.put(Key(7), wide), Ok(Some(Place(0))));
    assert_eq!((index.bytes(), index.bytes_peak()), (index.bytes_max, index.bytes_max));
    // Another place of as many bits needs no room.
    let asked = index.ask(Key(7));
    assert_eq!(index.move_row(&asked, wide, Place(wide.0 - 1)), Ok(true));
}

#[test]
fn hints_are_neither_allocated_ahead_nor_beyond_the_bound() {
    let empty = fresh(u64::MAX, 100_000_000, 1 << 30).bytes();
    assert_eq!(empty, (SHARDS * size_of::<Shard>()) as u64);
    // A hint far above the bound is limited by the bound.
    let mut index = fresh(2 << 20, u64::MAX, u64::MAX);
    let mut rows = 0;
    while rows < 1 << 20 && index.put(Key(rows), Place(rows)).is_ok() {
        rows += 1;
    }
    assert!((120_000..240_000).contains(&rows), "{rows} rows");
    assert!(index.bytes_peak() <= 2 << 20);
}

#[test]
fn foretold_rows_get_their_buckets_as_far_as_the_bytes_go() {
    // A load of 0.94 in shards of 1000 buckets.
    assert_eq!(buckets_planned(7_700_480, 0, u64::MAX), 1000);
    assert_eq!(buckets_planned(7_700_481, 0, u64::MAX), 1001);
    for buckets in [2, 63, 1000] {
        let bytes = Shard::bytes_for(buckets, 0);
        assert_eq!(buckets_planned(u64::MAX, 0, bytes), buckets);
        assert_eq!(buckets_planned(u64::MAX, 0, bytes - 1), buckets - 1);
    }
    assert_eq!(buckets_planned(u64::MAX, 0, 0), 1);
}

#[test]
fn a_hinted_index_takes_nine_bytes_a_row() {
    let rows = 1 << 22;
    let mut index = fresh(u64::MAX, rows, rows * 2 / 15);
    for key in 0..rows {
        index.put(Key(key), Place(key * 2 / 15)).unwrap();
    }
    let bytes_per_row = index.bytes() as f64 / rows as f64;
    assert!(bytes_per_row <= 9.0, "{bytes_per_row}");
}

#[test]
fn a_growing_index_takes_twelve_bytes_a_row_at_most() {
    let mut index = fresh(u64::MAX, 0, 0);
    let (mut peak, mut worst) = (0, 0.0f64);
    for key in 0..1_500_000u64 {
        index.put(Key(key), Place(key * 2 / 15)).unwrap();
        if key > 500_000 && index.bytes_peak() > peak {
            worst = worst.max(index.bytes_peak() as f64 / key as f64);
        }
        peak = index.bytes_peak();
    }
    assert!(worst <= 12.0, "{worst}");
    assert!(index.rewrite_longest() > Duration::ZERO);
}

#[test]
fn small_shards_double_and_others_grow_by_three_tenths() {
    let grown = [1, 2, 4, 7, 8, 11, 100].map(Shard::buckets_grown);
    assert_eq!(grown, [2, 4, 8, 14, 11, 15, 130]);
}

#[test]
fn shards_fill_up_to_their_load_before_they_grow() {
    // For a hundred shards, the load at which the first key finds no path.
    let mut stream = Stream::from_state(9);
    for buckets in [1, 2, 3, 5, 8, 20, 130] {
        let (mut worst, mut best) = (f64::INFINITY, 0.0f64);
        for _ in 0..100 {
            let mut shard = Shard::new(buckets, 20);
            let mut entries = Vec::new();
            loop {
                let local = stream.next_u64() % permute::LOCAL_SPAN;
                let probes = shard.probes(local);
                let Some(at) = shard.room(&probes) else { break };
                let place = Place(entries.len() as u64);
                shard.take(at, &probes, place);
                entries.push((local, place));
            }
            let rows = entries.len();
            entries.sort_unstable();
            let mut found = shard.entries();
            found.sort_unstable();
            assert_eq!(found, entries);
            worst = worst.min(rows as f64 / (SLOTS * buckets) as f64);
            best = best.max(rows as f64 / (SLOTS * buckets) as f64);
        }
        let least = if buckets <= 8 { 0.6 } else { 0.96 };
        assert!(worst >= least, "{buckets} buckets filled to {worst}");
        // Above 0.97, no key searches for a path, and few find a vacancy without one.
        assert!(buckets < 100 || best <= 0.98, "{buckets} buckets filled to {best}");
    }
}

#[test]
fn one_key_makes_way_where_one_is_enough() {
    let mut stream = Stream::from_state(10);
    let places = |shard: &Shard, locals: &[u64]| -> Vec<(usize, usize)> {
        let at = locals.iter().map(|local| shard.find(&shard.probes(*local)).unwrap());
        at.map(|at| (at.bucket, at.slot)).collect()
    };
    let mut ways = [0; 2];
    for _ in 0..50 {
        let (mut shard, mut locals) = (Shard::new(20, 20), Vec::new());
        loop {
            let local = stream.next_u64() % permute::LOCAL_SPAN;
            let probes = shard.probes(local);
            let before = places(&shard, &locals);
            // A key in either bucket whose other bucket has a vacancy.
            let near = shard.vacancy(&probes).is_none().then(|| {
                let mut others = probes.iter().flat_map(|probe| shard.others(probe.bucket));
                others.any(|other| shard.vacant_slot(other.bucket).is_some())
            });
            let Some(at) = shard.room(&probes) else { break };
            let after = places(&shard, &locals);
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
            match near {
                None => assert_eq!(moved, 0),
                Some(near) => {
                    assert_eq!(near, moved == 1, "{moved} keys moved");
                    ways[usize::from(near)] += 1;
                }
            }
            shard.take(at, &probes, Place(0));
            locals.push(local);
        }
    }
    assert!(ways[0] > 0 && ways[1] > 100, "{ways:?}");
}

#[test]
fn what_is_said_to_be_enough_is() {
    for rows in [1, 100, 5_000, 20_000, 150_000, 700_000] {
        for places in [1 << 8, 1 << 20] {
            let enough = bytes_enough(rows, places);
            let mut index = fresh(enough, 0, 0);
            let mut keys = Stream::from_state(rows);
            for row in 0..rows {
                let put = index.put(Key(keys.next_u64()), Place(row % places));
                assert_eq!(put, Ok(None), "row {row} of {rows}, {enough} bytes");
            }
            // The bound is not much higher than needed.
            if rows > 100_000 {
                assert!(enough < 20 * rows, "{enough} for {rows}");
            }
        }
    }
    // Shards with buckets of eight slots, with room for the fullest of them.
    for (rows, buckets) in [(1, 1), (100, 1), (3_200, 4), (5_000, 4), (8_192, 8), (20_000, 8)] {
        let shard = Shard::bytes_for(buckets, 20);
        assert_eq!(bytes_enough(rows, 1 << 20), BYTES_MIN + (SHARDS as u64 + 1) * shard);
    }
    assert_eq!(bytes_enough(0, 0), fresh(0, 0, 0).bytes());
}
