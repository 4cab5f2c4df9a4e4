//! Resumes from a checkpoint, and prepares to write new ones.

use std::sync::Arc;

use stepwell_data::{Position, Sources, is_stream};
use stepwell_engine::{Checkpoint, Saved};
use stepwell_fabric::Fabric;
use stepwell_fabric::collective::Broadcast;
use stepwell_settings::model_settings;
use tracing::{info, warn};

use super::surroundings::Surroundings;
use crate::batch::RunPosition;
use crate::data_file::identify;
use crate::machine::Checkpoints;
use crate::models::kernels;
use crate::pipeline::Saver;
use crate::resume::{Began, FallenRates, RunState, Waited, job_of};
use crate::run_plan::{RunPlan, StoragePlan};
use crate::warm_start::WarmStart;
use crate::{Error, Result, talk};

/// The checkpoint state that a run begins with.
pub(super) struct Start {
    /// The checkpoint whose model the run begins with.
    pub(super) from: Option<Arc<Checkpoint>>,
    /// Whether the run of that checkpoint continues, rather than a warm start.
    pub(super) resumes: bool,
    pub(super) position: RunPosition,
    /// The evaluations of the run that continues.
    pub(super) waited: Option<Waited>,
    /// The learning rates that fell at plateaus.
    pub(super) plateaus: FallenRates,
    /// Whether that run ended with its data.
    pub(super) is_complete: bool,
    pub(super) saver: Option<Saver>,
}

/// Takes the place of checkpoints as the surroundings ask.
pub(super) fn start(plan: &RunPlan<'_>, around: &Surroundings, sources: &Sources) -> Result<Start> {
    let ranks = around.machine.ranks.as_ref().map(|ranks| &ranks.fabric);
    let (place, resumed) = match ranks {
        Some(fabric) if fabric.rank() > 0 => follow(&plan.storage, around, fabric)?,
        first => lead(&plan.storage, around, first)?,
    };
    if place.is_none() && around.from.is_none() {
        let position = RunPosition::default();
        return Ok(Start {
            from: None,
            resumes: false,
            position,
            waited: None,
            plateaus: FallenRates::default(),
            is_complete: false,
            saver: None,
        });
    }
    let was = resumed.as_ref().map(RunState::read).transpose()?;
    let began = match (&was, &around.from) {
        (Some(was), _) => was.began.clone(),
        (None, Some(from)) => from.began()?,
        (None, None) => None,
    };
    let ended_early = was.as_ref().is_some_and(RunState::ended_early);
    let is_complete = resumed.as_ref().is_some_and(|from| from.ended) && !ended_early;
    let mut state = state(plan, around, sources, began)?;
    if let (Some(checkpoint), Some(was)) = (&resumed, was) {
        accept(checkpoint, around, &state)?;
        (state.position, state.earlier) = (was.position, was.earlier);
        (state.waited, state.plateaus) = (was.waited, was.plateaus);
        // It is the same job even if settings without effect differ.
        (state.model, state.job) = (was.model, was.job);
        if let Some(path) = sources.input.files().iter().find(|path| is_stream(path)) {
            (around.on_note)(&format!(
                "{} is a stream, so whether it has the data of the earlier run cannot be checked: \
                 it is skipped up to where the run continues",
                path.display()
            ));
        }
    }
    let resumes = resumed.is_some();
    let mut from = resumed.map(Arc::new);
    if let (None, Some(warm)) = (&from, &around.from) {
        from = warm.checkpoint();
        let checkpoint = from.as_deref().ok_or(Error::Panicked("warm start"))?;
        begin_with((warm, checkpoint), around, &mut state)?;
    }
    let RunState { position, waited, plateaus, .. } = state;
    let tell = Arc::clone(&around.on_note);
    let checkpoints = &plan.storage.checkpoints;
    let writer = place.map(|place| place.writer(checkpoints.keep, tell)).transpose()?.flatten();
    let saver = writer.map(|writer| Saver::new(writer, state, checkpoints.best, ranks));
    Ok(Start { from, resumes, position, waited, plateaus, is_complete, saver })
}

/// Begins a warm start at the beginning of new data, or where the checkpoint's run stopped.
fn begin_with(
    (warm, checkpoint): (&WarmStart, &Checkpoint),
    around: &Surroundings,
    state: &mut RunState,
) -> Result<()> {
    let was = RunState::read(checkpoint)?;
    state.plateaus = was.plateaus;
    if warm.goes_on() {
        // A change of the data is fine: none of it was trained.
        let as_before = warm.is_changed.then(|| state.with_data_of(&was));
        state.waited = was.waited;
        accept(checkpoint, around, as_before.as_ref().unwrap_or(state))?;
    } else {
        accept_rows(checkpoint, around)?;
        let (step, path) = (checkpoint.step, checkpoint.path.display());
        info!(step, %path, "warm start");
        (around.on_note)(&format!("starting with the model after step {step} from {path}"));
    }
    (state.position, state.earlier) = (warm.position, Some(warm.earlier.clone()));
    Ok(())
}

