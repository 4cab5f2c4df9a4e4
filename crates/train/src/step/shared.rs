//! A step that ranks share: each computes its blocks of the mini-batch, and updates its own rows.
//!
//! ```text
//!  hold     rows that all ranks ask of this one ─► answers                              own rows
//!  compute  answers ─► visiting rows ─► x ─► loss ─► gradients ─► sums by subtree     own blocks
//!  update   sums of all ranks, in the one tree ─► rows, dense parameters              own rows
//! ```
//!
//! Between the three it waits for the other ranks, who do the same: a poll never does. Sums over
//! blocks meet in the tree that one rank sums by, so the model has its bits ([`stepwell_nn`]).

use std::sync::Arc;

use rayon::prelude::*;
use stepwell_engine::{Gradients, Group, Guests, Purpose};
use stepwell_fabric::collective::{AllToAll, Collective as _, all_gather};
use stepwell_fabric::{Fabric, Malformed, Message};
use stepwell_nn::{tree_sum, tree_sum_values};

use super::dense::{DenseUpdate, LANES, Summed};
use super::{RowLaps, Scored, Scores, Trainer};
use crate::batch::{Examples, MiniBatch, Shared};
use crate::{Error, Result, talk};

/// What a trainer needs to share its steps.
pub(super) struct Sharing {
    fabric: Fabric,
    guests: Guests,
    phase: Phase,
    scored: Scored,
}

/// What a step waits for.
enum Phase {
    /// Nothing: the next step begins.
    Begin,
    /// Weights of the rows of this rank's examples.
    Answers(AllToAll),
    /// Sums of gradients of this rank's rows, where they are trained, and what all have to say of
    /// the dense part.
    Sums {
        rows: Option<AllToAll>,
        of_rows: Option<Vec<Message>>,
        dense: AllToAll,
        of_dense: Option<Vec<Message>>,
    },
}

/// What a poll of a shared step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It waits for other ranks.
    Nowhere,
    /// It goes on; poll again.
    On,
    /// The step is over.
    ToTheEnd,
}

/// Said by a rank that asks that this be the last step of all.
const ENDS: u64 = 1;

impl Sharing {
    pub(super) fn new(fabric: Fabric, guests: Guests) -> Self {
        Self { fabric, guests, phase: Phase::Begin, scored: Scored::default() }
    }
}

impl Trainer {
    /// Does what can be done now for `mini`, until it is scored and, where that is its purpose,
    /// trained.
    ///
    /// # Errors
    /// When another rank is gone, or sends what makes no sense.
    pub(crate) fn poll_shared(
        &mut self,
        mini: &mut MiniBatch,
        groups: &[Arc<Group>],
    ) -> Result<Moved> {
        let Some(mut sharing) = self.sharing.take() else { return Err(Error::Panicked("train")) };
        let over = self.poll_phase(&mut sharing, mini, groups);
        self.sharing = Some(sharing);
        over
    }

    fn poll_phase(
        &mut self,
        sharing: &mut Sharing,
        mini: &mut MiniBatch,
        groups: &[Arc<Group>],
    ) -> Result<Moved> {
        match &mut sharing.phase {
            Phase::Begin => {
                let answers = self.answer(&sharing.fabric, mini, groups)?;
                sharing.phase = Phase::Answers(answers);
                Ok(Moved::On)
            }
            Phase::Answers(answers) => {
                let Some(messages) = answers.poll(&sharing.fabric)? else {
                    return Ok(Moved::Nowhere);
                };
                sharing.phase = self.compute(sharing, &messages, mini)?;
                messages.into_iter().for_each(|message| sharing.fabric.keep(message));
                Ok(Moved::On)
            }
            Phase::Sums { rows, of_rows, dense, of_dense } => {
                if of_rows.is_none()
                    && let Some(rows) = rows
                {
                    *of_rows = rows.poll(&sharing.fabric)?;
                }
                if of_dense.is_none() {
                    *of_dense = dense.poll(&sharing.fabric)?;
                }
                let waits = rows.is_some() && of_rows.is_none();
                let (false, Some(of_dense)) = (waits, of_dense.take_if(|_| !waits)) else {
                    return Ok(Moved::Nowhere);
                };
                let of_rows = of_rows.take();
                sharing.phase = Phase::Begin;
                self.end(sharing, (of_rows, of_dense), mini, groups)?;
                Ok(Moved::ToTheEnd)
            }
        }
    }

    /// Sends the rows that others ask for as they are now.
    fn answer(
        &mut self,
        fabric: &Fabric,
        mini: &mut MiniBatch,
        groups: &[Arc<Group>],
    ) -> Result<AllToAll> {
        let trains = mini.purpose == Purpose::Train;
        let rows = self.embeddings.hold(mini.number, &mut mini.parts, groups, trains);
        let mut messages: Vec<_> = (0..fabric.size()).map(|_| fabric.message()).collect();
        self.embeddings.answer(&rows, &mut messages);
        Ok(AllToAll::start(fabric, talk::ANSWER, messages)?)
    }

