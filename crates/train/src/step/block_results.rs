//! Results that a rank sends after computing its blocks: losses, scores, and sums of gradients by
//! subtree, to each rank for its lanes of the dense part and for its rows.

use std::ops::Range;

use rayon::ThreadPool;
use rayon::prelude::*;
use stepwell_base::owner::RankOf;
use stepwell_data::Labels;
use stepwell_engine::Blocks;
use stepwell_fabric::{Error, Malformed, Message, Reader};
use stepwell_nn::{LossSums, tree_sum_of_subtrees};

use super::trained::summed;
use crate::Result;
use crate::batch::Examples;
use crate::dense::{DenseExecutor, LANES};
use crate::labels::lanes as label_lanes;
use crate::metrics;

/// Lanes of a vector of `count` parameters that a rank sums.
pub(super) fn lanes_of(count: usize, RankOf { rank, ranks }: RankOf) -> Range<usize> {
    count * rank / ranks..count * (rank + 1) / ranks
}

/// The rank that receives the scores of single examples and reports for all. Every rank receives
/// the losses, so that all end together if a model diverges.
const MEASURES: usize = 0;
/// Sections that [`BlockResults`] adds for every rank, and those for the rank that measures.
const SECTIONS: usize = 2;
const MEASURED: usize = 4;

/// Number of sections in a message to rank `to` before sums of gradients.
fn sections(to: usize) -> usize {
    if to == MEASURES { SECTIONS + MEASURED } else { SECTIONS }
}

/// Reads the part after the dense gradients of a message to rank `to` from a rank with blocks
/// `own`.
pub(super) fn row_sums(
    message: &Message,
    own: Blocks,
    to: usize,
) -> std::result::Result<Reader<'_>, Malformed> {
    let mut reader = message.reader();
    reader.skip(sections(to) + own.subtrees().count())?;
    Ok(reader)
}

/// A rank's announcements about the following steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NextStep {
    /// The rank was asked to stop.
    pub(super) asks: bool,
    /// Rows may be lent beyond this step: it cannot be the last.
    pub(super) lends_on: bool,
    /// The rank has sent rows for the next step.
    pub(super) is_ahead: bool,
}

impl NextStep {
    fn word(self) -> u64 {
        u64::from(self.asks) | u64::from(self.lends_on) << 1 | u64::from(self.is_ahead) << 2
    }

    fn read(reader: &mut Reader<'_>) -> std::result::Result<Self, Malformed> {
        let word = reader.take_exactly::<u64>(1)?[0];
        match word {
            0..8 => {
                let [asks, lends_on, is_ahead] = [1, 2, 4].map(|bit| word & bit > 0);
                Ok(Self { asks, lends_on, is_ahead })
            }
            _ => Err(Malformed::Wrong("it does not say what follows")),
        }
    }

    /// Combines the announcements of two ranks.
    fn and(self, other: Self) -> Self {
        Self {
            asks: self.asks | other.asks,
            lends_on: self.lends_on | other.lends_on,
            is_ahead: self.is_ahead | other.is_ahead,
        }
    }
}

/// A rank's results for its own examples.
pub(super) struct BlockResults<'a> {
    /// Sums of losses, by block.
    pub(super) sums: &'a [LossSums],
    pub(super) logits: &'a [f32],
    pub(super) examples: &'a Examples,
    /// Layout of the examples' labels and weights.
    pub(super) kinds: Labels,
    /// Whether the examples are trained on.
    pub(super) trains: bool,
}

impl BlockResults<'_> {
    /// The most bytes of a message, including `lanes` lanes of the gradients of `blocks`.
    pub(super) fn bytes_max(blocks: Blocks, lanes: usize, labels: Labels, to: usize) -> usize {
        let sections = sections(to) + blocks.subtrees().count();
        let sums = blocks.subtrees().count() * lanes * size_of::<f32>();
        // Logits, labels, weight, truth.
        let example = 4 * (label_lanes(labels) + 1);
        let measured = if to == MEASURES { example * blocks.place().len() } else { 0 };
        16 * sections + 24 * blocks.count() + measured + sums
    }

    /// Appends the part for rank `to`, with the announcements about the `next` step.
    pub(super) fn put(&self, message: &mut Message, to: usize, next: NextStep) {
        message.put(&[next.word()]);
        let sums: &mut [f64] = message.room(3 * self.sums.len());
        for (sums, of) in sums.chunks_exact_mut(3).zip(self.sums) {
            sums.copy_from_slice(&[of.loss, of.prediction, of.weight]);
        }
        if to != MEASURES {
            return;
        }
        let Examples { labels, weights, truth, .. } = self.examples;
        message.put(self.logits);
        if self.kinds.may_be_bits() && labels.iter().all(|label| *label == 0.0 || *label == 1.0) {
            let bytes: &mut [u8] = message.room(labels.len().div_ceil(8));
            for (byte, labels) in bytes.iter_mut().zip(labels.chunks(8)) {
                let bits =
                    labels.iter().enumerate().map(|(bit, label)| u8::from(*label > 0.5) << bit);
                *byte = bits.sum();
            }
        } else {
            message.put(labels);
        }
        message.put(weights);
        // True probabilities only serve to measure evaluations.
        message.put(if self.trains { &[] } else { &truth[..] });
    }
}

/// Results of all ranks for a mini-batch.
#[derive(Debug, Default)]
pub(crate) struct Scored {
    pub(crate) sums: LossSums,
    /// Logits of all examples; empty on ranks that do not measure. // (examples, labels)
    pub(crate) logits: Vec<f32>,
    pub(crate) labels: Vec<f32>,
    pub(crate) weights: Vec<f32>,
    /// True click probabilities, as in [`Examples::truth`].
    pub(crate) truth: Vec<f32>,
    /// Whether each rank has sent rows for the next step. // (ranks)
    pub(super) ahead: Vec<bool>,
    /// Whether some rank asks that this be the last step, and all rows are with their owners.
    pub(crate) ends: bool,
}

