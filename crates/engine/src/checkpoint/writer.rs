//! Writes checkpoints: everything into a directory without a valid name, synced, then renamed.

use std::fmt;
use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use stepwell_base::owner::KEY_SHARD_NAME;
use stepwell_base::{KEY_HASH_NAME, hash, random};
use stepwell_disk::Disk;
use stepwell_ssd::MANIFEST_NAME;
use tracing::{debug, info, warn};

use super::best::{self, Figure};
use super::directory_mark::{self, Claim, Marks};
use super::keep::{Keep, KeptPart, ModelPart, WholeModel};
use super::names::{dense_of_rank, rows_name, rows_of_rank};
use super::reader::Checkpoint;
use super::sums::{self, Sum};
use super::{
    DENSE_FILE, FORMAT_VERSION, FORMAT_VERSION_ALONE, META_FILE, SUMS_FILE, ended_mark, files,
    incomplete, list, make_way, name_of, put_aside, table_meaning,
};
use crate::dense::{DenseView, pieces};
use crate::table_spec::SALT_NAME;
use crate::{Error, Result};

/// Writes the checkpoints of one run into one directory and keeps the newest ones.
#[derive(Debug)]
pub struct CheckpointWriter {
    directory: Arc<dyn Disk>,
    keep: usize,
    /// Steps of this run's checkpoints, oldest first; no others are ever removed.
    written: Vec<u64>,
    /// The directory of a checkpoint in progress, before its rename.
    building: Option<PathBuf>,
    note: Note,
}

/// Receives one-line messages for the user.
#[derive(Clone)]
struct Note(Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Note")
    }
}

impl CheckpointWriter {
    /// Writes checkpoints to `directory`, which was prepared, and keeps the newest `keep` of them.
    pub fn new(directory: Arc<dyn Disk>, keep: usize) -> Self {
        let note = Note(Arc::new(|_| {}));
        Self { directory, keep: keep.max(1), written: Vec::new(), building: None, note }
    }

