//! Figures of a run: adds mini-batches and marks to them, and reports them to the observer.

use std::sync::Arc;

use stepwell_base::clock::Clock;
use stepwell_base::stop::StopRequest;
use stepwell_engine::{Cargo as _, Group, Purpose, Unit, WithoutRow, last_step_of};
use stepwell_nn::{Loss, LossSums};
use tracing::info;

use super::ends::Reporting;
use crate::batch::{Examples, MiniBatch, RunPosition};
use crate::labels::Label;
use crate::metrics::{Evaluation, Meter, Metrics, Scored};
use crate::models::Model;
use crate::pipeline::counters::Counters;
use crate::pipeline::measured::Measured;
use crate::pipeline::observer::{Held, Observer, Snapshot};
use crate::{Error, Result};

/// Gradients above this have squares whose sums leave the range of 32 bits after some steps.
const GRADIENT_MAX: f64 = 1e16;

/// The figures so far.
pub(super) struct Figures {
    pub(super) measured: Measured,
    /// Position behind the last trained mini-batch.
    pub(super) position: RunPosition,
    /// Whether this run begins at the start of its data.
    at_start: bool,
    pub(super) observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
    /// Requested after the last step that row histories can count.
    pub(super) stop: StopRequest,
    /// The last step that row histories can count.
    last_step: Option<u64>,
    groups: Vec<Arc<Group>>,
    labels: Vec<Label>,
    progressive: Meter,
    eval: Meter,
    best: Meter,
    /// Counts ids without a row, if nothing is trained.
    without_row: Option<WithoutRow>,
}

impl Figures {
    /// The figures of a run that begins at `start` with the model after `steps` steps.
    pub(super) fn new(
        model: &Model,
        steps: u64,
        start: RunPosition,
        groups: &[Arc<Group>],
        watch: Reporting,
    ) -> Self {
        let Reporting { observer, clock, exact_scores, counters, stop, only_scores } = watch;
        let without_row = || {
            let fields = model.features().columns_of_fields();
            WithoutRow::new(groups, &fields.iter().map(Vec::len).collect::<Vec<_>>())
        };
        let trained_at = clock.seconds();
        Self {
            measured: Measured { steps, trained_at, ..Measured::default() },
            position: start,
            at_start: start.is_at_start(),
            observer,
            clock,
            counters,
            stop,
            last_step: last_step_of(groups),
            groups: groups.to_vec(),
            labels: model.labels().to_vec(),
            progressive: model.meter(exact_scores),
            eval: model.meter(exact_scores),
            best: Meter::of_probabilities(exact_scores),
            without_row: only_scores.then(without_row).flatten(),
        }
    }

    /// Begins a unit, whose rows are in place.
    pub(super) fn begin(&mut self, unit: &Unit<Examples>) {
        if let Some(without_row) = &mut self.without_row {
            without_row.begin(unit);
        }
    }

    /// Adds a scored mini-batch, which was trained if that was its purpose.
    ///
    /// # Errors
    /// If the model diverges.
    pub(super) fn add(
        &mut self,
        mini: &MiniBatch,
        sums: LossSums,
        scored: Scored<'_>,
        truth: &[f32],
    ) -> Result<()> {
        if let Some(without_row) = &mut self.without_row {
            without_row.count(mini);
        }
        let examples = mini.cargo.examples();
        match mini.purpose {
            Purpose::Train => {
                let after = mini.cargo.after;
                self.position = after;
                self.measured.steps = after.step;
                self.measured.examples += examples as u64;
                if !sums.loss.is_finite() {
                    return Err(self.diverged(sums.loss / examples.max(1) as f64));
                }
                if let Some(gradient) = self.too_large(scored, examples) {
                    let (step, saved) = (after.step, self.measured.saved);
                    return Err(Error::HugeGradient { step, gradient, saved });
                }
                add_to(&mut self.progressive, scored, examples, sums);
                if !scored.logits.is_empty() {
                    self.observer.trained(scored);
                }
                self.measured.trained_at = self.clock.seconds();
                if self.last_step.is_some_and(|last| after.step >= last) {
                    // As on a signal: nothing beyond this step is trained, and the model is saved.
                    self.measured.last_step = self.last_step;
                    self.stop.make();
                }
            }
            Purpose::Evaluate => {
                self.observer.scored(scored);
                add_to(&mut self.eval, scored, examples, sums);
                // Only the built-in stream knows true probabilities; it has one label.
                let known = truth.iter().zip(scored.labels).filter(|(truth, _)| !truth.is_nan());
                let (truth, labels): (Vec<f32>, Vec<f32>) = known.unzip();
                self.best.add_probabilities(&truth, &labels);
            }
        }
        self.show(mini.purpose);
        Ok(())
    }

