//! Steps of ranks that are out of step: each computes its part when it has the rows, and owners
//! update rows when all parts of a step have arrived.
//!
//! ```text
//!              units                 mini-batch, rows, dense parameters
//!   pull ───────────────► train ────────────────────────────────────────► learn
//!                         ║   ▲                                             │
//!            rows, sums   ║   └─────────────────────────────────────────────┘
//!            of gradients ║            sums of gradients
//!                         ▼
//!                    other ranks
//! ```
//!
//! - **Rows.** An owner answers a rank's request for its next mini-batch after receiving the
//!   gradients of its previous one, and updates rows when all ranks have sent theirs for a step: by
//!   whole steps, in order.
//! - **Invariants.**
//!   - TRAIN-I4: rows that a rank reads for step t lack at most `ahead_max` of the steps before t.
//!   - TRAIN-I5: rows change by the sums of all ranks' gradients of a step, once, in the order of
//!     steps.
//!   - TRAIN-I6: between two marks every rank gives the protocol the same number of gradients; at a
//!     mark all steps are in the rows, and all ranks have the same dense part.
//!   - TRAIN-I7: asked to stop, all end after the same step, `ahead_max` after the one with which
//!     they learned of it: no rank can have begun a later one.
//! - **Bounds.** At most `ahead_max` + 1 gradient messages of each rank wait; their mini-batches
//!   are pinned, as many as the planner lets be in flight.
//! - **Source.** Rows: Ho et al., "More effective distributed ML via a stale synchronous parallel
//!   parameter server" (2013). The dense part: see [`stepwell_sync`] and [`geeps`].

mod agreement;
mod geeps;
mod peers;
mod window;

use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_base::owner::RankOf;
use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::stage::Progress;
use stepwell_engine::{Group, Purpose, Unit, last_step_of, rules_of};
use stepwell_sync::OpenEnded;

pub(crate) use self::agreement::Agreement;
use self::peers::Peers;
use self::window::Window;
use super::block_results::row_sums;
use super::trained::{RowLaps, TrainedModel};
use super::{Around, FinishedSteps, InStep, Incoming, Job, Learned, Learner, Results, Stepping};
use crate::batch::{Examples, MiniBatch};
use crate::run_plan::RankPlan;
use crate::{Error, Result, talk};

/// A model whose ranks do not wait for each other between two marks.
pub(crate) struct OutOfStep {
    steps: Steps,
    agreement: Agreement,
    /// Steps in progress since the last mark, if any.
    open: Option<Open>,
}

/// A sequence of steps between two marks.
struct Open {
    /// Moves the dense part.
    protocol: Box<dyn OpenEnded<f32>>,
    /// Whether no step follows the window; the protocol then knows how many there are.
    closes: bool,
}

/// The steps of this rank, and the messages of the others about theirs.
struct Steps {
    /// Owns rows and answers for them; also evaluates, because ranks evaluate in step.
    owner: InStep,
    window: Window,
    peers: Peers,
    ahead_max: u64,
    rules: Rules,
    /// Number of servers, which are the first ranks.
    servers: usize,
    /// The number of steps after which the run ends at the latest.
    end: u64,
    /// Steps that are in the rows, and steps that this rank has begun.
    applied: u64,
    begun: u64,
    /// Whether the last begun step is being computed.
    computing: bool,
    /// Buffers for parameters and gradients.
    spare: (Vec<f32>, Vec<f32>),
    jobs: Sender<Job>,
    learned: Receiver<Learned>,
    learner_pool: Arc<ThreadPool>,
}

impl OutOfStep {
    /// Trains the model of `owner` out of step: `learner` computes `jobs` and returns `learned`
    /// results, and the dense part follows `agreement`.
    pub(crate) fn new(
        ranks: RankPlan,
        groups: &[Arc<Group>],
        owner: InStep,
        learner: &Learner,
        agreement: Agreement,
        jobs: Sender<Job>,
        learned: Receiver<Learned>,
    ) -> Self {
        let last_step = last_step_of(groups);
        let steps = Steps {
            end: last_step.map_or(u64::MAX, |last| last.saturating_sub(owner.model.steps())),
            owner,
            window: Window::default(),
            peers: Peers::new(ranks),
            ahead_max: ranks.ahead_max,
            rules: rules_of(groups),
            servers: ranks.servers,
            applied: 0,
            begun: 0,
            computing: false,
            spare: Default::default(),
            jobs,
            learned,
            learner_pool: Arc::clone(learner.pool()),
        };
        Self { steps, agreement, open: None }
    }

