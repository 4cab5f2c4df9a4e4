//! OP+OSRP agrees with dense vectors, and depends on nothing but an example's ids and values.

use std::collections::BTreeSet;

use proptest::prelude::*;
use stepwell_base::random::Stream;
use stepwell_base::{Key, key_of};
use stepwell_data::OneSignHash;

/// Columns of the dense vectors.
const COLUMNS: usize = 64;

fn outputs_of(hash: &OneSignHash, keys: &[Key], values: &[f32]) -> Vec<Key> {
    let mut outputs = Vec::new();
    hash.append(keys, values, &mut outputs);
    outputs
}

/// The paper's method on whole vectors: signs and bins of all columns, a sum over each bin, and two
/// outputs per bin.
fn densely(x: &[f64], bin_of: &[u64], signs: &[f64], bins: u64) -> Vec<Key> {
    let z = |bin: u64| {
        let columns = (0..x.len()).filter(|column| bin_of[*column] == bin);
        columns.map(|column| x[column] * signs[column]).sum::<f64>()
    };
    let mut expanded = Vec::new();
    for bin in 0..bins {
        expanded.extend(match z(bin) {
            z if z > 0.0 => [0, 1],
            z if z < 0.0 => [1, 0],
            _ => [0, 0],
        });
    }
    let ones = (0..).zip(expanded).filter(|(_, bit)| *bit == 1);
    ones.map(|(place, _)| Key(place)).collect()
}

/// Some columns with integers as values, so that sums are exact and often 0.
fn columns() -> impl Strategy<Value = Vec<(u64, i8)>> {
    proptest::collection::vec((0..COLUMNS as u64, -3i8..4), 0..40)
}

proptest! {
    #[test]
    fn outputs_are_those_of_dense_vectors(
        columns in columns(),
        bins in 1u64..40,
        seed: u64,
        counted: bool,
    ) {
        let hash = OneSignHash::new(bins, seed).unwrap();
        let all = || (0..COLUMNS as u64).map(Key);
        let bin_of: Vec<u64> = all().map(|key| hash.bin_of(key)).collect();
        let sign = |key| if hash.is_positive(key) { 1.0 } else { -1.0 };
        let signs: Vec<f64> = all().map(sign).collect();
        let mut x = vec![0.0; COLUMNS];
        let value = |value: i8| if counted { 1.0 } else { f32::from(value) };
        columns.iter().for_each(|(column, of)| x[*column as usize] += f64::from(value(*of)));
        let keys: Vec<Key> = columns.iter().map(|(column, _)| Key(*column)).collect();
        let values: Vec<f32> = columns.iter().map(|(_, of)| value(*of)).collect();
        let expected = densely(&x, &bin_of, &signs, bins);
        prop_assert_eq!(&outputs_of(&hash, &keys, &values), &expected);
        if counted {
            prop_assert_eq!(outputs_of(&hash, &keys, &[]), expected);
        }
    }

    #[test]
    fn only_the_multiset_of_ids_and_values_matters(
        mut terms in proptest::collection::vec((any::<u64>(), -1e3f32..1e3), 0..60),
        copies in proptest::collection::vec(0usize..60, 0..10),
        bins in 1u64..20,
        seed: u64,
        power in -20i32..20,
    ) {
        let hash = OneSignHash::new(bins, seed).unwrap();
        let copied: Vec<_> = copies.iter().filter_map(|at| terms.get(*at).copied()).collect();
        terms.extend(copied);
        let of = |terms: &[(u64, f32)]| {
            let keys: Vec<Key> = terms.iter().map(|(key, _)| Key(*key)).collect();
            let values: Vec<f32> = terms.iter().map(|(_, value)| *value).collect();
            (outputs_of(&hash, &keys, &values), outputs_of(&hash, &keys, &[]))
        };
        let (summed, counted) = of(&terms);
        for outputs in [&summed, &counted] {
            prop_assert!(outputs.len() <= terms.len());
            prop_assert!(outputs.windows(2).all(|pair| pair[0].0 >> 1 < pair[1].0 >> 1));
            prop_assert!(outputs.iter().all(|output| output.0 < hash.outputs()));
        }
        let mut stream = Stream::named(seed, b"shuffle");
        for last in (1..terms.len()).rev() {
            terms.swap(last, (stream.next_u64() % (last as u64 + 1)) as usize);
        }
        prop_assert_eq!(of(&terms), (summed.clone(), counted.clone()));
        terms.iter_mut().for_each(|(_, value)| *value *= 2f32.powi(power));
        prop_assert_eq!(of(&terms), (summed, counted));
    }

    #[test]
    fn equal_values_of_any_size_are_ones(
        keys in proptest::collection::vec(any::<u64>(), 0..60),
        bins in 1u64..20,
        value in 1e-30f32..1e30,
    ) {
        let hash = OneSignHash::new(bins, 3).unwrap();
        let keys: Vec<Key> = keys.into_iter().map(Key).collect();
        let values = vec![value; keys.len()];
        prop_assert_eq!(outputs_of(&hash, &keys, &values), outputs_of(&hash, &keys, &[]));
    }
}

