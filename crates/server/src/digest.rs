//! The digest of a model, so that two runs can be compared bit for bit.
//!
//! digest = XXH3-128( sum ‖ dense ), where sum is the sum modulo 2¹²⁸, over every row that exists,
//! of XXH3-128( table u32 ‖ key u64 ‖ weights and optimizer state as f32 ), and dense is the dense
//! parameters followed by their optimizer's state and step count. All little-endian. A sum does
//! not depend on the order in which rows are visited; metadata of tiers and policies is left out.

use stepwell_base::{Key, TableId, hash};

/// A digest in the making.
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

    /// Number of rows added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The digest with the bytes of the dense part, as 32 hexadecimal digits.
    pub fn finish(&self, dense: &[u8]) -> String {
        let mut bytes = self.sum.to_le_bytes().to_vec();
        bytes.extend_from_slice(dense);
        format!("{:032x}", hash::digest128(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(rows: &[(u32, u64, [u8; 2])], dense: &[u8]) -> String {
        let mut digest = ModelDigest::default();
        rows.iter().for_each(|(t, k, row)| digest.add_row(TableId(*t), Key(*k), row));
        digest.finish(dense)
    }

    #[test]
    fn order_does_not_show_and_everything_else_does() {
        let (a, b) = ((0, 1, [1, 2]), (0, 2, [3, 4]));
        let whole = digest(&[a, b], b"dense");
        assert_eq!(whole, digest(&[b, a], b"dense"));
        assert_ne!(whole, digest(&[a], b"dense"));
        assert_ne!(whole, digest(&[a, (0, 2, [3, 5])], b"dense"));
        assert_ne!(whole, digest(&[a, (0, 3, [3, 4])], b"dense"));
        assert_ne!(whole, digest(&[a, (1, 2, [3, 4])], b"dense"));
        assert_ne!(whole, digest(&[a, b], b"Dense"));
    }
}
