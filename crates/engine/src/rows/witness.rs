//! Somebody who sees every row as a step reads it.

use stepwell_base::{Key, TableId};

/// When and for what a row was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment {
    /// Steps trained before.
    pub steps: u64,
    /// Position of the mini-batch among all that were read, evaluated ones included.
    pub number: u32,
    /// Whether the mini-batch only evaluates.
    pub evaluates: bool,
}

/// Somebody who sees every row as a step reads it; called by the thread that trains.
pub trait Witness: Send + Sync {
    /// A mini-batch reads the row of `key`: its weights, and its optimizer's state.
    fn read(&self, at: Moment, table: TableId, key: Key, weights: &[f32], state: &[f32]);
}