    /// Advances open steps without waiting.
    fn advance(&mut self, around: Around<'_>) -> Result<Progress> {
        let Around { incoming, groups, results } = around;
        let (steps, Some(open)) = (&mut self.steps, &mut self.open) else {
            return Ok(Progress::Blocked);
        };
        let mut any = steps.take(incoming, open);
        let protocol = &mut *open.protocol;
        any |= protocol.poll(steps.owner.fabric())?.progressed;
        any |= steps.peers.receive(steps.owner.fabric())?;
        any |= steps.answer(groups)?;
        any |= steps.begin(protocol)?;
        any |= steps.end_computing(protocol)?;
        any |= steps.apply(groups, results)?;
        // New messages and gradients may allow the protocol to continue.
        any |= protocol.poll(steps.owner.fabric())?.progressed;
        if open.closes && steps.applied == steps.last() {
            any |= self.close(results)?;
        }
        Ok(if any { Progress::Progressed } else { Progress::Blocked })
    }

    /// Ends the sequence of steps, once the dense part is the same on all ranks.
    fn close(&mut self, results: &mut dyn Results) -> Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let steps = &mut self.steps;
        let waits = steps.rules.hold(Rule::SettleAtMarks);
        let fabric = steps.owner.fabric();
        let Some(dense) = self.agreement.settle(fabric, &*open.protocol, waits)? else {
            return Ok(false);
        };
        steps.owner.model.dense.load(&dense).map_err(Error::Config)?;
        if let Some(Open { protocol, .. }) = self.open.take() {
            self.agreement.rest(protocol);
        }
        if steps.applied == steps.end {
            results.end();
            steps.window.drain(steps.applied).into_iter().for_each(|unit| results.over(unit));
        }
        Ok(true)
    }
}

impl Steps {
    /// The number of steps that can be trained.
    fn last(&self) -> u64 {
        self.window.end().min(self.end)
    }

    /// Whether this rank is a server, which computes no gradients.
    fn serves(&self) -> bool {
        self.owner.fabric().rank() < self.servers
    }

    /// Takes the next units, until something other than a step.
    fn take(&mut self, incoming: &mut Incoming, open: &mut Open) -> bool {
        if open.closes {
            return false;
        }
        let mut any = false;
        while !open.closes && self.window.end() <= self.applied + self.ahead_max {
            if next_is_step(incoming) {
                incoming.take_unit().into_iter().for_each(|unit| self.window.push(unit));
            } else if incoming.is_empty() {
                break;
            } else {
                open.closes = true;
            }
            any = true;
        }
        // A later request to stop can lower the end to this, and no further.
        let is_final = self.end <= self.applied + self.ahead_max + 1;
        open.closes |= is_final && self.window.end() >= self.end;
        if open.closes {
            open.protocol.end_after(self.last());
        }
        any | open.closes
    }

    /// Answers ranks whose next mini-batch may now read rows.
    fn answer(&mut self, groups: &[Arc<Group>]) -> Result<bool> {
        let bound = match self.rules.hold(Rule::HoldBackReads) {
            true => self.applied + self.ahead_max + 1,
            false => u64::MAX,
        };
        let last = self.last().min(bound);
        let mut any = false;
        while let Some((step, ranks)) = self.peers.asking(last) {
            let fabric = &self.owner.own.fabric;
            let TrainedModel { embeddings, pool, .. } = &mut self.owner.model;
            let mini = self.window.mini(step);
            let messages = pool.install(|| {
                let rows = embeddings.hold(mini.number, &mut mini.parts, groups, false)?;
                let answer = |rank: &usize| {
                    let mut message = fabric.message_of(embeddings.answer_bytes(&rows, *rank));
                    embeddings.answer_to(*rank, &rows, &mut message);
                    message
                };
                Ok::<_, Error>(ranks.iter().map(answer).collect::<Vec<_>>())
            })?;
            for (rank, message) in ranks.into_iter().zip(messages) {
                fabric.send(rank, talk::ROWS, message)?;
                let reads = rank >= self.servers;
                self.peers.answered(rank, reads.then_some(step - self.applied));
            }
            any = true;
        }
        Ok(any)
    }

    /// Begins to compute the next step, if its rows have arrived and the protocol allows it.
    fn begin(&mut self, protocol: &mut dyn OpenEnded<f32>) -> Result<bool> {
        let step = self.begun;
        if self.computing || step >= self.last() || step > self.applied + self.ahead_max {
            return Ok(false);
        }
        // A server has no examples; its computation is empty.
        let here = self.peers.rows_are_here(self.owner.fabric())?;
        if !here || !self.serves() && protocol.begin().is_none() {
            return Ok(false);
        }
        let (mut parameters, gradient) = std::mem::take(&mut self.spare);
        parameters.clear();
        parameters.extend_from_slice(protocol.parameters());
        let MiniBatch { number, purpose, cargo, .. } = self.window.mini(step);
        let (number, purpose, parts) = (*number, *purpose, Vec::new());
        let mini = MiniBatch { number, purpose, parts, cargo: std::mem::take(cargo) };
        let job = Job { mini, answers: self.peers.take_rows(), parameters, gradient };
        let is_full = matches!(self.jobs.try_send(job), Err(Refused::Full(_)));
        assert!(!is_full, "only one mini-batch is computed at a time");
        self.computing = true;
        Ok(true)
    }

