//! Steps that ranks take together: each computes its blocks of the mini-batch, and updates its own
//! rows.
//!
//! ```text
//!  answer   current rows that all ranks ask of this one                                   own rows
//!  early    rows of the next step that this step does not change                          own rows
//!  compute  answers ─► visiting rows ─► x ─► loss ─► gradients ─► sums by subtree      own blocks
//!  sum      dense gradients of all ranks, in the one tree                               own lanes
//!  update   row gradients of all ranks, in the one tree ─► rows; dense parameters        own rows
//! ```
//!
//! A lent row is read and updated by its borrower, when that rank's blocks are computed: no other
//! rank has gradients of it.
//!
//! Between these phases a rank waits for the other ranks, which do the same; a poll never blocks.
//! Dense gradients are reduced and scattered, then gathered. Sums over blocks follow the tree that
//! a single rank uses, so the model has the same bits ([`stepwell_nn::tree_sum_of_subtrees`]).

use std::sync::Arc;

use stepwell_base::owner::{RankOf, owner};
use stepwell_base::stage::Progress;
use stepwell_engine::{Borrowed, Group, Purpose};
use stepwell_fabric::collective::{AllToAll, Collective as _, all_gather};
use stepwell_fabric::{Fabric, Malformed, Message};

use super::block_results::{Scored, lanes_of, row_sums, sum_lanes};
use super::early::Early;
use super::own_blocks::{Arrived, DenseSums, OwnBlocks};
use super::trained::{RowLaps, TrainedModel};
use super::{Around, FinishedSteps, Stepping};
use crate::batch::MiniBatch;
use crate::dense::Processor;
use crate::exchange::Exchange;
use crate::ranks::{Late, Ranks};
use crate::run_plan::RunPlan;
use crate::{Error, Result, talk};

/// A model whose ranks take each step together.
pub(crate) struct InStep {
    pub(super) model: TrainedModel,
    pub(super) own: OwnBlocks,
    /// Borrowed rows, if rows are lent, and whether they may stay for the next mini-batch.
    borrowed: Option<Borrowed>,
    lends_on: bool,
    early: Early,
    /// Whether rows are sent before their step begins.
    sends_early: bool,
    phase: Phase,
    pub(super) scored: Scored,
}

/// Phase of a step, named for the messages that it waits for.
enum Phase {
    /// Nothing: the next step can begin.
    Begin,
    /// Weights of the rows of this rank's examples.
    Answers(AllToAll),
    /// All ranks' results of their blocks.
    Results(AllToAll),
    /// Dense gradients, each lane summed by one rank. `results` contains row gradients.
    Summed { results: Vec<Message>, summed: AllToAll },
}

impl InStep {
    /// Trains `model` in step with the other `ranks`.
    ///
    /// # Errors
    /// If the system lacks memory for other ranks' rows.
    pub(crate) fn new(
        plan: &RunPlan<'_>,
        mut model: TrainedModel,
        ranks: &Ranks,
        delay: Option<Late>,
    ) -> Result<Self> {
        let own = OwnBlocks::new(plan, &model, ranks, delay, DenseSums::ByLanes)?;
        let tables = model.embeddings.tables();
        let borrowed = Exchange::borrowed_rows(plan, model.model());
        let borrowed = borrowed.map(|rows| Borrowed::new(tables, &rows)).transpose();
        let borrowed = borrowed.map_err(Error::no_memory_of_ranks)?;
        if borrowed.is_some() {
            model.embeddings.lend();
        }
        model.share(ranks.fabric.size() - plan.ranks.servers);
        let takes_time = plan.ranks.in_step && own.fabric.takes_time();
        Ok(Self {
            sends_early: takes_time && model.embeddings.sends_early(),
            model,
            own,
            borrowed,
            lends_on: false,
            early: Early::default(),
            phase: Phase::Begin,
            scored: Scored::default(),
        })
    }

    /// The connection to the other ranks.
    pub(super) fn fabric(&self) -> &Fabric {
        &self.own.fabric
    }

