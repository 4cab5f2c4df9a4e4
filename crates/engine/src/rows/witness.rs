//! A witness sees every row as a step reads it.

use stepwell_base::{Key, TableId};

/// When and why a row was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment {
    /// Number of steps trained before.
    pub steps: u64,
    /// Number of the mini-batch among all that were read, evaluated ones included.
    pub number: u32,
    /// Whether the mini-batch only evaluates.
    pub evaluates: bool,
}

/// Observer of every row as a step reads it; called by the thread that trains.
pub trait Witness: Send + Sync {
    /// Called when a mini-batch reads the row of `key`, with its weights and optimizer state.
    fn read(&self, at: Moment, table: TableId, key: Key, weights: &[f32], state: &[f32]);
}
