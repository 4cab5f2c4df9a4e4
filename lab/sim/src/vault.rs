//! Checkpoints in the simulated world.
//!
//! - **How.** A checkpoint is a snapshot of each group's store in a directory of the simulated
//!   disk, and the dense part in memory, which no crash takes. It counts once the snapshot is
//!   complete. Its digest is compared with the right one at once, so that a checkpoint that was
//!   taken too early or too late is found even where nobody goes on from it: some are read back for
//!   that, past all faults, of the others the store that they were made from.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use stepwell_base::stop::StopRequest;
use stepwell_base::{KEY_HASH_NAME, random};
use stepwell_disk::Disk;
use stepwell_engine::{
    Checkpoint, Dense, Error, Group, Keep, KeptPart, Lease, ModelDigest, ModelPart, Result, Rows,
    Saved, WholeModel,
};
use stepwell_ssd::{Error as StoreError, StoreOptions, View};

/// One of so many checkpoints is read back, the first one among them.
const RESTORES: usize = 4;

/// What a vault keeps.
#[derive(Debug, Default)]
pub struct Kept {
    /// Checkpoints, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Digest of each that could be read back, with its step.
    pub digests: Vec<(u64, String)>,
    /// Those that could not be read back.
    pub unreadable: Vec<String>,
    /// What each rank kept of the one under way.
    parts: Vec<PartKept>,
}

/// What one rank kept of a checkpoint.
#[derive(Debug)]
struct PartKept {
    rank: usize,
    rows: Vec<Rows>,
    past: Dense,
    digest: std::result::Result<ModelDigest, String>,
}

/// Keeps checkpoints; clones share them.
#[derive(Clone, Debug)]
pub struct Vault {
    /// Where checkpoints go: as faulty as the disk is.
    disk: Arc<dyn Disk>,
    /// The same directory, without faults.
    behind: Arc<dyn Disk>,
    name: String,
    /// Checkpoints that are kept.
    most: usize,
    kept: Arc<Mutex<Kept>>,
}

impl Vault {
    /// A vault that calls its checkpoints `name` and puts them on `disk`, where it finds them
    /// again on `behind`.
    pub fn new(disk: Arc<dyn Disk>, behind: Arc<dyn Disk>, name: &str, most: usize) -> Self {
        let name = name.to_owned();
        Self { disk, behind, name, most, kept: Arc::default() }
    }

    /// What it keeps.
    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The digest of the model after `step` steps: of the snapshots in `rows` if it `restores`
    /// them, else of the stores that they were made from.
    fn digest(
        &self,
        rows: &[Rows],
        groups: &[Arc<Group>],
        (step, restores): (u64, bool),
    ) -> Result<ModelDigest> {
        let mut digest = ModelDigest::default();
        for (group, rows) in groups.iter().zip(rows) {
            let restored = match restores {
                true => {
                    let disk = self.behind.directory(&rows.path).map_err(StoreError::from)?;
                    // A run that was asked to stop writes one last checkpoint.
                    let stop = StopRequest::new();
                    let options = StoreOptions { stop, ..group.store.options().clone() };
                    Some(View::open(disk, options)?)
                }
                false => None,
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
        let (path, (rank, ranks)) = (self.path(part.step), part.of);
        let mut rows = Vec::new();
        for (number, group) in part.groups.iter().enumerate() {
            let path = path.join(format!("rows-{number}-rank-{rank}"));
            self.disk.create_directory(&path).map_err(StoreError::from)?;
            group.snapshot(&path)?;
            rows.push(Rows { group: number, rank, path, saved: Saved::Yes });
        }
        let restores = ranks > 1 || self.kept().digests.len().is_multiple_of(RESTORES);
        let digest = self.digest(&rows, part.groups, (part.step, restores));
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

/// The sections that are of the model: behind the optimizer's step there is what a run needs to go
/// on, which several ranks have in another order than one.
fn model_of(dense: &Dense) -> Dense {
    let last = dense.sections.iter().position(|(name, _)| name == "step");
    let count = last.map_or(dense.sections.len(), |last| last + 1);
    Dense { sections: dense.sections[..count].to_vec() }
}
