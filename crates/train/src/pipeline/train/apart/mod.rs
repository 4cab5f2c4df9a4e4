//! Stage `train` for ranks that are out of step: it answers other ranks, updates rows and moves the
//! dense part, while stage `learn` computes.
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
//! - **Invariants.** O1: rows that a rank reads for step t lack at most `ahead_max` of the steps
//!   before t. O2: rows change by the sums of all ranks' gradients of a step, once, in the order of
//!   steps. O3: between two marks every rank gives the protocol the same number of gradients; at a
//!   mark all steps are in the rows, and all ranks have the same dense part. O4: asked to stop, all
//!   end after the same step, `ahead_max` after the one with which they learned of it: no rank can
//!   have begun a later one.
//! - **Bounds.** At most `ahead_max` + 1 gradient messages of each rank wait; their mini-batches
//!   are pinned, as many as the planner lets be in flight.
//! - **Source.** Rows: Ho et al., "More effective distributed ML via a stale synchronous parallel
//!   parameter server" (2013). The dense part: see [`stepwell_sync`] and [`geeps`].

mod agreement;
mod geeps;
mod others;
mod window;

use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::stage::{Progress, Stage};
use stepwell_engine::{Purpose, Retired, Unit};
use stepwell_fabric::Fabric;
use stepwell_settings::Config;

pub(crate) use self::agreement::Agreement;
use self::others::Others;
use self::window::Window;
use super::{TrainStage, progress};
use crate::batch::{Examples, MiniBatch};
use crate::pipeline::learn::{Job, Learned};
use crate::step::Incoming;
use crate::{Error, Result, talk};

pub(in crate::pipeline) struct ApartStage {
    /// Does everything else: marks, evaluation, checkpoints, measurements.
    train: TrainStage,
    fabric: Fabric,
    dense: Agreement,
    window: Window,
    others: Others,
    ahead_max: u64,
    rules: Rules,
    /// Number of servers, which are the first ranks.
    servers: usize,
    /// Whether steps are in progress since the last mark.
    is_open: bool,
    /// Whether no step follows the window; the protocol then knows how many there are.
    closes: bool,
    /// The number of steps after which the run ends at the latest.
    end: u64,
    /// Steps that are in the rows, and steps that this rank has begun.
    applied: u64,
    begun: u64,
    /// Whether the last begun step is being computed.
    computing: bool,
    /// Buffers for parameters and gradients.
    spare: (Vec<f32>, Vec<f32>),
    jobs: Option<Sender<Job>>,
    learned: Receiver<Learned>,
}

impl ApartStage {
    pub(in crate::pipeline) fn new(
        config: &Config,
        (mut train, fabric): (TrainStage, Fabric),
        dense: Agreement,
        (jobs, learned): (Sender<Job>, Receiver<Learned>),
    ) -> Self {
        let steps_max = train.groups.iter().map(|group| group.spec().steps_max()).min();
        let rules = train.groups.first().map(|group| group.rules).unwrap_or_default();
        let servers = config.servers();
        // Reported even if nothing is left to train.
        let others = Others::new(config);
        train.figures.measured.apart = Some(others.figures(dense.counts()));
        Self {
            end: steps_max
                .map_or(u64::MAX, |last| last.saturating_sub(train.figures.measured.steps)),
            train,
            dense,
            window: Window::default(),
            others,
            ahead_max: config.ahead_max(),
            rules,
            servers,
            fabric,
            is_open: false,
            closes: false,
            applied: 0,
            begun: 0,
            computing: false,
            spare: Default::default(),
            jobs: Some(jobs),
            learned,
        }
    }

    /// The number of steps that can be trained.
    fn last(&self) -> u64 {
        self.window.end().min(self.end)
    }

    /// Whether this rank is a server, which computes no gradients.
    fn serves(&self) -> bool {
        self.fabric.rank() < self.servers
    }

    /// Takes the next units, until something other than a step.
    fn take(&mut self) -> bool {
        if self.closes {
            return false;
        }
        let mut any = false;
        while !self.closes && self.window.end() <= self.applied + self.ahead_max {
            let incoming = &mut self.train.incoming;
            if next_is_step(incoming) {
                incoming.take_unit().into_iter().for_each(|unit| self.window.push(unit));
            } else if incoming.is_empty() {
                break;
            } else {
                self.closes = true;
            }
            any = true;
        }
        // A later request to stop can lower the end to this, and no further.
        let is_final = self.end <= self.applied + self.ahead_max + 1;
        self.closes |= is_final && self.window.end() >= self.end;
        if self.closes {
            let last = self.last();
            self.dense.protocol().end_after(last);
        }
        any | self.closes
    }

    /// Begins a sequence of steps.
    fn open(&mut self) -> Result<()> {
        let Some(trainer) = &self.train.trainer else {
            unreachable!("the trainer is handed over at the end")
        };
        self.dense.begin(&self.fabric, &trainer.dense()?.to_dense())?;
        (self.is_open, self.closes) = (true, false);
        Ok(())
    }

    /// Advances steps as far as possible without waiting.
    fn advance(&mut self) -> Result<Progress> {
        let mut any = self.take();
        any |= self.dense.protocol().poll(&self.fabric)?.progressed;
        any |= self.others.hear(&self.fabric)?;
        any |= self.answer()?;
        any |= self.begin()?;
        any |= self.end_computing()?;
        any |= self.apply()?;
        // New messages and gradients may allow the protocol to continue.
        any |= self.dense.protocol().poll(&self.fabric)?.progressed;
        if self.closes && self.applied == self.last() {
            any |= self.close()?;
        }
        Ok(progress(any))
    }

