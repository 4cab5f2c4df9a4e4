//! What every table holds of the keys of one owner: they fill it as any keys do. For tests.
//!
//! Keys fall into cells; if each did by itself, evenly, the chi-square of the counts would be that
//! of cells - 1 degrees of freedom. Of k degrees it is above k + 2 √(k t) + 2 t with a probability
//! below exp(-t) (Laurent, Massart, "Adaptive estimation of a quadratic functional by model
//! selection", 2000). With t = 40, chance fails a test once in 10¹⁷ times.

use super::{key_shard, owner};
use crate::Key;

/// Exponent of the tail.
const T: f64 = 40.0;
/// Owners among whom one's keys are taken.
const OWNERS: [usize; 5] = [2, 3, 4, 8, 64];

/// Some keys by name, and which they are.
pub type Subset = (String, Box<dyn Fn(Key) -> bool>);

/// Any keys, and subsets that one store, slab or sketch may have alone.
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

/// Compares counts with what chance makes of an even spread.
///
/// # Panics
/// When they are farther from even, or too few to tell.
pub fn assert_even(counts: &[u32], what: &str) {
    let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    assert!(mean >= 5.0, "{what}: {mean} a cell are too few to tell");
    let square: f64 = counts.iter().map(|count| (f64::from(*count) - mean).powi(2) / mean).sum();
    let freedom = (counts.len() - 1) as f64;
    let most = freedom + 2.0 * (freedom * T).sqrt() + 2.0 * T;
    assert!(square < most, "{what}: chi-square {square:.0} of {most:.0}");
}
