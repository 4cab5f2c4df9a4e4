//! What stage `train` does between mini-batches: figures at marks, and checkpoints.

use stepwell_engine::{Pause, Retired};

use super::TrainStage;
use crate::batch::Mark;
use crate::pipeline::save::Written;
use crate::{Error, Result};

impl TrainStage {
    pub(super) fn pass_mark(&mut self, mark: Mark) -> Result<()> {
        match mark {
            // Partial measurements are no figure of an epoch.
            _ if self.stopping => {}
            Mark::Failed { error, .. } => {
                self.failed = Some(*error);
                self.stop.make();
            }
            Mark::EpochTrained { last } => {
                self.through = last;
                let metrics = self.progressive.take();
                if metrics.examples == 0 && self.at_start && self.measured.examples == 0 {
                    return Err(Error::NothingToTrain { skipped: self.counters.skipped() });
                }
                if let Some(trainer) = self.trainer.as_ref()
                    && !trainer.is_finite()?
                {
                    return Err(self.diverged(self.measured.steps, f64::NAN));
                }
                self.observer.epoch_trained(self.position.epoch, &metrics);
                self.measured.progressive.push(metrics);
            }
            Mark::Evaluated => {
                let loss = self.eval.loss();
                let metrics = self.eval.take();
                if let Some(loss) = loss.filter(|loss| !loss.is_finite()) {
                    return Err(self.diverged(self.measured.steps, loss));
                }
                if let Some(saver) = &mut self.saver {
                    saver.evaluated(self.position.step, &metrics);
                }
                let best = self.best.take();
                self.measured.best = (best.examples > 0).then_some(best);
                self.observer.evaluated(&metrics, self.measured.best.as_ref());
                self.measured.eval.push(metrics);
            }
        }
        Ok(())
    }

    /// Writes the model once all dirty rows are in the store; returns false while it waits for that
    /// or for other ranks.
    pub(super) fn pass_pause(&mut self, pause: Pause) -> Result<bool> {
        if !self.is_idle() || !self.save()? {
            self.pause = Some(pause);
            return Ok(false);
        }
        self.give_back(Retired::Checkpoint(pause));
        Ok(true)
    }

    /// Whether all evicted rows are in the stores.
    pub(super) fn is_idle(&self) -> bool {
        self.groups.iter().all(|group| group.staging.is_idle())
    }

    /// Writes the current model unless it is already saved; returns false while it waits for other
    /// ranks.
    fn save(&mut self) -> Result<bool> {
        let position = self.position;
        if self.measured.saved == Some(position.step) {
            return self.end().map(|()| true);
        }
        let (Some(saver), Some(trainer)) = (&mut self.saver, &self.trainer) else {
            return Ok(true);
        };
        if !trainer.is_finite()? {
            return Err(self.diverged(position.step, f64::NAN));
        }
        match saver.poll(position, (trainer, &self.groups), self.fabric.as_ref())? {
            Written::NotYet => return Ok(false),
            Written::Here(path) => {
                self.observer.saved(position.step, &path);
                self.named = Some(path);
            }
            Written::ByRankZero => {}
        }
        self.measured.saved = Some(position.step);
        self.end().map(|()| true)
    }

    /// Marks the checkpoint just written as the last one, if all data is trained.
    fn end(&mut self) -> Result<()> {
        let through = self.through;
        if let (Some(saver), Some(named)) = (&mut self.saver, self.named.take_if(|_| through)) {
            saver.ended(&named)?;
        }
        self.note_figure()
    }

    /// Notes an evaluation's figure of the saved model.
    fn note_figure(&mut self) -> Result<()> {
        let names = self.fabric.as_ref().is_none_or(|fabric| fabric.rank() == 0);
        match &mut self.saver {
            Some(saver) if names => saver.note_figure(self.position.step),
            _ => Ok(()),
        }
    }

    pub(super) fn diverged(&self, step: u64, loss: f64) -> Error {
        Error::Diverged { step, loss, saved: self.measured.saved, unscaled: Vec::new() }
    }
}
