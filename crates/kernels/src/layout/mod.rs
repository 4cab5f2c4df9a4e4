//! Descriptors of tables, which Rust writes and kernels read.
//!
//! All rows of a device are in one buffer of lanes; the rows of a table group start at lane `slab`.
//! All lists of a mini-batch are in one buffer of words, and a descriptor has the offset of each,
//! in words: a 32-bit integer is a word, an f32 is the word of its bits, and a 64-bit number is two
//! words, the low one first.

use bytemuck::{Pod, Zeroable};

/// A missing list, slot or value.
pub const NONE: u32 = u32::MAX;

/// Weights are stored in 32 bits.
pub const STORAGE_F32: u32 = 0;
/// Weights are stored in half precision, two in a lane.
pub const STORAGE_F16: u32 = 1;
/// Weights are stored as upper halves of f32, two in a lane.
pub const STORAGE_BF16: u32 = 2;

/// Gradient descent.
pub const RULE_SGD: u32 = 0;
/// Adagrad.
pub const RULE_ADAGRAD: u32 = 1;
/// Adam.
pub const RULE_ADAM: u32 = 2;
/// Gradient descent with momentum.
pub const RULE_MOMENTUM: u32 = 3;
/// FTRL-Proximal.
pub const RULE_FTRL: u32 = 4;

/// A table whose rows are pooled. // 48 bytes
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct PoolTable {
    /// First lane of its group's rows.
    pub slab: u64,
    /// Number of lanes of a row.
    pub row_lanes: u32,
    /// List: the slot of each distinct row. // (rows)
    pub slots: u32,
    /// List: the row of each occurrence. // (occurrences)
    pub occurrence_rows: u32,
    /// List: where each bag ends among the occurrences. // (examples, fields)
    pub ends: u32,
    /// List or [`NONE`]: factor of each occurrence's row. // (occurrences) f32
    pub factors: u32,
    /// Number of bags of an example.
    pub fields: u32,
    /// Number of weights of the embedding.
    pub dim: u32,
    /// Number of first-order weights, 0 or 1, behind the embedding.
    pub wide: u32,
    /// Format of the weights: [`STORAGE_F32`] and so on.
    pub storage: u32,
    /// Unused.
    pub padding: u32,
}

/// A table whose rows are updated. // 144 bytes
///
/// An item of a table is four weights of a row, or a pair of 16-bit weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct UpdateTable {
    /// First lane of its group's rows.
    pub slab: u64,
    /// First lane of the table's sums, after the sums of earlier tables, if sums are separate.
    pub sums: u64,
    /// Adam: learning rate.
    pub lr: f64,
    /// Adam: decay of the mean of gradients.
    pub beta1: f64,
    /// Adam: decay of the mean of squared gradients; momentum: part of the velocity that remains.
    pub beta2: f64,
    /// Sgd, momentum, FTRL-Proximal: learning rate; Adagrad: learning rate times -1.
    pub rate: f32,
    /// Adagrad, Adam, FTRL-Proximal: added to the root.
    pub eps: f32,
    /// Number of items of the tables before it.
    pub first_item: u32,
    /// Number of distinct rows.
    pub rows: u32,
    /// Number of lanes of a row.
    pub row_lanes: u32,
    /// List: the slot of each row. // (rows)
    pub slots: u32,
    /// List: where the bags of each row end in `bags`. // (rows)
    pub bag_ends: u32,
    /// List: bags by row, in the order of examples. // (occurrences)
    pub bags: u32,
    /// List or [`NONE`]: factor of the row in each bag. // (occurrences) f32
    pub bag_factors: u32,
    /// Number of bags of an example.
    pub fields: u32,
    /// List: the first column of each field in the gradients. // (fields)
    pub columns: u32,
    /// Number of weights of the embedding.
    pub dim: u32,
    /// Number of first-order weights, 0 or 1.
    pub wide: u32,
    /// Format of the weights: [`STORAGE_F32`] and so on.
    pub storage: u32,
    /// Optimizer: [`RULE_SGD`] and so on.
    pub rule: u32,
    /// List or [`NONE`]: state of the random stream that rounds each row, for 16-bit weights;
    /// without it, rounding is towards zero. // (rows) u64
    pub rounding: u32,
    /// List or [`NONE`]: a word per row, not 0 for rows to leave unchanged. // (rows)
    pub skip: u32,
    /// List: where each block ends, in examples. // (blocks)
    pub block_ends: u32,
    /// Number of blocks in this list.
    pub blocks: u32,
    /// Number of blocks of the mini-batch before these.
    pub first_block: u32,
    /// List: the rows with more than [`FREQUENT_BAGS`](crate::FREQUENT_BAGS) bags, which
    /// `rows_update` leaves to `rows_update_frequent`. // (frequent_rows)
    pub frequent: u32,
    /// Number of frequent rows; 0 if `rows_update` updates these, too.
    pub frequent_rows: u32,
    /// FTRL-Proximal: penalty on the absolute values of weights.
    pub l1: f32,
    /// Factor of a weight that is added to its gradient; FTRL-Proximal has it in closed form.
    pub l2: f32,
    /// Factor of a weight before the update.
    pub keep: f32,
    /// Not 0 if `l2` and `keep` apply.
    pub regularized: u32,
}

/// Number of f32 weights of an item of an update.
const UNIT_WEIGHTS: u32 = 4;

impl UpdateTable {
    /// Number of weights of a row.
    pub fn width(&self) -> u32 {
        self.dim + self.wide
    }

    /// Number of items of the table.
    pub fn items(&self) -> u64 {
        let of_item = if self.storage == STORAGE_F32 { UNIT_WEIGHTS } else { 2 };
        u64::from(self.rows) * u64::from(self.width().div_ceil(of_item))
    }
}

#[cfg(test)]
mod tests;
