//! Stores checkpoints in the simulated world.
//!
//! - **How.** A checkpoint is a snapshot of each group's store in a directory of the simulated
//!   disk, and the dense part in memory, which survives crashes. It counts once the snapshot is
//!   complete. Its digest is immediately compared with the oracle's, so that a checkpoint taken too
//!   early or too late is found even if nothing resumes from it. For some checkpoints, the digest
//!   is of the snapshot, read back without faults; for the others, of the store from which they
//!   were made.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use stepwell_base::owner::RankOf;
use stepwell_base::stop::StopRequest;
use stepwell_base::{KEY_HASH_NAME, random};
use stepwell_disk::Disk;
use stepwell_engine::{
    Checkpoint, Dense, Error, Group, Keep, KeptPart, Lease, ModelDigest, ModelPart, Result, Rows,
    Saved, WholeModel,
};
use stepwell_ssd::{Error as StoreError, StoreOptions, View};

/// One in this many checkpoints is read back, including the first.
const RESTORES: usize = 4;

/// Contents of a vault.
#[derive(Debug, Default)]
pub struct Kept {
    /// Checkpoints, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Step and digest of each checkpoint that could be read back.
    pub digests: Vec<(u64, String)>,
    /// Errors of checkpoints that couldn't be read back.
    pub unreadable: Vec<String>,
    /// Parts of the current checkpoint, by rank.
    parts: Vec<PartKept>,
}

/// One rank's part of a checkpoint.
#[derive(Debug)]
struct PartKept {
    rank: usize,
    rows: Vec<Rows>,
    past: Dense,
    digest: std::result::Result<ModelDigest, String>,
}

/// Stores checkpoints; clones share them.
#[derive(Clone, Debug)]
pub struct Vault {
    /// Destination of checkpoints, with the disk's faults.
    disk: Arc<dyn Disk>,
    /// The same directory, without faults.
    behind: Arc<dyn Disk>,
    name: String,
    /// Number of checkpoints to keep.
    most: usize,
    kept: Arc<Mutex<Kept>>,
}

impl Vault {
    /// A vault with checkpoints called `name` on `disk`; `behind` is the same disk without faults.
    pub fn new(disk: Arc<dyn Disk>, behind: Arc<dyn Disk>, name: &str, most: usize) -> Self {
        let name = name.to_owned();
        Self { disk, behind, name, most, kept: Arc::default() }
    }

    /// The contents.
    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Digest of the model after `step` steps: of the snapshots of all groups, or of the stores
    /// themselves.
    fn digest(
        &self,
        step: u64,
        groups: &[Arc<Group>],
        snapshots: Option<&[Rows]>,
    ) -> Result<ModelDigest> {
        let mut digest = ModelDigest::default();
        for (number, group) in groups.iter().enumerate() {
            let restored = match snapshots {
                Some(rows) => {
                    let path = &rows[number].path;
                    let disk = self.behind.directory(path).map_err(StoreError::from)?;
                    // A run that is asked to stop writes a last checkpoint.
                    let stop = StopRequest::new();
                    let options = StoreOptions { stop, ..group.store.options().clone() };
                    Some(View::open(disk, options)?)
                }
                None => None,
            };
            let store = restored.as_deref().unwrap_or(&group.store);
            let mut lanes = vec![0.0f32; group.spec().row_lanes()];
            store.scan_live(&mut |key, _used, row| {
                bytemuck::cast_slice_mut(&mut lanes).copy_from_slice(row);
                let table = group.table_of(&lanes);
                if table.exists(&lanes, step) {
                    let model = &lanes[..table.model_lanes()];
                    digest.add_row(table.id, key, bytemuck::cast_slice(model));
                }
                Ok(())
            })?;
        }
        Ok(digest)
    }

    fn drop_old(&self) -> Result<()> {
        let mut kept = self.kept();
        while kept.checkpoints.len() > self.most {
            for rows in kept.checkpoints.remove(0).rows {
                let disk = self.behind.directory(&rows.path).map_err(StoreError::from)?;
                for name in disk.list().map_err(StoreError::from)? {
                    disk.remove(&name).map_err(StoreError::from)?;
                }
            }
        }
        Ok(())
    }
}

impl Vault {
    fn path(&self, step: u64) -> PathBuf {
        self.disk.path().join(format!("{}-{step}", self.name))
    }
}

impl Keep for Vault {
    fn begin(&mut self, step: u64, _: &Value) -> Result<Option<PathBuf>> {
        let (path, mut kept) = (self.path(step), self.kept());
        kept.parts.clear();
        Ok(kept.checkpoints.last().is_some_and(|last| last.path == path).then_some(path))
    }

    fn keep(&mut self, part: &ModelPart<'_>) -> Result<KeptPart> {
        let (path, RankOf { rank, ranks }) = (self.path(part.step), part.of);
        let mut rows = Vec::new();
        for (number, group) in part.groups.iter().enumerate() {
            let path = path.join(format!("rows-{number}-rank-{rank}"));
            self.disk.create_directory(&path).map_err(StoreError::from)?;
            group.snapshot(&path)?;
            rows.push(Rows { group: number, rank, path, saved: Saved::Yes });
        }
        let restores = ranks > 1 || self.kept().digests.len().is_multiple_of(RESTORES);
        let digest = self.digest(part.step, part.groups, restores.then_some(&rows[..]));
        let digest = digest.map_err(|error: Error| error.to_string());
        self.kept().parts.push(PartKept { rank, rows, past: part.past.clone(), digest });
        Ok(KeptPart::default())
    }

    fn end(&mut self, whole: &WholeModel<'_>, _: &[KeptPart]) -> Result<PathBuf> {
        let WholeModel { step, run, dense, .. } = *whole;
        let (path, run, mut dense) = (self.path(step), run.clone(), dense.to_dense());
        let mut kept = self.kept();
        let mut parts = std::mem::take(&mut kept.parts);
        parts.sort_by_key(|part| part.rank);
        let (mut digest, mut rows) = (ModelDigest::default(), Vec::new());
        let model = model_of(&dense);
        let mut unreadable = None;
        for part in parts {
            match part.digest {
                Ok(part) => digest.add_rows(part.of_rows()),
                Err(why) => unreadable = Some(format!("step {step}: {why}")),
            }
            rows.extend(part.rows);
            dense.join(part.past);
        }
        match unreadable {
            None => kept.digests.push((step, digest.finish(&model.view()))),
            Some(why) => kept.unreadable.push(why),
        }
        rows.sort_by_key(|rows| (rows.group, rows.rank));
        let meta = json!({
            "key_hash": KEY_HASH_NAME,
            "initial_values": random::initializer_name(),
        });
        let lease = Lease::default();
        let checkpoint =
            Checkpoint { path: path.clone(), step, run, meta, dense, rows, ended: false, lease };
        kept.checkpoints.push(checkpoint);
        drop(kept);
        self.drop_old()?;
        Ok(path)
    }
}

/// Sections that belong to the model. Sections after the optimizer's step are for resuming; several
/// ranks store them in a different order than one.
fn model_of(dense: &Dense) -> Dense {
    let last = dense.sections.iter().position(|(name, _)| name == "step");
    let count = last.map_or(dense.sections.len(), |last| last + 1);
    Dense { sections: dense.sections[..count].to_vec() }
}