    /// Continues a run whose checkpoints are in `directory`: they count among those to keep, except
    /// copies.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn resume(directory: Arc<dyn Disk>, keep: usize) -> Result<Self> {
        let marks = Marks::of(&*directory)?;
        let mut written = Vec::new();
        for (step, path) in list(&*directory)? {
            if marks.hold(&*directory.directory(&path)?, step)? {
                written.push(step);
            }
        }
        let mut writer = Self::new(directory, keep);
        writer.written = written;
        Ok(writer)
    }

    /// Reports to `note` what it sets aside and what it cannot remove.
    pub fn telling(mut self, note: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        self.note = Note(note);
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Removes all but the newest checkpoints and the best one of the run with this state. A
    /// checkpoint that cannot be removed stays and doesn't count any more.
    fn drop_old(&mut self, run: &Value) {
        let known = Marks::of(&*self.directory)
            .and_then(|marks| Ok((marks, best::of_run(&*self.directory, run)?)));
        let (marks, best) = match known {
            Ok((marks, best)) => (marks, best.map(|best| best.step)),
            Err(error) => return self.tell(&format!("cannot remove old checkpoints: {error}")),
        };
        if self.written.len() <= self.keep {
            return;
        }
        // Checkpoints may have been moved away or replaced by other entries.
        let is_there = |step: &u64| {
            let path = self.directory.path().join(name_of(*step));
            match self.directory.directory(&path) {
                Ok(inside) => marks.hold(&*inside, *step).unwrap_or(true),
                Err(error) => !matches!(error.kind(), NotFound | NotADirectory),
            }
        };
        self.written.retain(is_there);
        let others: Vec<u64> =
            self.written.iter().copied().filter(|step| Some(*step) != best).collect();
        let many = others.len().saturating_sub(self.keep);
        for step in others.into_iter().take(many) {
            let removed = self.remove(&marks, step);
            if let Err(error) = &removed {
                let path = self.path(&name_of(step));
                self.tell(&format!("cannot remove {}, which stays: {error}", path.display()));
            }
            // A checkpoint that is being read is removed after a later one is written.
            if !matches!(removed, Ok(false)) {
                self.written.retain(|written| *written != step);
            }
        }
    }

    /// Removes the checkpoint of `step`; `false` if it is being read.
    fn remove(&self, marks: &Marks, step: u64) -> Result<bool> {
        let (directory, name) = (&*self.directory, name_of(step));
        let Some(_claim) = Claim::lay(&*directory.directory(&self.path(&name))?) else {
            return Ok(false);
        };
        self.make_way(marks, step)?;
        // Renamed first, so that a kill half-way leaves no damaged checkpoint with a name.
        directory.rename(&name, &incomplete(step))?;
        directory_mark::remove_marked(directory, &self.path(&incomplete(step)))?;
        debug!(step, "old checkpoint removed");
        Ok(true)
    }

    /// Frees the name under which the checkpoint of `step` is written or removed.
    fn make_way(&self, marks: &Marks, step: u64) -> Result<()> {
        if let Some(aside) = make_way(&*self.directory, marks, step)? {
            let why = "no known run created it here";
            self.tell_aside(&self.path(&incomplete(step)), why, &aside);
        }
        Ok(())
    }

    /// Refuses to replace a checkpoint of `step` that somebody is reading.
    fn refuse_taken(&self, step: u64) -> Result<()> {
        let path = self.path(&name_of(step));
        match self.directory.directory(&path).map(|inside| Claim::lay(&*inside)) {
            Ok(None) => Err(taken(path, "is being read")),
            _ => Ok(()),
        }
    }

    /// Frees the name of the checkpoint of `step`, unless somebody is reading the entry there.
    fn make_way_for_name(&self, step: u64) -> Result<()> {
        let (directory, name) = (&*self.directory, name_of(step));
        if !directory.exists(&name)? {
            return Ok(());
        }
        let path = self.path(&name);
        let inside = directory.directory(&path).ok();
        let _claim = match inside.map(|inside| Claim::lay(&*inside)) {
            Some(None) => return Err(taken(path, "is being read")),
            claim => claim,
        };
        let aside = put_aside(directory, &name);
        let aside = aside.map_err(|error| taken(path.clone(), &format!("stays: {error}")))?;
        self.tell_aside(&path, "is not a complete checkpoint of this run", &aside);
        Ok(())
    }

    fn tell_aside(&self, path: &Path, why: &str, aside: &Path) {
        let (path, aside) = (path.display(), aside.display());
        self.tell(&format!(
            "{path} was in the way of a checkpoint, and {why}: it was set aside into {aside}"
        ));
    }

    fn tell(&self, note: &str) {
        warn!("{note}");
        (self.note.0)(note);
    }

    /// Removes the checkpoint in progress, to free its space. If that fails, the next run removes
    /// it.
    fn give_up(&mut self) {
        if let Some(building) = self.building.take() {
            warn!(path = %building.display(), "checkpoint given up");
            let _ = directory_mark::remove_marked(&*self.directory, &building);
        }
    }

    /// Whether the entry is the checkpoint that this run resumed from or has just written.
    fn is_written(&self, name: &str, step: u64, run: &Value) -> Result<bool> {
        if !self.directory.exists(name)? {
            return Ok(false);
        }
        let opened = self.directory.directory(&self.path(name)).map_err(Error::from);
        match opened.and_then(|disk| Checkpoint::open_in(&*disk)) {
            Ok(found) => Ok(found.step == step && found.run["job"] == run["job"]),
            // A read error says nothing about whose checkpoint it is.
            Err(Error::Disk(error))
                if !matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) =>
            {
                Err(error.into())
            }
            Err(_) => Ok(false),
        }
    }
}

