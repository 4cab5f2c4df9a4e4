//! Places in the machine's file system, as named in settings.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use stepwell_disk::{Disk, FileDisk};
use stepwell_engine::{
    Checkpoint, CheckpointWriter, DirectoryLock, Error as EngineError, Figure, Keep, KeptPart,
    ModelPart, Placement, Scratch, SetAside, WholeModel, list, passed_over, prepare,
    refuse_checkpoint, refuse_store,
};
use stepwell_ssd::Error as StoreError;

use super::{Checkpoints, DiskRoom, OnNote, Places, RowPlaces};
use crate::run_plan::StoragePlan;
use crate::{Error, Result};

/// The machine's file system: `checkpoint.dir` and `tiers.ssd`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files;

impl Places for Files {
    fn checkpoints(
        &self,
        storage: &StoragePlan,
        placement: Placement,
    ) -> Result<Option<Box<dyn Checkpoints>>> {
        let Some(directory) = &storage.checkpoints.dir else {
            if matches!(placement, Placement::Resume | Placement::ResumeOrStart) {
                return Err(Error::Config(
                    "--resume needs a directory to resume from: give --checkpoint DIR".to_owned(),
                ));
            }
            return Ok(None);
        };
        refuse_checkpoint("checkpoint.dir", directory)?;
        refuse_store("checkpoint.dir", directory)?;
        if placement != Placement::Resume {
            FileDisk::create(directory).map_err(EngineError::from)?;
        } else if !directory.is_dir() {
            return Err(Error::Config(format!(
                "--resume: there is no directory {}; check its name, or start a run that can be \
                 resumed with --resume=auto",
                directory.display()
            )));
        }
        keep_apart(directory, named_rows(storage))?;
        let lock = DirectoryLock::take(directory)?;
        // Before any checkpoint is set aside.
        storage.rows.as_deref().map(Scratch::check).transpose()?;
        let disk = Arc::new(FileDisk::open(directory).map_err(EngineError::from)?);
        Ok(Some(Box::new(Directory { disk, lock: Some(lock), resumes: false })))
    }

    fn checkpoints_of_all(&self, storage: &StoragePlan) -> Result<Option<Box<dyn Checkpoints>>> {
        let Some(directory) = &storage.checkpoints.dir else { return Ok(None) };
        let disk = FileDisk::open(directory).map_err(|error| {
            Error::Config(format!(
                "checkpoint.dir = {} was opened by rank 0, but this rank cannot find it ({error}): \
                 choose a directory that all ranks share",
                directory.display()
            ))
        })?;
        Ok(Some(Box::new(Directory { disk: Arc::new(disk), lock: None, resumes: false })))
    }

    fn rows(
        &self,
        storage: &StoragePlan,
        placement: Placement,
    ) -> Result<(Box<dyn RowPlaces>, Option<String>)> {
        let scratch = Scratch::open(storage.rows.as_deref(), placement)?;
        let note = scratch.note().map(str::to_owned);
        Ok((Box::new(scratch), note))
    }

    fn room(&self, directory: &Path) -> Option<DiskRoom> {
        let there = directory.ancestors().find(|place| place.is_dir());
        // A bare name is in the current directory.
        let there = there.unwrap_or(Path::new("."));
        let free = FileDisk::open(there).ok()?.bytes_free().ok()?;
        Some(DiskRoom { free, file_system: there.metadata().ok()?.dev() })
    }

    fn clear_other_ranks(
        &self,
        storage: &StoragePlan,
        placement: Placement,
    ) -> Result<Vec<String>> {
        let Some(named) = named_rows(storage) else { return Ok(Vec::new()) };
        Ok(Scratch::clear_other_ranks(named, storage.ranks, placement)?)
    }
}

/// The directory named for rows; each of several ranks has a directory in it.
fn named_rows(storage: &StoragePlan) -> Option<&Path> {
    let own = storage.rows.as_deref()?;
    if storage.ranks > 1 { own.parent() } else { Some(own) }
}

