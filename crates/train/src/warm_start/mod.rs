//! Warm starts: a run that begins with the model of a checkpoint and trains on other data.
//!
//! ```text
//!   --from X ─► what of the data did X train? ─┬─ nothing ──► Begin: X's model, the data's start
//!                                              ├─ a part ───► Resume, with the bits of one run
//!                                              └─ all ──────► Nothing
//! ```
//!
//! - **Why.** A CTR model is trained on each day's data as it arrives. The daily command is one
//!   line of cron, and may run twice, or again after a kill.
//! - **How.** A checkpoint records the data that its run and earlier runs trained to the end, by
//!   length and by a fingerprint of both ends, and its position in the current data ([`RunState`]).
//!   Rows with unchanged layout are linked, others are rewritten (`inherit.rs`); dense parameters
//!   are matched by name and by the meaning of their axes (`axes.rs`).
//! - **Invariants.** With the checkpoint's settings, without a shuffle (or if the earlier data ends
//!   with a window) and with whole mini-batches, the model is that of one run over all data, bit
//!   for bit: steps, histories, admission and stale versions continue.

mod axes;
mod columns;
mod data;
mod inherit;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use stepwell_data::{Layout, resolve};
use stepwell_disk::FileDisk;
use stepwell_engine::{Checkpoint, list};

use self::data::{Begun, Found, alike, changed_in_the_middle, recordless, shortened};
pub(crate) use self::inherit::{GroupOrigin, Inheritance};
use crate::batch::RunPosition;
use crate::data_file::{DataFile, identify};
use crate::resume::{Began, RunState};
use crate::{Error, Result};

/// The model and the data position that a warm start begins with.
#[derive(Debug)]
pub struct WarmStart {
    /// The checkpoint, until its model is taken over; its lease keeps it from being removed.
    checkpoint: Mutex<Option<Arc<Checkpoint>>>,
    /// Where reading begins: the start of the data, or the place where the checkpoint's run stopped
    /// in the same data.
    pub position: RunPosition,
    /// Data that earlier runs trained to the end, oldest first.
    pub earlier: Vec<DataFile>,
    /// Whether files after [`WarmStart::position`] differ from those of the checkpoint's run.
    pub(crate) is_changed: bool,
}

/// Each clone holds the checkpoint until it is released.
impl Clone for WarmStart {
    fn clone(&self) -> Self {
        let checkpoint = Mutex::new(self.held().clone());
        let Self { position, is_changed, .. } = *self;
        Self { checkpoint, position, earlier: self.earlier.clone(), is_changed }
    }
}

impl WarmStart {
    fn new(checkpoint: Checkpoint, position: RunPosition, earlier: Vec<DataFile>) -> Self {
        let checkpoint = Mutex::new(Some(Arc::new(checkpoint)));
        Self { checkpoint, position, earlier, is_changed: false }
    }

    fn held(&self) -> MutexGuard<'_, Option<Arc<Checkpoint>>> {
        self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The checkpoint; `None` once its model is taken over.
    pub fn checkpoint(&self) -> Option<Arc<Checkpoint>> {
        self.held().clone()
    }

    /// Drops the checkpoint, and its lease.
    pub(crate) fn release(&self) {
        *self.held() = None;
    }

    /// Whether the run continues within the data that the checkpoint's run read.
    pub fn goes_on(&self) -> bool {
        !self.position.is_at_start()
    }

    /// The warm start as text for ranks in other processes, without earlier data, which only rank 0
    /// needs.
    pub fn to_text(&self) -> String {
        let path = self.held().as_ref().map(|of| of.path.to_string_lossy().into_owned());
        json!({ "path": path, "position": self.position.to_json(), "changed": self.is_changed })
            .to_string()
    }

    /// Reads the result of [`WarmStart::to_text`].
    ///
    /// # Errors
    /// If the checkpoint is not found here, or the text is not such a result.
    pub fn from_text(text: &str) -> Result<Self> {
        let wrong = || Error::Config("rank 0 does not describe the model to start from".to_owned());
        let value: Value = serde_json::from_str(text).map_err(|_| wrong())?;
        let path = value["path"].as_str().ok_or_else(wrong)?;
        let position = serde_json::from_value(value["position"].clone()).map_err(|_| wrong())?;
        let start = Self::new(Checkpoint::open(Path::new(path))?, position, Vec::new());
        Ok(Self { is_changed: value["changed"] == true, ..start })
    }

    /// The record of this run's beginning in its checkpoints.
    pub(crate) fn began(&self) -> Result<Option<Began>> {
        let began =
            |of: &Arc<Checkpoint>| Ok(Began { step: of.step, job: RunState::read(of)?.job });
        self.held().as_ref().map(began).transpose()
    }
}

