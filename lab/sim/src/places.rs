//! Storage of rows and checkpoints in a simulated run.

use std::sync::Arc;

use stepwell_disk::Disk;
use stepwell_engine::{Checkpoint, Keep, Placement};
use stepwell_ssd::Error as StoreError;
use stepwell_train::{Checkpoints, Error, OnNote, Places, Result, RowPlaces, StoragePlan};

use crate::checkpoints::Vault;

/// Storage on a disk that may fail.
#[derive(Clone)]
pub(crate) struct Simulated {
    /// Parent of the stores' directories.
    pub(crate) disk: Arc<dyn Disk>,
    /// Checkpoint to resume from.
    pub(crate) from: Option<Checkpoint>,
    /// Checkpoint storage, if the run writes checkpoints.
    pub(crate) vault: Option<Vault>,
}

impl Places for Simulated {
    fn checkpoints(&self, _: &StoragePlan, _: Placement) -> Result<Option<Box<dyn Checkpoints>>> {
        let is_one = self.from.is_some() || self.vault.is_some();
        Ok(is_one.then(|| Box::new(self.clone()) as Box<dyn Checkpoints>))
    }

    fn checkpoints_of_all(&self, storage: &StoragePlan) -> Result<Option<Box<dyn Checkpoints>>> {
        self.checkpoints(storage, Placement::Fresh)
    }

    fn rows(&self, _: &StoragePlan, _: Placement) -> Result<(Box<dyn RowPlaces>, Option<String>)> {
        Ok((Box::new(self.clone()), None))
    }
}

impl Checkpoints for Simulated {
    fn newest(&mut self, _: Placement, _: &dyn Fn(String)) -> Result<Option<Checkpoint>> {
        Ok(self.from.clone())
    }

    fn of_step(&mut self, step: u64) -> Result<Checkpoint> {
        let from = self.from.clone().filter(|from| from.step == step);
        from.ok_or_else(|| Error::Config(format!("there is no checkpoint of step {step}")))
    }

    fn writer(self: Box<Self>, _: usize, _: OnNote) -> Result<Option<Box<dyn Keep>>> {
        Ok(self.vault.map(|vault| Box::new(vault) as Box<dyn Keep>))
    }
}

impl RowPlaces for Simulated {
    fn directory(&self, number: usize) -> Result<Arc<dyn Disk>> {
        let path = self.disk.path().join(format!("rows-{number}"));
        Ok(self.disk.create_directory(&path).map_err(StoreError::from)?)
    }
}
