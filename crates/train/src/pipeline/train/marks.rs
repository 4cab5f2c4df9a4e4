//! What stage `train` does between mini-batches: figures at marks, and checkpoints.

use stepwell_engine::{Pause, Retired};

use super::TrainStage;
use crate::Result;
use crate::batch::Mark;
use crate::pipeline::save::Written;
use crate::step::Trainer;

impl TrainStage {
    pub(super) fn pass_mark(&mut self, mark: Mark) -> Result<()> {
        match mark {
            // Partial measurements are no figure of an epoch.
            _ if self.stopping => {}
            Mark::Failed { error, .. } => {
                self.failed = Some(*error);
                self.figures.stop.make();
            }
            Mark::EpochTrained { last } => {
                self.through = last;
                let trainer = self.trainer.as_ref();
                self.figures.epoch_trained(|| trainer.map_or(Ok(true), Trainer::is_finite))?;
            }
            Mark::Evaluated => {
                self.figures.evaluated()?;
                let metrics = self.figures.measured.eval.last();
                if let (Some(saver), Some(metrics)) = (&mut self.saver, metrics) {
                    saver.evaluated(self.figures.position.step, metrics);
                }
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
        let position = self.figures.position;
        if self.figures.measured.saved == Some(position.step) {
            return self.end().map(|()| true);
        }
        let (Some(saver), Some(trainer)) = (&mut self.saver, &self.trainer) else {
            return Ok(true);
        };
        if !trainer.is_finite()? {
            return Err(self.figures.diverged(f64::NAN));
        }
        match saver.poll(position, (trainer, &self.groups), self.fabric.as_ref())? {
            Written::NotYet => return Ok(false),
            Written::Here(path) => {
                self.figures.observer.saved(position.step, &path);
                self.named = Some(path);
            }
            Written::ByRankZero => {}
        }
        self.figures.measured.saved = Some(position.step);
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
            Some(saver) if names => saver.note_figure(self.figures.position.step),
            _ => Ok(()),
        }
    }
}