#[test]
fn published_vectors_hold() {
    // Computed in Python from xxhash.xxh3_64_intdigest, SplitMix64 and integers.
    for (seed, bins, key, bin, positive) in [
        (0, 1 << 10, 0, 0x66, false),
        (0, 1 << 10, 1, 0x171, false),
        (1, 1 << 10, 1, 0x2FE, false),
        (7, 1 << 34, 0x0123_4567_89AB_CDEF, 0x1_705F_BC0A, true),
        (7, 1 << 62, u64::MAX, 0x2A82_25ED_2E50_4D9A, true),
        (7, 1000, u64::MAX, 0x298, true),
        (7, 1, 5, 0, false),
    ] {
        let hash = OneSignHash::new(bins, seed).unwrap();
        let found = (hash.bin_of(Key(key)), hash.is_positive(Key(key)));
        assert_eq!(found, (bin, positive), "{seed} {bins} {key:x}");
        assert_eq!(hash.output_of(Key(key)), Key(2 * bin + u64::from(positive)));
    }
}

#[test]
fn nothing_gives_nothing_and_earlier_outputs_stay() {
    let hash = OneSignHash::new(4, 1).unwrap();
    let mut outputs = vec![Key(7), Key(0)];
    hash.append(&[], &[], &mut outputs);
    assert_eq!(outputs, [Key(7), Key(0)]);
    hash.append(&[Key(9)], &[], &mut outputs);
    assert_eq!(outputs, [Key(7), Key(0), hash.output_of(Key(9))]);
    // The opposite of a value is the opposite output; 0 and infinities that cancel give none.
    assert_eq!(outputs_of(&hash, &[Key(9)], &[-2.0]), [Key(hash.output_of(Key(9)).0 ^ 1)]);
    assert_eq!(outputs_of(&hash, &[Key(9)], &[-0.0]), []);
    let endless = [f32::INFINITY, f32::NEG_INFINITY];
    assert_eq!(outputs_of(&hash, &[Key(9); 2], &endless), []);
    for bins in [0, OneSignHash::BINS_MAX + 1] {
        let error = OneSignHash::new(bins, 1).unwrap_err().to_string();
        assert!(error.contains(&format!("{bins} bins: give 1 to")), "{error}");
    }
}

/// Keys of `count` different ids of one column.
fn ids(count: u64) -> Vec<Key> {
    (0..count).map(|id| key_of("C1", &id.to_le_bytes())).collect()
}

