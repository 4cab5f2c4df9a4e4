//! Stage `train`: scores and trains mini-batches in order, measures them, writes checkpoints.
//!
//! When asked to stop, it returns the remaining mini-batches unprocessed, so that their rows are
//! released without a trace, and writes the checkpoint that the planner then sends. If the data
//! fails, a checkpoint precedes the mark that reports it, and the run ends with the reason.

mod apart;
mod ends;
mod marks;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use stepwell_base::clock::Clock;
use stepwell_base::queue::{Events, Received, Receiver, Refused, Sender};
use stepwell_base::stage::{Progress, Stage};
use stepwell_base::stop::StopRequest;
use stepwell_engine::{Group, Pause, Purpose, Ready, Retired, Unit, WithoutRow};
use stepwell_fabric::Fabric;

pub(crate) use self::apart::Agreement;
pub(super) use self::apart::ApartStage;
pub(super) use self::ends::{Reporting, TrainEnds};
use super::measured::{Done, Measured};
use super::save::Saver;
use super::{Counters, Handoff, Held, Observer, Snapshot};
use crate::batch::{Examples, Mark, MiniBatch, RunPosition};
use crate::metrics::{Meter, Scored};
use crate::step::{Moved, Trainer};
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
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
    /// Requests the end; checked before each mini-batch.
    stop: StopRequest,
    stopping: bool,
    /// Whether a step that ranks share is in progress, which must be completed.
    in_step: bool,
    /// Ends the other stages if the run ends early.
    events: Arc<Events>,
    measured: Measured,
    failed: Option<Error>,
    /// Position behind the last trained mini-batch.
    position: RunPosition,
    /// Whether this run begins at the start of its data.
    at_start: bool,
    /// Whether all data is trained.
    through: bool,
    /// The last checkpoint that this rank named.
    named: Option<PathBuf>,
    progressive: Meter,
    eval: Meter,
    best: Meter,
    without_row: Option<WithoutRow>,
    /// The current unit, and how many of its mini-batches are done.
    unit: Option<(Unit<Examples>, usize)>,
    /// The item after it, if already received.
    next: Option<Ready<Examples, Mark>>,
    /// A pause that waits until evicted rows are in the stores.
    pause: Option<Pause>,
    input: Receiver<Ready<Examples, Mark>>,
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
        let Reporting { observer, clock, exact_scores, counters, stop, only_scores } = watch;
        let without_row = only_scores.then(|| without_row(&trainer, &groups)).flatten();
        let (steps, trained_at) = (trainer.steps(), clock.seconds());
        let [progressive, eval] = [(); 2].map(|()| trainer.model().meter(exact_scores));
        Self {
            measured: Measured { steps, trained_at, ..Measured::default() },
            failed: None,
            position: start,
            at_start: start.is_at_start(),
            through: false,
            named: None,
            clock,
            counters,
            stop,
            stopping: false,
            in_step: false,
            events: ends.events,
            trainer: Some(trainer),
            groups,
            saver,
            fabric,
            observer,
            progressive,
            eval,
            best: Meter::of_probabilities(exact_scores),
            without_row,
            unit: None,
            next: None,
            pause: None,
            input: ends.input,
            retired: ends.retired,
            finished: ends.finished,
        }
    }

    /// The clock that it measures with.
    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Trains on the first of `minis` as far as possible without waiting for other ranks.
    fn run_mini(&mut self, minis: &mut [MiniBatch]) -> Result<Moved> {
        let (Some(trainer), Some((mini, others))) = (&mut self.trainer, minis.split_first_mut())
        else {
            return Ok(Moved::ToTheEnd);
        };
        if !trainer.is_shared() {
            let sums = trainer.run(mini, &self.groups)?;
            if let Some(without_row) = &mut self.without_row {
                without_row.count(mini);
            }
            let Examples { labels, weights, truth, .. } = &mini.cargo;
            let logits = std::mem::take(trainer.scores_mut());
            let done = Done::of(mini, sums);
            let scored = Scored { logits: &logits, labels, weights };
            let outcome = self.measure(&done, scored, truth);
            if let Some(trainer) = &mut self.trainer {
                *trainer.scores_mut() = logits;
            }
            return outcome.map(|()| Moved::ToTheEnd);
        }
        let looks_ahead = !self.in_step && trainer.sends_early();
        let next = match others.first_mut().filter(|_| looks_ahead) {
            None if looks_ahead => look_ahead(&mut self.next, &self.input),
            next => next,
        };
        let moved = trainer.poll_shared((mini, next), &self.groups)?;
        if moved == Moved::ToTheEnd {
            let scored = trainer.take_scored();
            let done = Done::of(mini, scored.sums);
            self.measure(&done, scored.view(), &scored.truth)?;
            if scored.ends {
                // All ranks stop here, whichever was asked to.
                self.stop.make();
            }
            if let Some(trainer) = &mut self.trainer {
                trainer.keep_scored(scored);
            }
        }
        Ok(moved)
    }

    /// Measures a scored mini-batch, which was trained if that was its purpose.
    fn measure(&mut self, done: &Done, scored: Scored<'_>, truth: &[f32]) -> Result<()> {
        let Done { purpose, after, examples, sums } = *done;
        match purpose {
            Purpose::Train => {
                self.position = after;
                self.measured.steps = after.step;
                self.measured.examples += examples as u64;
                if !sums.loss.is_finite() {
                    let loss = sums.loss / examples.max(1) as f64;
                    return Err(self.diverged(after.step, loss));
                }
                let labels = self.trainer.as_ref().map(|trainer| trainer.model().labels());
                if let Some(gradient) = labels.and_then(|of| done.too_large(scored, of)) {
                    let (step, saved) = (after.step, self.measured.saved);
                    return Err(Error::HugeGradient { step, gradient, saved });
                }
                done.add_to(&mut self.progressive, scored);
                if !scored.logits.is_empty() {
                    self.observer.trained(scored);
                }
                self.measured.trained_at = self.clock.seconds();
                let last = self.groups.iter().map(|group| group.spec().steps_max()).min();
                if last.is_some_and(|last| self.measured.steps >= last) {
                    // As on a signal: nothing beyond this step is trained, and the model is saved.
                    self.measured.last_step = last;
                    self.stop.make();
                }
            }
            Purpose::Evaluate => {
                self.observer.scored(scored);
                done.add_to(&mut self.eval, scored);
                // Only the built-in stream knows true probabilities; it has one label.
                let known = truth.iter().zip(scored.labels).filter(|(truth, _)| !truth.is_nan());
                let (truth, labels): (Vec<f32>, Vec<f32>) = known.unzip();
                self.best.add_probabilities(&truth, &labels);
            }
        }
        self.tell(purpose);
        Ok(())
    }

    /// Reports the run's progress after a mini-batch.
    fn tell(&self, purpose: Purpose) {
        self.observer.tiers(&|| Held::of(&self.groups));
        let planned = self.counters.rows.count();
        let moved = self.groups.iter().map(|group| group.traffic.count());
        let (refilled, initialized) = moved.fold((0, 0), |(refilled, initialized), of| {
            (refilled + of.refilled, initialized + of.initialized)
        });
        let reads = self.groups.iter().map(|group| group.store.reads()).sum();
        let pages_read = self.groups.iter().map(|group| group.store.pages_read()).sum();
        self.observer.progress(&Snapshot {
            hits: planned.hits,
            misses: planned.misses,
            on_devices: Snapshot::on_devices(&self.groups),
            evictions: planned.evictions,
            initialized,
            refilled,
            reads,
            pages_read,
            purpose,
            examples: self.measured.examples,
            evaluated: self.eval.examples(),
            step: self.measured.steps,
            loss: self.progressive.loss(),
            is_log_loss: self.progressive.is_log_loss(),
            epoch_examples: self.progressive.examples(),
        });
    }

    fn give_back(&self, retired: Retired<Examples>) {
        // Returned units are those that the planner counts, and the queue has room for all.
        let sent = self.retired.try_send(retired);
        assert!(!matches!(sent, Err(Refused::Full(_))), "more units in flight than planned");
    }
}

