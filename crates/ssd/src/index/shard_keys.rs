//! Keys of one owner or one key shard, all that a store has if several divide a table, fill the
//! index as evenly as any keys.

use stepwell_base::owner::conformance::{assert_even, subsets};

use super::*;

const KEYS: usize = 100_000;

#[test]
fn shards_and_both_choices_of_buckets_are_even() {
    for (what, belongs) in subsets() {
        for scatter in [Scatter::KNOWN, Scatter::new(Some(1))] {
            let (mut shards, mut choices) = (vec![0; SHARDS], [0, 1].map(|_| vec![0; 1 << 12]));
            for key in (0..).map(Key).filter(|key| belongs(*key)).take(KEYS) {
                let (shard, local) = permute::split(scatter.of(key));
                shards[shard] += 1;
                for (value, counts) in [local, permute::turn(local)].into_iter().zip(&mut choices) {
                    counts[(value >> (54 - 12)) as usize] += 1;
                }
            }
            assert_even(&shards, &what);
            choices.iter().for_each(|counts| assert_even(counts, &what));
        }
    }
}

#[test]
fn an_index_of_them_weighs_what_one_of_any_keys_does() {
    let mut any = [0; 2];
    for (what, belongs) in subsets() {
        for (bytes_of_any, hint) in any.iter_mut().zip([0, KEYS as u64]) {
            let mut index = Index::new(u64::MAX, hint, 1 << 20, Scatter::KNOWN);
            for (place, key) in (0..).map(Key).filter(|key| belongs(*key)).take(KEYS).enumerate() {
                assert_eq!(index.put(key, Place(place as u64)), Ok(None), "{what}");
            }
            // Whether a shard grew another time is a yes or no for each of 1024, so their sum has a
            // standard deviation of at most 16, and growth is three tenths: eight deviations of the
            // difference of two such sums are 8 · 16 · √2 · 0.3 / 1024 of the bytes.
            let bytes = index.bytes() - BYTES_MIN;
            if what == "any" {
                *bytes_of_any = bytes;
            }
            let off = bytes.abs_diff(*bytes_of_any) as f64 / *bytes_of_any as f64;
            assert!(off < 0.054, "{what}: {bytes} bytes, {bytes_of_any} with any keys");
            assert!(index.bytes() < bytes_enough(KEYS as u64, 1 << 20), "{what}");
        }
    }
}
