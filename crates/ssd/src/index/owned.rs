//! Keys of one owner, or of one key shard, which are all that a store has where several share a
//! table: they fill the index as any keys do.
//!
//! Chi-squares are held to what chance exceeds once in 10¹⁷ times: of k degrees of freedom one is
//! above k + 2 √(k t) + 2 t with a probability below exp(-t) (Laurent, Massart, 2000), with t = 40.

use stepwell_base::owner::{key_shard, owner};

use super::*;

const KEYS: usize = 100_000;

/// Some keys by name, and which they are.
type Subset = (String, Box<dyn Fn(Key) -> bool>);

fn subsets() -> Vec<Subset> {
    let mut subsets: Vec<Subset> = vec![("any".to_owned(), Box::new(|_| true))];
    for of in [2, 3, 4, 8, 64] {
        for number in [0, of - 1] {
            let belongs = move |key| owner(key, of) == number;
            subsets.push((format!("owner {number} of {of}"), Box::new(belongs)));
        }
    }
    subsets.push(("key shard 77".to_owned(), Box::new(|key| key_shard(key) == 77)));
    subsets
}

fn assert_even(counts: &[u32], what: &str) {
    let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    let square: f64 = counts.iter().map(|count| (f64::from(*count) - mean).powi(2) / mean).sum();
    let freedom = counts.len() as f64 - 1.0;
    let most = freedom + 2.0 * (freedom * 40.0).sqrt() + 80.0;
    assert!(square < most, "{what}: chi-square {square:.0} of {most:.0}");
}

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
            // Whether a shard grew once more is one of 1024 questions, so that their number has a
            // deviation of 16 at most, and growth is three tenths: eight deviations of the
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