    /// Takes computed gradients and sends them to the other ranks.
    fn end_computing(&mut self, protocol: &mut dyn OpenEnded<f32>) -> Result<bool> {
        let Received::Item(learned) = self.learned.try_recv() else { return Ok(false) };
        let Learned { mini, results, parameters, mut gradient } = learned;
        self.window.mini(self.begun).cargo = mini.cargo;
        let RankOf { rank, ranks } = self.owner.fabric().place();
        let mut results: Vec<_> = results.into_iter().enumerate().collect();
        // Each rank sends to a different rank first.
        results.rotate_left((rank + 1) % ranks);
        for (to, message) in results {
            self.owner.fabric().send(to, talk::LEARNED, message)?;
        }
        if !self.serves() {
            let workers = (ranks - self.servers) as f32;
            // Protocols take the gradient of the mean over this rank's examples.
            gradient.iter_mut().for_each(|lane| *lane *= workers);
            protocol.give(&mut gradient);
        }
        self.spare = (parameters, gradient);
        (self.computing, self.begun) = (false, self.begun + 1);
        Ok(true)
    }

    /// Updates rows by the next step, once all ranks have sent its gradients.
    fn apply(&mut self, groups: &[Arc<Group>], results: &mut dyn Results) -> Result<bool> {
        let Some(learned) = self.peers.take_learned() else { return Ok(false) };
        let mini = self.window.mini(self.applied);
        let InStep { model, own, scored, .. } = &mut self.owner;
        let (blocks, RankOf { rank, ranks }) = (mini.cargo.blocks.of_all(), own.fabric.place());
        scored.read(&learned, rank, blocks, model.model.label_lanes(), Some(0))?;
        let readers = learned.iter().enumerate().map(|(from, message)| {
            let readers = row_sums(message, blocks.of_rank(RankOf { rank: from, ranks }), rank);
            readers.map_err(|why| stepwell_fabric::Error::malformed(from, why))
        });
        let readers = readers.collect::<std::result::Result<Vec<_>, _>>()?;
        let TrainedModel { embeddings, profile, pool, .. } = model;
        let applied = pool.install(|| {
            let mut rows = embeddings.hold(mini.number, &mut mini.parts, groups, true)?;
            embeddings.apply_sums(&mut rows, readers, blocks, &RowLaps(profile))
        });
        applied.map_err(Error::of_shared_rows)?;
        own.keep(learned);
        results.scored(mini, scored.sums, scored.view(), &scored.truth)?;
        if scored.ends {
            let ahead = if self.rules.hold(Rule::EndTogether) { self.ahead_max } else { 0 };
            self.end = self.end.min(self.applied + ahead + 1);
        }
        self.applied += 1;
        while let Some(unit) = self.window.pop(self.applied) {
            results.over(unit);
        }
        Ok(true)
    }
}

/// Whether mini-batches to train on come next, and have arrived.
fn next_is_step(incoming: &mut Incoming) -> bool {
    let trains =
        |unit: &Unit<Examples>| unit.minis.iter().any(|mini| mini.purpose == Purpose::Train);
    incoming.unit().is_some_and(|(unit, _)| trains(unit))
}

impl Stepping for OutOfStep {
    fn model(&self) -> &TrainedModel {
        &self.steps.owner.model
    }

    fn model_mut(&mut self) -> &mut TrainedModel {
        &mut self.steps.owner.model
    }

    fn is_underway(&self) -> bool {
        self.open.is_some() || self.steps.owner.is_underway()
    }

    fn poll(&mut self, around: Around<'_>) -> Result<Progress> {
        if self.open.is_some() {
            return self.advance(around);
        }
        let owner = &mut self.steps.owner;
        if !next_is_step(around.incoming) {
            return owner.poll(around);
        }
        let dense = owner.model.dense()?.to_dense();
        let protocol = self.agreement.begin(owner.fabric(), &dense)?;
        self.open = Some(Open { protocol, closes: false });
        Ok(Progress::Progressed)
    }

    fn finish(self: Box<Self>) -> FinishedSteps {
        let Self { steps, agreement, .. } = *self;
        let owner = Box::new(steps.owner).finish();
        let pools = [vec![steps.learner_pool], owner.pools].concat();
        let apart = Some(steps.peers.figures(agreement.counts()));
        FinishedSteps { pools, apart, ..owner }
    }
}
