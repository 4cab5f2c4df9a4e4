//! Checkpoints: directories that hold the model after exactly one step, whole or not at all.
//!
//! ```text
//! DIR/
//!   step-000000000128/        complete: it got this name after everything in it was synced
//!     checkpoint.json         version, step, data position, config, names of published functions
//!     dense.bin               dense sections as f32, little-endian, in the order of the JSON
//!     rows-0/                 a snapshot of table group 0's store (hard links to its segments)
//!     CHECKSUMS               names, lengths and checksums that bind all of it, `sums.rs`
//!     .stepwell               says which directory a run made, `mark.rs`
//!   .incomplete-step-…/       being written, or left by a run that was killed; never read
//!   set-aside-1/              what --force moved out of the way
//! ```
//!
//! Crash by case: before the rename the directory is `.incomplete-…` and the previous checkpoint
//! is the last one; after it the new one is. There is no moment in between.
//!
//! Only what a run made is ever removed: the oldest checkpoints, when newer ones are complete, and
//! what a killed run left. Whatever else lies there under such a name stays, and is refused where
//! it is in the way.

mod dense;
mod files;
mod keep;
mod mark;
mod reader;
mod sums;
mod writer;

use std::path::{Path, PathBuf};

pub(crate) use dense::pieces;
pub use dense::{Dense, DenseView};
pub use keep::Keep;
pub use mark::{Lease, identity};
pub use reader::{Checkpoint, OLDER, Saved};
pub use writer::CheckpointWriter;

use crate::{Error, Result};

/// Version of the checkpoint format that this build writes; it reads version 1 as well.
pub const FORMAT_VERSION: u64 = 2;

const STEP_PREFIX: &str = "step-";
const INCOMPLETE_PREFIX: &str = ".incomplete-";
const META_FILE: &str = "checkpoint.json";
const DENSE_FILE: &str = "dense.bin";
const SUMS_FILE: &str = "CHECKSUMS";

/// Where the rows of one table group lie in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Number of the group.
    pub group: usize,
    /// The snapshot's directory.
    pub path: PathBuf,
    /// Whether they are those that were saved.
    pub saved: Saved,
}

/// What to do with checkpoints that a directory holds already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Refuse them.
    Fresh,
    /// Go on from the newest; refuse a directory that has none.
    Resume,
    /// Go on from the newest, or start where there is none.
    ResumeOrStart,
    /// Move them into `set-aside-N`.
    SetAside,
}

/// The complete checkpoints in `directory`, oldest first. A copy under the name of another step is
/// none of them.
///
/// # Errors
/// When the directory cannot be read.
pub fn list(directory: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut found = named(directory)?;
    found.retain(|(step, path)| is_complete(path, *step));
    Ok(found)
}

/// What is called like a checkpoint in `directory` and is none of its step: damaged ones, and those
/// that somebody copied or renamed. They are passed over.
///
/// # Errors
/// When the directory cannot be read.
pub fn passed_over(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = named(directory)?;
    found.retain(|(step, path)| !is_complete(path, *step));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// What is called like the checkpoint of a step, and the step, in order.
fn named(directory: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let step = |path: &PathBuf| step_of(path.file_name()?.to_str()?);
    let entries = files::entries(directory)?.into_iter();
    let mut found: Vec<_> = entries.filter_map(|path| Some((step(&path)?, path))).collect();
    found.sort();
    Ok(found)
}

/// Whether what lies there is a checkpoint, and of no other step than `step`, as far as it says.
fn is_complete(path: &Path, step: u64) -> bool {
    let meta = path.join(META_FILE);
    let read = std::fs::read(&meta).ok();
    let read = read.and_then(|meta| serde_json::from_slice::<serde_json::Value>(&meta).ok());
    let other = read.and_then(|meta| meta["step"].as_u64()).is_some_and(|said| said != step);
    meta.is_file() && !other
}

/// Name of the checkpoint of step `step`.
fn name_of(step: u64) -> String {
    format!("{STEP_PREFIX}{step:012}")
}

/// The step in a name that [`name_of`] gives.
fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix(STEP_PREFIX)?.parse().ok()?;
    (name_of(step) == name).then_some(step)
}

/// Makes `directory` ready for checkpoints and returns the one to resume from, if any.
///
/// # Errors
/// When it holds checkpoints and `placement` is [`Placement::Fresh`], when it holds none and that
/// is [`Placement::Resume`], or on I/O errors.
pub fn prepare(directory: &Path, placement: Placement) -> Result<Option<PathBuf>> {
    files::create_dir_all(directory)?;
    remove_incomplete(directory)?;
    let newest = list(directory)?.pop();
    match (newest, placement) {
        (None, Placement::Resume) => Err(Error::Checkpoint {
            path: directory.to_owned(),
            why:
                "holds no checkpoint to resume from; look at the directory's name, or start a run \
                  that will be resumed with --resume=auto"
                    .to_owned(),
        }),
        (None, _) => Ok(None),
        (Some((_, path)), Placement::Resume | Placement::ResumeOrStart) => Ok(Some(path)),
        (Some((step, _)), Placement::Fresh) => Err(Error::Checkpoint {
            path: directory.to_owned(),
            why: format!(
                "holds checkpoints already (the last of step {step}); go on from it with \
                 --resume, set them aside with --force, or name another directory"
            ),
        }),
        (Some(_), Placement::SetAside) => set_aside(directory).map(|()| None),
    }
}

/// Directories of checkpoints that were never completed hold nothing that anybody was promised.
fn remove_incomplete(directory: &Path) -> Result<()> {
    for path in files::entries(directory)? {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let step = name.as_deref().and_then(|name| step_of(name.strip_prefix(INCOMPLETE_PREFIX)?));
        if step.is_none() {
            continue;
        }
        if mark::is_marked(&path) || mark::is_half_marked(&path) {
            files::remove_dir_all(&path)?;
        } else {
            // A kill between making it and marking it leaves it empty; others are not ours.
            let _ = std::fs::remove_dir(&path);
        }
    }
    Ok(())
}

fn set_aside(directory: &Path) -> Result<()> {
    let aside = (1..)
        .map(|number| directory.join(format!("set-aside-{number}")))
        .find(|path| !path.exists())
        .unwrap_or_else(|| directory.join("set-aside"));
    files::create_dir_all(&aside)?;
    for (_, path) in list(directory)? {
        if let Some(name) = path.file_name() {
            files::rename(&path, &aside.join(name))?;
        }
    }
    files::sync_dir(directory)
}

#[cfg(test)]
mod tests;
