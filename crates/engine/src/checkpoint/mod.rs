//! Checkpoints: directories that hold the model after exactly one step, whole or not at all.
//!
//! ```text
//! DIR/
//!   step-000000000128/        complete: it got this name after everything in it was synced
//!     checkpoint.json         version, step, what rows mean, data position, config
//!     dense.bin               dense sections as f32, little-endian, in the order of the JSON
//!     rows-0/                 a snapshot of table group 0's store (hard links to its segments)
//!     rows-0-rank-1/          where several ranks wrote it: of the store of one of them
//!     dense-1.bin             what a rank has beside rows, where it needs that to go on
//!     CHECKSUMS               names, lengths and checksums that bind all of it, `sums.rs`
//!     .stepwell               says that a run made it here, and as this step, `mark.rs`
//!     ENDED                   says that its run trained all of its data, `ended.rs`
//!   best.json                 which is the best evaluated one, `best.rs`
//!   .incomplete-step-…/       being written, or left by a run that was killed; never read
//!   .stepwell-id              a random number, which the marks of all of them say
//!   set-aside-1/              what --force moved out of the way, or what was in a checkpoint's way
//! ```
//!
//! Crash by case: before the rename the directory is `.incomplete-…` and the previous checkpoint
//! is the last one; after it the new one is. There is no moment in between. An old one is renamed
//! back to `.incomplete-…` before it is removed, when the new one is durable. What is set aside is
//! moved one by one, into a directory that is durable before.
//!
//! All of it goes through [`stepwell_disk::Disk`]: `tests/checkpoint` cuts it off at every change
//! of the disk and has every operation fail.
//!
//! Only what a run made is ever removed: the oldest checkpoints, when newer ones are complete, and
//! what a killed run left. Anything else under such a name is kept. If a checkpoint needs the name,
//! the entry is set aside, so the run can go on.

mod best;
mod dense;
mod ended;
mod files;
mod keep;
mod mark;
mod meaning;
mod reader;
mod scan;
mod sums;
mod view;
mod writer;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use stepwell_disk::{Disk, EntryKind};

pub use best::{Best, Figure, best};
pub(crate) use dense::pieces;
pub use dense::{Dense, DenseView};
pub use keep::{Keep, KeptPart, ModelPart, WholeModel};
use mark::{Claim, Marks};
pub use mark::{Lease, identity};
pub use reader::{Checkpoint, OLDER, Saved};
pub use scan::{Visit, lanes, open_rows};
pub use view::RowsView;
pub use writer::CheckpointWriter;

use crate::{Error, Result};

/// Version of the checkpoint format; this build reads those before as well. What one rank writes is
/// of version 2, which builds before know.
pub const FORMAT_VERSION: u64 = 3;
const FORMAT_VERSION_ALONE: u64 = 2;

/// What follows is a number, from 1.
const ASIDE_PREFIX: &str = "set-aside-";
const STEP_PREFIX: &str = "step-";
const INCOMPLETE_PREFIX: &str = ".incomplete-";
const META_FILE: &str = "checkpoint.json";
const DENSE_FILE: &str = "dense.bin";
const SUMS_FILE: &str = "CHECKSUMS";

/// Where the rows of one table group lie in a checkpoint, or those that one rank had of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Number of the group.
    pub group: usize,
    /// The rank that had them.
    pub rank: usize,
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
    /// Leave them: those to come lie beside them, and count as theirs.
    Append,
}

/// The complete checkpoints in `directory`, oldest first. A copy under the name of another step is
/// none of them.
///
/// # Errors
/// When the directory cannot be read.
pub fn list(directory: &dyn Disk) -> Result<Vec<(u64, PathBuf)>> {
    told_apart(directory, true)
}

/// What is called like a checkpoint in `directory` and is none of its step: damaged ones, and those
/// that somebody copied or renamed. They are passed over.
///
/// # Errors
/// When the directory cannot be read.
pub fn passed_over(directory: &dyn Disk) -> Result<Vec<PathBuf>> {
    Ok(told_apart(directory, false)?.into_iter().map(|(_, path)| path).collect())
}

/// What is called like the checkpoint of a step, and the step, in order: those that are complete,
/// or those that are not.
fn told_apart(directory: &dyn Disk, complete: bool) -> Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for (name, _) in directory.entries()? {
        let Some(step) = step_of(&name) else { continue };
        let path = directory.path().join(name);
        if is_complete(directory, &path, step)? == complete {
            found.push((step, path));
        }
    }
    found.sort();
    Ok(found)
}

