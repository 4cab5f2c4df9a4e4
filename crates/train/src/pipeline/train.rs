//! Stage `train`: scores and trains mini-batches in order, measures them, writes checkpoints.
//!
//! When asked to stop, it returns the remaining mini-batches unprocessed, so that their rows are
//! released without a trace, and writes the checkpoint that the planner then sends. If the data
//! fails, a checkpoint precedes the mark that reports it, and the run ends with the reason.

mod apart;
mod ends;
mod figures;
mod marks;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use stepwell_base::clock::Clock;
use stepwell_base::queue::{Events, Received, Refused, Sender};
use stepwell_base::stage::{Progress, Stage};
use stepwell_engine::{Group, Pause, Ready, Retired};
use stepwell_fabric::Fabric;

pub(crate) use self::apart::Agreement;
pub(super) use self::apart::ApartStage;
pub(super) use self::ends::{Reporting, TrainEnds};
use self::figures::Figures;
use super::save::Saver;
use super::{Handoff, Measured};
use crate::batch::{Examples, RunPosition};
use crate::metrics::Scored;
use crate::step::{Incoming, Moved, Trainer};
use crate::{Error, Result};

/// Results of the stage.
pub(super) struct Trained {
    pub(super) trainer: Trainer,
    pub(super) measured: Measured,
    /// Why the data ended early.
    pub(super) failed: Option<Error>,
}

pub(super) struct TrainStage {
    /// `None` once it is handed over at the end.
    trainer: Option<Trainer>,
    groups: Vec<Arc<Group>>,
    saver: Option<Saver>,
    /// Connection to the other ranks, if there are several.
    fabric: Option<Fabric>,
    figures: Figures,
    /// Whether the end was requested, which is checked before each mini-batch.
    stopping: bool,
    /// Whether a step that ranks share is in progress, which must be completed.
    in_step: bool,
    /// Ends the other stages if the run ends early.
    events: Arc<Events>,
    failed: Option<Error>,
    /// Whether all data is trained.
    through: bool,
    /// The last checkpoint that this rank named.
    named: Option<PathBuf>,
    incoming: Incoming,
    /// A pause that waits until evicted rows are in the stores.
    pause: Option<Pause>,
    retired: Sender<Retired<Examples>>,
    finished: Handoff<Trained>,
}

impl TrainStage {
    pub(super) fn new(
        (trainer, start): (Trainer, RunPosition),
        groups: Vec<Arc<Group>>,
        (saver, fabric): (Option<Saver>, Option<Fabric>),
        watch: Reporting,
        ends: TrainEnds,
    ) -> Self {
        let figures = Figures::new(trainer.model(), trainer.steps(), start, &groups, watch);
        Self {
            figures,
            failed: None,
            through: false,
            named: None,
            stopping: false,
            in_step: false,
            events: ends.events,
            trainer: Some(trainer),
            groups,
            saver,
            fabric,
            incoming: Incoming::new(ends.input),
            pause: None,
            retired: ends.retired,
            finished: ends.finished,
        }
    }

    /// The clock that it measures with.
    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.figures.clock
    }

    /// Advances the next mini-batch as far as possible without waiting for other ranks.
    fn run_mini(&mut self) -> Result<Progress> {
        let Some(trainer) = &mut self.trainer else { return Ok(Progress::Blocked) };
        let looks_ahead = !self.in_step && trainer.sends_early();
        let Some((mini, next)) = self.incoming.mini(looks_ahead) else {
            return Ok(Progress::Blocked);
        };
        if trainer.is_shared() {
            let moved = trainer.poll_shared((mini, next), &self.groups)?;
            self.in_step = moved != Moved::ToTheEnd;
            if self.in_step {
                return Ok(progress(moved == Moved::On));
            }
            let scored = trainer.take_scored();
            self.figures.add(mini, scored.sums, scored.view(), &scored.truth)?;
            if scored.ends {
                // All ranks stop here, whichever was asked to.
                self.figures.stop.make();
            }
            trainer.keep_scored(scored);
        } else {
            let sums = trainer.run(mini, &self.groups)?;
            let Examples { labels, weights, truth, .. } = &mini.cargo;
            let scored = Scored { logits: trainer.scores(), labels, weights };
            self.figures.add(mini, sums, scored, truth)?;
        }
        if let Some(unit) = self.incoming.end_mini() {
            self.give_back(Retired::Unit(unit));
        }
        Ok(Progress::Progressed)
    }

    fn give_back(&self, retired: Retired<Examples>) {
        // Returned units are those that the planner counts, and the queue has room for all.
        let sent = self.retired.try_send(retired);
        assert!(!matches!(sent, Err(Refused::Full(_))), "more units in flight than planned");
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
        self.stopping |= self.figures.stop.is_made();
        if let Some(pause) = self.pause.take() {
            return Ok(progress(self.pass_pause(pause)?));
        }
        if let Some((unit, done)) = self.incoming.unit()
            && (self.in_step || !self.stopping)
        {
            if done == 0 {
                self.figures.begin(unit);
            }
            return self.run_mini();
        }
        match self.incoming.take() {
            Received::Item(Ready::Unit(unit)) => {
                self.give_back(Retired::Unit(unit));
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

impl TrainStage {
    fn finish(&mut self) -> Progress {
        if self.stopping {
            // Earlier stages still send items, which are not taken; the writing stage must finish
            // storing evicted rows.
            if !self.is_idle() {
                return Progress::Blocked;
            }
            self.events.stop();
        }
        let measured = self.figures.finish(self.stopping);
        let failed = self.failed.take();
        let trained = self.trainer.take().map(|trainer| Trained { trainer, measured, failed });
        *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = trained;
        Progress::Done
    }
}
