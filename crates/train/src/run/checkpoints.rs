//! Going on from a checkpoint, and writing new ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_data::{Position as Place, fingerprints};
use stepwell_disk::{Disk, FileDisk};
use stepwell_engine::{
    Checkpoint, CheckpointWriter, DirectoryLock, Error as EngineError, Placement, Saved, Scratch,
    file_error, passed_over, prepare, refuse_checkpoint, refuse_store,
};
use stepwell_settings::{Config, model_settings};

use super::sources::Sources;
use super::{Surroundings, World};
use crate::batch::Position;
use crate::pipeline::Saver;
use crate::resume::{DataFile, RunState, job_of};
use crate::{Error, Result, kernels};

/// What checkpoints a run begins with.
pub(super) struct Start {
    /// The checkpoint to go on from.
    pub(super) resumed: Option<Checkpoint>,
    pub(super) position: Position,
    pub(super) saver: Option<Saver>,
}

/// Looks at the directory of checkpoints as the surroundings want it.
pub(super) fn start(config: &Config, around: &Surroundings, sources: &Sources) -> Result<Start> {
    if let Some(world) = &around.world {
        return start_in(world, config, around, sources);
    }
    let Some(directory) = &config.checkpoint.dir else {
        if matches!(around.placement, Placement::Resume | Placement::ResumeOrStart) {
            return Err(Error::Config(
                "--resume needs a directory to resume from: give --checkpoint DIR".to_owned(),
            ));
        }
        return Ok(Start { resumed: None, position: Position::default(), saver: None });
    };
    refuse_checkpoint("checkpoint.dir", directory)?;
    refuse_store("checkpoint.dir", directory)?;
    if around.placement != Placement::Resume {
        FileDisk::create(directory).map_err(EngineError::from)?;
    } else if !directory.is_dir() {
        return Err(Error::Config(format!(
            "--resume: there is no directory {}; look at its name, or start a run that will be \
             resumed with --resume=auto",
            directory.display()
        )));
    }
    keep_apart(directory, config.tiers.ssd.as_deref())?;
    let lock = DirectoryLock::take(directory)?;
    // Before any checkpoint is set aside.
    config.tiers.ssd.as_deref().map(Scratch::check).transpose()?;
    let mut state = state(config, around, sources)?;
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(directory).map_err(EngineError::from)?);
    let newest = prepare(&*disk, around.placement)?;
    for path in passed_over(&*disk)? {
        (around.on_note)(&format!(
            "{} is no whole checkpoint of that step and is passed over; move it away, for a run \
             that is to write one there ends",
            path.display()
        ));
    }
    let resumed = match &newest {
        Some(path) => Some(open(path, around, &state)?),
        None => {
            if around.placement == Placement::ResumeOrStart {
                let directory = directory.display();
                (around.on_note)(&format!("no checkpoint in {directory} yet: starting at step 0"));
            }
            None
        }
    };
    let position = match &resumed {
        Some(checkpoint) => RunState::read(checkpoint)?.position,
        None => Position::default(),
    };
    state.position = position;
    let keep = config.checkpoint.keep;
    let writer = match resumed {
        Some(_) => CheckpointWriter::resume(disk, keep)?,
        None => CheckpointWriter::new(disk, keep),
    };
    let saver = Saver { writer: Box::new(writer), state, _lock: Some(lock) };
    Ok(Start { resumed, position, saver: Some(saver) })
}

/// Refuses one directory for checkpoints and for rows.
fn keep_apart(checkpoints: &Path, rows: Option<&Path>) -> Result<()> {
    let real = |path: &Path| path.canonicalize().ok();
    match rows {
        Some(rows) if real(rows).is_some_and(|rows| Some(rows) == real(checkpoints)) => {
            Err(Error::Config(format!(
                "checkpoint.dir and tiers.ssd are both {}: name two directories",
                checkpoints.display()
            )))
        }
        _ => Ok(()),
    }
}

/// Begins as a simulated world wants it.
fn start_in(
    world: &World,
    config: &Config,
    around: &Surroundings,
    sources: &Sources,
) -> Result<Start> {
    let mut state = state(config, around, sources)?;
    let position = match &world.from {
        Some(checkpoint) => RunState::read(checkpoint)?.position,
        None => Position::default(),
    };
    state.position = position;
    let keeper = world.keeper.as_ref();
    let saver = keeper.map(|keeper| Saver { writer: keeper(), state, _lock: None });
    Ok(Start { resumed: world.from.clone(), position, saver })
}

fn open(path: &Path, around: &Surroundings, state: &RunState) -> Result<Checkpoint> {
    let checkpoint = Checkpoint::open(path)?;
    let was = RunState::read(&checkpoint)?;
    was.check(state, &checkpoint)?;
    accept_rows(&checkpoint, around)?;
    if was.kernels != state.kernels {
        (around.on_note)(&format!(
            "the checkpoint was made with kernels {}, this machine has {}: bits may differ from a \
             run that never stopped",
            was.kernels, state.kernels
        ));
    }
    (around.on_note)(&format!("resuming after step {} from {}", checkpoint.step, path.display()));
    Ok(checkpoint)
}

/// Refuses rows that are not those that were saved with `checkpoint`, or takes them and says so,
/// where that was asked for.
pub(super) fn accept_rows(checkpoint: &Checkpoint, around: &Surroundings) -> Result<()> {
    if !around.repaired_rows {
        return Ok(checkpoint.check_rows()?);
    }
    for rows in &checkpoint.rows {
        if let Saved::No(why) = &rows.saved {
            (around.on_note)(&format!(
                "taking {} although its rows are not those that were saved ({why}): what a repair \
                 lost begins anew, and the model is not the one that was saved",
                rows.path.display()
            ));
        }
    }
    Ok(())
}

fn state(config: &Config, around: &Surroundings, sources: &Sources) -> Result<RunState> {
    let model = model_settings(config);
    let files = identify(sources.input.files())?;
    let train_end = sources.boundary.map(|Place { file, line }| (file, line));
    Ok(RunState {
        position: Position::default(),
        job: job_of(&model, &files, train_end),
        files,
        train_end,
        model,
        config: around.settings.clone(),
        kernels: kernels(config.model.precision),
    })
}

/// Name, length and content of the data files.
fn identify(files: &[PathBuf]) -> Result<Vec<DataFile>> {
    let contents = fingerprints(files)?;
    let file = |(path, content): (&PathBuf, u128)| {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let bytes = std::fs::metadata(path).map_err(file_error("look at", path))?.len();
        Ok(DataFile { name, bytes, content: format!("{content:032x}") })
    };
    files.iter().zip(contents).map(file).collect()
}
