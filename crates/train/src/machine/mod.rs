//! The machine that a run is on: its clock, threads, storage for rows and checkpoints, and random
//! choices. A run does not know whether it is real or simulated.

mod devices;
mod files;

use std::path::Path;
use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_base::clock::{Clock, SystemClock};
use stepwell_base::owner::RankOf;
use stepwell_base::rules::Rules;
use stepwell_base::stage::{Driver, FullSpeed, Pace, Threads};
use stepwell_disk::Disk;
use stepwell_engine::{Checkpoint, Keep, Placement, SetAside, Witness};
use stepwell_fabric::Network;
use stepwell_ssd::Compaction;

pub use self::devices::{Accelerators, Devices};
pub use self::files::Files;
use crate::capacity::Capacity;
use crate::ranks::{Late, Ranks};
use crate::run_plan::StoragePlan;
use crate::{Error, Result};

/// A machine.
pub struct Machine {
    /// Measures time.
    pub clock: Arc<dyn Clock>,
    /// Pauses between polls, for tests.
    pub pace: Arc<dyn Pace>,
    /// Polls the stages: threads, or a scheduler.
    pub driver: Arc<dyn Driver<Error>>,
    /// The other ranks, if there are several.
    pub ranks: Option<Ranks>,
    /// Network between ranks that are threads of this process; `None` for memory alone. A slow one
    /// is for measurements.
    pub network: Option<Network>,
    /// Delays of ranks, for measurements.
    pub late: Option<Late>,
    /// Compute threads; `None` for a pool that the run creates.
    pub pool: Option<Arc<ThreadPool>>,
    /// Storage of rows and checkpoints.
    pub places: Arc<dyn Places>,
    /// Accelerators, a tier above its memory.
    pub devices: Arc<dyn Devices>,
    /// Thread that merges segments: one of the stores' own, or the writing one.
    pub compaction: Compaction,
    /// Seed by which stores scatter keys in memory; `None` for a new one in each process.
    pub index_seed: Option<u64>,
    /// Observes every row that is read, if set.
    pub witness: Option<Arc<dyn Witness>>,
    /// The rules in force: all of them, except in tests that switch one off.
    pub rules: Rules,
    /// Sizes that replace those of the capacity plan.
    pub sizes: Option<Sizes>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

impl Machine {
    /// Rank that runs on this machine.
    pub(crate) fn place(&self) -> RankOf {
        self.ranks.as_ref().map_or(RankOf::ALONE, |ranks| ranks.fabric.place())
    }
}

/// This machine.
impl Default for Machine {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            pace: Arc::new(FullSpeed),
            driver: Arc::new(Threads),
            ranks: None,
            network: None,
            late: None,
            pool: None,
            places: Arc::new(Files),
            devices: Arc::new(Accelerators),
            compaction: Compaction::Background,
            index_seed: None,
            witness: None,
            rules: Rules::default(),
            sizes: None,
        }
    }
}

/// Free space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// Free bytes.
    pub free: u64,
    /// Identity of the file system.
    pub file_system: u64,
}

/// Storage for state that outlasts memory: rows and checkpoints.
pub trait Places: Send + Sync {
    /// Takes the place of the run's checkpoints; `None` if `storage` names none.
    ///
    /// # Errors
    /// If the place cannot be taken, or `placement` needs a missing one.
    fn checkpoints(
        &self,
        storage: &StoragePlan,
        placement: Placement,
    ) -> Result<Option<Box<dyn Checkpoints>>>;

    /// Returns the place of checkpoints that rank 0 took for all ranks; another rank reads from it
    /// and puts its parts there.
    ///
    /// # Errors
    /// If the place is not visible from here.
    fn checkpoints_of_all(&self, storage: &StoragePlan) -> Result<Option<Box<dyn Checkpoints>>>;

    /// Takes the place of the run's stores; returns it with a note for the user, if any.
    ///
    /// # Errors
    /// If the place cannot be taken, or holds rows that `placement` does not allow.
    fn rows(
        &self,
        storage: &StoragePlan,
        placement: Placement,
    ) -> Result<(Box<dyn RowPlaces>, Option<String>)>;

    /// Free space for an existing or future directory; `None` if unknown.
    fn room(&self, _directory: &Path) -> Option<DiskRoom> {
        None
    }

    /// Treats rows left by a run with another number of ranks as [`Places::rows`] treats the run's
    /// own, and returns notes for the user. Called by the first rank, with its plan.
    ///
    /// # Errors
    /// If there are rows that `placement` does not allow, or that cannot be moved.
    fn clear_other_ranks(
        &self,
        _storage: &StoragePlan,
        _placement: Placement,
    ) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Receives notes that no result can carry.
pub type OnNote = Arc<dyn Fn(&str) + Send + Sync>;

/// A taken place for checkpoints; excludes other runs while it or what it returned exists.
pub trait Checkpoints {
    /// Returns the checkpoint to resume from, if any, after doing what `placement` asks; `note`
    /// receives notes for the user.
    ///
    /// # Errors
    /// If the place cannot be read, or holds what `placement` does not allow.
    fn newest(&mut self, placement: Placement, note: &dyn Fn(String))
    -> Result<Option<Checkpoint>>;

    /// Returns the step of the newest checkpoint in this place, if known.
    ///
    /// # Errors
    /// If the place cannot be read.
    fn newest_step(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns the checkpoint of step `step`, which rank 0 resumes from.
    ///
    /// # Errors
    /// If it is missing or damaged.
    fn of_step(&mut self, step: u64) -> Result<Checkpoint>;

    /// Returns a writer of later checkpoints, if any, which keeps the newest `keep` of them and
    /// reports to `note`.
    ///
    /// # Errors
    /// If the place cannot be read.
    fn writer(self: Box<Self>, keep: usize, note: OnNote) -> Result<Option<Box<dyn Keep>>>;
}

/// A taken place for stores.
pub trait RowPlaces {
    /// Returns the directory of the store of table group `number`.
    ///
    /// # Errors
    /// If it cannot be created.
    fn directory(&self, number: usize) -> Result<Arc<dyn Disk>>;

    /// Keeps the rows in place after this is dropped, for inspection.
    fn keep(&mut self) {}

    /// Returns the stores in this place that were set aside.
    fn aside(&self) -> Vec<SetAside> {
        Vec::new()
    }
}

/// Sizes for small jobs, where the capacity plan would choose larger ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a block of lines.
    pub block_bytes: usize,
    /// Rows of a staging buffer.
    pub staging_buffer_rows: usize,
    /// Staging buffers of each table group.
    pub staging_buffers: usize,
    /// Slots of each table group on each device, moved in pieces of such a buffer's rows; empty for
    /// as many as fit.
    pub device_slots: Vec<usize>,
}

impl Sizes {
    pub(crate) fn apply(&self, capacity: &mut Capacity) {
        capacity.block_bytes = self.block_bytes;
        for group in &mut capacity.tiers.groups {
            group.staging_buffer_rows = self.staging_buffer_rows;
            group.staging_buffers = self.staging_buffers;
        }
        if let (Some(devices), [_, ..]) = (&mut capacity.devices, &*self.device_slots) {
            devices.rows.resize(&capacity.tiers, &self.device_slots, self.staging_buffer_rows);
        }
    }
}