    /// Advances `mini` without blocking, until it is scored and, if that is its purpose, trained:
    /// the step is then done. When it begins, the `next` one is read, if it has arrived.
    ///
    /// # Errors
    /// If another rank is gone, or sends an invalid message.
    fn advance(
        &mut self,
        mini: &mut MiniBatch,
        next: Option<&mut MiniBatch>,
        groups: &[Arc<Group>],
    ) -> Result<Progress> {
        // All work is done in the compute threads: otherwise one would be idle next to this one.
        let pool = Arc::clone(&self.model.pool);
        self.phase = match &mut self.phase {
            Phase::Begin => Phase::Answers(pool.install(|| self.answer(mini, next, groups))?),
            Phase::Answers(answers) => {
                let Some(answers) = answers.poll(&self.own.fabric)? else {
                    return Ok(Progress::Blocked);
                };
                let messages = pool.install(|| self.compute(answers, mini))?;
                Phase::Results(AllToAll::start(&self.own.fabric, talk::SAID, messages)?)
            }
            Phase::Results(results) => {
                let Some(results) = results.poll(&self.own.fabric)? else {
                    return Ok(Progress::Blocked);
                };
                match pool.install(|| self.read(&results, mini))? {
                    Some(summed) => Phase::Summed { results, summed },
                    None => return Ok(self.end(results)),
                }
            }
            Phase::Summed { results, summed } => {
                let Some(summed) = summed.poll(&self.own.fabric)? else {
                    return Ok(Progress::Blocked);
                };
                let results = std::mem::take(results);
                pool.install(|| self.update(&results, &summed, mini, groups))?;
                return Ok(self.end(results.into_iter().chain(summed)));
            }
        };
        Ok(Progress::Progressed)
    }

    fn end(&mut self, messages: impl IntoIterator<Item = Message>) -> Progress {
        self.own.keep(messages);
        self.phase = Phase::Begin;
        Progress::Done
    }

    /// Sends the current rows that others ask for, and rows for the `next` mini-batch that this one
    /// does not change.
    fn answer(
        &mut self,
        mini: &mut MiniBatch,
        next: Option<&mut MiniBatch>,
        groups: &[Arc<Group>],
    ) -> Result<AllToAll> {
        let Self { model: TrainedModel { embeddings, .. }, own, early, .. } = self;
        let trains = mini.purpose == Purpose::Train;
        let rows = embeddings.hold(mini.number, &mut mini.parts, groups, trains)?;
        let mut messages = own.messages(|rank| embeddings.answer_bytes(&rows, rank));
        embeddings.answer(&rows, &mut messages);
        let answers = AllToAll::start(&own.fabric, talk::ANSWER, messages)?;
        early.send(&own.fabric, embeddings, rows, next, groups)?;
        Ok(answers)
    }

    /// Computes this rank's blocks; returns the message to each rank.
    fn compute(&mut self, answers: Vec<Message>, mini: &mut MiniBatch) -> Result<Vec<Message>> {
        self.all_are_back()?;
        let trains = mini.purpose == Purpose::Train;
        let arrived = Arrived {
            answers,
            is_ahead: self.early.is_ahead(),
            early: self.early.arrived(),
            borrowed: self.borrowed.as_mut().filter(|_| trains),
        };
        self.lends_on = mini.cargo.shared.lends_on;
        self.own.compute(&mut self.model, mini, arrived)
    }

    /// Refuses an owner that did not ask for a lent row back by the end of a batch. A batch that
    /// ends early on this rank alone, because data cannot be read, is the last one, and the run
    /// reports why.
    fn all_are_back(&self) -> Result<()> {
        let left = self.borrowed.as_ref().filter(|_| !self.lends_on).and_then(Borrowed::any);
        left.map_or(Ok(()), |key| {
            let why = Malformed::Wrong("it lent a row and does not ask for it back");
            let owner = owner(key, self.own.fabric.size());
            Err(stepwell_fabric::Error::malformed(owner, why).into())
        })
    }

