//! The keys of one owner, or of one key shard, are like any keys to every other function of keys:
//! tables that contain only these are still balanced.

use stepwell_base::hash::mix;
use stepwell_base::owner::conformance::{assert_even, subsets};
use stepwell_base::owner::{KEY_SHARDS, key_shard};
use stepwell_base::random::{Stream, finalize};
use stepwell_base::scatter::Scatter;
use stepwell_base::{Key, Namespace};

/// Number of keys of each test.
const KEYS: usize = 20_000;

/// Typical and other keys, by number.
type Family = fn(u64) -> Key;

const FAMILIES: [(&str, Family); 5] = [
    ("ids", |n| Namespace::of_column(1).key_of(n.to_string().as_bytes())),
    ("random", |n| Key(Stream::from_state(7).at(n))),
    ("in a row", Key),
    ("in the high bits", |n| Key(n << 32)),
    ("in a row to the known finalizer", |n| Scatter::KNOWN.key_of(n)),
];

/// A named function of keys.
type Function = (&'static str, Box<dyn Fn(Key) -> u64>);

/// Functions of keys in tables, policies and sketches.
fn functions() -> Vec<Function> {
    let [first, second] = [1, 2].map(|seed| Scatter::new(Some(seed)));
    vec![
        // Tags of policies, and positions in sketches.
        ("the known finalizer", Box::new(mix)),
        // Like a row of the admission sketch.
        ("a salted row of a sketch", Box::new(|key| finalize(mix(key) ^ 0x1234_5678_9ABC_DEF0))),
        // Indexes of slab and store, the grouper, next uses.
        ("one secret", Box::new(move |key| first.of(key))),
        ("another secret", Box::new(move |key| second.of(key))),
    ]
}

#[test]
fn shards_are_even_for_keys_of_any_kind() {
    for (family, key) in FAMILIES {
        let mut counts = vec![0; KEY_SHARDS];
        (0..200_000).for_each(|n| counts[usize::from(key_shard(key(n)))] += 1);
        assert_even(&counts, family);
    }
}

#[test]
fn keys_of_one_owner_are_like_any_keys_to_all_other_functions() {
    let functions = functions();
    for (family, key) in FAMILIES {
        for (subset, belongs) in subsets() {
            let keys: Vec<Key> = (0..).map(key).filter(|key| belongs(*key)).take(KEYS).collect();
            for (function, value) in &functions {
                let values: Vec<u64> = keys.iter().map(|key| value(*key)).collect();
                // By construction, this function maps this family to consecutive numbers.
                if family.ends_with(function) {
                    continue;
                }
                for shift in (0..=54).step_by(6) {
                    let mut counts = vec![0; 1 << 10];
                    values.iter().for_each(|value| counts[(value >> shift & 0x3FF) as usize] += 1);
                    let what = format!("{family}, {subset}: {function}, bits from {shift}");
                    assert_even(&counts, &what);
                }
            }
        }
    }
}

/// A function whose bits serve two purposes is detected.
#[test]
fn the_measure_sees_a_bit_that_serves_two_purposes() {
    let keys = (0..).map(Key).filter(|key| mix(*key) >> 63 == 0).take(KEYS);
    let mut counts = vec![0; 1 << 10];
    keys.for_each(|key| counts[(mix(key) >> 54) as usize] += 1);
    let caught = std::panic::catch_unwind(|| assert_even(&counts, "high bit"));
    assert!(caught.is_err());
}