/// A counter of ids without a row in `groups`.
fn without_row(trainer: &Trainer, groups: &[Arc<Group>]) -> Option<WithoutRow> {
    let fields = trainer.model().features().columns_of_fields();
    WithoutRow::new(groups, &fields.iter().map(Vec::len).collect::<Vec<_>>())
}

/// Returns the next mini-batch, if it has arrived.
fn look_ahead<'a>(
    next: &'a mut Option<Ready<Examples, Mark>>,
    input: &Receiver<Ready<Examples, Mark>>,
) -> Option<&'a mut MiniBatch> {
    if next.is_none()
        && let Received::Item(ready) = input.try_recv()
    {
        *next = Some(ready);
    }
    match next {
        Some(Ready::Unit(unit)) => unit.minis.first_mut(),
        _ => None,
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
        self.stopping |= self.stop.is_made();
        if let Some(pause) = self.pause.take() {
            return Ok(progress(self.pass_pause(pause)?));
        }
        let (mut unit, done) = match self.unit.take() {
            Some(at_hand) => at_hand,
            None => match self.next.take().map_or_else(|| self.input.try_recv(), Received::Item) {
                Received::Item(Ready::Unit(unit)) => {
                    if let Some(without_row) = &mut self.without_row {
                        without_row.begin(&unit);
                    }
                    (unit, 0)
                }
                Received::Item(Ready::Checkpoint(pause)) => {
                    return Ok(progress(self.pass_pause(pause)?));
                }
                Received::Item(Ready::Mark(mark)) => {
                    self.pass_mark(mark)?;
                    return Ok(Progress::Progressed);
                }
                Received::Empty => return Ok(Progress::Blocked),
                Received::Closed => return Ok(self.finish()),
            },
        };
        if self.stopping && !self.in_step {
            self.give_back(Retired::Unit(unit));
            return Ok(Progress::Progressed);
        }
        let moved = self.run_mini(&mut unit.minis[done..])?;
        self.in_step = moved != Moved::ToTheEnd;
        if self.in_step {
            self.unit = Some((unit, done));
            return Ok(progress(moved == Moved::On));
        }
        unit.trained |= unit.minis[done].purpose == Purpose::Train;
        if done + 1 < unit.minis.len() {
            self.unit = Some((unit, done + 1));
        } else {
            self.give_back(Retired::Unit(unit));
        }
        Ok(Progress::Progressed)
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
            let metrics = self.progressive.take();
            if metrics.examples > 0 {
                self.measured.progressive.push(metrics);
            }
            self.events.stop();
        }
        self.measured.through = !self.stopping;
        let without_row = self.without_row.take();
        self.measured.without_row = without_row.map(|of| of.counts().to_vec()).unwrap_or_default();
        let measured = std::mem::take(&mut self.measured);
        let failed = self.failed.take();
        let trained = self.trainer.take().map(|trainer| Trained { trainer, measured, failed });
        *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = trained;
        Progress::Done
    }
}