    /// Reads all ranks' results. If they train, sums this rank's lanes of the dense gradients, and
    /// sends them.
    fn read(&mut self, results: &[Message], mini: &MiniBatch) -> Result<Option<AllToAll>> {
        let Self { model, own: OwnBlocks { fabric, .. }, early, scored, .. } = self;
        let own = lanes_of(model.dense.summed_count(), fabric.place());
        let lanes = (mini.purpose == Purpose::Train).then_some(own.len());
        let (blocks, labels) = (mini.cargo.blocks.of_all(), model.model.label_lanes());
        let subtrees = scored.read(results, fabric.rank(), blocks, labels, lanes)?;
        early.receive(fabric, &scored.ahead)?;
        if lanes.is_none() {
            return Ok(None);
        }
        let mut message = fabric.message_of(own.len() * size_of::<f32>() + 8);
        sum_lanes(&model.pool, &subtrees, message.room(own.len()));
        Ok(Some(all_gather(fabric, talk::SUMMED, message)?))
    }

    /// Updates this rank's rows and the dense part by all ranks' messages.
    fn update(
        &mut self,
        results: &[Message],
        summed: &[Message],
        mini: &mut MiniBatch,
        groups: &[Arc<Group>],
    ) -> Result<()> {
        let blocks = mini.cargo.blocks.of_all();
        let RankOf { rank: own, ranks } = self.own.fabric.place();
        let TrainedModel { embeddings, dense, profile, pool, .. } = &mut self.model;
        let count = dense.summed_count();
        let (mut gradient, mut of_rows) = (Vec::with_capacity(ranks), Vec::with_capacity(ranks));
        for (rank, (results, summed)) in results.iter().zip(summed).enumerate() {
            let wrong = |why| stepwell_fabric::Error::malformed(rank, why);
            let of = RankOf { rank, ranks };
            let lanes = lanes_of(count, of);
            let sum = summed.reader().take_exactly::<f32>(lanes.len()).map_err(wrong)?;
            gradient.push((lanes.start, sum));
            of_rows.push(row_sums(results, blocks.of_rank(of), own).map_err(wrong)?);
        }
        let mut rows = embeddings.hold_again(mini.number, &mut mini.parts, groups);
        let (profile, steps) = (&*profile, embeddings.steps());
        let rows = || embeddings.apply_sums(&mut rows, of_rows, blocks, &RowLaps(profile));
        let dense = || dense.step(steps, Some(&gradient), Processor { pool, profile });
        let (outcome, stepped) = pool.install(|| rayon::join(rows, dense));
        outcome.map_err(Error::of_shared_rows)?;
        stepped
    }
}

impl Stepping for InStep {
    fn model(&self) -> &TrainedModel {
        &self.model
    }

    fn model_mut(&mut self) -> &mut TrainedModel {
        &mut self.model
    }

    fn is_underway(&self) -> bool {
        !matches!(self.phase, Phase::Begin)
    }

    fn poll(&mut self, around: Around<'_>) -> Result<Progress> {
        let Around { incoming, groups, results } = around;
        let looks_ahead = self.sends_early && !self.is_underway();
        let Some((mini, next)) = incoming.mini(looks_ahead) else {
            unreachable!("a step needs a mini-batch at hand")
        };
        let progress = self.advance(mini, next, groups)?;
        if progress != Progress::Done {
            return Ok(progress);
        }
        let scored = &self.scored;
        results.scored(mini, scored.sums, scored.view(), &scored.truth)?;
        if scored.ends {
            results.end();
        }
        if let Some(unit) = incoming.end_mini() {
            results.over(unit);
        }
        Ok(Progress::Progressed)
    }

    fn finish(self: Box<Self>) -> FinishedSteps {
        FinishedSteps {
            pools: vec![Arc::clone(&self.model.pool)],
            model: self.model,
            rows_borrowed: self.borrowed.as_ref().map_or(0, Borrowed::count),
            rows_early: self.early.sent(),
            apart: None,
        }
    }
}
