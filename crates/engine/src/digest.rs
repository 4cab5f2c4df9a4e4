//! The digest of a model, for comparing two runs bit for bit.
//!
//! digest = XXH3-128( sum ‖ dense ), where sum is the sum modulo 2¹²⁸, over every existing row, of
//! XXH3-128( table u32 ‖ key u64 ‖ weights and optimizer state as f32 ), and dense is the dense
//! parameters followed by their optimizer's state and step count. All little-endian. A sum doesn't
//! depend on the order of rows; metadata of tiers and policies is left out.

use stepwell_base::{Key, TableId, hash};

use crate::dense::{DenseView, pieces};

/// A digest under construction.
#[derive(Debug, Default)]
pub struct ModelDigest {
    sum: u128,
    rows: u64,
    scratch: Vec<u8>,
}

impl ModelDigest {
    /// Adds one row.
    pub fn add_row(&mut self, table: TableId, key: Key, row: &[u8]) {
        self.scratch.clear();
        self.scratch.extend_from_slice(&table.0.to_le_bytes());
        self.scratch.extend_from_slice(&key.0.to_le_bytes());
        self.scratch.extend_from_slice(row);
        self.sum = self.sum.wrapping_add(hash::digest128(&self.scratch));
        self.rows += 1;
    }

    /// Digest of the rows added so far, to be added to another rank's digest.
    pub fn of_rows(&self) -> [u64; 3] {
        [self.sum as u64, (self.sum >> 64) as u64, self.rows]
    }

    /// Adds another rank's rows, from [`ModelDigest::of_rows`].
    pub fn add_rows(&mut self, [low, high, rows]: [u64; 3]) {
        self.sum = self.sum.wrapping_add(u128::from(low) | u128::from(high) << 64);
        self.rows += rows;
    }

    /// Number of rows added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The digest with the dense part, as 32 hexadecimal digits; doesn't copy the dense part.
    pub fn finish(&self, dense: &DenseView<'_>) -> String {
        let mut whole = hash::Digest128::new();
        whole.update(&self.sum.to_le_bytes());
        for (_, values) in &dense.sections {
            pieces(values).for_each(|piece| whole.update(piece.bytes()));
        }
        format!("{:032x}", whole.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Dense;

    fn digest(rows: &[(u32, u64, [u8; 2])], dense: &[f32]) -> String {
        let mut digest = ModelDigest::default();
        rows.iter().for_each(|(t, k, row)| digest.add_row(TableId(*t), Key(*k), row));
        let dense = Dense { sections: vec![("dense".to_owned(), dense.to_vec())] };
        digest.finish(&dense.view())
    }

    #[test]
    fn order_does_not_show_and_everything_else_does() {
        let (a, b) = ((0, 1, [1, 2]), (0, 2, [3, 4]));
        let whole = digest(&[a, b], &[1.5]);
        assert_eq!(whole, digest(&[b, a], &[1.5]));
        assert_ne!(whole, digest(&[a], &[1.5]));
        assert_ne!(whole, digest(&[a, (0, 2, [3, 5])], &[1.5]));
        assert_ne!(whole, digest(&[a, (0, 3, [3, 4])], &[1.5]));
        assert_ne!(whole, digest(&[a, (1, 2, [3, 4])], &[1.5]));
        assert_ne!(whole, digest(&[a, b], &[-1.5]));
    }

    #[test]
    fn sections_are_one_after_the_other() {
        let values: Vec<f32> = (0..40_000).map(|number| number as f32 * 0.37).collect();
        let mut digest = ModelDigest::default();
        digest.add_row(TableId(3), Key(7), &[1, 2, 3]);
        let mut bytes = digest.sum.to_le_bytes().to_vec();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let expected = format!("{:032x}", hash::digest128(&bytes));
        for cut in [0, 1, 16_383, 39_999] {
            let (first, rest) = values.split_at(cut);
            let sections = vec![("a".to_owned(), first.to_vec()), ("b".to_owned(), rest.to_vec())];
            assert_eq!(digest.finish(&Dense { sections }.view()), expected, "{cut}");
        }
    }
}