/// Refuses the same directory for checkpoints and rows.
fn keep_apart(checkpoints: &Path, rows: Option<&Path>) -> Result<()> {
    let real = |path: &Path| path.canonicalize().ok();
    match rows {
        Some(rows) if real(rows).is_some_and(|rows| Some(rows) == real(checkpoints)) => {
            Err(Error::Config(format!(
                "checkpoint.dir and tiers.ssd are both {}: choose two directories",
                checkpoints.display()
            )))
        }
        _ => Ok(()),
    }
}

/// A directory of checkpoints.
struct Directory {
    disk: Arc<FileDisk>,
    /// Held by rank 0 for all ranks.
    lock: Option<DirectoryLock>,
    /// Whether the run resumes from one of its checkpoints.
    resumes: bool,
}

impl Checkpoints for Directory {
    fn newest(
        &mut self,
        placement: Placement,
        note: &dyn Fn(String),
    ) -> Result<Option<Checkpoint>> {
        let newest = prepare(&*self.disk, placement)?;
        for path in passed_over(&*self.disk)? {
            note(format!(
                "{} is not a complete checkpoint of that step and is ignored; it is set aside when \
                 one is written in its place",
                path.display()
            ));
        }
        if newest.is_none() && placement == Placement::ResumeOrStart {
            let directory = self.disk.path().display();
            note(format!("no checkpoint in {directory} yet: starting at step 0"));
        }
        self.resumes = newest.is_some() || placement == Placement::Append;
        Ok(newest.map(|path| Checkpoint::open(&path)).transpose()?)
    }

    fn newest_step(&self) -> Result<Option<u64>> {
        Ok(list(&*self.disk)?.pop().map(|(step, _)| step))
    }

    fn of_step(&mut self, step: u64) -> Result<Checkpoint> {
        let found = list(&*self.disk)?.into_iter().find(|(found, _)| *found == step);
        let (_, path) = found.ok_or_else(|| {
            Error::Config(format!(
                "checkpoint.dir = {}: rank 0 continues from a checkpoint of step {step}, but this \
                 rank cannot find it: choose a directory that all ranks share",
                self.disk.path().display()
            ))
        })?;
        Ok(Checkpoint::open(&path)?)
    }

    fn writer(self: Box<Self>, keep: usize, note: OnNote) -> Result<Option<Box<dyn Keep>>> {
        let Self { disk, lock, resumes } = *self;
        let writer = match resumes {
            true => CheckpointWriter::resume(disk, keep)?,
            false => CheckpointWriter::new(disk, keep),
        };
        Ok(Some(Box::new(Locked { writer: writer.telling(note), _lock: lock })))
    }
}

/// A writer that excludes other runs from its directory.
struct Locked {
    writer: CheckpointWriter,
    _lock: Option<DirectoryLock>,
}

impl Keep for Locked {
    fn begin(&mut self, step: u64, run: &Value) -> stepwell_engine::Result<Option<PathBuf>> {
        self.writer.begin(step, run)
    }

    fn keep(&mut self, part: &ModelPart<'_>) -> stepwell_engine::Result<KeptPart> {
        self.writer.keep(part)
    }

    fn end(
        &mut self,
        whole: &WholeModel<'_>,
        parts: &[KeptPart],
    ) -> stepwell_engine::Result<PathBuf> {
        self.writer.end(whole, parts)
    }

    fn ended(&mut self, kept: &Path, step: u64, run: &Value) -> stepwell_engine::Result<()> {
        self.writer.ended(kept, step, run)
    }

    fn note_figure(
        &mut self,
        step: u64,
        figure: &Figure,
        run: &Value,
    ) -> stepwell_engine::Result<()> {
        self.writer.note_figure(step, figure, run)
    }
}

impl RowPlaces for Scratch {
    fn directory(&self, number: usize) -> Result<Arc<dyn Disk>> {
        Ok(Arc::new(FileDisk::open(&self.rows(number)?).map_err(StoreError::from)?))
    }

    fn keep(&mut self) {
        Scratch::keep(self);
    }

    fn aside(&self) -> Vec<SetAside> {
        Scratch::aside(self)
    }
}
