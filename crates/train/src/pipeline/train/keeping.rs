//! What stage `train` does of checkpoints: the model is at rest, and is written as it is.

use stepwell_engine::{Pause, Retired};

use super::TrainStage;
use crate::Result;
use crate::pipeline::save::Written;

impl TrainStage {
    /// Writes the model, once what was dirty is in the store; false while it waits for that, or for
    /// other ranks.
    pub(super) fn pass_pause(&mut self, pause: Pause) -> Result<bool> {
        if !self.is_idle() || !self.save()? {
            self.pause = Some(pause);
            return Ok(false);
        }
        self.give_back(Retired::Checkpoint(pause));
        Ok(true)
    }

    /// Whether all that left is in the stores.
    pub(super) fn is_idle(&self) -> bool {
        self.groups.iter().all(|group| group.staging.is_idle())
    }

    /// Writes the model as it is now, unless that was done; false while it waits for other ranks.
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

    /// Says in the checkpoint that was just named that the run ends with it, where it does.
    fn end(&mut self) -> Result<()> {
        let through = self.through;
        if let (Some(saver), Some(named)) = (&mut self.saver, self.named.take_if(|_| through)) {
            saver.ended(&named)?;
        }
        self.note_figure()
    }

    /// Notes what an evaluation gave of the model that is written.
    fn note_figure(&mut self) -> Result<()> {
        let names = self.fabric.as_ref().is_none_or(|fabric| fabric.rank() == 0);
        match &mut self.saver {
            Some(saver) if names => saver.note_figure(self.position.step),
            _ => Ok(()),
        }
    }
}
