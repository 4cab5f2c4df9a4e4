//! The machine that a run is on: its clock, its threads, where rows and checkpoints lie, and what
//! is drawn by lot. A run asks it and does not know which it is, the real one or a simulated one.

mod devices;
mod files;
mod late;

use std::path::Path;
use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_base::clock::{Clock, SystemClock};
use stepwell_base::rules::Rules;
use stepwell_base::stage::{Driver, FullSpeed, Pace, Threads};
use stepwell_base::stop::StopRequest;
use stepwell_disk::Disk;
use stepwell_engine::{Checkpoint, Keep, Placement, SetAside, Witness};
use stepwell_fabric::{Fabric, Network};
use stepwell_settings::Config;
use stepwell_ssd::Compaction;

pub use self::devices::{Accelerators, Devices};
pub use self::files::Files;
pub use self::late::Late;
use crate::capacity::Capacity;
use crate::{Error, Result};

/// A machine.
pub struct Machine {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Pauses between polls, for tests.
    pub pace: Arc<dyn Pace>,
    /// Who polls the stages: threads, or a scheduler.
    pub driver: Arc<dyn Driver<Error>>,
    /// The other ranks, where several train one model.
    pub ranks: Option<Ranks>,
    /// What joins ranks that are threads of this process; none for memory alone. A slow one is for
    /// measurements.
    pub network: Option<Network>,
    /// Whether ranks are held up, which is for measurements.
    pub late: Option<Late>,
    /// Threads that compute; none for a pool of the run's own.
    pub pool: Option<Arc<ThreadPool>>,
    /// Where rows and checkpoints lie.
    pub places: Arc<dyn Places>,
    /// Accelerators above its memory.
    pub devices: Arc<dyn Devices>,
    /// Who merges segments: a thread of the stores', or the one that writes.
    pub compaction: Compaction,
    /// What stores scatter keys in memory by; none to draw it anew in each process.
    pub index_seed: Option<u64>,
    /// Sees every row that is read, where somebody does.
    pub witness: Option<Arc<dyn Witness>>,
    /// The rules that hold: all of them, but in tests of whether one is missed.
    pub rules: Rules,
    /// Sizes in place of those that the capacity plan chooses.
    pub sizes: Option<Sizes>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

/// What joins a rank to the others.
#[derive(Clone, Debug)]
pub struct Ranks {
    /// The others.
    pub fabric: Fabric,
    /// Asks all ranks to end after the same step, of whichever rank it is made.
    pub stop: StopRequest,
    /// Where they are processes, which may be of other builds, on other machines with other data:
    /// how many of them are on this machine, this one among them, as far as that is known.
    pub processes: Option<usize>,
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

/// Room on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// Bytes that are free.
    pub free: u64,
    /// Identity of the file system.
    pub file_system: u64,
}

/// Where a run keeps what outlasts memory.
pub trait Places: Send + Sync {
    /// Where its checkpoints lie, taken for this run; none where `config` asks for none.
    ///
    /// # Errors
    /// When the place cannot be had, or `placement` needs one that is not there.
    fn checkpoints(
        &self,
        config: &Config,
        placement: Placement,
    ) -> Result<Option<Box<dyn Checkpoints>>>;

    /// Where the checkpoints lie that rank 0 has taken for all ranks, for another one to read and
    /// to put its parts.
    ///
    /// # Errors
    /// When it is not to be seen from here.
    fn checkpoints_of_all(&self, config: &Config) -> Result<Option<Box<dyn Checkpoints>>>;

    /// Where its stores lie, taken for this run, and what somebody should know of that.
    ///
    /// # Errors
    /// When the place cannot be had, or holds rows that `placement` does not allow.
    fn rows(
        &self,
        config: &Config,
        placement: Placement,
    ) -> Result<(Box<dyn RowPlaces>, Option<String>)>;

    /// Room for a directory that exists or will be made; none if unknown.
    fn room(&self, _directory: &Path) -> Option<DiskRoom> {
        None
    }

    /// There are as many ranks as `config` says: does with rows that a run with others left what
    /// [`Places::rows`] does with its own, and gives what somebody should know of that. Called by
    /// the first rank, whose settings these are.
    ///
    /// # Errors
    /// When there are some that `placement` does not allow, or they cannot be moved.
    fn clear_other_ranks(&self, _config: &Config, _placement: Placement) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Told what cannot be told by a result.
pub type OnNote = Arc<dyn Fn(&str) + Send + Sync>;

/// A place for checkpoints that was taken; other runs are kept out while this or what it gave is
/// there.
pub trait Checkpoints {
    /// The one to go on from, once what `placement` asks for was done, if there is one; `note` is
    /// told what somebody should know.
    ///
    /// # Errors
    /// When the place cannot be read, or holds what `placement` does not allow.
    fn newest(&mut self, placement: Placement, note: &dyn Fn(String))
    -> Result<Option<Checkpoint>>;

    /// The step of the newest one that lies there now, where that can be told.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn newest_step(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// The one of step `step`, which rank 0 goes on from.
    ///
    /// # Errors
    /// When it is not there, or damaged.
    fn of_step(&mut self, step: u64) -> Result<Checkpoint>;

    /// Writer of the next ones, if there is one; it reports to `note`.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn writer(self: Box<Self>, config: &Config, note: OnNote) -> Result<Option<Box<dyn Keep>>>;
}

/// A place for stores that was taken.
pub trait RowPlaces {
    /// The directory of the store of table group `number`.
    ///
    /// # Errors
    /// When it cannot be made.
    fn directory(&self, number: usize) -> Result<Arc<dyn Disk>>;

    /// Rows stay where they are when this goes: somebody will want to look at them.
    fn keep(&mut self) {}

    /// What lies there and was set aside.
    fn aside(&self) -> Vec<SetAside> {
        Vec::new()
    }
}

/// Sizes that the capacity plan would choose larger than a small job can fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a block of lines.
    pub block_bytes: usize,
    /// Rows of a staged chunk.
    pub chunk_rows: usize,
    /// Chunks of each table group.
    pub chunks: usize,
    /// Slots of each table group on each device, with pieces of as many rows as a chunk has; none
    /// for those that fit.
    pub device_slots: Vec<usize>,
}

impl Sizes {
    pub(crate) fn apply(&self, capacity: &mut Capacity) {
        capacity.block_bytes = self.block_bytes;
        for group in &mut capacity.tiers.groups {
            (group.chunk_rows, group.chunks) = (self.chunk_rows, self.chunks);
        }
        if let (Some(devices), [_, ..]) = (&mut capacity.devices, &*self.device_slots) {
            devices.rows.resize(&capacity.tiers, &self.device_slots, self.chunk_rows);
        }
    }
}
