//! Writing a checkpoint: everything into a directory without a valid name, synced, then renamed.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use stepwell_base::{KEY_HASH_NAME, hash, random};
use stepwell_disk::Disk;
use stepwell_ssd::MANIFEST_NAME;

use super::mark::Claim;
use super::sums::{self, Sum};
use super::{
    Checkpoint, DENSE_FILE, DenseView, FORMAT_VERSION, INCOMPLETE_PREFIX, Keep, META_FILE,
};
use super::{SUMS_FILE, files, list, mark, meaning, name_of, pieces};
use crate::table::SALT_NAME;
use crate::{Error, Group, Result};

const ROWS_PREFIX: &str = "rows-";

/// Writes the checkpoints of one run into one directory and keeps the newest few.
#[derive(Debug)]
pub struct CheckpointWriter {
    directory: Arc<dyn Disk>,
    keep: usize,
    /// Names of those of this run, oldest first; no others are ever removed.
    written: Vec<String>,
}

impl CheckpointWriter {
    /// Checkpoints go to `directory`, which was prepared; the newest `keep` of them stay.
    pub fn new(directory: Arc<dyn Disk>, keep: usize) -> Self {
        Self { directory, keep: keep.max(1), written: Vec::new() }
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
        Ok(Self { written, ..Self::new(directory, keep) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn drop_old(&mut self) -> Result<()> {
        let many = self.written.len().saturating_sub(self.keep);
        let mut doomed = Vec::new();
        for name in &self.written[..many] {
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
    fn write(
        &mut self,
        step: u64,
        run: &Value,
        dense: &DenseView<'_>,
        groups: &[Arc<Group>],
    ) -> Result<PathBuf> {
        let name = name_of(step);
        let target = self.path(&name);
        if self.directory.exists(&name)? {
            return self.written_before(target, step, run);
        }
        let building = self.path(&incomplete(&name));
        self.directory.make_directory(&building)?;
        let inside = self.directory.directory(&building).map_err(Error::from);
        let written = inside.and_then(|inside| write_all(&*inside, step, run, dense, groups));
        let written =
            written.and_then(|()| Ok(self.directory.rename(&incomplete(&name), &name)?));
        written.inspect_err(|_| {
            // A full disk gets its space back. What stays is removed by the next run.
            let _ = mark::remove_marked(&*self.directory, &building);
        })?;
        self.written.push(name);
        self.drop_old()?;
        Ok(target)
    }
}

impl CheckpointWriter {
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

/// Writes a checkpoint into an empty directory and syncs all of it but its name.
fn write_all(
    building: &dyn Disk,
    step: u64,
    run: &Value,
    dense: &DenseView<'_>,
    groups: &[Arc<Group>],
) -> Result<()> {
    mark::mark(building)?;
    write_parts(building, step, run, dense, groups)?;
    Ok(building.sync_directory()?)
}

fn write_parts(
    building: &dyn Disk,
    step: u64,
    run: &Value,
    dense: &DenseView<'_>,
    groups: &[Arc<Group>],
) -> Result<()> {
    let mut files_listed = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let rows = building.path().join(rows_name(number));
        building.make_directory(&rows)?;
        group.store.snapshot(&rows)?;
        let manifest = files::read(&*building.directory(&rows)?, MANIFEST_NAME)?;
        files_listed.push((format!("{}/{MANIFEST_NAME}", rows_name(number)), Sum::of(&manifest)));
    }
    let meta = meta(step, run, dense, groups).map_err(|why| Error::Checkpoint {
        path: building.path().to_owned(),
        why: format!("{why}; it cannot be written"),
    })?;
    let meta = format!("{meta:#}\n").into_bytes();
    files::write_synced(building, META_FILE, &meta)?;
    files_listed.push((META_FILE.to_owned(), Sum::of(&meta)));
    let (mut values, mut bytes) = (hash::Checksum::new(), 0);
    let sections = dense.sections.iter().flat_map(|(_, values)| pieces(values));
    let summed = sections.inspect(|piece| {
        values.update(piece.bytes());
        bytes += piece.bytes().len() as u64;
    });
    files::write_pieces_synced(building, DENSE_FILE, summed)?;
    files_listed.push((DENSE_FILE.to_owned(), Sum { checksum: values.value(), bytes }));
    let job = run["job"].as_str().unwrap_or("unnamed");
    let list = sums::encode(step, job, &files_listed);
    files::write_synced(building, SUMS_FILE, list.as_bytes())
}

fn meta(
    step: u64,
    run: &Value,
    dense: &DenseView<'_>,
    groups: &[Arc<Group>],
) -> std::result::Result<Value, String> {
    let mut tables = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        for (member, spec) in group.members().iter().zip(group.tables()) {
            tables.push((*member, meaning::to_json(spec, &rows_name(number))?));
        }
    }
    // In the model's order, whichever store each lies in.
    tables.sort_by_key(|(member, _)| *member);
    let tables: Vec<Value> = tables.into_iter().map(|(_, table)| table).collect();
    let sections: Vec<Value> = dense
        .sections
        .iter()
        .map(|(name, values)| json!({ "name": name, "count": values.len() }))
        .collect();
    Ok(json!({
        "format": "stepwell checkpoint",
        "version": FORMAT_VERSION,
        "step": step,
        "key_hash": KEY_HASH_NAME,
        "checksum": hash::CHECKSUM_NAME,
        "initial_values": random::initializer_name(),
        "table_salt": SALT_NAME,
        "tables": tables,
        "dense": sections,
        "run": run,
    }))
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