/// Whether what lies there is a checkpoint, and of no other step than `step`, as far as it says.
fn is_complete(directory: &dyn Disk, path: &Path, step: u64) -> Result<bool> {
    use ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let opened = directory.directory(path).map_err(Error::from);
    let found = opened.and_then(|inside| Ok((files::is_there(&*inside, META_FILE)?, inside)));
    let inside = match found {
        Ok((true, inside)) => inside,
        Ok((false, _)) => return Ok(false),
        Err(Error::Disk(error))
            if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) =>
        {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    // One that cannot be read is refused when it is opened.
    let meta = files::read(&*inside, META_FILE).ok();
    let meta = meta.and_then(|meta| serde_json::from_slice::<serde_json::Value>(&meta).ok());
    Ok(meta.and_then(|meta| meta["step"].as_u64()).is_none_or(|said| said == step))
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
pub fn prepare(directory: &dyn Disk, placement: Placement) -> Result<Option<PathBuf>> {
    remove_incomplete(directory)?;
    let refused = |why| Err(Error::Checkpoint { path: directory.path().to_owned(), why });
    let newest = list(directory)?.pop();
    match (newest, placement) {
        (None, Placement::Resume) => refused(
            "holds no checkpoint to resume from; look at the directory's name, or start a run \
             that will be resumed with --resume=auto"
                .to_owned(),
        ),
        (None, _) | (_, Placement::Append) => Ok(None),
        (Some((_, path)), Placement::Resume | Placement::ResumeOrStart) => Ok(Some(path)),
        (Some((step, _)), Placement::Fresh) => refused(format!(
            "holds checkpoints already (the last of step {step}); go on from it with --resume, \
             set them aside with --force, or name another directory"
        )),
        (Some(_), Placement::SetAside) => set_aside(directory).map(|()| None),
    }
}

/// Directories of checkpoints that were never completed hold nothing that anybody was promised.
fn remove_incomplete(directory: &dyn Disk) -> Result<()> {
    let marks = Marks::of(directory)?;
    for (name, kind) in directory.entries()? {
        let step = name.strip_prefix(INCOMPLETE_PREFIX).and_then(step_of);
        if let Some(step) = step.filter(|_| kind == EntryKind::Directory) {
            remove_own(directory, &marks, step)?;
        }
    }
    Ok(())
}

/// What the directory of the checkpoint of `step` is called while it is written or removed.
fn incomplete(step: u64) -> String {
    format!("{INCOMPLETE_PREFIX}{}", name_of(step))
}

/// Removes the half-written checkpoint of `step`, unless it holds what may be somebody's: nobody
/// writes it, as the run has the lock of the directory.
fn remove_own(directory: &dyn Disk, marks: &Marks, step: u64) -> Result<()> {
    let path = directory.path().join(incomplete(step));
    let inside = directory.directory(&path)?;
    // A kill between making it and marking it leaves it bare.
    if marks.hold(&*inside, step)? || mark::is_bare(&*inside)? {
        mark::remove_marked(directory, &path)?;
    }
    Ok(())
}

/// Frees the name under which the checkpoint of `step` is written or removed. What may be
/// somebody's is set aside; gives where to.
fn make_way(directory: &dyn Disk, marks: &Marks, step: u64) -> Result<Option<PathBuf>> {
    let name = incomplete(step);
    let mut entries = directory.entries()?.into_iter();
    if entries.any(|(found, kind)| found == name && kind == EntryKind::Directory) {
        remove_own(directory, marks, step)?;
    }
    match directory.exists(&name)? {
        true => put_aside(directory, &name).map(Some),
        false => Ok(None),
    }
}

/// Moves the entry `name` into a new directory, and returns that directory.
fn put_aside(directory: &dyn Disk, name: &str) -> Result<PathBuf> {
    let aside = free_aside(directory)?;
    directory.rename(name, &format!("{aside}/{name}"))?;
    Ok(directory.path().join(aside))
}

/// A name that nothing was set aside under yet.
fn free_aside(directory: &dyn Disk) -> Result<String> {
    let mut number = 1;
    while directory.exists(&format!("{ASIDE_PREFIX}{number}"))? {
        number += 1;
    }
    Ok(format!("{ASIDE_PREFIX}{number}"))
}

/// Moves all checkpoints out of the way, oldest first: the newest of those that are left is the
/// newest there was. None is moved where somebody reads one.
fn set_aside(directory: &dyn Disk) -> Result<()> {
    let found = list(directory)?;
    for (_, path) in &found {
        claim(directory, path)?;
    }
    let aside = free_aside(directory)?;
    for (step, path) in found {
        // Somebody may have begun to read it since.
        let _claim = claim(directory, &path)?;
        let name = name_of(step);
        directory.rename(&name, &format!("{aside}/{name}"))?;
    }
    Ok(())
}

/// Whether `path` is a directory that checkpoints were moved into, out of the way of a run, and
/// holds some still.
///
/// # Errors
/// When the directory cannot be read.
pub fn is_set_aside(directory: &dyn Disk) -> Result<bool> {
    let name = directory.path().file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix(ASIDE_PREFIX)?.parse::<u64>().ok());
    Ok(number.is_some() && directory.entries()?.iter().any(|(name, _)| step_of(name).is_some()))
}

/// Removes the checkpoints in a directory that they were moved into; gives those that stay, as no
/// run made them there, and copies are somebody's.
///
/// # Errors
/// That somebody reads one, and those of the disk.
pub fn purge(directory: &dyn Disk) -> Result<Vec<PathBuf>> {
    let mut stay = Vec::new();
    // Their marks are those of the directory that they were moved out of.
    let above = directory.path().parent().filter(|above| !above.as_os_str().is_empty());
    let marks = Marks::of(&*directory.directory(above.unwrap_or(Path::new(".")))?)?;
    for (name, kind) in directory.entries()? {
        let path = directory.path().join(&name);
        let step = step_of(&name).filter(|_| kind == EntryKind::Directory);
        let is_own = step.map(|step| marks.hold(&*directory.directory(&path)?, step));
        if is_own.transpose()?.unwrap_or(false) {
            let _claim = claim(directory, &path)?;
            mark::remove_marked(directory, &path)?;
        } else {
            stay.push(path);
        }
    }
    Ok(stay)
}

/// The right to move the checkpoint in `path`.
fn claim(directory: &dyn Disk, path: &Path) -> Result<Claim> {
    let why = "is being read, and neither moved nor removed meanwhile: wait for that to end, or \
               name another directory";
    let refused = || Error::Checkpoint { path: path.to_owned(), why: why.to_owned() };
    Claim::lay(&*directory.directory(path)?).ok_or_else(refused)
}

#[cfg(test)]
mod tests;
