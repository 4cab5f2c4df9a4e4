//! Writing checkpoints, by one rank or by several together.
//!
//! ```text
//!  begin   rank 0 makes the place, and says so ──────► every rank
//!  keep    every rank puts its part there, and says what ──────► rank 0
//!  end     rank 0 binds all parts and names it, and says so ──────► every rank
//! ```
//!
//! All ranks are at rest after the same step when it begins. Rank 0 alone names it, when all have
//! said that their parts are durable: it is there as a whole, or not at all. All wait for that: a
//! rank that has nothing more to do than to fail would end rank 0 before. The next step waits for
//! rank 0 anyway.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_engine::{DenseView, Figure, Group, Keep, KeptPart, ModelPart, WholeModel};
use stepwell_fabric::collective::{Broadcast, Collective as _, Gather};
use stepwell_fabric::{Fabric, Malformed, Message};
use stepwell_settings::BestKind;

use crate::batch::RunPosition;
use crate::metrics::Metrics;
use crate::resume::RunState;
use crate::step::Trainer;
use crate::{Result, talk};

/// Writes checkpoints with what the run wants to find in them again.
pub(crate) struct Saver {
    writer: Box<dyn Keep>,
    state: RunState,
    /// By which figure a checkpoint is the best.
    best: BestKind,
    /// What the last evaluation gave, of the model after so many steps, until it is noted.
    figure: Option<(u64, Figure)>,
    phase: Phase,
}

/// What a checkpoint under way waits for.
enum Phase {
    /// There is none.
    Rest,
    /// Rank 0 has begun it, or found that it is there.
    Begun(Broadcast, Option<PathBuf>),
    /// All parts are kept.
    Kept(Gather),
    /// Rank 0 has named it.
    Named(Broadcast),
}

/// What became of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It waits for other ranks.
    NotYet,
    /// Its name.
    Here(PathBuf),
    /// Rank 0 has named it.
    ByRankZero,
}

impl Saver {
    /// Writes by `writer`, and what `state` says with each; the one that is the `best` stays.
    pub(crate) fn new(writer: Box<dyn Keep>, state: RunState, best: BestKind) -> Self {
        Self { writer, state, best, figure: None, phase: Phase::Rest }
    }

    /// The model after `step` steps was evaluated.
    pub(super) fn evaluated(&mut self, step: u64, metrics: &Metrics) {
        let (value, rises) = match self.best {
            BestKind::None => return,
            BestKind::Logloss => (metrics.logloss.or(metrics.rmse), false),
            BestKind::Auc => (metrics.auc, true),
        };
        let by = self.best.name().to_owned();
        self.figure = value.map(|value| (step, Figure { by, value, rises }));
    }

    /// Notes what an evaluation gave of the model after `step` steps, which is written; by the rank
    /// that names checkpoints.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn note_figure(&mut self, step: u64) -> Result<()> {
        match self.figure.take() {
            Some((of, figure)) if of == step => {
                Ok(self.writer.note_figure(step, &figure, &self.state.to_json())?)
            }
            _ => Ok(()),
        }
    }

    /// Writes the model of `trainer` and `groups`, which is at `position`, as far as that goes
    /// without waiting for other ranks; called until it is written.
    ///
    /// # Errors
    /// When it cannot be written, here or by another rank.
    pub(super) fn poll(
        &mut self,
        position: RunPosition,
        (trainer, groups): (&Trainer, &[Arc<Group>]),
        fabric: Option<&Fabric>,
    ) -> Result<Written> {
        self.state.position = position;
        let Some(fabric) = fabric.filter(|fabric| fabric.size() > 1) else {
            let mut dense = trainer.dense()?;
            dense.sections.extend(DenseView::from(trainer.past()).sections);
            let run = self.state.to_json();
            return Ok(Written::Here(self.writer.write(position.step, &run, &dense, groups)?));
        };
        let step = position.step;
        loop {
            self.phase = match &mut self.phase {
                Phase::Rest => self.begin(step, fabric)?,
                Phase::Begun(begun, there) => {
                    let Some(message) = begun.poll(fabric)? else { return Ok(Written::NotYet) };
                    let is_there = flag(&message)?;
                    fabric.keep(message);
                    if is_there {
                        let there = there.take();
                        self.phase = Phase::Rest;
                        return Ok(there.map_or(Written::ByRankZero, Written::Here));
                    }
                    let (of, past) = (trainer.place(), trainer.past());
                    let kept = self.writer.keep(&ModelPart { step, of, groups, past });
                    if kept.is_err() {
                        // Rank 0 clears the place where some rank failed: that is the reason then.
                        fabric.check()?;
                    }
                    let kept = kept?;
                    let gather = Gather::start(fabric, talk::KEPT, 0, message_of(fabric, &kept))?;
                    Phase::Kept(gather)
                }
                Phase::Kept(kept) => {
                    let Some(messages) = kept.poll(fabric)? else { return Ok(Written::NotYet) };
                    if messages.is_empty() {
                        self.phase = Phase::Named(Broadcast::start(fabric, talk::NAMED, 0, None));
                        continue;
                    }
                    self.phase = Phase::Rest;
                    let parts = parts_of(&messages)?;
                    messages.into_iter().for_each(|message| fabric.keep(message));
                    let (run, dense) = (self.state.to_json(), trainer.dense()?);
                    let whole = WholeModel { step, run: &run, dense: &dense, groups };
                    let path = self.writer.end(&whole, &parts)?;
                    let message = Some(fabric.message());
                    Broadcast::start(fabric, talk::NAMED, 0, message).poll(fabric)?;
                    return Ok(Written::Here(path));
                }
                Phase::Named(named) => {
                    let Some(message) = named.poll(fabric)? else { return Ok(Written::NotYet) };
                    fabric.keep(message);
                    self.phase = Phase::Rest;
                    return Ok(Written::ByRankZero);
                }
            };
        }
    }

    /// Says that the run ends with the checkpoint `named`, the last one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn ended(&mut self, named: &Path) -> Result<()> {
        let step = self.state.position.step;
        Ok(self.writer.ended(named, step, &self.state.to_json())?)
    }

    fn begin(&mut self, step: u64, fabric: &Fabric) -> Result<Phase> {
        if fabric.rank() > 0 {
            return Ok(Phase::Begun(Broadcast::start(fabric, talk::KEEP, 0, None), None));
        }
        let there = self.writer.begin(step, &self.state.to_json())?;
        let mut message = fabric.message();
        message.put(&[u64::from(there.is_some())]);
        Ok(Phase::Begun(Broadcast::start(fabric, talk::KEEP, 0, Some(message)), there))
    }
}

/// What rank 0 says: whether the checkpoint is there already.
fn flag(message: &Message) -> Result<bool> {
    let flag = message.reader().take_exactly::<u64>(1);
    Ok(flag.map_err(|why| stepwell_fabric::Error::malformed(0, why))? == [1])
}

fn message_of(fabric: &Fabric, kept: &KeptPart) -> Message {
    let mut message = fabric.message();
    message.put(kept.to_text().as_bytes());
    message
}

/// What each rank says that it kept.
fn parts_of(messages: &[Message]) -> Result<Vec<KeptPart>> {
    let part = |(rank, message): (usize, &Message)| {
        let wrong = |why| stepwell_fabric::Error::malformed(rank, why);
        let text = message.reader().take::<u8>().map_err(wrong)?;
        let part = KeptPart::from_text(text);
        Ok(part.ok_or_else(|| wrong(Malformed::Wrong("it is no part of a checkpoint")))?)
    };
    messages.iter().enumerate().map(part).collect()
}
