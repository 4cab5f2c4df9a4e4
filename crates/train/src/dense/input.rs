//! The dense part's input from a mini-batch: dense features and pooled embeddings.

use std::ops::Range;

use stepwell_engine::{EmbeddingBags, Pooled, WorkingRows};

use crate::batch::Examples;
use crate::profile::{Kernel, Profile};

/// Source of the graph's input.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) examples: &'a Examples,
    pub(crate) embeddings: &'a EmbeddingBags,
    pub(crate) rows: &'a WorkingRows<'a>,
    /// Columns of the graph's input, pooled embeddings first.
    pub(crate) columns: usize,
}

impl Input<'_> {
    /// Writes dense features and pooled embeddings of the examples of `range`.
    pub(crate) fn gather(
        &self,
        range: Range<usize>,
        (x, first_order): (&mut [f32], &mut [f32]),
        profile: &Profile,
    ) {
        profile.time(Kernel::Gather, || self.write(range.clone(), x, first_order));
        profile.count(Kernel::Gather, 0, self.embeddings.gather_bytes(self.rows, range));
    }

    /// Dense features of the examples of `range`. // (examples, features)
    pub(crate) fn features(&self, range: Range<usize>) -> &[f32] {
        let dense = self.columns - self.embeddings.columns().count;
        &self.examples.dense[range.start * dense..range.end * dense]
    }

    fn write(&self, range: Range<usize>, x: &mut [f32], first_order: &mut [f32]) {
        let (width, embedding) = (self.columns, self.embeddings.columns().count);
        let (dense, features) = (width - embedding, self.features(range.clone()));
        for (row, features) in x.chunks_exact_mut(width).zip(features.chunks_exact(dense.max(1))) {
            row[embedding..].copy_from_slice(features);
        }
        self.embeddings.gather(self.rows, range, Pooled { x, width, first_order });
    }
}
