//! Random numbers that reach the model: SplitMix64, addressed by name instead of by order.
//!
//! - **Why.** A row's initial value is a function of (seed, table, key) only, so that the order of
//!   creation, tiers and the number of threads don't affect the model. A generator with state
//!   shared between rows can't provide that.
//!
//! - **How.** A stream's state is the hash of its name; its i-th number is SplitMix64's output
//!   number i for that initial state (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
//!   Generators", OOPSLA 2014), so any number of a stream can be computed without the previous
//!   ones.
//!
//! Only [`drawn`] is different; its numbers must not reach the model.

use std::hash::{BuildHasher, RandomState};

use crate::hash;
use crate::ids::{Key, TableId};
use crate::splitmix64::GOLDEN_GAMMA;
pub use crate::splitmix64::finalize;

/// Name of the generator as written into checkpoints.
pub const GENERATOR_NAME: &str = "splitmix64";

/// Seed and name of a row's stream, as hashed. // 28 bytes
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C, packed)]
struct Name {
    seed: u64,
    purpose: [u8; 8],
    table: u32,
    key: u64,
}

/// Seed and name of a stream for a row and a step, as hashed. // 36 bytes
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C, packed)]
struct StepName {
    name: Name,
    step: u64,
}

/// Seed and place of an example in the data, as hashed. // 36 bytes
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C, packed)]
struct PlaceName {
    seed: u64,
    purpose: [u8; 8],
    epoch: u64,
    file: u32,
    line: u64,
}

const _: () = assert!(cfg!(target_endian = "little"), "names are hashed in little-endian order");

/// Random words from the system, for secrets and ids, which never reach the model.
///
/// Comes from the standard library, which draws keys for its maps: no dependency, and no errors.
pub fn drawn<const COUNT: usize>() -> [u64; COUNT] {
    let state = RandomState::new();
    std::array::from_fn(|word| state.hash_one(word as u64))
}

/// A stream of random numbers with a name.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// The stream named `name` under `seed`.
    ///
    /// The first state is the XXH3-64, with seed 0, of `seed` (u64, little-endian) and `name`.
    /// `seed` is part of the hashed bytes, since XXH3's own seed would only be added to a short
    /// name.
    pub fn named(seed: u64, name: &[u8]) -> Self {
        let mut hash = hash::Checksum::new();
        hash.update(&seed.to_le_bytes());
        hash.update(name);
        Self { state: hash.value() }
    }

    /// The stream of initial values of the row (`table`, `key`) under `seed`.
    ///
    /// The name is `initial`, NUL, table (u32) and key (u64), little-endian.
    #[inline]
    pub fn of_row(seed: u64, table: TableId, key: Key) -> Self {
        Self::joined(&Name { seed, purpose: *b"initial\0", table: table.0, key: key.0 })
    }

    /// The stream that rounds the row (`table`, `key`) after step `step`, under `seed`; its initial
    /// value is rounded with step 0.
    ///
    /// The name is `rounding`, table (u32), key (u64) and step (u64), little-endian.
    #[inline]
    pub fn of_rounding(seed: u64, table: TableId, key: Key, step: u64) -> Self {
        let name = Name { seed, purpose: *b"rounding", table: table.0, key: key.0 };
        Self::joined(&StepName { name, step })
    }

    /// The stream whose first number decides whether the key (`table`, `key`) is admitted in the
    /// mini-batch after `steps` steps, with admission by chance.
    ///
    /// The name is `admitted`, then as in [`Stream::of_rounding`].
    #[inline]
    pub fn of_admission(seed: u64, table: TableId, key: Key, steps: u64) -> Self {
        let name = Name { seed, purpose: *b"admitted", table: table.0, key: key.0 };
        Self::joined(&StepName { name, step: steps })
    }

    /// The stream whose numbers decide which lanes of example number `example` of its mini-batch
    /// are dropped in layer `layer`, in the step after `step` steps.
    ///
    /// The name is `dropping`, step (u64) and example (u64), little-endian, and the name of the
    /// layer.
    pub fn of_dropping(seed: u64, layer: &str, step: u64, example: u64) -> Self {
        let mut hash = hash::Checksum::new();
        hash.update(&seed.to_le_bytes());
        hash.update(b"dropping");
        hash.update(&step.to_le_bytes());
        hash.update(&example.to_le_bytes());
        hash.update(layer.as_bytes());
        Self { state: hash.value() }
    }

    /// The stream whose first number decides whether a negative example is trained in epoch
    /// `epoch`: the one after `line` lines of file number `file`, from 0, which both don't count
    /// headers.
    ///
    /// The name is `negative`, epoch (u64), file (u32) and line (u64), little-endian.
    #[inline]
    pub fn of_negative(seed: u64, epoch: u64, file: u32, line: u64) -> Self {
        Self::joined(&PlaceName { seed, purpose: *b"negative", epoch, file, line })
    }

    /// The stream of a seed and name that are adjacent in memory.
    #[inline]
    fn joined(name: &impl bytemuck::NoUninit) -> Self {
        Self { state: hash::checksum(bytemuck::bytes_of(name)) }
    }

    /// A stream that starts at `state` itself, as SplitMix64 is usually seeded.
    pub fn from_state(state: u64) -> Self {
        Self { state }
    }

    /// Current state; [`Stream::from_state`] of it is the same stream.
    #[inline]
    pub fn state(&self) -> u64 {
        self.state
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        finalize(self.state)
    }

    /// Number `index` of the following ones, from 0, without advancing the stream.
    #[inline(always)]
    pub fn at(&self, index: u64) -> u64 {
        finalize(self.state.wrapping_add(GOLDEN_GAMMA.wrapping_mul(index.wrapping_add(1))))
    }

    /// Uniform in [0, 1), a multiple of 2⁻²⁴.
    #[inline]
    pub fn next_f32(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 * (1.0 / (1u32 << 24) as f32)
    }

    /// Uniform in [0, 1), a multiple of 2⁻⁵³.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [-range, range).
    #[inline]
    pub fn next_symmetric(&mut self, range: f32) -> f32 {
        (self.next_f32() * 2.0 - 1.0) * range
    }
}