/// A place of checkpoints, and the checkpoint to resume from.
type Led = (Option<Box<dyn Checkpoints>>, Option<Checkpoint>);

/// Takes the place; with several ranks, takes it for all and sends the others the checkpoint's
/// step.
fn lead(storage: &StoragePlan, around: &Surroundings, fabric: Option<&Fabric>) -> Result<Led> {
    let mut place = around.machine.places.checkpoints(storage, around.placement)?;
    let newest = match &mut place {
        Some(place) => place.newest(around.placement, &|note| (around.on_note)(&note))?,
        None => None,
    };
    if let (Some(place), Some(warm)) = (&place, &around.from) {
        refuse_later(&**place, warm)?;
    }
    if let Some(fabric) = fabric {
        let mut message = fabric.message();
        // Whether there is a checkpoint, and its step.
        message.put(&[u64::from(newest.is_some()), newest.as_ref().map_or(0, |from| from.step)]);
        fabric.wait(Broadcast::start(fabric, talk::START, 0, Some(message)))?;
    }
    Ok((place, newest))
}

/// Refuses a directory in which another run has since written later checkpoints.
fn refuse_later(place: &dyn Checkpoints, warm: &WarmStart) -> Result<()> {
    let step = warm.checkpoint().map(|from| from.step);
    match place.newest_step()? {
        Some(newest) if step.is_some_and(|step| newest > step) => Err(Error::Config(format!(
            "another run has written a checkpoint of step {newest} in the meantime: run the \
             command again"
        ))),
        _ => Ok(()),
    }
}

/// Follows rank 0: opens the place that it took and the checkpoint that it found.
fn follow(storage: &StoragePlan, around: &Surroundings, fabric: &Fabric) -> Result<Led> {
    let message = fabric.wait(Broadcast::start(fabric, talk::START, 0, None))?;
    let said = message.reader().take_exactly::<u64>(2);
    let said = said.map_err(|why| stepwell_fabric::Error::malformed(0, why))?;
    let step = (said[0] == 1).then_some(said[1]);
    let mut place = around.machine.places.checkpoints_of_all(storage)?;
    let newest = match (&mut place, step) {
        (Some(place), Some(step)) => Some(place.of_step(step)?),
        _ => None,
    };
    Ok((place, newest))
}

/// Refuses a checkpoint that this run cannot resume.
fn accept(checkpoint: &Checkpoint, around: &Surroundings, state: &RunState) -> Result<()> {
    let was = RunState::read(checkpoint)?;
    was.check(state, checkpoint)?;
    accept_rows(checkpoint, around)?;
    if was.kernels != state.kernels {
        (around.on_note)(&format!(
            "the checkpoint was made with kernels {}, but this machine has {}: bits may differ \
             from an uninterrupted run",
            was.kernels, state.kernels
        ));
    }
    let (step, path) = (checkpoint.step, checkpoint.path.display());
    info!(step, %path, "run resumes");
    (around.on_note)(&format!("resuming after step {step} from {path}"));
    Ok(())
}

/// Refuses rows that differ from those saved with `checkpoint`, or accepts them with a note if that
/// was requested.
pub(super) fn accept_rows(checkpoint: &Checkpoint, around: &Surroundings) -> Result<()> {
    if !around.repaired_rows {
        return Ok(checkpoint.check_rows()?);
    }
    for rows in &checkpoint.rows {
        if let Saved::No(why) = &rows.saved {
            warn!(path = %rows.path.display(), why, "repaired rows are used");
            (around.on_note)(&format!(
                "using {} although its rows are not the saved ones ({why}): rows lost in a repair \
                 start again from initial values, so the model differs from the saved one",
                rows.path.display()
            ));
        }
    }
    Ok(())
}

fn state(
    plan: &RunPlan<'_>,
    around: &Surroundings,
    sources: &Sources,
    began: Option<Began>,
) -> Result<RunState> {
    let model = model_settings(plan.config);
    let files = identify(sources.input.files(), sources.input.layout())?;
    let train_end = sources.boundary.map(|Position { file, line }| (file, line));
    Ok(RunState {
        position: RunPosition::default(),
        job: job_of(&model, &files, train_end, began.as_ref()),
        earlier: Some(Vec::new()),
        began,
        files,
        train_end,
        model,
        waited: None,
        plateaus: FallenRates::default(),
        config: around.settings.clone(),
        kernels: kernels(plan.dense.precision),
    })
}
