//! Checkpoints in the simulated world.
//!
//! How       A checkpoint is a snapshot of each group's store in a directory of the simulated disk,
//!           and the dense part in memory, which no crash takes. It counts once the snapshot is
//!           complete. Its digest is compared with the right one at once, so that a checkpoint
//!           that was taken too early or too late is found even where nobody goes on from it:
//!           some are read back for that, past all faults, of the others the store that they were
//!           made from.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use stepwell_base::{KEY_HASH_NAME, random};
use stepwell_disk::Disk;
use stepwell_engine::{
    Checkpoint, DenseView, Error, Group, Keep, Lease, ModelDigest, Result, Rows, Saved,
};
use stepwell_ssd::{Error as StoreError, View};

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
                    Some(View::open(disk, group.store.options().clone())?)
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

impl Keep for Vault {
    fn write(
        &mut self,
        step: u64,
        run: &Value,
        dense: &DenseView<'_>,
        groups: &[Arc<Group>],
    ) -> Result<PathBuf> {
        let path = self.disk.path().join(format!("{}-{step}", self.name));
        if self.kept().checkpoints.last().is_some_and(|last| last.path == path) {
            return Ok(path);
        }
        let mut rows = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            let path = path.join(format!("rows-{number}"));
            self.disk.create_directory(&path).map_err(StoreError::from)?;
            group.store.snapshot(&path)?;
            rows.push(Rows { group: number, path, saved: Saved::Yes });
        }
        let restores = self.kept().digests.len().is_multiple_of(RESTORES);
        let digest = self.digest(&rows, groups, (step, restores));
        let digest = digest.map_err(|error: Error| error.to_string());
        let mut kept = self.kept();
        match digest {
            Ok(digest) => kept.digests.push((step, digest.finish(dense))),
            Err(why) => kept.unreadable.push(format!("step {step}: {why}")),
        }
        let meta = json!({
            "key_hash": KEY_HASH_NAME,
            "initial_values": random::initializer_name(),
        });
        let (run, dense) = (run.clone(), dense.to_dense());
        let checkpoint = Checkpoint {
            path: path.clone(),
            step,
            run,
            meta,
            dense,
            rows,
            lease: Lease::default(),
        };
        kept.checkpoints.push(checkpoint);
        drop(kept);
        self.drop_old()?;
        Ok(path)
    }
}