impl Keep for CheckpointWriter {
    fn begin(&mut self, step: u64, run: &Value) -> Result<Option<PathBuf>> {
        let name = name_of(step);
        if self.is_written(&name, step, run)? {
            return Ok(Some(self.path(&name)));
        }
        // Fails here, before anything is written. Another run's checkpoint stays until this one is
        // complete, because this run may begin with it.
        self.refuse_taken(step)?;
        let marks = Marks::to_write(&*self.directory)?;
        self.make_way(&marks, step)?;
        let building = self.path(&incomplete(step));
        self.directory.make_directory(&building)?;
        self.building = Some(building.clone());
        let marked = self.directory.directory(&building).map_err(Error::from);
        let marked = marked.and_then(|inside| marks.mark(&*inside, step));
        marked.inspect_err(|_| self.give_up())?;
        info!(step, directory = %self.directory.path().display(), "checkpoint begun");
        Ok(None)
    }

    fn keep(&mut self, part: &ModelPart<'_>) -> Result<KeptPart> {
        let building = self.path(&incomplete(part.step));
        let opened = self.directory.directory(&building);
        let opened = opened.map_err(|error| match part.of.rank {
            0 => error.into(),
            rank => Error::Checkpoint {
                path: building,
                why: format!(
                    "was created by rank 0, but rank {rank} does not find it ({error}); \
                     checkpoint.dir must be one directory for all ranks"
                ),
            },
        });
        let kept = opened.and_then(|building| write_part(&*building, part));
        kept.inspect_err(|_| self.give_up())
    }

    fn end(&mut self, whole: &WholeModel<'_>, parts: &[KeptPart]) -> Result<PathBuf> {
        let name = name_of(whole.step);
        let building = self.directory.directory(&self.path(&incomplete(whole.step)));
        let written = building.map_err(Error::from).and_then(|building| {
            write_whole(&*building, whole, parts)?;
            self.make_way_for_name(whole.step)?;
            Ok(self.directory.rename(&incomplete(whole.step), &name)?)
        });
        written.inspect_err(|_| self.give_up())?;
        self.building = None;
        info!(step = whole.step, path = %self.path(&name).display(), "checkpoint committed");
        self.written.push(whole.step);
        self.drop_old(whole.run);
        Ok(self.path(&name))
    }

    fn ended(&mut self, kept: &Path, step: u64, run: &Value) -> Result<()> {
        ended_mark::write(&*self.directory.directory(kept)?, step, run)
    }

    fn note_figure(&mut self, step: u64, figure: &Figure, run: &Value) -> Result<()> {
        if best::note(&*self.directory, step, figure, run)? {
            self.drop_old(run);
        }
        Ok(())
    }
}

/// Removes the checkpoint in progress if another rank failed.
impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Error for a foreign entry that has a checkpoint's name and can't be moved.
fn taken(path: PathBuf, why: &str) -> Error {
    let is_other = "has the name of a new checkpoint of this run, does not belong to the run";
    Error::Checkpoint { path, why: format!("{is_other}, and {why}; move it away") }
}

/// Writes one rank's part.
fn write_part(building: &dyn Disk, part: &ModelPart<'_>) -> Result<KeptPart> {
    let (mut kept, mut rows_kept, mut bytes) = (KeptPart::default(), 0, 0);
    for (number, group) in part.groups.iter().enumerate() {
        let name = rows_of_rank(number, part.of);
        let rows = building.path().join(&name);
        building.make_directory(&rows)?;
        let snapshot = group.snapshot(&rows)?;
        rows_kept += snapshot.rows;
        bytes += snapshot.segments.iter().map(|segment| segment.bytes).sum::<u64>();
        let manifest = files::read(&*building.directory(&rows)?, MANIFEST_NAME)?;
        kept.list(format!("{name}/{MANIFEST_NAME}"), Sum::of(&manifest));
    }
    if !part.past.sections.is_empty() {
        let name = dense_of_rank(part.of.rank);
        kept.list(name.clone(), write_dense(building, &name, &part.past.view())?);
        let sections = part.past.sections.iter();
        kept.past = sections.map(|(name, values)| (name.clone(), values.len())).collect();
    }
    if part.of.ranks > 1 {
        // Rank 0 may be on another machine.
        building.sync_directory()?;
    }
    info!(
        step = part.step,
        rank = part.of.rank,
        rows = rows_kept,
        bytes,
        "rows of a checkpoint kept"
    );
    Ok(kept)
}

