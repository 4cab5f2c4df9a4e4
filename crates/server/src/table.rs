//! What a table's rows look like and how they begin and change.

use stepwell_base::{Key, TableId, random};
use stepwell_optim::RowOptimizer;

/// A table: a set of rows of one shape under u64 keys. One table is one table group today.
///
/// A row's lanes, the same in every tier:
///
/// ```text
/// [ embedding: dim ][ wide weight: 0 or 1 ][ optimizer state ]     f32 each
/// ```
#[derive(Clone, Debug)]
pub struct TableSpec {
    /// Number of the table; part of every row's initial value and of the digest.
    pub id: TableId,
    /// Name in messages and checkpoints.
    pub name: String,
    /// Lanes of the embedding.
    pub dim: usize,
    /// Lanes of first-order weights, which begin at zero.
    pub wide: usize,
    /// How rows change.
    pub optimizer: RowOptimizer,
    /// Embeddings begin uniform in [-range, range).
    pub init_range: f32,
    /// Seed of initial values.
    pub seed: u64,
}

impl TableSpec {
    /// Lanes of the weights.
    pub fn weight_lanes(&self) -> usize {
        self.dim + self.wide
    }

    /// Lanes of the whole row.
    pub fn row_lanes(&self) -> usize {
        self.weight_lanes() + self.optimizer.state_lanes(self.weight_lanes())
    }

    /// Bytes of the whole row.
    pub fn row_bytes(&self) -> usize {
        self.row_lanes() * size_of::<f32>()
    }

    /// Writes the row that `key` has before its first update: f(seed, table, key), invariant I3.
    pub fn initial_row(&self, key: Key, row: &mut [f32]) {
        let (weights, state) = row.split_at_mut(self.weight_lanes());
        random::initial_weights(self.seed, self.id, key, self.init_range, self.dim, weights);
        self.optimizer.init_state(state);
    }
}
