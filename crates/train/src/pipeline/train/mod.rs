//! Stage `train`: takes steps, measures them, writes checkpoints.
//!
//! When asked to stop, it returns the remaining mini-batches unprocessed, so that their rows are
//! released without a trace, and writes the checkpoint that the planner then sends. Early stopping
//! ends training in the same way; with several ranks, rank 0 decides and tells the others. If the
//! data fails, a checkpoint precedes the mark that reports it, and the run ends with the reason.

mod ends;
mod figures;
mod marks;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use stepwell_base::queue::{Events, Received, Refused, Sender};
use stepwell_base::stage::{Progress, Stage};
use stepwell_engine::{Group, Pause, Ready, Retired, Unit};
use stepwell_fabric::Fabric;
use stepwell_fabric::collective::Broadcast;
use stepwell_nn::LossSums;
use tracing::info;

pub(super) use self::ends::{Reporting, TrainEnds};
use self::figures::Figures;
use super::handoff::Handoff;
use super::measured::Measured;
use super::patience::Patience;
use super::plateau::Plateaus;
use super::save::Saver;
use crate::batch::{Examples, MiniBatch, RunPosition};
use crate::metrics::Scored;
use crate::step::{Around, FinishedSteps, Incoming, Results, Stepping};
use crate::{Error, Result};

/// Results of stage `train`.
pub(super) struct Trained {
    pub(super) steps: FinishedSteps,
    pub(super) measured: Measured,
    /// Error that ended the data early.
    pub(super) failed: Option<Error>,
}

pub(super) struct TrainStage {
    /// `None` once they are finished.
    steps: Option<Box<dyn Stepping>>,
    incoming: Incoming,
    groups: Vec<Arc<Group>>,
    results: StageResults,
    saver: Option<Saver>,
    /// Whether the end was requested, which is checked before each mini-batch.
    stopping: bool,
    /// Ends the other stages if the run ends early.
    events: Arc<Events>,
    failed: Option<Error>,
    /// Whether all data is trained.
    through: bool,
    /// The last checkpoint that this rank named.
    named: Option<PathBuf>,
    /// A pause that waits until evicted rows are in the stores.
    pause: Option<Pause>,
    patience: Patience,
    plateaus: Plateaus,
    /// The other ranks, if there are any.
    fabric: Option<Fabric>,
    /// Rank 0's decision after an evaluation, until it arrives.
    verdict: Option<Broadcast>,
    /// Whether a reader of evaluations remains at the end.
    reads_evaluations: bool,
    finished: Handoff<Trained>,
}

/// Adds results of steps to the figures, and gives units back to the planner.
struct StageResults {
    figures: Figures,
    retired: Sender<Retired<Examples>>,
}

impl StageResults {
    fn give_back(&self, retired: Retired<Examples>) {
        // Returned units are those that the planner counts, and the queue has room for all.
        let sent = self.retired.try_send(retired);
        assert!(!matches!(sent, Err(Refused::Full(_))), "more units in flight than planned");
    }
}

impl Results for StageResults {
    fn scored(
        &mut self,
        mini: &MiniBatch,
        sums: LossSums,
        scored: Scored<'_>,
        truth: &[f32],
    ) -> Result<()> {
        self.figures.add(mini, sums, scored, truth)
    }

    fn over(&mut self, unit: Unit<Examples>) {
        self.give_back(Retired::Unit(unit));
    }

    fn end(&mut self) {
        self.figures.measured.ranks_stopped = true;
        self.figures.stop.make();
    }
}

impl TrainStage {
    pub(super) fn new(
        mut steps: Box<dyn Stepping>,
        start: RunPosition,
        groups: Vec<Arc<Group>>,
        saver: Option<Saver>,
        watch: Reporting,
        ends: TrainEnds,
    ) -> Self {
        steps.model_mut().set_falls(ends.plateaus.falls());
        let model = steps.model();
        let figures = Figures::new(model.model(), model.steps(), start, &groups, watch);
        let mut stage = Self {
            steps: Some(steps),
            incoming: Incoming::new(ends.input),
            groups,
            results: StageResults { figures, retired: ends.retired },
            saver,
            stopping: false,
            events: ends.events,
            failed: None,
            through: false,
            named: None,
            pause: None,
            patience: ends.patience,
            plateaus: ends.plateaus,
            fabric: ends.fabric,
            verdict: None,
            reads_evaluations: ends.reads_evaluations,
            finished: ends.finished,
        };
        if ends.ended_early {
            // This run ends once its checkpoint says so.
            stage.results.figures.measured.early = stage.patience.over();
            stage.through = true;
        }
        stage
    }

    /// Advances the unit at hand.
    fn step(&mut self) -> Result<Progress> {
        let Self { steps: Some(steps), incoming, groups, results, .. } = self else {
            return Ok(Progress::Done);
        };
        steps.poll(Around { incoming, groups, results })
    }

    fn finish(&mut self) -> Progress {
        if self.stopping || self.reads_evaluations {
            // Earlier stages still send items, which are not taken; the writing stage must finish
            // storing evicted rows.
            if !self.is_idle() {
                return Progress::Blocked;
            }
            self.events.stop();
        }
        let measured = self.results.figures.finish(self.stopping);
        let (steps, failed) = (self.steps.take(), self.failed.take());
        let trained = steps.map(|steps| Trained { steps: steps.finish(), measured, failed });
        *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = trained;
        Progress::Done
    }
}

fn progress(moved: bool) -> Progress {
    if moved { Progress::Progressed } else { Progress::Blocked }
}

impl Stage for TrainStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "train"
    }

    fn gives_way(&self) -> bool {
        false
    }

    fn poll(&mut self) -> Result<Progress> {
        if self.steps.as_ref().is_some_and(|steps| steps.is_underway()) {
            return self.step();
        }
        if !self.stopping && self.results.figures.stop.is_made() {
            let step = self.results.figures.position.step;
            let early = self.results.figures.measured.early.is_some();
            info!(step, early, "stop requested: training ends");
            self.stopping = true;
        }
        if let Some(pause) = self.pause.take() {
            return Ok(progress(self.pass_pause(pause)?));
        }
        if self.verdict.is_some() {
            return Ok(progress(self.hear_verdict()?));
        }
        if let Some((unit, done)) = self.incoming.unit()
            && !self.stopping
        {
            if done == 0 {
                self.results.figures.begin(unit);
            }
            return self.step();
        }
        match self.incoming.take() {
            Received::Item(Ready::Unit(unit)) => {
                self.results.give_back(Retired::Unit(unit));
                Ok(Progress::Progressed)
            }
            Received::Item(Ready::Checkpoint(pause)) => Ok(progress(self.pass_pause(pause)?)),
            Received::Item(Ready::Mark(mark)) => {
                self.pass_mark(mark)?;
                Ok(Progress::Progressed)
            }
            Received::Empty => Ok(Progress::Blocked),
            Received::Closed => Ok(self.finish()),
        }
    }
}
