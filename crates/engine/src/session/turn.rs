//! The mini-batch that a session trains, with its rows.

use std::ops::Range;

use stepwell_base::Key;

use super::preparer::Fed;
use crate::Result;
use crate::rows::{EmbeddingBags, Gradients, NoLaps, Pooled, WorkingRows};

/// A mini-batch whose rows are loaded. Dropping it without a push leaves no trace.
#[derive(Debug)]
pub struct Turn<'a> {
    pub(super) embeddings: &'a mut EmbeddingBags,
    pub(super) rows: WorkingRows<'a>,
    pub(super) fed: &'a Fed,
    pub(super) trains: bool,
    pub(super) trained: &'a mut bool,
}

impl Turn<'_> {
    /// Number of examples.
    pub fn examples(&self) -> usize {
        self.fed.examples
    }

    /// Labels that were fed. // (examples)
    pub fn labels(&self) -> &[f32] {
        &self.fed.labels
    }

    /// Whether the mini-batch was fed for training.
    pub fn trains(&self) -> bool {
        self.trains
    }

    /// Pools the rows of the examples of `range`; threads may work on different ranges.
    pub fn gather(&self, range: Range<usize>, pooled: Pooled<'_>) {
        self.embeddings.gather(&self.rows, range, pooled);
    }

    /// The pooled embeddings of all examples. // (examples, columns)
    pub fn embeddings(&self) -> Vec<f32> {
        let (examples, width) = (self.examples(), self.embeddings.columns().count);
        let (mut x, mut first_order) = (vec![0.0; examples * width], vec![0.0; examples]);
        let pooled = Pooled { x: &mut x, width, first_order: &mut first_order };
        self.gather(0..examples, pooled);
        x
    }

    /// The distinct keys of a table, in order of first occurrence.
    pub fn keys(&self, table: usize) -> impl ExactSizeIterator<Item = Key> {
        let salt = self.embeddings.tables()[table].salt();
        self.rows.keys(table).iter().map(move |key| key.salted(salt))
    }

    /// Row of each occurrence of a table, as a position in [`Turn::keys`]. Occurrences are in the
    /// order of the fed keys.
    pub fn occurrence_rows(&self, table: usize) -> &[u32] {
        self.rows.occurrence_rows(table)
    }

    /// Copies the weights of a table's distinct rows, in the order of [`Turn::keys`], to `weights`
    /// (rows, weights). A row's first-order weight, if any, comes last.
    ///
    /// # Panics
    /// If `weights` has another length.
    pub fn copy_rows(&self, table: usize, weights: &mut [f32]) {
        self.rows.copy_weights(table, weights);
    }

    /// Ends the step: updates rows by the gradients of the pooled embeddings (examples, columns)
    /// and of the sums of first-order weights (examples); the latter may be empty if no table has
    /// such weights.
    ///
    /// # Errors
    /// If a device fails.
    ///
    /// # Panics
    /// If the mini-batch was not fed for training, or the number of examples differs.
    pub fn push(self, d_x: &[f32], d_first_order: &[f32]) -> Result<()> {
        self.push_all(d_x, d_first_order, &[])
    }

    /// [`Turn::push`] with gradients of distinct rows (rows, weights) for tables with unpooled
    /// fields, by the number of the table. A missing gradient counts as zeros.
    ///
    /// # Errors
    /// If a device fails.
    ///
    /// # Panics
    /// As [`Turn::push`], and if a gradient has another length.
    pub fn push_all(
        mut self,
        d_x: &[f32],
        d_first_order: &[f32],
        d_rows: &[(usize, &[f32])],
    ) -> Result<()> {
        let wide = self.embeddings.tables().iter().any(|table| table.wide > 0);
        let none = vec![0.0; if wide { 0 } else { self.fed.examples }];
        let d_first_order =
            if !wide && d_first_order.is_empty() { &none[..] } else { d_first_order };
        let gradients = Gradients { d_x, d_first_order, labels: &self.fed.labels };
        self.embeddings.apply_all(&mut self.rows, gradients, d_rows, &NoLaps)?;
        *self.trained = true;
        Ok(())
    }
}
