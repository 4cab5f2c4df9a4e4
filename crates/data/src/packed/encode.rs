//! Encodes examples of a chunk as a block.

use super::layout::{BLOCK_HEAD_BYTES, ONE_KEY_A_BAG, SHARES, TRUTH, VALUES};
use crate::chunk::Chunk;
use crate::schema::Schema;

/// Properties that determine the length of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) examples: u64,
    pub(super) keys: u64,
    /// Whether every bag has exactly one key.
    pub(super) one_key_a_bag: bool,
    /// Whether true click probabilities are known.
    pub(super) truth: bool,
    /// Whether a label is strictly between 0 and 1, if labels are from 0 to 1.
    pub(super) shares: bool,
    /// Whether any key has a value other than 1.
    pub(super) values: bool,
}

impl Shape {
    /// Shape of an empty block.
    pub(super) const EMPTY: Self = Self {
        examples: 0,
        keys: 0,
        one_key_a_bag: true,
        truth: false,
        shares: false,
        values: false,
    };

    /// The shape with another example of the same kind.
    pub(super) fn with(&self, one: &Self) -> Self {
        Self {
            examples: self.examples + one.examples,
            keys: self.keys + one.keys,
            one_key_a_bag: self.one_key_a_bag && one.one_key_a_bag,
            truth: self.truth,
            shares: self.shares || one.shares,
            values: self.values || one.values,
        }
    }

    /// Length of the block in bytes; `None` on overflow.
    pub(super) fn bytes(&self, schema: &Schema) -> Option<u64> {
        let ends = if self.one_key_a_bag { 0 } else { 4 * schema.id_columns as u64 };
        let truth = if self.truth { 4 } else { 0 };
        let labels = self.label_bytes(schema) as u64;
        let weight = if schema.labels.weighted { 4 } else { 0 };
        let example = labels + weight + 4 * schema.dense as u64 + ends + truth;
        let examples = self.examples.checked_mul(example)?;
        let key = if self.values { 12 } else { 8 };
        examples.checked_add(self.keys.checked_mul(key)?)?.checked_add(BLOCK_HEAD_BYTES as u64)
    }

    /// Whether labels are encoded as bytes.
    pub(super) fn has_bits(&self, schema: &Schema) -> bool {
        schema.labels.may_be_bits() && !self.shares
    }

    /// Bytes of an example's labels.
    pub(super) fn label_bytes(&self, schema: &Schema) -> usize {
        if self.has_bits(schema) { 1 } else { 4 * schema.labels.count }
    }
}

/// Replaces `bytes` with a block of the examples of `chunk`, which have `shape`.
pub(super) fn encode(chunk: &Chunk, shape: &Shape, bytes: &mut Vec<u8>) {
    let one_key = if shape.one_key_a_bag { ONE_KEY_A_BAG } else { 0 };
    let truth = if shape.truth { TRUTH } else { 0 };
    // Several labels are always encoded as numbers.
    let shares = if shape.shares && chunk.schema.labels.may_be_bits() { SHARES } else { 0 };
    let values = if shape.values { VALUES } else { 0 };
    bytes.clear();
    bytes.extend((one_key | truth | shares | values).to_le_bytes());
    // A block has fewer than 2^32 bytes, so fewer keys.
    bytes.extend((chunk.keys.len() as u32).to_le_bytes());
    match shape.has_bits(&chunk.schema) {
        true => bytes.extend(chunk.labels.iter().map(|label| u8::from(*label != 0.0))),
        false => put(bytes, &chunk.labels, |label| label.to_le_bytes()),
    }
    put(bytes, &chunk.dense, |lane| lane.to_le_bytes());
    put(bytes, &chunk.keys, |key| key.0.to_le_bytes());
    if !shape.one_key_a_bag {
        put(bytes, &chunk.bag_ends, |end| end.to_le_bytes());
    }
    put(bytes, &chunk.truth, |lane| lane.to_le_bytes());
    put(bytes, &chunk.weights, |lane| lane.to_le_bytes());
    put(bytes, &chunk.values, |lane| lane.to_le_bytes());
    assert_eq!(Some(bytes.len() as u64), shape.bytes(&chunk.schema), "{shape:?}");
}

/// Appends a column. Resizing first lets this compile to one copy.
fn put<T, const N: usize>(bytes: &mut Vec<u8>, column: &[T], encode: impl Fn(&T) -> [u8; N]) {
    let start = bytes.len();
    bytes.resize(start + column.len() * N, 0);
    for (place, item) in bytes[start..].chunks_exact_mut(N).zip(column) {
        place.copy_from_slice(&encode(item));
    }
}
