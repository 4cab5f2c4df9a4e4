//! Hashes an example's ids into fewer ones: OP+OSRP, one permutation and one sign random
//! projection.
//!
//! ```text
//! key ─► bin, one of k (one permutation) ─┐
//! key ─► r = ±1 (sign random projection) ─┴► z = Σ value · r in each bin ─┬ z > 0: 2 bin + 1
//!                                                                         ├ z < 0: 2 bin
//!                                                                         └ z = 0: nothing
//! ```
//!
//! - **Why.** A model over hashed ids has at most 2 k rows, regardless of the number of ids. It is
//!   smaller than the full model, and less accurate.
//! - **How.** The paper permutes all columns once, cuts them into k equal bins and writes 01, 10 or
//!   00 for each. A permutation of 2⁶⁴ columns can't be stored, so keys are hashed to bins instead.
//!   k is the number of bins, and 2 k the number of outputs.
//! - **Invariants.** Outputs are a function of bins, seed and the example's multiset of keys and
//!   values. They ascend, at most one per bin, so there are never more outputs than keys.
//!   Multiplying all values by a positive number changes nothing, unless rounding the products
//!   does.
//! - **Cost.** A sort of the example's keys; the number of bins doesn't matter.
//! - **Source.** W. Zhao et al., "Distributed hierarchical GPU parameter server for massive scale
//!   deep learning ads systems", MLSys 2020, section 2. Hash functions: M. Dietzfelbinger,
//!   "Universal hashing and k-wise independent random variables via integer arithmetic without
//!   primes", STACS 1996.

use stepwell_base::random::Stream;
use stepwell_base::{Key, Namespace};

use crate::error::DataError;

/// Name of the hash functions of bins and signs, fixed by test vectors.
pub const SIGN_HASH_NAME: &str = "multiply-shift mod 2^128 of (key u64), with splitmix64 from \
                                  xxh3-64 of (seed u64, 'sign hash')";

/// One permutation and one sign random projection.
///
/// ```
/// use stepwell_base::Key;
/// use stepwell_data::OneSignHash;
///
/// let hash = OneSignHash::new(1 << 10, 7)?;
/// let mut outputs = Vec::new();
/// hash.append(&[Key(3), Key(1), Key(4)], &[], &mut outputs);
/// assert!(outputs.len() <= 3 && outputs.iter().all(|output| output.0 < hash.outputs()));
/// # Ok::<(), stepwell_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneSignHash {
    bins: u64,
    bin: MultiplyShift,
    sign: MultiplyShift,
}

impl OneSignHash {
    /// Most bins: all outputs are u64.
    pub const BINS_MAX: u64 = 1 << 62;

    /// A hash into `bins` bins, with functions drawn by `seed`.
    ///
    /// # Errors
    /// [`DataError::Options`] for 0 bins or more than [`OneSignHash::BINS_MAX`].
    pub fn new(bins: u64, seed: u64) -> Result<Self, DataError> {
        if !(1..=Self::BINS_MAX).contains(&bins) {
            let most = Self::BINS_MAX;
            return Err(DataError::Options(format!("{bins} bins: give 1 to {most}")));
        }
        let mut stream = Stream::named(seed, b"sign hash");
        let (bin, sign) = (MultiplyShift::drawn(&mut stream), MultiplyShift::drawn(&mut stream));
        Ok(Self { bins, bin, sign })
    }

    /// Number of bins, k in the paper.
    pub fn bins(&self) -> u64 {
        self.bins
    }

    /// Number of possible outputs, two per bin.
    pub fn outputs(&self) -> u64 {
        2 * self.bins
    }

    /// Bin of a key.
    ///
    /// Two keys share a bin with probability 1 / bins over all seeds, if bins are a power of two.
    #[inline]
    pub fn bin_of(&self, key: Key) -> u64 {
        ((u128::from(self.bin.of(key)) * u128::from(self.bins)) >> 64) as u64
    }

    /// Whether the sign of a key is +1, and not -1.
    ///
    /// The signs of two keys are independent over all seeds, and of their bins.
    #[inline]
    pub fn is_positive(&self, key: Key) -> bool {
        self.sign.of(key) >> 63 == 1
    }

    /// Output of an example with this key alone and a positive value.
    #[inline]
    pub fn output_of(&self, key: Key) -> Key {
        Key(2 * self.bin_of(key) + u64::from(self.is_positive(key)))
    }

