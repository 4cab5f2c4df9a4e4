//! Writing a checkpoint: everything into a directory without a valid name, synced, then renamed.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use stepwell_base::owner::KEY_SHARD_NAME;
use stepwell_base::{KEY_HASH_NAME, hash, random};
use stepwell_disk::Disk;
use stepwell_ssd::MANIFEST_NAME;

use super::mark::Claim;
use super::sums::{self, Sum};
use super::{
    Checkpoint, DENSE_FILE, DenseView, FORMAT_VERSION, FORMAT_VERSION_ALONE, Figure,
    INCOMPLETE_PREFIX, Keep, KeptPart, META_FILE, ModelPart, WholeModel,
};
use super::{SUMS_FILE, best, files, list, mark, meaning, name_of, pieces};
use crate::table::SALT_NAME;
use crate::{Error, Result};

const ROWS_PREFIX: &str = "rows-";

/// Writes the checkpoints of one run into one directory and keeps the newest few.
#[derive(Debug)]
pub struct CheckpointWriter {
    directory: Arc<dyn Disk>,
    keep: usize,
    /// Names of those of this run, oldest first; no others are ever removed.
    written: Vec<String>,
    /// The directory that was begun and has no name yet.
    building: Option<PathBuf>,
}

impl CheckpointWriter {
    /// Checkpoints go to `directory`, which was prepared; the newest `keep` of them stay.
    pub fn new(directory: Arc<dyn Disk>, keep: usize) -> Self {
        Self { directory, keep: keep.max(1), written: Vec::new(), building: None }
    }

    /// Goes on with a run whose checkpoints lie in `directory`: they count among the newest few,
    /// but for those that somebody copied there.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn resume(directory: Arc<dyn Disk>, keep: usize) -> Result<Self> {
        let mut written = Vec::new();
        for (step, path) in list(&*directory)? {
            if mark::is_marked(&*directory.directory(&path)?)? {
                written.push(name_of(step));
            }
        }
        let mut writer = Self::new(directory, keep);
        writer.written = written;
        Ok(writer)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Removes the oldest, but for the best one that is known of the run with this state.
    fn drop_old(&mut self, run: &Value) -> Result<()> {
        let best = best::of_run(&*self.directory, run)?.map(|best| best.name());
        let others = self.written.iter().filter(|name| Some(*name) != best.as_ref());
        let many = others.clone().count().saturating_sub(self.keep);
        let mut doomed = Vec::new();
        for name in others.take(many) {
            // One that is being read goes when a later one is written.
            if let Some(claim) = Claim::lay(&*self.directory.directory(&self.path(name))?) {
                doomed.push((name.clone(), claim));
            }
        }
        self.written.retain(|name| !doomed.iter().any(|(doomed, _)| doomed == name));
        for (oldest, _claim) in doomed {
            // Renamed first, so that a kill half-way leaves no damaged checkpoint with a name.
            let doomed = incomplete(&oldest);
            self.directory.rename(&oldest, &doomed)?;
            mark::remove_marked(&*self.directory, &self.path(&doomed))?;
        }
        Ok(())
    }
}

/// What the directory of a checkpoint is called while it is written or removed.
fn incomplete(name: &str) -> String {
    format!("{INCOMPLETE_PREFIX}{name}")
}

impl Keep for CheckpointWriter {
    fn begin(&mut self, step: u64, run: &Value) -> Result<Option<PathBuf>> {
        let name = name_of(step);
        if self.directory.exists(&name)? {
            return self.written_before(self.path(&name), step, run).map(Some);
        }
        let building = self.path(&incomplete(&name));
        self.directory.make_directory(&building)?;
        self.building = Some(building.clone());
        let marked = self.directory.directory(&building).map_err(Error::from);
        let marked = marked.and_then(|inside| mark::mark(&*inside));
        marked.inspect_err(|_| self.give_up())?;
        Ok(None)
    }

    fn keep(&mut self, part: &ModelPart<'_>) -> Result<KeptPart> {
        let building = self.path(&incomplete(&name_of(part.step)));
        let opened = self.directory.directory(&building);
        let opened = opened.map_err(|error| match part.of.0 {
            0 => error.into(),
            rank => Error::Checkpoint {
                path: building,
                why: format!(
                    "was made by rank 0, and rank {rank} does not find it ({error}); \
                     checkpoint.dir must be one directory for all ranks"
                ),
            },
        });
        let kept = opened.and_then(|building| write_part(&*building, part));
        kept.inspect_err(|_| self.give_up())
    }

