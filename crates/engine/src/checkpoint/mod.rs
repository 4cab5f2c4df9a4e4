//! Checkpoints: directories that contain the model after exactly one step, completely or not at
//! all.
//!
//! ```text
//! DIR/
//!   step-000000000128/        complete: it got this name after everything in it was synced
//!     checkpoint.json         version, step, meaning of rows, data position, config
//!     dense.bin               dense sections as f32, little-endian, in the order of the JSON
//!     rows-0/                 a snapshot of table group 0's store (hard links to its segments)
//!     rows-0-rank-1/          if several ranks wrote it: snapshot of one rank's store
//!     dense-1.bin             state of a rank besides rows, if it needs any to resume
//!     CHECKSUMS               names, lengths and checksums of everything, `sums.rs`
//!     .stepwell               marks it as a run's, here and as this step, `directory_mark.rs`
//!     ENDED                   marks a run's last checkpoint, all data trained, `ended_mark.rs`
//!   best.json                 which checkpoint evaluated best, `best.rs`
//!   .incomplete-step-…/       being written, or left by a killed run; never read
//!   .stepwell-id              a random number, part of all their marks
//!   set-aside-1/              moved out of the way by --force, or of a checkpoint
//! ```
//!
//! After a crash: before the rename, the directory is `.incomplete-…` and the previous checkpoint
//! is the last one; after it, the new one is. There is no state in between. An old checkpoint is
//! renamed back to `.incomplete-…` before it is removed, once the new one is durable. Entries are
//! set aside one by one, into a directory that is already durable.
//!
//! All operations use [`stepwell_disk::Disk`]: `tests/checkpoint` interrupts them at every change
//! of the disk and makes every operation fail.
//!
//! Only what a run made is ever removed: the oldest checkpoints, once newer ones are complete, and
//! remains of killed runs. Anything else under such a name is kept. If a checkpoint needs the name,
//! the entry is set aside, so the run can continue.

mod best;
mod directory_mark;
mod ended_mark;
mod files;
mod keep;
mod names;
mod reader;
mod rows_view;
mod scan;
mod sums;
mod table_meaning;
mod writer;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use stepwell_disk::{Disk, EntryKind};

pub use best::{Best, Figure, best};
use directory_mark::{Claim, Marks};
pub use directory_mark::{Lease, identity};
pub use keep::{Keep, KeptPart, ModelPart, WholeModel};
pub use reader::{Checkpoint, OLDER, Saved};
pub use rows_view::RowsView;
pub use scan::{Visit, lanes, open_rows};
use tracing::info;
pub use writer::CheckpointWriter;

use crate::{Error, Result};

/// Version of the checkpoint format; earlier versions can be read as well. A single rank writes
/// version 2, which earlier builds can read.
pub const FORMAT_VERSION: u64 = 3;
const FORMAT_VERSION_ALONE: u64 = 2;

/// Prefix of the names of directories for entries set aside; a number follows, from 1.
const ASIDE_PREFIX: &str = "set-aside-";
const STEP_PREFIX: &str = "step-";
const INCOMPLETE_PREFIX: &str = ".incomplete-";
const META_FILE: &str = "checkpoint.json";
const DENSE_FILE: &str = "dense.bin";
const SUMS_FILE: &str = "CHECKSUMS";

/// Place in a checkpoint of the rows of a table group, or of one rank's rows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Number of the group.
    pub group: usize,
    /// The rank that wrote the rows.
    pub rank: usize,
    /// The snapshot's directory.
    pub path: PathBuf,
    /// Whether the rows are the ones saved with the checkpoint.
    pub saved: Saved,
}

/// Treatment of existing checkpoints in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Reject them.
    Fresh,
    /// Resume from the newest; reject a directory without checkpoints.
    Resume,
    /// Resume from the newest, or start a new run if there is none.
    ResumeOrStart,
    /// Move them into `set-aside-N`.
    SetAside,
    /// Keep them; new checkpoints join them and count as the same run's.
    Append,
}

/// The complete checkpoints in `directory`, oldest first, except copies under the name of another
/// step.
///
/// # Errors
/// If the directory cannot be read.
pub fn list(directory: &dyn Disk) -> Result<Vec<(u64, PathBuf)>> {
    told_apart(directory, true)
}

/// Entries in `directory` that have a checkpoint's name but aren't a complete checkpoint of that
/// step: damaged, copied or renamed ones. They are ignored.
///
/// # Errors
/// If the directory cannot be read.
pub fn passed_over(directory: &dyn Disk) -> Result<Vec<PathBuf>> {
    Ok(told_apart(directory, false)?.into_iter().map(|(_, path)| path).collect())
}

/// Entries with a checkpoint's name, by step: only `complete` checkpoints, or only other entries.
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

/// Whether the entry is a checkpoint, and doesn't name another step than `step`.
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
    // An unreadable description is rejected when the checkpoint is opened.
    let meta = files::read(&*inside, META_FILE).ok();
    let meta = meta.and_then(|meta| serde_json::from_slice::<serde_json::Value>(&meta).ok());
    Ok(meta.and_then(|meta| meta["step"].as_u64()).is_none_or(|said| said == step))
}

/// Name of the checkpoint of step `step`.
fn name_of(step: u64) -> String {
    format!("{STEP_PREFIX}{step:012}")
}

