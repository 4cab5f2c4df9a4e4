//! Test helpers: the keys of one owner must fill every table as evenly as any keys.
//!
//! Keys fall into cells; if they did so independently and evenly, the chi-square of the counts
//! would have cells - 1 degrees of freedom. With k degrees it exceeds k + 2 √(k t) + 2 t with a
//! probability below exp(-t) (Laurent, Massart, "Adaptive estimation of a quadratic functional by
//! model selection", 2000). With t = 40, a test fails by chance once in 10¹⁷ times.

use super::{key_shard, owner};
use crate::ids::Key;

/// Exponent of the tail.
const T: f64 = 40.0;
/// Numbers of owners; a test uses the keys of one owner.
const OWNERS: [usize; 5] = [2, 3, 4, 8, 64];

/// A named subset of keys.
pub type Subset = (String, Box<dyn Fn(Key) -> bool>);

/// All keys, and subsets that a single store, slab or sketch may have.
pub fn subsets() -> Vec<Subset> {
    let mut subsets: Vec<Subset> = vec![("any".to_owned(), Box::new(|_| true))];
    for of in OWNERS {
        for number in [0, of / 2, of - 1] {
            let belongs = move |key| owner(key, of) == number;
            subsets.push((format!("owner {number} of {of}"), Box::new(belongs)));
        }
    }
    for shard in [0u8, 1, 128, 255] {
        let belongs = move |key| key_shard(key) == shard;
        subsets.push((format!("key shard {shard}"), Box::new(belongs)));
    }
    subsets
}

/// Compares counts to an even spread with chance deviations.
///
/// # Panics
/// If they are less even, or too few to decide.
pub fn assert_even(counts: &[u32], what: &str) {
    let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    assert!(mean >= 5.0, "{what}: {mean} a cell are too few to tell");
    let square: f64 = counts.iter().map(|count| (f64::from(*count) - mean).powi(2) / mean).sum();
    let freedom = (counts.len() - 1) as f64;
    let most = freedom + 2.0 * (freedom * T).sqrt() + 2.0 * T;
    assert!(square < most, "{what}: chi-square {square:.0} of {most:.0}");
}