    /// Computes this rank's blocks, and sends what others need of them.
    fn compute(
        &mut self,
        sharing: &mut Sharing,
        answers: &[Message],
        mini: &mut MiniBatch,
    ) -> Result<Phase> {
        let Sharing { fabric, guests, .. } = sharing;
        let trains = mini.purpose == Purpose::Train;
        let Examples { shared: Shared { parts, routes, blocks }, .. } = &mut mini.cargo;
        let blocks = blocks.ok_or(Error::Panicked("batch"))?;
        guests.take(answers, parts, routes)?;
        let mut parts = std::mem::take(parts);
        if trains {
            parts.iter_mut().for_each(stepwell_engine::Part::sort_bags);
        }
        let rows = self.embeddings.visit(&mut parts, guests);
        let scores = self.run_blocks(&mini.cargo, blocks, &rows, trains);
        let sums = match trains {
            false => None,
            true => {
                let mut messages: Vec<_> = (0..fabric.size()).map(|_| fabric.message()).collect();
                let columns = mini.cargo.labels.len() * self.embeddings.columns().count;
                let gradients = Gradients {
                    d_x: &self.d_x[..columns],
                    d_first_order: &self.d_logits,
                    labels: &mini.cargo.labels,
                };
                let routes = &mini.cargo.shared.routes;
                let of = (gradients, blocks);
                self.embeddings.sum_for_owners(&rows, of, routes, &mut messages);
                Some(AllToAll::start(fabric, talk::SUMS, messages)?)
            }
        };
        drop(rows);
        mini.cargo.shared.parts = parts;
        let mut message = fabric.message();
        self.put_dense(&mut message, (&mini.cargo, blocks), &scores, trains);
        let dense = all_gather(fabric, talk::DENSE, message)?;
        Ok(Phase::Sums { rows: sums, of_rows: None, dense, of_dense: None })
    }

    /// What this rank says of its blocks.
    fn put_dense(
        &self,
        message: &mut Message,
        (examples, blocks): (&Examples, stepwell_engine::Blocks),
        scores: &[Scores],
        trains: bool,
    ) {
        message.put(&[if self.stop_after.is_made() { ENDS } else { 0 }]);
        message.put(&scores.iter().map(|block| block.loss).collect::<Vec<f64>>());
        message.put(&scores.iter().map(|block| block.probability).collect::<Vec<f64>>());
        message.put(&self.logits);
        message.put(&examples.labels);
        message.put(&examples.truth);
        if !trains {
            return;
        }
        for subtree in blocks.subtrees() {
            let sum: &mut [f32] = message.room(self.parameters.values().len());
            let gradients = &self.gradients[subtree];
            self.pool.install(|| {
                sum.par_chunks_mut(LANES).enumerate().for_each(|(number, sum)| {
                    let range = number * LANES..number * LANES + sum.len();
                    let blocks: Vec<&[f32]> =
                        gradients.iter().map(|gradient| &gradient[range.clone()]).collect();
                    tree_sum(&blocks, sum);
                });
            });
        }
    }

    /// Updates this rank's rows and the dense part by what all ranks sent.
    fn end(
        &mut self,
        sharing: &mut Sharing,
        (of_rows, of_dense): (Option<Vec<Message>>, Vec<Message>),
        mini: &mut MiniBatch,
        groups: &[Arc<Group>],
    ) -> Result<()> {
        let blocks = mini.cargo.shared.blocks.ok_or(Error::Panicked("batch"))?.of_all();
        let ranks = sharing.fabric.size();
        let mut subtrees: Vec<(usize, &[f32])> = Vec::new();
        let count = of_rows.as_ref().map(|_| self.parameters.values().len());
        let scored = &mut sharing.scored;
        scored.clear();
        let (mut losses, mut probabilities) = (Vec::new(), Vec::new());
        for (rank, message) in of_dense.iter().enumerate() {
            let wrong = |why: Malformed| stepwell_fabric::Error::malformed(rank, why);
            let (own, mut reader) = (blocks.of_rank(rank, ranks), message.reader());
            let [ends] = reader.take_exactly::<u64>(1).map_err(wrong)? else { continue };
            scored.ends |= *ends == ENDS;
            losses.extend_from_slice(reader.take_exactly(own.count()).map_err(wrong)?);
            probabilities.extend_from_slice(reader.take_exactly(own.count()).map_err(wrong)?);
            let examples = own.place().len();
            scored.logits.extend_from_slice(reader.take_exactly(examples).map_err(wrong)?);
            // Examples of ranks before, whose source knows no truth, have none.
            let before = scored.labels.len();
            scored.labels.extend_from_slice(reader.take_exactly(examples).map_err(wrong)?);
            let truth: &[f32] = reader.take().map_err(wrong)?;
            if !truth.is_empty() {
                scored.truth.resize(before, f32::NAN);
                scored.truth.extend_from_slice(truth);
            }
            if let Some(count) = count {
                for subtree in own.subtrees() {
                    let sum = reader.take_exactly(count).map_err(wrong)?;
                    subtrees.push((own.first() + subtree.start, sum));
                }
            }
            reader.end().map_err(wrong)?;
        }
        scored.sums =
            Scores { loss: tree_sum_values(&losses), probability: tree_sum_values(&probabilities) };
        if let Some(of_rows) = &of_rows {
            let step = self.optimizer.begin_step();
            let Self { embeddings, parameters, state, sums, profile, pool, .. } = self;
            let mut rows = embeddings.hold_again(&mut mini.parts, groups);
            let profile = &*profile;
            let rows = || embeddings.apply_sums(&mut rows, of_rows, blocks, &RowLaps(profile));
            let summed = Summed::Subtrees(&subtrees);
            let dense = DenseUpdate { gradients: summed, step, workspaces: sums, profile };
            let dense = || dense.run(parameters.values_mut(), state);
            pool.install(|| rayon::join(rows, dense)).0?;
        }
        let messages = of_rows.into_iter().flatten().chain(of_dense);
        messages.for_each(|message| sharing.fabric.keep(message));
        Ok(())
    }

    /// What all ranks scored last.
    pub(crate) fn take_scored(&mut self) -> Scored {
        self.sharing.as_mut().map(|sharing| std::mem::take(&mut sharing.scored)).unwrap_or_default()
    }

    /// Takes back the memory of that.
    pub(crate) fn keep_scored(&mut self, scored: Scored) {
        if let Some(sharing) = &mut self.sharing {
            sharing.scored = scored;
        }
    }
}
