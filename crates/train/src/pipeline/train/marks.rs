//! Work of stage `train` between mini-batches: figures at marks, and checkpoints.

use stepwell_engine::{Pause, Retired};

use super::TrainStage;
use crate::Result;
use crate::batch::Mark;
use crate::pipeline::save::Written;

impl TrainStage {
    pub(super) fn pass_mark(&mut self, mark: Mark) -> Result<()> {
        match mark {
            // Partial measurements are no figure of an epoch.
            _ if self.stopping => {}
            Mark::Failed { error, .. } => {
                self.failed = Some(*error);
                self.results.figures.stop.make();
            }
            Mark::EpochTrained { last } => {
                self.through = last;
                let steps = self.steps.as_ref();
                let is_finite = || steps.map_or(Ok(true), |steps| steps.model().is_finite());
                self.results.figures.epoch_trained(is_finite)?;
            }
            Mark::Evaluated => {
                self.results.figures.evaluated()?;
                let metrics = self.results.figures.measured.eval.last();
                if let (Some(saver), Some(metrics)) = (&mut self.saver, metrics) {
                    saver.evaluated(self.results.figures.position.step, metrics);
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
        self.results.give_back(Retired::Checkpoint(pause));
        Ok(true)
    }

    /// Whether all evicted rows are in the stores.
    pub(super) fn is_idle(&self) -> bool {
        self.groups.iter().all(|group| group.staging.is_idle())
    }

    /// Writes the current model unless it is already saved; returns false while it waits for other
    /// ranks.
    fn save(&mut self) -> Result<bool> {
        let position = self.results.figures.position;
        if self.results.figures.measured.saved == Some(position.step) {
            return self.end().map(|()| true);
        }
        let (Some(saver), Some(steps)) = (&mut self.saver, &self.steps) else {
            return Ok(true);
        };
        let model = steps.model();
        if !model.is_finite()? {
            return Err(self.results.figures.diverged(f64::NAN));
        }
        match saver.poll(position, model, &self.groups)? {
            Written::NotYet => return Ok(false),
            Written::Here(path) => {
                self.results.figures.observer.saved(position.step, &path);
                self.named = Some(path);
            }
            Written::ByRankZero => {}
        }
        self.results.figures.measured.saved = Some(position.step);
        self.end().map(|()| true)
    }

    /// Marks the checkpoint just written as the last one, if all data is trained.
    fn end(&mut self) -> Result<()> {
        let through = self.through;
        if let (Some(saver), Some(named)) = (&mut self.saver, self.named.take_if(|_| through)) {
            saver.ended(&named)?;
        }
        let step = self.results.figures.position.step;
        self.saver.as_mut().map_or(Ok(()), |saver| saver.note_figure(step))
    }
}