    /// Answers ranks whose next mini-batch may now read rows.
    fn answer(&mut self) -> Result<bool> {
        let bound = match self.rules.hold(Rule::HoldBackReads) {
            true => self.applied + self.ahead_max + 1,
            false => u64::MAX,
        };
        let last = self.last().min(bound);
        let mut any = false;
        while let Some((step, ranks)) = self.others.asking(last) {
            let (fabric, groups) = (&self.fabric, &self.train.groups);
            let Some(trainer) = &mut self.train.trainer else {
                unreachable!("steps are under way")
            };
            let mini = self.window.mini(step);
            let messages =
                trainer.answers(mini, groups, &ranks, |bytes| fabric.message_of(bytes))?;
            for (rank, message) in ranks.into_iter().zip(messages) {
                fabric.send(rank, talk::ROWS, message)?;
                let reads = rank >= self.servers;
                self.others.answered(rank, reads.then_some(step - self.applied));
            }
            any = true;
        }
        Ok(any)
    }

    /// Begins to compute the next step, if its rows have arrived and the protocol allows it.
    fn begin(&mut self) -> Result<bool> {
        let step = self.begun;
        if self.computing || step >= self.last() || step > self.applied + self.ahead_max {
            return Ok(false);
        }
        // A server has no examples; its computation is empty.
        let here = self.others.rows_are_here(&self.fabric)?;
        if !here || !self.serves() && self.dense.protocol().begin().is_none() {
            return Ok(false);
        }
        let (mut parameters, gradient) = std::mem::take(&mut self.spare);
        parameters.clear();
        parameters.extend_from_slice(self.dense.protocol().parameters());
        let MiniBatch { number, purpose, cargo, .. } = self.window.mini(step);
        let (number, purpose, parts) = (*number, *purpose, Vec::new());
        let mini = MiniBatch { number, purpose, parts, cargo: std::mem::take(cargo) };
        let job = Job { mini, answers: self.others.take_rows(), parameters, gradient };
        if let Some(jobs) = &self.jobs {
            let is_full = matches!(jobs.try_send(job), Err(Refused::Full(_)));
            assert!(!is_full, "only one mini-batch is computed at a time");
        }
        self.computing = true;
        Ok(true)
    }

    /// Takes computed gradients and sends them to the other ranks.
    fn end_computing(&mut self) -> Result<bool> {
        let Received::Item(learned) = self.learned.try_recv() else { return Ok(false) };
        let Learned { mini, said, parameters, mut gradient } = learned;
        self.window.mini(self.begun).cargo = mini.cargo;
        let mut said: Vec<_> = said.into_iter().enumerate().collect();
        // Each rank sends to a different rank first.
        said.rotate_left((self.fabric.rank() + 1) % self.fabric.size());
        for (to, message) in said {
            self.fabric.send(to, talk::LEARNED, message)?;
        }
        if !self.serves() {
            let workers = (self.fabric.size() - self.servers) as f32;
            // Protocols take the gradient of the mean over this rank's examples.
            gradient.iter_mut().for_each(|lane| *lane *= workers);
            self.dense.protocol().give(&mut gradient);
        }
        self.spare = (parameters, gradient);
        (self.computing, self.begun) = (false, self.begun + 1);
        Ok(true)
    }

    /// Updates rows by the next step, once all ranks have sent its gradients.
    fn apply(&mut self) -> Result<bool> {
        let Some(said) = self.others.take_learned() else { return Ok(false) };
        let mini = self.window.mini(self.applied);
        let Some(trainer) = &mut self.train.trainer else { unreachable!("steps are under way") };
        trainer.apply_said(said, mini, &self.train.groups)?;
        let scored = trainer.take_scored();
        self.train.figures.add(mini, scored.sums, scored.view(), &scored.truth)?;
        if scored.ends {
            let ahead = if self.rules.hold(Rule::EndTogether) { self.ahead_max } else { 0 };
            self.end = self.end.min(self.applied + ahead + 1);
        }
        trainer.keep_scored(scored);
        self.applied += 1;
        while let Some(unit) = self.window.pop(self.applied) {
            self.train.give_back(Retired::Unit(unit));
        }
        Ok(true)
    }

    /// Ends the sequence of steps, once the dense part is the same on all ranks.
    fn close(&mut self) -> Result<bool> {
        let waits = self.rules.hold(Rule::SettleAtMarks);
        let Some(model) = self.dense.settle(&self.fabric, waits)? else { return Ok(false) };
        let Some(trainer) = &mut self.train.trainer else { unreachable!("steps are under way") };
        trainer.load_dense(&model).map_err(Error::Config)?;
        self.train.figures.measured.apart = Some(self.others.figures(self.dense.counts()));
        self.is_open = false;
        if self.applied == self.end {
            self.train.figures.stop.make();
            for unit in self.window.drain(self.applied) {
                self.train.give_back(Retired::Unit(unit));
            }
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

impl Stage for ApartStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "train"
    }

    fn gives_way(&self) -> bool {
        false
    }

    fn poll(&mut self) -> Result<Progress> {
        if self.is_open {
            return self.advance();
        }
        let train = &mut self.train;
        train.stopping |= train.figures.stop.is_made();
        let at_rest = train.pause.is_none() && !train.stopping && !train.in_step;
        if at_rest && next_is_step(&mut train.incoming) {
            self.open()?;
            return Ok(Progress::Progressed);
        }
        // An item that has not arrived may be a step, which must not be taken as if ranks were in
        // step.
        if at_rest && train.incoming.is_empty() {
            return Ok(Progress::Blocked);
        }
        let progress = self.train.poll()?;
        if progress == Progress::Done {
            self.jobs = None;
        }
        Ok(progress)
    }
}