/// The step in a name from [`name_of`].
fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix(STEP_PREFIX)?.parse().ok()?;
    (name_of(step) == name).then_some(step)
}

/// Prepares `directory` for checkpoints and returns the one to resume from, if any.
///
/// # Errors
/// If it contains checkpoints and `placement` is [`Placement::Fresh`], if it contains none and that
/// is [`Placement::Resume`], or on I/O errors.
pub fn prepare(directory: &dyn Disk, placement: Placement) -> Result<Option<PathBuf>> {
    remove_incomplete(directory)?;
    let refused = |why| Err(Error::NoCheckpoint { path: directory.path().to_owned(), why });
    let newest = list(directory)?.pop();
    match (newest, placement) {
        (None, Placement::Resume) => refused(
            "holds no checkpoint to resume from; check the directory's name, or use --resume=auto, \
             which starts a new run there"
                .to_owned(),
        ),
        (None, _) | (_, Placement::Append) => Ok(None),
        (Some((_, path)), Placement::Resume | Placement::ResumeOrStart) => Ok(Some(path)),
        (Some((step, _)), Placement::Fresh) => refused(format!(
            "already holds checkpoints (the last of step {step}); continue with --resume, set them \
             aside with --force, or choose another directory"
        )),
        (Some(_), Placement::SetAside) => set_aside(directory).map(|()| None),
    }
}

/// Removes directories of checkpoints that were never completed, so nobody relies on them.
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

/// Name of the directory of the checkpoint of `step` while it is written or removed.
fn incomplete(step: u64) -> String {
    format!("{INCOMPLETE_PREFIX}{}", name_of(step))
}

/// Removes the half-written checkpoint of `step`, unless it may contain a user's files. Nobody is
/// writing it, as the run has the lock of the directory.
fn remove_own(directory: &dyn Disk, marks: &Marks, step: u64) -> Result<()> {
    let path = directory.path().join(incomplete(step));
    let inside = directory.directory(&path)?;
    // A kill between creating and marking it leaves it bare.
    if marks.hold(&*inside, step)? || directory_mark::is_bare(&*inside)? {
        directory_mark::remove_marked(directory, &path)?;
        info!(path = %path.display(), "incomplete checkpoint removed");
    }
    Ok(())
}

/// Frees the name under which the checkpoint of `step` is written or removed. An entry that may be
/// a user's is set aside; returns its new directory.
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

/// A `set-aside` name that is still free.
fn free_aside(directory: &dyn Disk) -> Result<String> {
    let mut number = 1;
    while directory.exists(&format!("{ASIDE_PREFIX}{number}"))? {
        number += 1;
    }
    Ok(format!("{ASIDE_PREFIX}{number}"))
}

/// Sets all checkpoints aside, oldest first, so that the newest one remains the newest if this is
/// interrupted. Moves none if any is being read.
fn set_aside(directory: &dyn Disk) -> Result<()> {
    let found = list(directory)?;
    for (_, path) in &found {
        claim(directory, path)?;
    }
    let aside = free_aside(directory)?;
    let (path, count) = (directory.path().display(), found.len());
    info!(directory = %path, count, aside, "checkpoints set aside");
    for (step, path) in found {
        // The checkpoint may be read since the first check.
        let _claim = claim(directory, &path)?;
        let name = name_of(step);
        directory.rename(&name, &format!("{aside}/{name}"))?;
    }
    Ok(())
}

/// Whether `directory` is a directory of checkpoints that were set aside, and still contains some.
///
/// # Errors
/// If the directory cannot be read.
pub fn is_set_aside(directory: &dyn Disk) -> Result<bool> {
    let name = directory.path().file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix(ASIDE_PREFIX)?.parse::<u64>().ok());
    Ok(number.is_some() && directory.entries()?.iter().any(|(name, _)| step_of(name).is_some()))
}

/// Removes the checkpoints in a directory of checkpoints that were set aside; returns those that
/// stay, as they are copies or no run made them.
///
/// # Errors
/// If a checkpoint is being read, or on errors of the disk.
pub fn purge(directory: &dyn Disk) -> Result<Vec<PathBuf>> {
    let mut stay = Vec::new();
    // The checkpoints' marks refer to the directory that they were moved from.
    let above = directory.path().parent().filter(|above| !above.as_os_str().is_empty());
    let marks = Marks::of(&*directory.directory(above.unwrap_or(Path::new(".")))?)?;
    for (name, kind) in directory.entries()? {
        let path = directory.path().join(&name);
        let step = step_of(&name).filter(|_| kind == EntryKind::Directory);
        let is_own = step.map(|step| marks.hold(&*directory.directory(&path)?, step));
        if is_own.transpose()?.unwrap_or(false) {
            let _claim = claim(directory, &path)?;
            directory_mark::remove_marked(directory, &path)?;
        } else {
            stay.push(path);
        }
    }
    Ok(stay)
}

/// The right to move the checkpoint in `path`.
fn claim(directory: &dyn Disk, path: &Path) -> Result<Claim> {
    let why = "is being read, so it cannot be moved or removed: wait for that to end, or choose \
               another directory";
    let refused = || Error::Checkpoint { path: path.to_owned(), why: why.to_owned() };
    Claim::lay(&*directory.directory(path)?).ok_or_else(refused)
}

#[cfg(test)]
mod tests;