    /// Appends the outputs of an example to `outputs`, in ascending order.
    ///
    /// `values` has a finite value for each key, or is empty if all are 1. A key may occur several
    /// times. Values are summed as f64, in the order of keys and then of values, so a sum of few
    /// values of similar size is exact. A bin whose sum isn't a number gives nothing.
    ///
    /// # Panics
    /// If there are values, but not one per key.
    pub fn append(&self, keys: &[Key], values: &[f32], outputs: &mut Vec<Key>) {
        if values.is_empty() {
            self.append_counted(keys, outputs);
        } else {
            assert_eq!(values.len(), keys.len(), "one value per key");
            self.append_summed(keys, values, outputs);
        }
    }

    /// Replaces an example's keys from `begin` on by the keys of its outputs in `namespace`.
    /// `values` has the values of the first keys; all others are 1, and so is every output's.
    pub(crate) fn replace(
        &self,
        namespace: &Namespace,
        begin: usize,
        keys: &mut Vec<Key>,
        values: &mut Vec<f32>,
    ) {
        let mut outputs = Vec::with_capacity(keys.len() - begin);
        let has_values = values.len() > begin;
        if has_values {
            values.resize(keys.len(), 1.0);
        }
        let of_keys = if has_values { &values[begin..] } else { &[] };
        self.append(&keys[begin..], of_keys, &mut outputs);
        keys.truncate(begin);
        values.truncate(begin);
        keys.extend(outputs.iter().map(|output| namespace.key_of(&output.0.to_le_bytes())));
    }

    /// Appends the sign of most keys of each bin.
    fn append_counted(&self, keys: &[Key], outputs: &mut Vec<Key>) {
        let begin = outputs.len();
        outputs.extend(keys.iter().map(|key| self.output_of(*key)));
        outputs[begin..].sort_unstable();
        let (mut kept, mut at) = (begin, begin);
        while let Some(first) = outputs.get(at) {
            let bin = first.0 >> 1;
            let of_bin = outputs[at..].iter().take_while(|output| output.0 >> 1 == bin);
            let (count, positive) =
                of_bin.fold((0, 0), |(count, positive), of| (count + 1, positive + (of.0 & 1)));
            if let Some(output) = output(bin, 2.0 * positive as f64 - count as f64) {
                outputs[kept] = output;
                kept += 1;
            }
            at += count;
        }
        outputs.truncate(kept);
    }

    /// Appends the sign of the sum of each bin.
    fn append_summed(&self, keys: &[Key], values: &[f32], outputs: &mut Vec<Key>) {
        let bin = |(key, value): (&Key, &f32)| (self.bin_of(*key), *key, *value);
        let mut terms: Vec<_> = keys.iter().zip(values).map(bin).collect();
        terms.sort_unstable_by(|(bin, key, value), (other_bin, other_key, other_value)| {
            (bin, key).cmp(&(other_bin, other_key)).then(value.total_cmp(other_value))
        });
        let signed = |(_, key, value): &(u64, Key, f32)| {
            let value = f64::from(*value);
            if self.is_positive(*key) { value } else { -value }
        };
        let of_bins = terms.chunk_by(|(bin, ..), (other, ..)| bin == other);
        outputs
            .extend(of_bins.filter_map(|terms| output(terms[0].0, terms.iter().map(signed).sum())));
    }
}

/// Output of a bin with this sum.
fn output(bin: u64, sum: f64) -> Option<Key> {
    if sum > 0.0 {
        return Some(Key(2 * bin + 1));
    }
    (sum < 0.0).then_some(Key(2 * bin))
}

/// The highest 64 bits of a x + b mod 2¹²⁸, pairwise independent over all a and b.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MultiplyShift {
    a: u128,
    b: u128,
}

impl MultiplyShift {
    /// A function drawn from a stream: a and b, higher halves first.
    fn drawn(stream: &mut Stream) -> Self {
        let mut number = || u128::from(stream.next_u64()) << 64 | u128::from(stream.next_u64());
        Self { a: number(), b: number() }
    }

    #[inline]
    fn of(self, key: Key) -> u64 {
        (self.a.wrapping_mul(u128::from(key.0)).wrapping_add(self.b) >> 64) as u64
    }
}