impl Scored {
    /// The scored examples, as far as they are known here.
    pub(crate) fn view(&self) -> metrics::Scored<'_> {
        let Self { logits, labels, weights, .. } = self;
        metrics::Scored { logits, labels, weights, layers: &[] }
    }

    /// Reads, as rank `own_rank`, one of `messages` from each rank; `blocks` are those of all
    /// ranks. Returns the sums of gradients by subtree, with the first block of each, if they have
    /// `lanes`.
    ///
    /// # Errors
    /// Names the rank whose message is invalid.
    pub(super) fn read<'a>(
        &mut self,
        messages: &'a [Message],
        own_rank: usize,
        blocks: Blocks,
        labels: Labels,
        lanes: Option<usize>,
    ) -> Result<Vec<(usize, &'a [f32])>> {
        self.logits.clear();
        self.labels.clear();
        self.weights.clear();
        self.truth.clear();
        self.ahead.clear();
        let mut end = NextStep::default();
        let (mut subtrees, mut of_blocks) = (Vec::new(), Vec::new());
        for (rank, message) in messages.iter().enumerate() {
            let wrong = |why: Malformed| Error::malformed(rank, why);
            let own = blocks.of_rank(RankOf { rank, ranks: messages.len() });
            let mut reader = message.reader();
            let word = NextStep::read(&mut reader).map_err(wrong)?;
            self.ahead.push(word.is_ahead);
            end = end.and(word);
            let sums: &[f64] = reader.take_exactly(3 * own.count()).map_err(wrong)?;
            let (sums, _) = sums.as_chunks();
            of_blocks.extend(sums.iter().map(|[loss, prediction, weight]| LossSums {
                loss: *loss,
                prediction: *prediction,
                weight: *weight,
            }));
            if own_rank == MEASURES {
                self.read_examples(&mut reader, own.place().len(), labels).map_err(wrong)?;
            }
            for subtree in lanes.iter().flat_map(|_| own.subtrees()) {
                let sum = reader.take_exactly(lanes.unwrap_or(0)).map_err(wrong)?;
                subtrees.push((own.first() + subtree.start, sum));
            }
            if lanes.is_none() {
                reader.end().map_err(wrong)?;
            }
        }
        self.sums = summed(&of_blocks);
        self.ends = end.asks && !end.lends_on;
        Ok(subtrees)
    }

    /// Reads the scores and labels of `count` examples.
    fn read_examples(
        &mut self,
        reader: &mut Reader<'_>,
        count: usize,
        labels: Labels,
    ) -> std::result::Result<(), Malformed> {
        let before = self.labels.len() / labels.count;
        self.logits.extend_from_slice(reader.take_exactly(count * labels.count)?);
        let bits = reader.clone().take_exactly::<u8>(count.div_ceil(8));
        match bits.ok().filter(|_| labels.may_be_bits()) {
            Some(bits) => {
                reader.skip(1)?;
                let label = |example: usize| f32::from(bits[example / 8] >> (example % 8) & 1);
                self.labels.extend((0..count).map(label));
            }
            // Several labels, or one that isn't always 0 or 1.
            None => {
                self.labels.extend_from_slice(reader.take_exactly(count * labels.count)?);
            }
        }
        let weights = if labels.weighted { count } else { 0 };
        self.weights.extend_from_slice(reader.take_exactly(weights)?);
        let truth: &[f32] = reader.take()?;
        if truth.len() > count {
            return Err(Malformed::Wrong("it has true probabilities of more examples than it has"));
        }
        if !truth.is_empty() {
            // Earlier examples, from a source without true probabilities, have none.
            self.truth.resize(before, f32::NAN);
            self.truth.extend_from_slice(truth);
        }
        Ok(())
    }
}

/// Appends to each rank's message its part of `count` lanes of the gradients of `dense`, which are
/// all lanes or none, summed over each subtree of `blocks`.
pub(super) fn put_dense(
    dense: &mut dyn DenseExecutor,
    pool: &ThreadPool,
    messages: &mut [Message],
    blocks: Blocks,
    count: usize,
) -> Result<()> {
    let ranks = messages.len();
    let gradients = dense.gradients()?;
    for subtree in blocks.subtrees() {
        for (rank, message) in messages.iter_mut().enumerate() {
            let lanes = lanes_of(count, RankOf { rank, ranks });
            let sum: &mut [f32] = message.room(lanes.len());
            in_pieces(pool, sum, |range, sum| {
                let range = lanes.start + range.start..lanes.start + range.end;
                gradients.sum((blocks, subtree.clone()), range, sum);
            });
        }
    }
    Ok(())
}

/// Sets `sum` to the sum of all `subtrees`, in the threads of `pool`.
pub(super) fn sum_lanes(pool: &ThreadPool, subtrees: &[(usize, &[f32])], sum: &mut [f32]) {
    in_pieces(pool, sum, |range, sum| {
        let lanes = subtrees.iter().map(|(first, sum)| (*first, &sum[range.clone()]));
        tree_sum_of_subtrees(&lanes.collect::<Vec<_>>(), sum);
    });
}

/// Fills `lanes` piece by piece, in the threads of `pool`.
pub(super) fn in_pieces(
    pool: &ThreadPool,
    lanes: &mut [f32],
    fill: impl Fn(Range<usize>, &mut [f32]) + Sync,
) {
    pool.install(|| {
        lanes.par_chunks_mut(LANES).enumerate().for_each(|(number, piece)| {
            fill(number * LANES..number * LANES + piece.len(), piece);
        });
    });
}