    /// Returns the largest gradient of an example's logit if its square is too large for optimizer
    /// states; `None` if all are small enough, as they are for clicks without weights.
    fn too_large(&self, scored: Scored<'_>, examples: usize) -> Option<f64> {
        let Scored { logits, labels: of, weights, .. } = scored;
        let labels = &self.labels;
        let are_numbers = labels.iter().any(|label| label.loss() == Loss::SquaredError);
        if !are_numbers && weights.is_empty() {
            return None;
        }
        let gradients = logits.iter().zip(of).enumerate().map(|(at, (logit, of))| {
            let objective = labels[at % labels.len()].objective;
            let slope = match objective.loss {
                Loss::LogLoss => objective.slope_max(),
                Loss::SquaredError => 2.0 * (f64::from(*logit) - f64::from(*of)).abs(),
            };
            let weight = weights.get(at / labels.len()).map_or(1.0, |weight| f64::from(*weight));
            weight * slope
        });
        let largest = gradients.fold(0.0, f64::max) / examples.max(1) as f64;
        (largest > GRADIENT_MAX).then_some(largest)
    }

    /// Shows the observer the run's progress after a mini-batch.
    fn show(&self, purpose: Purpose) {
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

    /// Ends the training part of an epoch; `is_finite` checks the dense parameters.
    ///
    /// # Errors
    /// If there was no example, or the model diverged.
    pub(super) fn epoch_trained(&mut self, is_finite: impl FnOnce() -> Result<bool>) -> Result<()> {
        let metrics = self.progressive.take();
        if metrics.examples == 0 && self.at_start && self.measured.examples == 0 {
            let (skipped, left_out) = (self.counters.skipped(), self.counters.left_out());
            return Err(Error::NothingToTrain { skipped, left_out });
        }
        if !is_finite()? {
            return Err(self.diverged(f64::NAN));
        }
        let Metrics { examples, logloss, rmse, auc, .. } = metrics;
        let (epoch, step) = (self.position.epoch + 1, self.measured.steps);
        info!(epoch, step, examples, logloss, rmse, auc, "epoch trained");
        self.observer.epoch_trained(self.position.epoch, &metrics);
        self.measured.progressive.push(metrics);
        Ok(())
    }

    /// Ends an evaluation, after or within an epoch, and returns its metrics.
    ///
    /// # Errors
    /// If the model diverged.
    pub(super) fn evaluated(&mut self, within_epoch: bool) -> Result<Metrics> {
        let loss = self.eval.loss();
        let metrics = self.eval.take();
        if let Some(loss) = loss.filter(|loss| !loss.is_finite()) {
            return Err(self.diverged(loss));
        }
        let best = self.best.take();
        self.measured.best = (best.examples > 0).then_some(best);
        let Metrics { examples, logloss, rmse, auc, .. } = metrics;
        let step = self.measured.steps;
        info!(step, examples, logloss, rmse, auc, "evaluated");
        let evaluation = Evaluation { step, within_epoch, metrics: metrics.clone() };
        self.observer.evaluated(&evaluation, self.measured.best.as_ref());
        self.measured.evaluations.push(evaluation);
        if !within_epoch {
            self.measured.eval.push(metrics.clone());
        }
        Ok(metrics)
    }

    /// Returns the figures of the whole run, which ended early if `stopped`.
    pub(super) fn finish(&mut self, stopped: bool) -> Measured {
        if stopped {
            let metrics = self.progressive.take();
            if metrics.examples > 0 {
                self.measured.progressive.push(metrics);
            }
        }
        self.measured.through = !stopped || self.measured.early.is_some();
        let without_row = self.without_row.take();
        self.measured.without_row = without_row.map(|of| of.counts().to_vec()).unwrap_or_default();
        std::mem::take(&mut self.measured)
    }

    /// The error of a model that diverged in the last step, with this loss.
    pub(super) fn diverged(&self, loss: f64) -> Error {
        let (step, saved) = (self.measured.steps, self.measured.saved);
        Error::Diverged { step, loss, saved, unscaled: Vec::new() }
    }
}

/// Adds a mini-batch of `examples` examples to `meter`; another rank may have their scores.
fn add_to(meter: &mut Meter, scored: Scored<'_>, examples: usize, sums: LossSums) {
    if scored.logits.is_empty() {
        meter.add_sums(examples as u64, sums);
    } else {
        meter.add(scored, sums);
    }
}
