//! Rows of the benchmark: keys, incompressible bytes, and the choice of rows for look-ups.

use stepwell_base::Key;
use stepwell_base::random::{Stream, finalize};
use stepwell_data::Zipf;

use crate::{Error, Result};

/// Bytes from which payloads are cut.
const POOL_BYTES: usize = 1 << 20;

pub(crate) struct Rows {
    pub(crate) count: u64,
    row_bytes: usize,
    zipf: Option<Zipf>,
    pool: Vec<u8>,
    /// How many times each row was put after the load, modulo 256.
    versions: Vec<u8>,
}

/// Key of row `number`: a bijection, so keys are distinct and in random order.
pub(crate) fn key(number: u64) -> Key {
    Key(finalize(number + 1))
}

impl Rows {
    pub(crate) fn new(count: u64, row_bytes: usize, skew: f64) -> Self {
        let mut dice = Stream::from_state(1);
        let words = (POOL_BYTES + row_bytes).div_ceil(8);
        let pool = (0..words).flat_map(|_| dice.next_u64().to_le_bytes()).collect();
        let zipf = (skew > 0.0).then(|| Zipf::new(count, skew));
        Self { count, row_bytes, zipf, pool, versions: vec![0; count as usize] }
    }

    /// Draws a row for a look-up.
    pub(crate) fn pick(&self, dice: &mut Stream) -> u64 {
        match &self.zipf {
            // Scatters frequent rows.
            Some(zipf) => {
                let rank = zipf.rank(dice.next_u64(), dice.next_u64());
                scaled(finalize(rank), self.count)
            }
            None => scaled(dice.next_u64(), self.count),
        }
    }

    fn body(&self, number: u64, version: u8) -> &[u8] {
        let at = finalize(number ^ u64::from(version) << 56) as usize % POOL_BYTES;
        &self.pool[at..at + self.row_bytes - 8]
    }

    /// Appends the payload of a row.
    pub(crate) fn write(&self, number: u64, to: &mut Vec<u8>) {
        to.extend_from_slice(&number.to_le_bytes());
        to.extend_from_slice(self.body(number, self.versions[number as usize]));
    }

    /// Advances a row to its next version, to be put again.
    pub(crate) fn renew(&mut self, number: u64) {
        let version = &mut self.versions[number as usize];
        *version = version.wrapping_add(1);
    }

    /// Checks that a row that was read is its latest version.
    pub(crate) fn check(&self, number: u64, found: bool, row: &[u8]) -> Result<()> {
        let wrong = |why: &str| {
            let key = key(number).0;
            Err(Error::WrongRow { key, why: why.to_owned() })
        };
        if !found {
            return wrong("it is missing");
        }
        let body = self.body(number, self.versions[number as usize]);
        // Checks both ends: the store verified the row's checksum, this verifies its identity.
        if row[..8] != number.to_le_bytes() || row[row.len() - 8..] != body[body.len() - 8..] {
            return wrong("its bytes are not those written");
        }
        Ok(())
    }
}

/// A uniform number below `count`.
pub(crate) fn scaled(random: u64, count: u64) -> u64 {
    ((u128::from(random) * u128::from(count)) >> 64) as u64
}

/// A permutation of the numbers below a count, without a table: a Feistel network over the next
/// even power of two (Luby, Rackoff 1988), iterated until the result is below the count.
#[derive(Clone, Copy)]
pub(crate) struct Shuffle {
    count: u64,
    half: u32,
    seed: u64,
}

impl Shuffle {
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        Self { count, half: bits.div_ceil(2).max(1), seed }
    }

    /// The number at a position.
    pub(crate) fn at(&self, place: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let mut value = place;
        loop {
            let (mut left, mut right) = (value >> self.half, value & mask);
            for round in 0..4 {
                let mixed = finalize(right ^ (self.seed + round) << 32);
                (left, right) = (right, (left ^ mixed) & mask);
            }
            value = left << self.half | right;
            if value < self.count {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_is_a_permutation() {
        for count in [1, 2, 5, 64, 1000] {
            let shuffle = Shuffle::new(count, 3);
            let mut seen: Vec<u64> = (0..count).map(|place| shuffle.at(place)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn rows_know_their_version() {
        let mut rows = Rows::new(10, 40, 0.0);
        let mut row = Vec::new();
        rows.write(3, &mut row);
        assert_eq!(row.len(), 40);
        rows.check(3, true, &row).unwrap();
        assert!(rows.check(4, true, &row).is_err() && rows.check(3, false, &row).is_err());
        rows.renew(3);
        assert!(rows.check(3, true, &row).is_err());
    }
}
