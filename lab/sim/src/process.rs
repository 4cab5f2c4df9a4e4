//! One simulated process: from its first poll until it finishes, fails, or loses power.

use std::path::Path;
use std::sync::Arc;

use rayon::ThreadPool;
use serde_json::Value;
use stepwell_base::clock::ManualClock;
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::stage::FullSpeed;
use stepwell_base::stop::StopRequest;
use stepwell_disk::{Disk, FaultyDisk, MemDisk};
use stepwell_engine::{Checkpoint, Error as EngineError, Placement, Witness};
use stepwell_ssd::Compaction;
use stepwell_train::{Error, Machine, Report, RowsAtStart, Silence, Surroundings, train};

use crate::checkpoints::Vault;
use crate::devices::{DeviceFault, Stepped};
use crate::expected_panics::quietly;
use crate::places::Simulated;
use crate::scheduler::{Log, Scheduler};
use crate::shape::Shape;

/// Most turns of a run: several hundred per step of a short job.
const TURNS_MAX: u64 = 1_000_000;
/// Checkpoints to keep.
const CHECKPOINTS: usize = 2;

/// A disk, with and without faults.
#[derive(Debug)]
pub struct Disks {
    /// The disk as the process sees it.
    pub faulty: FaultyDisk,
    /// The disk without faults.
    pub behind: MemDisk,
}

/// Parameters of a process.
pub struct Launch<'a> {
    /// Tiers, pipeline and scheduler.
    pub shape: &'a Shape,
    /// Seed of the scheduler's choices.
    pub seed: u64,
    /// Storage.
    pub disks: &'a Disks,
    /// Name of its directory, unique to the process.
    pub name: &'a str,
    /// Checkpoint to resume from.
    pub from: Option<Checkpoint>,
    /// Rules in effect.
    pub rules: Rules,
    /// Observes every row.
    pub witness: Arc<dyn Witness>,
    /// Fault of its first device.
    pub device_fault: Option<DeviceFault>,
    /// Turns after which it is asked to stop.
    pub stop_after: Option<u64>,
    /// Limit on turns, if the job is long.
    pub turns_max: Option<u64>,
    /// Computing threads. The scheduler runs on one of them, so that with a single thread, nothing
    /// ever waits for another thread.
    pub pool: &'a Arc<ThreadPool>,
}

/// How a process ended.
#[derive(Debug)]
pub struct Exit {
    /// Report or error.
    pub result: Result<Report, String>,
    /// The table that had to stay in memory but didn't fit, if that is the error.
    pub full: Option<String>,
    /// Message of a panic outside stages.
    pub panic: Option<String>,
    /// Log of the scheduler.
    pub log: Log,
    /// The checkpoints.
    pub vault: Vault,
}

impl<'a> Launch<'a> {
    /// A first process with all rules, in which nothing fails.
    pub fn new(
        shape: &'a Shape,
        disks: &'a Disks,
        witness: Arc<dyn Witness>,
        pool: &'a Arc<ThreadPool>,
    ) -> Self {
        Self {
            shape,
            seed: 0,
            disks,
            name: "process",
            from: None,
            rules: Rules::default(),
            witness,
            device_fault: None,
            stop_after: None,
            turns_max: None,
            pool,
        }
    }

    /// Trains until the end.
    pub fn run(self) -> Exit {
        let clock = Arc::new(ManualClock::default());
        let turns_max = self.turns_max.unwrap_or(TURNS_MAX);
        let style = self.shape.style;
        let stop = StopRequest::new();
        let driver = Scheduler::new(style, self.seed, turns_max, Arc::clone(&clock));
        let driver = Arc::new(match self.stop_after {
            Some(turns) => driver.stopping(stop.clone(), turns),
            None => driver,
        });
        let Disks { faulty, behind } = self.disks;
        let root: Arc<dyn Disk> = Arc::new(faulty.clone());
        let behind: Arc<dyn Disk> = Arc::new(behind.clone());
        let vault = Vault::new(Arc::clone(&root), behind, self.name, CHECKPOINTS);
        let keeper = vault.clone();
        let shape = self.shape;
        let name = self.name;
        let pool = self.pool;
        let mut full = None;
        let mut config = shape.config.clone();
        // A row that is read when its mini-batch is planned misses the update of the previous step.
        config.pipeline.staleness += usize::from(!self.rules.hold(Rule::ReadLate));
        let devices = Arc::new(Stepped { seed: self.seed, fault: self.device_fault });
        let work = || {
            let places = Simulated {
                disk: directory(&*root, name)?,
                from: self.from,
                vault: shape.checkpoints.then_some(keeper),
            };
            let driver = Arc::clone(&driver);
            let machine = Machine {
                ranks: None,
                network: None,
                late: None,
                clock,
                pace: Arc::new(FullSpeed),
                driver,
                pool: Some(Arc::clone(pool)),
                places: Arc::new(places),
                devices,
                compaction: Compaction::Inline,
                // Fixed, so that the index takes the same memory each time.
                index_seed: Some(0),
                witness: Some(self.witness),
                rules: self.rules,
                sizes: Some(shape.sizes.clone()),
            };
            let around = surroundings(machine, stop, shape);
            train(&config, &around).map_err(|error| {
                if let Error::Engine(EngineError::NotWhole { table, .. }) = &error {
                    full = Some(table.clone());
                }
                error.to_string()
            })
        };
        let outcome = pool.install(|| quietly(work));
        let log = driver.log();
        match outcome {
            Ok(result) => Exit { result, full, panic: None, log, vault },
            Err(said) => Exit { result: Err(said.clone()), full, panic: Some(said), log, vault },
        }
    }
}

/// Environment of a process or a rank.
pub(crate) fn surroundings(machine: Machine, stop: StopRequest, shape: &Shape) -> Surroundings {
    Surroundings {
        observer: Arc::new(Silence),
        machine,
        stop,
        placement: Placement::Fresh,
        from: None,
        rows: RowsAtStart { from: Vec::new(), in_memory: shape.preloads },
        repaired_rows: false,
        digest: true,
        settings: Value::Null,
        on_plan: Arc::new(|_| {}),
        on_note: Arc::new(|_| {}),
        on_warning: Arc::new(|_| {}),
    }
}

fn directory(root: &dyn Disk, name: &str) -> Result<Arc<dyn Disk>, String> {
    let path: &Path = &root.path().join(format!("{name}-run"));
    root.create_directory(path).map_err(|error| error.to_string())
}
