//! What every engine is given: keys, rows and the orders they come in.
//!
//! - **How.** Row number i has the key mix64(i) and random bytes drawn from (key, generation), so
//!   any row read back is checked without keeping a copy. Loading is generation 0, updating
//!   generation 1. Orders are shuffles of the row numbers, a new one per phase: rows that were
//!   written together are not overwritten together.
//! - **Cost.** 4 bytes of memory a row for an order; about 30 ns to draw a row of 256 bytes.

/// A key as the engines see it: big-endian, so that comparing bytes compares numbers.
pub(crate) type Key = [u8; KEY_BYTES];

/// Length of a key.
pub(crate) const KEY_BYTES: usize = 8;

/// Rows written at once.
pub(crate) const WRITE_BATCH_ROWS: usize = 8192;

const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's output function: a bijection of the 64-bit numbers.
pub(crate) fn mix64(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Stream(u64);

impl Stream {
    /// The stream of `seed`; nearby seeds give unrelated streams.
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix64(seed.wrapping_add(GOLDEN_GAMMA)))
    }

    /// The next 64 random bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix64(self.0)
    }

    /// Uniform below `bound`, as far as 64 bits allow.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// The key of row `number`.
pub(crate) fn key(number: u64) -> Key {
    mix64(number).to_be_bytes()
}

/// Writes the bytes of a row's `generation`.
pub(crate) fn fill(key: &Key, generation: u64, row: &mut [u8]) {
    let mut stream = stream_of(key, generation);
    for chunk in row.chunks_mut(8) {
        chunk.copy_from_slice(&stream.next_u64().to_le_bytes()[..chunk.len()]);
    }
}

/// Whether `row` looks like the row of `key` in `generation`: its length and its first word.
pub(crate) fn is_row(key: &Key, generation: u64, row: &[u8], row_bytes: usize) -> bool {
    let first = stream_of(key, generation).next_u64().to_le_bytes();
    let known = row_bytes.min(first.len());
    row.len() == row_bytes && row[..known] == first[..known]
}

fn stream_of(key: &Key, generation: u64) -> Stream {
    Stream::new(u64::from_be_bytes(*key) ^ generation.wrapping_mul(GOLDEN_GAMMA))
}

/// All row numbers in random order.
pub(crate) fn shuffled(rows: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows).collect();
    let mut stream = Stream::new(seed);
    for last in (1..order.len()).rev() {
        order.swap(last, stream.below(last as u64 + 1) as usize);
    }
    order
}

/// Rows to be written at once, in memory that is used again for the next ones.
#[derive(Debug)]
pub(crate) struct Batch {
    keys: Vec<Key>,
    rows: Vec<u8>, // (keys.len(), row_bytes)
    row_bytes: usize,
}

impl Batch {
    pub(crate) fn new(row_bytes: usize) -> Self {
        Self { keys: Vec::new(), rows: Vec::new(), row_bytes }
    }

    /// Takes the rows of `numbers` in `generation`, instead of what it held.
    pub(crate) fn draw(&mut self, numbers: &[u32], generation: u64) {
        self.keys.clear();
        self.keys.extend(numbers.iter().map(|number| key(u64::from(*number))));
        self.rows.resize(numbers.len() * self.row_bytes, 0);
        for (key, row) in self.keys.iter().zip(self.rows.chunks_exact_mut(self.row_bytes)) {
            fill(key, generation, row);
        }
    }

    /// Bytes of the keys and rows held.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.len() * (KEY_BYTES + self.row_bytes)
    }

    pub(crate) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The rows of all keys, one after the other. // (keys, row_bytes)
    pub(crate) fn rows(&self) -> &[u8] {
        &self.rows
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &[u8])> {
        self.keys.iter().zip(self.rows.chunks_exact(self.row_bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_stream_is_splitmix64() {
        // The first outputs of the reference implementation for the state 1234567.
        let mut stream = Stream(1_234_567);
        assert_eq!(stream.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(stream.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn keys_differ_and_sort_as_numbers() {
        let keys: BTreeSet<Key> = (0..10_000).map(key).collect();
        assert_eq!(keys.len(), 10_000);
        let numbers: Vec<u64> = keys.iter().map(|key| u64::from_be_bytes(*key)).collect();
        assert!(numbers.is_sorted());
    }

    #[test]
    fn an_order_has_every_row_once_and_depends_on_its_seed() {
        for rows in [0, 1, 2, 1000] {
            let order = shuffled(rows, 1);
            let all: BTreeSet<u32> = order.iter().copied().collect();
            assert_eq!(order.len(), rows as usize);
            assert_eq!(all, (0..rows).collect());
        }
        assert_ne!(shuffled(1000, 1), shuffled(1000, 2));
        assert_ne!(shuffled(1000, 1), (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn bounded_numbers_stay_below_and_reach_the_ends() {
        let mut stream = Stream::new(7);
        let drawn: BTreeSet<u64> = (0..1000).map(|_| stream.below(5)).collect();
        assert_eq!(drawn, (0..5).collect());
    }

    #[test]
    fn a_row_is_known_by_key_and_generation() {
        for row_bytes in [1, 7, 8, 9, 256] {
            let mut batch = Batch::new(row_bytes);
            batch.draw(&[5, 9], 1);
            assert_eq!(batch.bytes(), 2 * (8 + row_bytes));
            let drawn: Vec<(Key, Vec<u8>)> = batch.iter().map(|(k, r)| (*k, r.to_vec())).collect();
            assert_eq!(drawn.len(), 2);
            for ((key, row), number) in drawn.iter().zip([5, 9]) {
                assert_eq!(*key, super::key(number));
                assert!(is_row(key, 1, row, row_bytes));
                assert!(!is_row(key, 1, &row[1..], row_bytes));
                assert!(row_bytes < 8 || !is_row(key, 0, row, row_bytes));
            }
            batch.draw(&[], 0);
            assert_eq!(batch.iter().count(), 0);
        }
    }
}