    fn end(&mut self, whole: &WholeModel<'_>, parts: &[KeptPart]) -> Result<PathBuf> {
        let name = name_of(whole.step);
        let building = self.directory.directory(&self.path(&incomplete(&name)));
        let written = building.map_err(Error::from).and_then(|building| {
            write_whole(&*building, whole, parts)?;
            Ok(self.directory.rename(&incomplete(&name), &name)?)
        });
        written.inspect_err(|_| self.give_up())?;
        self.building = None;
        let target = self.path(&name);
        self.written.push(name);
        self.drop_old(whole.run)?;
        Ok(target)
    }

    fn note_figure(&mut self, step: u64, figure: &Figure, run: &Value) -> Result<()> {
        if best::note(&*self.directory, (step, figure), run)? {
            self.drop_old(run)?;
        }
        Ok(())
    }
}

/// What was begun goes where another rank failed.
impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl CheckpointWriter {
    /// A full disk gets its space back. What stays is removed by the next run.
    fn give_up(&mut self) {
        if let Some(building) = self.building.take() {
            let _ = mark::remove_marked(&*self.directory, &building);
        }
    }

    /// The checkpoint that lies in `target` already, if it is this one: that which the run was
    /// resumed from, or has just written.
    fn written_before(&self, target: PathBuf, step: u64, run: &Value) -> Result<PathBuf> {
        let opened = self.directory.directory(&target).map_err(Error::from);
        let same = opened
            .and_then(|disk| Checkpoint::open_in(&*disk))
            .is_ok_and(|found| found.step == step && found.run["job"] == run["job"]);
        if same {
            return Ok(target);
        }
        Err(Error::Checkpoint {
            path: target,
            why: "lies where a checkpoint of this run is to be, and is none of it; move it away"
                .to_owned(),
        })
    }
}

/// Writes what one rank has.
fn write_part(building: &dyn Disk, part: &ModelPart<'_>) -> Result<KeptPart> {
    let mut kept = KeptPart::default();
    for (number, group) in part.groups.iter().enumerate() {
        let name = rows_of_rank(number, part.of);
        let rows = building.path().join(&name);
        building.make_directory(&rows)?;
        group.snapshot(&rows)?;
        let manifest = files::read(&*building.directory(&rows)?, MANIFEST_NAME)?;
        kept.list(format!("{name}/{MANIFEST_NAME}"), Sum::of(&manifest));
    }
    let (rank, ranks) = part.of;
    if !part.past.sections.is_empty() {
        let name = dense_of_rank(rank);
        kept.list(name.clone(), write_dense(building, &name, &part.past.view())?);
        let sections = part.past.sections.iter();
        kept.past = sections.map(|(name, values)| (name.clone(), values.len())).collect();
    }
    if ranks > 1 {
        // Who ends it may be on another machine.
        building.sync_directory()?;
    }
    Ok(kept)
}

impl KeptPart {
    fn list(&mut self, name: String, Sum { checksum, bytes }: Sum) {
        self.files.push((name, checksum, bytes));
    }
}

/// Writes what all ranks have alike and binds it to their parts; syncs all of it but its name.
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
            tables.push((*member, meaning::to_json(spec, &rows_name(number))?));
        }
    }
    // In the model's order, whichever store each lies in.
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

/// Directory of the rows that one of several ranks has of table group `group`.
pub(super) fn rows_of_rank(group: usize, (rank, ranks): (usize, usize)) -> String {
    if ranks == 1 { rows_name(group) } else { format!("{}-rank-{rank}", rows_name(group)) }
}

/// File of what a rank needs beside rows.
pub(super) fn dense_of_rank(rank: usize) -> String {
    format!("dense-{rank}.bin")
}

/// Directory of the rows of table group `group`.
pub(super) fn rows_name(group: usize) -> String {
    format!("{ROWS_PREFIX}{group}")
}

/// The table group that [`rows_name`] gave a directory.
pub(super) fn group_of(rows: &str) -> Option<usize> {
    let group = rows.strip_prefix(ROWS_PREFIX)?.parse().ok()?;
    (rows_name(group) == rows).then_some(group)
}