/// Arguments of a warm start.
#[derive(Clone, Copy, Debug)]
pub struct WarmRequest<'a> {
    /// The checkpoint, or a directory whose newest checkpoint is used.
    pub from: &'a Path,
    /// Directory of the run's checkpoints.
    pub to: Option<&'a Path>,
    /// The data, as patterns.
    pub paths: &'a [String],
    /// Columns of the data; `None` if its lines are in the plain layout.
    pub layout: Option<&'a Arc<Layout>>,
    /// Whether to train data again that was trained before.
    pub again: bool,
    /// Whether to set aside existing checkpoints in `to`.
    pub sets_aside: bool,
}

/// Course of a run that begins from a checkpoint.
#[derive(Debug)]
pub enum Course {
    /// Begin with the model of the checkpoint.
    Begin(Box<WarmStart>),
    /// Resume the newest checkpoint in the run's own directory.
    Resume,
    /// Do nothing: all of the data was trained before.
    Nothing,
}

/// How to train the rest of data on which training ended early.
fn early_note(state: &RunState) -> Option<String> {
    state.ended_early().then(|| {
        "training on it ended early: --resume without --from, with a larger train.patience, \
         trains the rest"
            .to_owned()
    })
}

/// A course with its details.
#[derive(Debug)]
pub struct WarmPlan {
    /// Course of the run.
    pub course: Course,
    /// The files left to train, in order.
    pub paths: Vec<PathBuf>,
    /// Whether checkpoints go to the directory of the one to begin with.
    pub same_place: bool,
    /// Settings of the run to continue, if any.
    pub goes_on_as: Option<Value>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl WarmRequest<'_> {
    /// Decides how to use the model of `checkpoint`, which was opened at [`WarmRequest::from`].
    ///
    /// # Errors
    /// Data that changed since it was trained; a run that stopped partway through other data; a
    /// directory with checkpoints of another run; and unreadable files.
    pub fn plan(&self, checkpoint: Checkpoint) -> Result<WarmPlan> {
        let state = RunState::read(&checkpoint)?;
        let files = resolve(self.paths)?;
        let known = identify(&files, self.layout)?;
        let found: Vec<Found> = files.into_iter().zip(known).collect();
        let mut notes = Vec::new();
        let ended = checkpoint.ended || state.earlier.is_none();
        if state.earlier.is_none() {
            notes.push(format!(
                "{} was written by an earlier build, which did not record whether its run ended: \
                 its data counts as trained",
                checkpoint.path.display()
            ));
        }
        notes.extend(recordless(&found));
        let of_run = || state.files.iter().filter(|file| !file.empty).cloned();
        let mut earlier = state.earlier.clone().unwrap_or_default();
        earlier.extend(of_run().filter(|_| ended));
        let mut left = self.left(&found, &earlier, &mut notes)?;
        // The data of a stopped run comes first.
        let is_stopped = !ended && !left.is_empty();
        let begun = if is_stopped { Begun::of(&state, &found, &left) } else { None };
        let (in_the_middle, is_changed) =
            (begun.is_some(), begun.as_ref().is_some_and(|b| b.is_changed));
        let stopped_at = begun.as_ref().map(|begun| begun.position);
        if let Some(Begun { files, later, .. }) = begun {
            let later: Vec<String> = later.into_iter().map(|(_, file)| file.name).collect();
            if !later.is_empty() {
                notes.push(format!(
                    "the stopped run is finished first; run the command again for {}",
                    shortened(&later)
                ));
            }
            if is_changed {
                notes.push(format!(
                    "files have changed since the run was stopped {}; the changed parts were not \
                     trained yet, so it continues with the files as they are now",
                    place(&state)
                ));
            }
            left = files;
        } else if is_stopped {
            if !self.leaves_the_rest(&checkpoint, &state, &mut notes) {
                return Err(stands_in_the_middle(&checkpoint, &state, &found));
            }
            earlier.extend(of_run());
            left = self.left(&found, &earlier, &mut notes)?;
        }
        let same_place = self.same_place(&checkpoint);
        let (paths, left): (Vec<PathBuf>, Vec<DataFile>) = left.into_iter().unzip();
        let plan = |course, goes_on_as| WarmPlan { course, paths, same_place, goes_on_as, notes };
        if left.is_empty() {
            let mut nothing = plan(Course::Nothing, None);
            nothing.notes.extend(early_note(&state));
            return Ok(nothing);
        }
        let began = Began { step: checkpoint.step, job: state.job.clone() };
        match self.newest_there(same_place.then_some(checkpoint.step))? {
            Some(there) => {
                let (course, settings) = self.course_of(&there, &began, &left)?;
                return Ok(plan(course, Some(settings)));
            }
            None if same_place && in_the_middle && !is_changed => {
                return Ok(plan(Course::Resume, Some(state.config)));
            }
            None => {}
        }
        let position = stopped_at.unwrap_or_else(|| state.position.next_start());
        let start = WarmStart { is_changed, ..WarmStart::new(checkpoint, position, earlier) };
        Ok(plan(Course::Begin(Box::new(start)), in_the_middle.then_some(state.config)))
    }

