//! Going on from a checkpoint, and writing new ones.

use stepwell_server::{Checkpoint, CheckpointWriter, Placement, prepare};

use super::Surroundings;
use super::sources::Sources;
use crate::batch::Position;
use crate::config::Config;
use crate::pipeline::Saver;
use crate::resume::{RunState, model_settings};
use crate::{Error, Result, kernels};

pub(super) fn open_resumed(
    config: &Config,
    around: &Surroundings,
    sources: &Sources,
) -> Result<Option<(Checkpoint, RunState)>> {
    let Some(directory) = &config.checkpoint.dir else {
        if around.placement == Placement::Resume {
            return Err(Error::Config(
                "--resume needs a directory to resume from: give --checkpoint DIR".to_owned(),
            ));
        }
        return Ok(None);
    };
    let Some(path) = prepare(directory, around.placement)? else {
        if around.placement == Placement::Resume {
            let directory = directory.display();
            (around.on_note)(&format!("no checkpoint in {directory} yet: starting at step 0"));
        }
        return Ok(None);
    };
    let checkpoint = Checkpoint::open(&path)?;
    let state = RunState::read(&checkpoint)?;
    state.check(config, &file_names(sources), &checkpoint)?;
    if state.kernels != kernels() {
        (around.on_note)(&format!(
            "the checkpoint was made with kernels {}, this machine has {}: bits may differ from a \
             run that never stopped",
            state.kernels,
            kernels()
        ));
    }
    (around.on_note)(&format!("resuming after step {} from {}", checkpoint.step, path.display()));
    Ok(Some((checkpoint, state)))
}

fn file_names(sources: &Sources) -> Vec<String> {
    sources
        .files
        .iter()
        .map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned())
        .collect()
}

pub(super) fn saver(
    config: &Config,
    around: &Surroundings,
    sources: &Sources,
    start: Position,
) -> Option<Saver> {
    let directory = config.checkpoint.dir.clone()?;
    let state = RunState {
        position: start,
        files: file_names(sources),
        model: model_settings(config),
        config: around.settings.clone(),
        kernels: kernels(),
    };
    Some(Saver { writer: CheckpointWriter::new(directory, config.checkpoint.keep), state })
}
