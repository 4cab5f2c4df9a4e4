//! Work of stage `train` between mini-batches: figures at marks, and checkpoints.

use stepwell_engine::{Pause, Retired};
use stepwell_fabric::collective::{Broadcast, Collective as _};

use super::TrainStage;
use crate::batch::Mark;
use crate::pipeline::plateau::Verdict;
use crate::pipeline::save::Written;
use crate::{Result, talk};

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
            Mark::Evaluated { within_epoch } => {
                let metrics = self.results.figures.evaluated(within_epoch)?;
                let step = self.results.figures.position.step;
                self.patience.evaluated(step, &metrics);
                self.plateaus.evaluated(step, &metrics);
                if let Some(saver) = &mut self.saver {
                    let (waited, plateaus) = (self.patience.waited(), self.plateaus.state());
                    saver.evaluated(step, &metrics, (waited, plateaus));
                }
                self.decide()?;
            }
        }
        Ok(())
    }

    /// Ends training early, or lowers learning rates, if evaluations no longer improve. Rank 0
    /// alone has all metrics.
    fn decide(&mut self) -> Result<()> {
        if self.through || !(self.patience.is_limited() || self.plateaus.are_any()) {
            return Ok(());
        }
        let verdict =
            Verdict { ends: self.patience.over().is_some(), falls: self.plateaus.falls() };
        match &self.fabric {
            Some(fabric) if fabric.rank() > 0 => {
                self.verdict = Some(Broadcast::start(fabric, talk::VERDICT, 0, None));
                return Ok(());
            }
            Some(fabric) => {
                let mut message = fabric.message();
                verdict.put(&mut message);
                Broadcast::start(fabric, talk::VERDICT, 0, Some(message)).poll(fabric)?;
            }
            None => {}
        }
        self.follow(verdict)
    }

    fn follow(&mut self, verdict: Verdict) -> Result<()> {
        if let Some(steps) = &mut self.steps {
            steps.model_mut().set_falls(verdict.falls);
        }
        if verdict.ends { self.end_early() } else { Ok(()) }
    }

    /// Follows rank 0's decision; returns false while it hasn't arrived.
    pub(super) fn hear_verdict(&mut self) -> Result<bool> {
        let (Some(verdict), Some(fabric)) = (&mut self.verdict, &self.fabric) else {
            return Ok(true);
        };
        let Some(message) = verdict.poll(fabric)? else { return Ok(false) };
        let decided = Verdict::read(&mut message.reader());
        let decided = decided.map_err(|why| stepwell_fabric::Error::malformed(0, why))?;
        fabric.keep(message);
        self.verdict = None;
        self.follow(decided)?;
        Ok(true)
    }

    /// Ends training before its data does, with the current model.
    pub(super) fn end_early(&mut self) -> Result<()> {
        let figures = &mut self.results.figures;
        self.through = true;
        figures.measured.early = self.patience.over();
        figures.stop.make();
        if figures.measured.saved == Some(figures.position.step) { self.end() } else { Ok(()) }
    }

    /// Writes the model once all dirty rows are in the store; returns false while it waits for that
    /// or for other ranks.
    pub(super) fn pass_pause(&mut self, pause: Pause) -> Result<bool> {
        if !self.is_idle() || !self.save()? {
            self.pause = Some(pause);
            return Ok(false);
        }
        self.results.give_back(Retired::Checkpoint(pause));
        if self.results.figures.measured.early.is_some() {
            self.results.figures.stop.make();
        }
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