    /// The files that were not yet trained.
    fn left(
        &self,
        found: &[Found],
        trained: &[DataFile],
        notes: &mut Vec<String>,
    ) -> Result<Vec<Found>> {
        // A file without records is trained once it has some. If no file has any, the run reports
        // it.
        let none = found.iter().all(|(_, file)| file.empty);
        let all = found.iter().filter(|(_, file)| none || !file.empty).cloned();
        if self.again {
            return Ok(all.collect());
        }
        let (mut left, mut skipped) = (Vec::new(), Vec::new());
        for (path, file) in all {
            let in_this_run = left.iter().map(|(_, file): &Found| file);
            match trained.iter().chain(in_this_run).find(|of| of.is_content_of(&file)) {
                Some(before) if before.name == file.name => skipped.push(file.name),
                Some(before) => skipped.push(format!("{} (as {})", file.name, before.name)),
                None => {
                    file.refuse_changed(trained)?;
                    left.push((path, file));
                }
            }
        }
        if !skipped.is_empty() && !left.is_empty() {
            let (count, of) = (skipped.len(), found.len());
            notes.push(format!(
                "{count} of {of} files were trained before and are skipped: {}; --again trains on \
                 them again",
                shortened(&skipped)
            ));
        }
        Ok(left)
    }

    /// Whether the run's checkpoints go to the directory of `checkpoint`.
    fn same_place(&self, checkpoint: &Checkpoint) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        let to = self.to.and_then(real);
        to.is_some() && checkpoint.path.parent().and_then(real) == to
    }

    /// Newest checkpoint in the run's directory, later than step `after` if that is given.
    fn newest_there(&self, after: Option<u64>) -> Result<Option<Checkpoint>> {
        let Some(to) = self.to.filter(|to| !self.sets_aside && to.is_dir()) else {
            return Ok(None);
        };
        let disk = FileDisk::open(to).map_err(stepwell_engine::Error::from)?;
        let newest = list(&disk)?.pop().filter(|(step, _)| after.is_none_or(|after| *step > after));
        Ok(newest.map(|(_, path)| Checkpoint::open(&path)).transpose()?)
    }

    /// Course of a repeated command whose first run wrote `there`, and that run's settings.
    fn course_of(
        &self,
        there: &Checkpoint,
        began: &Began,
        left: &[DataFile],
    ) -> Result<(Course, Value)> {
        let state = RunState::read(there)?;
        if state.began.as_ref() == Some(began) && alike(left, &state.files) {
            match there.ended {
                false => return Ok((Course::Resume, state.config)),
                true if !self.again => return Ok((Course::Nothing, state.config)),
                true => {}
            }
        }
        let to = self.to.unwrap_or(&there.path).display();
        Err(Error::Config(format!(
            "checkpoint.dir = {to} holds checkpoints of another run (the last at step {}): \
             continue from them with --from {to}, set them aside with --force, or choose another \
             directory",
            there.step
        )))
    }

    /// Whether to leave out data that the checkpoint's run did not reach: because it is unknown, or
    /// because the checkpoint itself was named.
    fn leaves_the_rest(
        &self,
        checkpoint: &Checkpoint,
        state: &RunState,
        notes: &mut Vec<String>,
    ) -> bool {
        let is_named = self.from.canonicalize().ok() == checkpoint.path.canonicalize().ok();
        let is_unknown = state.files.iter().all(|file| file.ends.is_empty());
        if is_named || is_unknown {
            notes.push(format!(
                "{} stopped {}: this run does not train the data after that",
                checkpoint.path.display(),
                place(state)
            ));
        }
        is_named || is_unknown
    }
}

fn place(state: &RunState) -> String {
    let file = state.files.get(state.position.file as usize);
    let name = file.map_or("its data", |file| &*file.name);
    format!("after line {} of {name}", state.position.line)
}

fn stands_in_the_middle(checkpoint: &Checkpoint, state: &RunState, found: &[Found]) -> Error {
    let path = checkpoint.path.display();
    if changed_in_the_middle(state, found) {
        return Error::Config(format!(
            "{path} stopped {}, which has changed since: restore the file, or give {path} itself \
             to --from, together with --again, to train on all of the data as it is now",
            place(state)
        ));
    }
    Error::Config(format!(
        "{path} stopped {}: train the rest first, with the command that trained it, or give {path} \
         itself to --from to skip the rest",
        place(state)
    ))
}
