//! Examples of one reader on their way into mini-batches.

use std::sync::Arc;

use stepwell_data::{Chunk, Ordered, Skips};

use super::counters::Pass;
use super::cut::{Cut, Parsed};
use super::shared_pass::SharedPass;
use super::shuffle::Shuffle;
use crate::Result;

/// Output of a reader, and the part of it that is being cut.
pub(super) struct Feed {
    pub(super) input: Arc<Ordered<Parsed>>,
    pub(super) pass: Option<Arc<Pass>>,
    pub(super) skips: Skips,
    /// Skipped lines before the current chunk.
    pub(super) skipped_before_chunk: u64,
    /// Whether the next pass starts where the run was resumed.
    pub(super) resumed: bool,
    /// The current chunk, and the number of its first example that is left.
    pub(super) chunk: Option<(Box<Chunk>, usize)>,
    /// The file of the last chunk.
    pub(super) file: u32,
    /// Progress in a shared pass.
    pub(super) shared: Option<SharedPass>,
    pub(super) shuffle: Shuffle,
    /// Item or error after the window that is being cut.
    pub(super) held: Option<Result<Parsed>>,
}

impl Feed {
    /// The feed of a run's passes.
    pub(super) fn of_passes(input: Arc<Ordered<Parsed>>, cut: &Cut) -> Self {
        Self {
            input,
            pass: None,
            skips: Skips::new(cut.skip_max),
            skipped_before_chunk: 0,
            resumed: true,
            chunk: None,
            file: 0,
            shared: None,
            shuffle: Shuffle::new(cut.shuffle, cut.seed),
            held: None,
        }
    }

    /// The feed of evaluations within epochs.
    pub(super) fn of_evaluations(input: Arc<Ordered<Parsed>>, cut: &Cut) -> Self {
        let shuffle = Shuffle::new(0, cut.seed);
        Self { resumed: false, shuffle, ..Self::of_passes(input, cut) }
    }

    /// Drops examples that are not cut yet.
    pub(super) fn clear(&mut self) {
        (self.chunk, self.shared) = (None, None);
        self.shuffle.clear();
    }
}
