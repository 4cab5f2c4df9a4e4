//! What a table's rows look like and how they begin and change.

use stepwell_base::{Key, TableId, random};
use stepwell_optim::RowOptimizer;

use crate::{History, Life};

/// A table: a set of rows of one shape under u64 keys. One table is one table group today.
///
/// A row's lanes, the same in every tier:
///
/// ```text
/// [ embedding: dim ][ wide weight: 0 or 1 ][ optimizer state ][ history: 0 or 3 ]     f32 each
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
    /// When rows come to exist and cease to; none for: from their first use, for ever.
    pub life: Option<Life>,
}

impl TableSpec {
    /// Lanes of the weights.
    pub fn weight_lanes(&self) -> usize {
        self.dim + self.wide
    }

    /// Lanes that are the model: weights and optimizer state.
    pub fn model_lanes(&self) -> usize {
        self.weight_lanes() + self.optimizer.state_lanes(self.weight_lanes())
    }

    /// Lanes of the whole row.
    pub fn row_lanes(&self) -> usize {
        self.model_lanes() + if self.life.is_some() { History::LANES } else { 0 }
    }

    /// The history that a row carries; that of a row without one is of a row that exists.
    pub fn history(&self, row: &[f32]) -> History {
        match self.life {
            Some(_) => History::read(&row[self.model_lanes()..]),
            None => History::default(),
        }
    }

    /// Whether `row`, which some tier has, exists after `steps` steps.
    pub fn exists(&self, row: &[f32], steps: u64) -> bool {
        self.life.is_none_or(|life| life.exists(self.history(row), steps))
    }

    /// Bytes of the whole row.
    pub fn row_bytes(&self) -> usize {
        self.row_lanes() * size_of::<f32>()
    }

    /// Writes the row that `key` has before its first update: f(seed, table, key), invariant I3.
    pub fn initial_row(&self, key: Key, row: &mut [f32]) {
        let (model, history) = row.split_at_mut(self.model_lanes());
        let (weights, state) = model.split_at_mut(self.weight_lanes());
        self.initial_weights(key, weights);
        self.optimizer.init_state(state);
        history.fill(0.0);
    }

    /// The weights of [`TableSpec::initial_row`].
    pub fn initial_weights(&self, key: Key, weights: &mut [f32]) {
        random::initial_weights(self.seed, self.id, key, self.init_range, self.dim, weights);
    }
}
