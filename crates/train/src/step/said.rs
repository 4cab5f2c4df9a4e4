//! What a rank says of its blocks when it has computed them: losses, scores, and sums of gradients
//! by subtree, to each rank those of its lanes of the dense part and of its rows.

use std::ops::Range;

use rayon::prelude::*;
use stepwell_engine::Blocks;
use stepwell_fabric::{Error, Malformed, Message, Reader};
use stepwell_nn::{tree_sum, tree_sum_of_subtrees, tree_sum_values};

use super::dense::LANES;
use super::{Scores, Trainer};
use crate::Result;
use crate::batch::Examples;

/// Lanes of a parameter vector of `count` that rank `rank` of `ranks` sums.
pub(super) fn lanes_of(count: usize, (rank, ranks): (usize, usize)) -> Range<usize> {
    count * rank / ranks..count * (rank + 1) / ranks
}

/// Sections that [`Said`] adds.
const SECTIONS: usize = 5;

/// A reader of what a rank with blocks `own` said, behind its dense gradients.
pub(super) fn row_sums(
    message: &Message,
    own: Blocks,
) -> std::result::Result<Reader<'_>, Malformed> {
    let mut reader = message.reader();
    reader.skip(SECTIONS + own.subtrees().count())?;
    Ok(reader)
}

/// What a rank says to every rank alike.
pub(super) struct Said<'a> {
    /// By block.
    pub(super) scores: &'a [Scores],
    pub(super) logits: &'a [f32],
    pub(super) examples: &'a Examples,
}

impl Said<'_> {
    /// The most bytes of it, and of so many `lanes` of the gradients of `blocks`.
    pub(super) fn bytes_max(blocks: Blocks, lanes: usize) -> usize {
        let sections = SECTIONS + blocks.subtrees().count();
        let sums = blocks.subtrees().count() * lanes * size_of::<f32>();
        16 * sections + 16 * blocks.count() + 12 * blocks.place().len() + sums
    }

    /// Adds it to `message`, and whether this is to be the last step of all ranks.
    pub(super) fn put(&self, message: &mut Message, ends: bool) {
        message.put(&[u64::from(ends)]);
        let sums: &mut [f64] = message.room(2 * self.scores.len());
        for (sums, scores) in sums.chunks_exact_mut(2).zip(self.scores) {
            sums.copy_from_slice(&[scores.loss, scores.probability]);
        }
        message.put(self.logits);
        message.put(&self.examples.labels);
        message.put(&self.examples.truth);
    }
}

/// What all ranks said of a mini-batch.
#[derive(Debug, Default)]
pub(crate) struct Scored {
    pub(crate) sums: Scores,
    /// Of all examples. // (examples)
    pub(crate) logits: Vec<f32>,
    pub(crate) labels: Vec<f32>,
    /// As [`Examples::truth`].
    pub(crate) truth: Vec<f32>,
    /// Whether some rank asks that this be the last step.
    pub(crate) ends: bool,
}

impl Scored {
    /// Hears `messages`, one of each rank, that are about `blocks`, those of all. Gives the sums of
    /// gradients by subtree, with the first block of each, where they are of so many `lanes`.
    ///
    /// # Errors
    /// Names the rank whose message makes no sense.
    pub(super) fn hear<'a>(
        &mut self,
        messages: &'a [Message],
        blocks: Blocks,
        lanes: Option<usize>,
    ) -> Result<Vec<(usize, &'a [f32])>> {
        self.logits.clear();
        self.labels.clear();
        self.truth.clear();
        self.ends = false;
        let (mut subtrees, mut losses, mut probabilities) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, message) in messages.iter().enumerate() {
            let wrong = |why: Malformed| Error::malformed(rank, why);
            let (own, mut reader) = (blocks.of_rank(rank, messages.len()), message.reader());
            self.ends |= reader.take_exactly::<u64>(1).map_err(wrong)? == [1];
            let sums: &[f64] = reader.take_exactly(2 * own.count()).map_err(wrong)?;
            losses.extend(sums.iter().step_by(2));
            probabilities.extend(sums.iter().skip(1).step_by(2));
            let (before, examples) = (self.labels.len(), own.place().len());
            self.logits.extend_from_slice(reader.take_exactly(examples).map_err(wrong)?);
            self.labels.extend_from_slice(reader.take_exactly(examples).map_err(wrong)?);
            let truth: &[f32] = reader.take().map_err(wrong)?;
            if !truth.is_empty() {
                // Examples before these, from a source that knows no truth, have none.
                self.truth.resize(before, f32::NAN);
                self.truth.extend_from_slice(truth);
            }
            for subtree in lanes.iter().flat_map(|_| own.subtrees()) {
                let sum = reader.take_exactly(lanes.unwrap_or(0)).map_err(wrong)?;
                subtrees.push((own.first() + subtree.start, sum));
            }
            if lanes.is_none() {
                reader.end().map_err(wrong)?;
            }
        }
        let (loss, probability) = (tree_sum_values(&losses), tree_sum_values(&probabilities));
        self.sums = Scores { loss, probability };
        Ok(subtrees)
    }
}

impl Trainer {
    /// Adds to each rank's message its lanes of the dense gradients, summed over each subtree of
    /// `blocks`.
    pub(super) fn put_dense(&self, messages: &mut [Message], blocks: Blocks) {
        let (count, ranks) = (self.parameters.values().len(), messages.len());
        for subtree in blocks.subtrees() {
            let gradients = &self.gradients[subtree];
            for (rank, message) in messages.iter_mut().enumerate() {
                let lanes = lanes_of(count, (rank, ranks));
                let sum: &mut [f32] = message.room(lanes.len());
                self.in_pieces(sum, |range, sum| {
                    let range = lanes.start + range.start..lanes.start + range.end;
                    let blocks: Vec<&[f32]> =
                        gradients.iter().map(|gradient| &gradient[range.clone()]).collect();
                    tree_sum(&blocks, sum);
                });
            }
        }
    }

    /// Sets `sum` to the sum of all `subtrees`.
    pub(super) fn sum_lanes(&self, subtrees: &[(usize, &[f32])], sum: &mut [f32]) {
        self.in_pieces(sum, |range, sum| {
            let lanes = subtrees.iter().map(|(first, sum)| (*first, &sum[range.clone()]));
            tree_sum_of_subtrees(&lanes.collect::<Vec<_>>(), sum);
        });
    }

    /// Has the threads fill `lanes`, a piece at a time.
    fn in_pieces(&self, lanes: &mut [f32], fill: impl Fn(Range<usize>, &mut [f32]) + Sync) {
        self.pool.install(|| {
            lanes.par_chunks_mut(LANES).enumerate().for_each(|(number, piece)| {
                fill(number * LANES..number * LANES + piece.len(), piece);
            });
        });
    }
}
