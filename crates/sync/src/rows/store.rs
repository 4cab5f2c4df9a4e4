//! The rows that a rank owns.

use std::collections::HashMap;
use std::fmt::Debug;

use stepwell_base::Key;
use stepwell_optim::{Lanes, RowOptimizer};

/// Rows by key, in any kind of storage.
pub trait OwnedRows<T>: Debug + Send {
    /// Number of weights of a row.
    fn lanes(&self) -> usize;

    /// Appends the weights of the rows of `keys`, which are distinct; an unchanged row has its
    /// initial weights. // (keys, lanes)
    ///
    /// # Errors
    /// Describes why they cannot be read: the run ends.
    fn read(&mut self, keys: &[Key], weights: &mut Vec<T>) -> Result<(), String>;

    /// Changes the rows of `keys`, which are distinct, once each. // (keys, lanes)
    ///
    /// # Errors
    /// Describes why they cannot be changed: the run ends.
    fn apply(&mut self, keys: &[Key], gradients: &[T]) -> Result<(), String>;
}

/// Writes the initial weights of a key's row.
type Initial = Box<dyn Fn(Key, &mut [f32]) + Send + Sync>;

/// Rows in memory.
pub struct MemoryRows {
    lanes: usize,
    optimizer: RowOptimizer,
    initial: Initial,
    /// Weights, then the optimizer's state.
    rows: HashMap<Key, Box<[f32]>>,
}

impl Debug for MemoryRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryRows").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

impl MemoryRows {
    /// No rows yet, with `lanes` weights each, initialized by `initial`.
    pub fn new(
        lanes: usize,
        optimizer: RowOptimizer,
        initial: impl Fn(Key, &mut [f32]) + Send + Sync + 'static,
    ) -> Self {
        Self { lanes, optimizer, initial: Box::new(initial), rows: HashMap::new() }
    }

    /// Number of changed rows.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Writes the weights of a row.
    pub fn weights(&self, key: Key, weights: &mut [f32]) {
        match self.rows.get(&key) {
            Some(row) => weights.copy_from_slice(&row[..self.lanes]),
            None => (self.initial)(key, weights),
        }
    }
}

impl OwnedRows<f32> for MemoryRows {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn read(&mut self, keys: &[Key], weights: &mut Vec<f32>) -> Result<(), String> {
        let begin = weights.len();
        weights.resize(begin + keys.len() * self.lanes, 0.0);
        let rows = weights[begin..].chunks_exact_mut(self.lanes);
        keys.iter().zip(rows).for_each(|(key, row)| self.weights(*key, row));
        Ok(())
    }

    fn apply(&mut self, keys: &[Key], gradients: &[f32]) -> Result<(), String> {
        let Self { lanes, optimizer, initial, rows } = self;
        let state = optimizer.state_lanes(Lanes { dim: *lanes, wide: 0 });
        for (key, gradient) in keys.iter().zip(gradients.chunks_exact(*lanes)) {
            let row = rows.entry(*key).or_insert_with(|| {
                let mut row = vec![0.0; *lanes + state].into_boxed_slice();
                let (weights, state) = row.split_at_mut(*lanes);
                initial(*key, weights);
                optimizer.init_state(state);
                row
            });
            let (weights, state) = row.split_at_mut(*lanes);
            optimizer.update(weights, state, gradient);
        }
        Ok(())
    }
}