/// Writes the initial weights of a row: `embedding` uniform in [-range, range), the rest zero.
///
/// A function of (seed, table, key) alone (invariant I3).
#[inline]
pub fn initial_weights(
    seed: u64,
    table: TableId,
    key: Key,
    range: f32,
    embedding: usize,
    weights: &mut [f32],
) {
    let mut stream = Stream::of_row(seed, table, key);
    let (uniform, zero) = weights.split_at_mut(embedding);
    uniform.iter_mut().for_each(|w| *w = stream.next_symmetric(range));
    zero.fill(0.0);
}

/// Description of the row initializer in checkpoints.
pub fn initializer_name() -> String {
    format!(
        "{GENERATOR_NAME} from {} of (seed u64, 'initial', NUL, table u32, key u64)",
        hash::CHECKSUM_NAME
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors_hold() {
        // The first outputs of SplitMix64 seeded with 1234567, as in the reference C code's tests.
        let mut stream = Stream::from_state(1_234_567);
        let got: Vec<u64> = (0..5).map(|_| stream.next_u64()).collect();
        assert_eq!(
            got,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn checkpoints_name_the_initializer() {
        let name = "splitmix64 from xxh3-64 of (seed u64, 'initial', NUL, table u32, key u64)";
        assert_eq!(initializer_name(), name);
    }

    #[test]
    fn streams_start_where_their_names_say() {
        // The first number of each, computed in Python from xxhash.xxh3_64_intdigest and
        // SplitMix64.
        let (table, key) = (TableId(3), Key(0x0123_4567_89AB_CDEF));
        assert_eq!(Stream::of_row(7, table, key).at(0), 0xD51D_4631_5CDA_414C);
        assert_eq!(Stream::of_rounding(7, table, key, 42).at(0), 0x2BCA_1260_219A_999C);
        assert_eq!(Stream::of_admission(7, table, key, 42).at(0), 0xEA1B_74FE_B3BD_F27A);
        assert_eq!(Stream::of_dropping(7, "thinned", 42, 3).at(0), 0x4631_4E3C_E9F3_6F91);
        assert_eq!(Stream::of_negative(7, 2, 3, 42).at(0), 0x8C9E_004F_4C60_C029);
        assert_eq!(Stream::named(7, b"dense/hidden0/weight").at(0), 0x1053_D2C5_6A35_0381);
        assert_eq!(Stream::named(7, &[b'n'; 100]).at(0), 0x5E3C_52A0_4AB6_B9FA);
    }

    #[test]
    fn any_number_is_reached_without_those_before_it() {
        let start = Stream::of_rounding(3, TableId(1), Key(2), 4);
        let mut stream = start;
        for index in 0..100 {
            assert_eq!(start.at(index), stream.next_u64());
        }
        assert_ne!(start.at(0), Stream::of_rounding(3, TableId(1), Key(2), 5).at(0));
        assert_ne!(start.at(0), Stream::of_rounding(3, TableId(0), Key(2), 4).at(0));
    }

    #[test]
    fn initial_weights_depend_on_nothing_but_the_name() {
        let mut first = [0.0; 9];
        let mut again = [7.0; 9];
        initial_weights(3, TableId(0), Key(11), 0.01, 8, &mut first);
        initial_weights(3, TableId(0), Key(12), 0.01, 8, &mut again);
        assert_ne!(first, again);
        initial_weights(3, TableId(0), Key(11), 0.01, 8, &mut again);
        assert_eq!(first, again);
        assert!(first[..8].iter().all(|w| (-0.01..0.01).contains(w)));
        assert_eq!(first[8], 0.0);
    }

    #[test]
    fn uniform_numbers_have_the_right_mean() {
        let mut stream = Stream::named(1, b"mean");
        let mean = (0..100_000).map(|_| f64::from(stream.next_f32())).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }
}
