//! Writing a checkpoint: everything into a directory without a valid name, synced, then renamed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use stepwell_base::{KEY_HASH_NAME, hash, random};

use super::{DENSE_FILE, DenseView, FORMAT_VERSION, INCOMPLETE_PREFIX, META_FILE, STEP_PREFIX};
use super::{Keep, SUMS_FILE, files, list, pieces};
use crate::{Group, Result};

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

    /// Goes on with a run whose checkpoints lie in `directory`: they count among the newest few.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn resume(directory: PathBuf, keep: usize) -> Result<Self> {
        let written = list(&directory)?.into_iter().map(|(_, path)| path).collect();
        Ok(Self { written, ..Self::new(directory, keep) })
    }

    fn drop_old(&mut self) -> Result<()> {
        while self.written.len() > self.keep {
            let oldest = self.written.remove(0);
            // Renamed first, so that a kill half-way leaves no damaged checkpoint with a name.
            let doomed = self.directory.join(format!("{INCOMPLETE_PREFIX}old"));
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
        let name = format!("{STEP_PREFIX}{step:012}");
        let target = self.directory.join(&name);
        if target.exists() {
            // The directory was prepared, so this is the model that the run was resumed from, or
            // one that it has just written: the same bits.
            return Ok(target);
        }
        let building = self.directory.join(format!("{INCOMPLETE_PREFIX}{name}"));
        files::create_dir_all(&building)?;
        write_parts(&building, step, run, dense, groups)?;
        files::sync_dir(&building)?;
        files::rename(&building, &target)?;
        files::sync_dir(&self.directory)?;
        self.written.push(target.clone());
        self.drop_old()?;
        Ok(target)
    }
}

fn write_parts(
    building: &Path,
    step: u64,
    run: &Value,
    dense: &DenseView<'_>,
    groups: &[Arc<Group>],
) -> Result<()> {
    for (number, group) in groups.iter().enumerate() {
        let rows = building.join(rows_name(number));
        files::create_dir_all(&rows)?;
        group.store.snapshot(&rows)?;
    }
    let meta = meta(step, run, dense, groups);
    let meta = format!("{meta:#}\n").into_bytes();
    files::write_synced(&building.join(META_FILE), &meta)?;
    let mut values = hash::Checksum::new();
    let sections = dense.sections.iter().flat_map(|(_, values)| pieces(values));
    let summed = sections.inspect(|piece| values.update(piece.bytes()));
    files::write_pieces_synced(&building.join(DENSE_FILE), summed)?;
    let sums = format!(
        "{:016x}  {META_FILE}\n{:016x}  {DENSE_FILE}\n",
        hash::checksum(&meta),
        values.value()
    );
    files::write_synced(&building.join(SUMS_FILE), sums.as_bytes())
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
