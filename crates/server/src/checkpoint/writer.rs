//! Writing a checkpoint: everything into a directory without a valid name, synced, then renamed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use stepwell_base::{KEY_HASH_NAME, hash, random};
use stepwell_ssd::MANIFEST_NAME;

use super::sums::{self, Sum};
use super::{
    Checkpoint, DENSE_FILE, DenseView, FORMAT_VERSION, INCOMPLETE_PREFIX, Keep, META_FILE,
};
use super::{SUMS_FILE, files, list, mark, name_of, pieces};
use crate::{Error, Group, Result};

/// Writes the checkpoints of one run into one directory and keeps the newest few.
#[derive(Debug)]
pub struct CheckpointWriter {
    directory: PathBuf,
    keep: usize,
    /// Those of this run, oldest first; no others are ever removed.
    written: Vec<PathBuf>,
}

impl CheckpointWriter {
    /// Checkpoints go to `directory`, which was prepared; the newest `keep` of them stay.
    pub fn new(directory: PathBuf, keep: usize) -> Self {
        Self { directory, keep: keep.max(1), written: Vec::new() }
    }

    /// Goes on with a run whose checkpoints lie in `directory`: they count among the newest few,
    /// but for those that somebody copied there.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn resume(directory: PathBuf, keep: usize) -> Result<Self> {
        let made = list(&directory)?.into_iter().map(|(_, path)| path);
        let written = made.filter(|path| mark::is_marked(path)).collect();
        Ok(Self { written, ..Self::new(directory, keep) })
    }

    fn incomplete(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{INCOMPLETE_PREFIX}{name}"))
    }

    fn drop_old(&mut self) -> Result<()> {
        let many = self.written.len().saturating_sub(self.keep);
        // One that is being read goes when a later one is written.
        let free = |path: &&PathBuf| !mark::is_leased(path);
        let doomed: Vec<_> = self.written[..many].iter().filter(free).cloned().collect();
        self.written.retain(|path| !doomed.contains(path));
        for oldest in doomed {
            let Some(name) = oldest.file_name() else { continue };
            // Renamed first, so that a kill half-way leaves no damaged checkpoint with a name.
            let doomed = self.incomplete(&name.to_string_lossy());
            files::rename(&oldest, &doomed)?;
            files::remove_dir_all(&doomed)?;
        }
        Ok(())
    }
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
        let target = self.directory.join(&name);
        if target.exists() {
            return self.written_before(target, step, run);
        }
        let building = self.incomplete(&name);
        files::create_dir(&building)?;
        let written = mark::mark(&building)
            .and_then(|()| write_parts(&building, step, run, dense, groups))
            .and_then(|()| files::sync_dir(&building))
            .and_then(|()| files::rename(&building, &target));
        written.inspect_err(|_| {
            // A full disk gets its space back. What stays is removed by the next run.
            let _ = files::remove_dir_all(&building);
        })?;
        files::sync_dir(&self.directory)?;
        self.written.push(target.clone());
        self.drop_old()?;
        Ok(target)
    }
}

impl CheckpointWriter {
    /// The checkpoint that lies in `target` already, if it is this one: that which the run was
    /// resumed from, or has just written.
    fn written_before(&self, target: PathBuf, step: u64, run: &Value) -> Result<PathBuf> {
        let same = Checkpoint::open(&target)
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

fn write_parts(
    building: &Path,
    step: u64,
    run: &Value,
    dense: &DenseView<'_>,
    groups: &[Arc<Group>],
) -> Result<()> {
    let mut files_listed = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let rows = building.join(rows_name(number));
        files::create_dir_all(&rows)?;
        group.store.snapshot(&rows)?;
        let manifest = files::read(&rows.join(MANIFEST_NAME))?;
        files_listed.push((format!("{}/{MANIFEST_NAME}", rows_name(number)), Sum::of(&manifest)));
    }
    let meta = meta(step, run, dense, groups);
    let meta = format!("{meta:#}\n").into_bytes();
    files::write_synced(&building.join(META_FILE), &meta)?;
    files_listed.push((META_FILE.to_owned(), Sum::of(&meta)));
    let (mut values, mut bytes) = (hash::Checksum::new(), 0);
    let sections = dense.sections.iter().flat_map(|(_, values)| pieces(values));
    let summed = sections.inspect(|piece| {
        values.update(piece.bytes());
        bytes += piece.bytes().len() as u64;
    });
    files::write_pieces_synced(&building.join(DENSE_FILE), summed)?;
    files_listed.push((DENSE_FILE.to_owned(), Sum { checksum: values.value(), bytes }));
    let job = run["job"].as_str().unwrap_or("unnamed");
    let list = sums::encode(step, job, &files_listed);
    files::write_synced(&building.join(SUMS_FILE), list.as_bytes())
}

fn meta(step: u64, run: &Value, dense: &DenseView<'_>, groups: &[Arc<Group>]) -> Value {
    let tables: Vec<Value> = groups
        .iter()
        .enumerate()
        .map(|(number, group)| {
            json!({
                "id": group.spec.id.0,
                "name": group.spec.name,
                "dim": group.spec.dim,
                "wide": group.spec.wide,
                "storage": group.spec.storage.name(),
                "row_lanes": group.spec.row_lanes(),
                "rows": rows_name(number),
            })
        })
        .collect();
    let sections: Vec<Value> = dense
        .sections
        .iter()
        .map(|(name, values)| json!({ "name": name, "count": values.len() }))
        .collect();
    json!({
        "format": "stepwell checkpoint",
        "version": FORMAT_VERSION,
        "step": step,
        "key_hash": KEY_HASH_NAME,
        "checksum": hash::CHECKSUM_NAME,
        "initial_values": random::initializer_name(),
        "tables": tables,
        "dense": sections,
        "run": run,
    })
}

pub(super) fn rows_name(group: usize) -> String {
    format!("rows-{group}")
}
