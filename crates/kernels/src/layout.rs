//! What a device is told of tables: descriptors that Rust writes and kernels read.
//!
//! All rows of a device lie in one buffer of lanes, those of a table group from lane `slab` on. All
//! lists of a mini-batch lie in one buffer of words, and a descriptor has the offset of each, in
//! words: numbers of 32 bits as they are, f32 by their bits, numbers of 64 bits in two words, the
//! low one first.

use bytemuck::{Pod, Zeroable};

/// A list, a slot or a value that there is not.
pub const NONE: u32 = u32::MAX;

/// Weights are kept in 32 bits.
pub const STORAGE_F32: u32 = 0;
/// Weights are kept in half precision, two in a lane.
pub const STORAGE_F16: u32 = 1;
/// Weights are kept as upper halves of f32, two in a lane.
pub const STORAGE_BF16: u32 = 2;

/// Gradient descent.
pub const RULE_SGD: u32 = 0;
/// Adagrad.
pub const RULE_ADAGRAD: u32 = 1;
/// Adam.
pub const RULE_ADAM: u32 = 2;

/// A table that is looked up and pooled. // 48 bytes
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct PoolTable {
    /// First lane of its group's rows.
    pub slab: u64,
    /// Lanes of a row.
    pub row_lanes: u32,
    /// List: the slot of each distinct row. // (rows)
    pub slots: u32,
    /// List: the row of each occurrence. // (occurrences)
    pub occurrence_rows: u32,
    /// List: where each bag ends among the occurrences. // (examples, fields)
    pub ends: u32,
    /// List or [`NONE`]: what the row of each occurrence is multiplied by. // (occurrences) f32
    pub factors: u32,
    /// Bags of an example.
    pub fields: u32,
    /// Weights of the embedding.
    pub dim: u32,
    /// First-order weights, 0 or 1: the one behind the embedding.
    pub wide: u32,
    /// How rows keep their weights: [`STORAGE_F32`] and so on.
    pub storage: u32,
    /// Nothing.
    pub padding: u32,
}

/// A table whose rows are updated. // 128 bytes
///
/// An item of a table is four weights of a row; with weights of 16 bits, a pair of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct UpdateTable {
    /// First lane of its group's rows.
    pub slab: u64,
    /// First lane of its sums, where sums are apart: those of the tables before it come first.
    pub sums: u64,
    /// Adam: learning rate.
    pub lr: f64,
    /// Adam: decay of the mean of gradients.
    pub beta1: f64,
    /// Adam: decay of the mean of squared gradients.
    pub beta2: f64,
    /// Sgd: learning rate; Adagrad: learning rate times -1.
    pub rate: f32,
    /// Adagrad, Adam: what is added to the root.
    pub eps: f32,
    /// Items of the tables before it.
    pub first_item: u32,
    /// Distinct rows.
    pub rows: u32,
    /// Lanes of a row.
    pub row_lanes: u32,
    /// List: the slot of each row. // (rows)
    pub slots: u32,
    /// List: where the bags of each row end in `bags`. // (rows)
    pub bag_ends: u32,
    /// List: bags by row, in the order of examples. // (occurrences)
    pub bags: u32,
    /// List or [`NONE`]: what the row is multiplied by in each. // (occurrences) f32
    pub bag_factors: u32,
    /// Bags of an example.
    pub fields: u32,
    /// List: the first column of each field in the gradients. // (fields)
    pub columns: u32,
    /// Weights of the embedding.
    pub dim: u32,
    /// First-order weights, 0 or 1.
    pub wide: u32,
    /// How rows keep their weights: [`STORAGE_F32`] and so on.
    pub storage: u32,
    /// How rows change: [`RULE_SGD`] and so on.
    pub rule: u32,
    /// List or [`NONE`]: the state of the stream that rounds each row, where weights are of 16
    /// bits; without it they are rounded towards zero. // (rows) u64
    pub rounding: u32,
    /// List or [`NONE`]: rows that are left alone have a word other than 0. // (rows)
    pub skip: u32,
    /// List: where each block ends, in examples. // (blocks)
    pub block_ends: u32,
    /// Blocks that are here.
    pub blocks: u32,
    /// Blocks of the mini-batch before them.
    pub first_block: u32,
    /// List: the rows that have more than [`FREQUENT_BAGS`](crate::FREQUENT_BAGS) bags, which
    /// `rows_update` leaves to `rows_update_frequent`. // (frequent_rows)
    pub frequent: u32,
    /// How many there are; none where `rows_update` has them, too.
    pub frequent_rows: u32,
}

/// Weights of f32 that an item of an update has.
const UNIT_WEIGHTS: u32 = 4;

impl UpdateTable {
    /// Weights of a row.
    pub fn width(&self) -> u32 {
        self.dim + self.wide
    }

    /// Items of the table.
    pub fn items(&self) -> u64 {
        let of_item = if self.storage == STORAGE_F32 { UNIT_WEIGHTS } else { 2 };
        u64::from(self.rows) * u64::from(self.width().div_ceil(of_item))
    }
}

#[cfg(test)]
mod tests;