impl KeptPart {
    fn list(&mut self, name: String, Sum { checksum, bytes }: Sum) {
        self.files.push((name, checksum, bytes));
    }
}

/// Writes the part that is the same on all ranks, and the list that covers all parts; syncs
/// everything but the directory's name.
fn write_whole(building: &dyn Disk, whole: &WholeModel<'_>, parts: &[KeptPart]) -> Result<()> {
    let WholeModel { step, run, dense, .. } = *whole;
    let meta = meta(whole, parts).map_err(|why| Error::Checkpoint {
        path: building.path().to_owned(),
        why: format!("{why}; it cannot be written"),
    })?;
    let meta = format!("{meta:#}\n").into_bytes();
    files::write_synced(building, META_FILE, &meta)?;
    let files = parts.iter().flat_map(|part| &part.files);
    let mut listed: Vec<(String, Sum)> = files
        .map(|(name, checksum, bytes)| (name.clone(), Sum { checksum: *checksum, bytes: *bytes }))
        .collect();
    listed.push((META_FILE.to_owned(), Sum::of(&meta)));
    listed.push((DENSE_FILE.to_owned(), write_dense(building, DENSE_FILE, dense)?));
    let job = run["job"].as_str().unwrap_or("unnamed");
    let list = sums::encode(version_of(parts), step, job, &listed);
    files::write_synced(building, SUMS_FILE, list.as_bytes())?;
    Ok(building.sync_directory()?)
}

/// Writes dense sections and syncs them.
fn write_dense(building: &dyn Disk, name: &str, dense: &DenseView<'_>) -> Result<Sum> {
    let (mut values, mut bytes) = (hash::Checksum::new(), 0);
    let sections = dense.sections.iter().flat_map(|(_, values)| pieces(values));
    let summed = sections.inspect(|piece| {
        values.update(piece.bytes());
        bytes += piece.bytes().len() as u64;
    });
    files::write_pieces_synced(building, name, summed)?;
    Ok(Sum { checksum: values.value(), bytes })
}

fn version_of(parts: &[KeptPart]) -> u64 {
    if parts.len() > 1 { FORMAT_VERSION } else { FORMAT_VERSION_ALONE }
}

fn meta(whole: &WholeModel<'_>, parts: &[KeptPart]) -> std::result::Result<Value, String> {
    let mut tables = Vec::new();
    for (number, group) in whole.groups.iter().enumerate() {
        for (member, spec) in group.members().iter().zip(group.tables()) {
            tables.push((*member, table_meaning::to_json(spec, &rows_name(number))?));
        }
    }
    // In the model's order, independent of their stores.
    tables.sort_by_key(|(member, _)| *member);
    let tables: Vec<Value> = tables.into_iter().map(|(_, table)| table).collect();
    let section = |name: &str, count: usize| json!({ "name": name, "count": count });
    let dense = whole.dense.sections.iter();
    let dense: Vec<Value> = dense.map(|(name, values)| section(name, values.len())).collect();
    let mut meta = json!({
        "format": "stepwell checkpoint",
        "version": version_of(parts),
        "step": whole.step,
        "key_hash": KEY_HASH_NAME,
        "checksum": hash::CHECKSUM_NAME,
        "initial_values": random::initializer_name(),
        "table_salt": SALT_NAME,
        "tables": tables,
        "dense": dense,
        "run": whole.run,
    });
    if parts.len() > 1 {
        let past = |part: &KeptPart| -> Value {
            part.past.iter().map(|(name, count)| section(name, *count)).collect()
        };
        meta["ranks"] = parts.iter().map(|part| json!({ "dense": past(part) })).collect();
        meta["owner"] = KEY_SHARD_NAME.into();
    }
    Ok(meta)
}