/// Over seeds, two keys are in a bin, or have a sign, as often as by chance, however similar.
#[test]
fn pairs_of_keys_are_independent() {
    let (bins, seeds) = (8u64, 8000u64);
    for (one, other) in [(0, 1), (1, 2), (1, 3), (0, 1 << 63), (5, 5 + (1 << 32)), (0, u64::MAX)] {
        let (mut together, mut alike, mut both) = (0, 0, 0);
        for seed in 0..seeds {
            let hash = OneSignHash::new(bins, seed).unwrap();
            let same_bin = hash.bin_of(Key(one)) == hash.bin_of(Key(other));
            let same_sign = hash.is_positive(Key(one)) == hash.is_positive(Key(other));
            together += u64::from(same_bin);
            alike += u64::from(same_sign);
            both += u64::from(same_bin && same_sign);
        }
        for (count, chance) in [(together, 0.125), (alike, 0.5), (both, 0.0625)] {
            let expected = seeds as f64 * chance;
            let deviation = (expected * (1.0 - chance)).sqrt();
            let off = (count as f64 - expected).abs() / deviation;
            assert!(off < 5.0, "{one} {other}: {count} for {expected}");
        }
    }
}

#[test]
fn collisions_and_signs_are_as_frequent_as_by_chance() {
    let (bins, count, seeds) = (256u64, 100u64, 400u64);
    let keys = ids(count);
    let (mut used, mut outputs, mut positive) = (0, 0, 0);
    for seed in 0..seeds {
        let hash = OneSignHash::new(bins, seed).unwrap();
        used += keys.iter().map(|key| hash.bin_of(*key)).collect::<BTreeSet<_>>().len();
        outputs += outputs_of(&hash, &keys, &[]).len();
        positive += keys.iter().filter(|key| hash.is_positive(**key)).count();
    }
    let mean = |sum: usize| sum as f64 / seeds as f64;
    let (bins, count) = (bins as f64, count as f64);
    // A bin gives no output if half of its keys are positive, which needs an even number of keys.
    let none = [(2, 0.5), (4, 0.375), (6, 0.3125)].map(|(keys, share)| {
        let choices = (0..keys)
            .fold(1.0, |product, at| product * (count - f64::from(at)) / f64::from(at + 1) / bins);
        share * bins * choices * (1.0 - 1.0 / bins).powf(count - f64::from(keys))
    });
    let none = none.iter().sum::<f64>();
    let expected = bins * (1.0 - (1.0 - 1.0 / bins).powf(count));
    assert!((mean(used) - expected).abs() < 0.5, "{} for {expected}", mean(used));
    let found = mean(used) - mean(outputs);
    assert!((found - none).abs() < 0.5, "{found} for {none}");
    assert!((mean(positive) - count / 2.0).abs() < 1.0, "{}", mean(positive));
}

/// The paper's method, with a permutation of few columns cut into equal bins and random signs, has
/// as many outputs on average.
#[test]
fn outputs_are_as_many_as_with_a_permutation() {
    let (columns, ones, bins, runs) = (1024usize, 60u64, 64u64, 400u64);
    let keys = ids(ones);
    let (mut permuted, mut hashed) = (0, 0);
    for seed in 0..runs {
        let mut stream = Stream::named(seed, b"permutation");
        let mut places: Vec<u64> = (0..columns as u64).collect();
        for last in (1..columns).rev() {
            places.swap(last, (stream.next_u64() % (last as u64 + 1)) as usize);
        }
        let bin_of: Vec<u64> = places.iter().map(|place| place * bins / columns as u64).collect();
        let mut sign = || if stream.next_u64() >> 63 == 1 { 1.0 } else { -1.0 };
        let signs: Vec<f64> = (0..columns).map(|_| sign()).collect();
        let mut x = vec![0.0; columns];
        x[..ones as usize].fill(1.0);
        permuted += densely(&x, &bin_of, &signs, bins).len();
        hashed += outputs_of(&OneSignHash::new(bins, seed).unwrap(), &keys, &[]).len();
    }
    let [permuted, hashed] = [permuted, hashed].map(|sum| sum as f64 / runs as f64);
    assert!((permuted - hashed).abs() < 0.03 * permuted, "{permuted} {hashed}");
}
