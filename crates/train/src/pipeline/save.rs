//! Writes checkpoints, by one rank or by several together.
//!
//! ```text
//!  begin   rank 0 makes the place, and tells ─────────► every rank
//!  keep    every rank puts its part there, and describes it to ──────► rank 0
//!  end     rank 0 binds all parts and names it, and tells ─────────► every rank
//! ```
//!
//! A checkpoint begins when all ranks are idle after the same step. Rank 0 names it only after all
//! have reported their parts durable: it appears as a whole, or not at all. All ranks wait for the
//! name: a rank that continued and failed would end rank 0 before it gives the name. The next step
//! waits for rank 0 anyway.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_base::owner::RankOf;
use stepwell_engine::{DenseView, Figure, Group, Keep, KeptPart, ModelPart, WholeModel};
use stepwell_fabric::collective::{Broadcast, Collective as _, Gather};
use stepwell_fabric::{Fabric, Malformed, Message};
use stepwell_settings::BestKind;

use super::patience::{rises, value};
use crate::batch::RunPosition;
use crate::metrics::Metrics;
use crate::resume::{FallenRates, RunState, Waited};
use crate::step::TrainedModel;
use crate::{Result, talk};

/// Writes checkpoints with the state that a resumed run needs.
pub(crate) struct Saver {
    writer: Box<dyn Keep>,
    state: RunState,
    /// The figure that selects the best checkpoint.
    best: BestKind,
    /// The last evaluation's figure and its model's step count, until it is noted.
    figure: Option<(u64, Figure)>,
    /// The ranks that write together, if there are several.
    fabric: Option<Fabric>,
    phase: Phase,
}

/// Phase of a checkpoint, with the message that it waits for.
enum Phase {
    /// No checkpoint is in progress.
    Rest,
    /// Rank 0 has begun the checkpoint, or found that it exists.
    Begun(Broadcast, Option<PathBuf>),
    /// All parts are kept.
    Kept(Gather),
    /// Rank 0 has named the checkpoint.
    Named(Broadcast),
}

/// The outcome of writing a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The checkpoint waits for other ranks.
    NotYet,
    /// This rank named the checkpoint.
    Here(PathBuf),
    /// Rank 0 has named the checkpoint.
    ByRankZero,
}

impl Saver {
    /// Writes through `writer`, with `state` in each checkpoint, together with the other ranks of
    /// `fabric`, if any; the `best` one is kept.
    pub(crate) fn new(
        writer: Box<dyn Keep>,
        state: RunState,
        best: BestKind,
        fabric: Option<&Fabric>,
    ) -> Self {
        let fabric = fabric.filter(|fabric| fabric.size() > 1).cloned();
        Self { writer, state, best, figure: None, fabric, phase: Phase::Rest }
    }

    /// Records an evaluation of the model after `step` steps, and what followed from the
    /// evaluations so far.
    pub(super) fn evaluated(
        &mut self,
        step: u64,
        metrics: &Metrics,
        (waited, plateaus): (Option<Waited>, FallenRates),
    ) {
        (self.state.waited, self.state.plateaus) = (waited, plateaus);
        if self.best == BestKind::None {
            return;
        }
        let (value, by) = (value(self.best, metrics), self.best.name().to_owned());
        self.figure = value.map(|value| (step, Figure { by, value, rises: rises(self.best) }));
    }

    /// Notes the figure of the model after `step` steps, whose checkpoint is written, on the rank
    /// that names checkpoints.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn note_figure(&mut self, step: u64) -> Result<()> {
        let names = self.fabric.as_ref().is_none_or(|fabric| fabric.rank() == 0);
        match self.figure.take() {
            Some((of, figure)) if names && of == step => {
                Ok(self.writer.note_figure(step, &figure, &self.state.to_json())?)
            }
            _ => Ok(()),
        }
    }

    /// Advances the checkpoint of `model` at `position`, with the rows of `groups`, without waiting
    /// for other ranks. Call it until it returns that the checkpoint is written.
    ///
    /// # Errors
    /// If it cannot be written, here or by another rank.
    pub(super) fn poll(
        &mut self,
        position: RunPosition,
        model: &TrainedModel,
        groups: &[Arc<Group>],
    ) -> Result<Written> {
        self.state.position = position;
        let Some(fabric) = &self.fabric.clone() else {
            let mut dense = model.dense()?;
            dense.sections.extend(DenseView::from(model.past(RankOf::ALONE)).sections);
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
                    let of = fabric.place();
                    let past = model.past(of);
                    let kept = self.writer.keep(&ModelPart { step, of, groups, past });
                    if kept.is_err() {
                        // Rank 0 clears the place if some rank failed, which is then the cause.
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
                    let (run, dense) = (self.state.to_json(), model.dense()?);
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

    /// Notes that the run ends with the checkpoint `named`, the last one.
    ///
    /// # Errors
    /// If it cannot be written.
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

/// Reads rank 0's message: whether the checkpoint already exists.
fn flag(message: &Message) -> Result<bool> {
    let flag = message.reader().take_exactly::<u64>(1);
    Ok(flag.map_err(|why| stepwell_fabric::Error::malformed(0, why))? == [1])
}

fn message_of(fabric: &Fabric, kept: &KeptPart) -> Message {
    let mut message = fabric.message();
    message.put(kept.to_text().as_bytes());
    message
}

/// Reads each rank's message: the part that it kept.
fn parts_of(messages: &[Message]) -> Result<Vec<KeptPart>> {
    let part = |(rank, message): (usize, &Message)| {
        let wrong = |why| stepwell_fabric::Error::malformed(rank, why);
        let text = message.reader().take::<u8>().map_err(wrong)?;
        let part = KeptPart::from_text(text);
        Ok(part.ok_or_else(|| wrong(Malformed::Wrong("it is not part of a checkpoint")))?)
    };
    messages.iter().enumerate().map(part).collect()
}
