//! One simulated process: from its first poll until it ends, fails, or loses power.

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

use crate::devices::{DeviceFault, Stepped};
use crate::places::Simulated;
use crate::quiet::quietly;
use crate::scheduler::{Log, Scheduler};
use crate::shape::Shape;
use crate::vault::Vault;

/// Turns of a run at most: several hundred for each step of a short job.
const TURNS_MAX: u64 = 1_000_000;
/// Checkpoints that stay.
const CHECKPOINTS: usize = 2;

/// A disk, and the same without its faults.
#[derive(Debug)]
pub struct Disks {
    /// As the process sees it.
    pub faulty: FaultyDisk,
    /// Behind it.
    pub behind: MemDisk,
}

/// What a process is given.
pub struct Launch<'a> {
    /// Tiers, pipeline and scheduler.
    pub shape: &'a Shape,
    /// Seed of the scheduler's choices.
    pub seed: u64,
    /// Where everything lies.
    pub disks: &'a Disks,
    /// Name of its directory: no two processes share one.
    pub name: &'a str,
    /// What it goes on from.
    pub from: Option<Checkpoint>,
    /// The rules that hold.
    pub rules: Rules,
    /// Sees every row.
    pub witness: Arc<dyn Witness>,
    /// What befalls its first device.
    pub device_fault: Option<DeviceFault>,
    /// Turns after which it is asked to stop.
    pub stop_after: Option<u64>,
    /// Turns at most, where a job is long.
    pub turns_max: Option<u64>,
    /// Threads that compute. The scheduler runs on one of them, so that with one thread alone
    /// nothing ever waits for another.
    pub pool: &'a Arc<ThreadPool>,
}

/// How a process ended.
#[derive(Debug)]
pub struct Exit {
    /// The report, or the error.
    pub result: Result<Report, String>,
    /// The table that was to stay in memory whole and had no room, where that is the error.
    pub full: Option<String>,
    /// What a panic said that no stage made.
    pub panic: Option<String>,
    /// What the scheduler saw.
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
        // Read when its mini-batch is planned, a row lacks what the step before makes of it.
        config.staleness += usize::from(!self.rules.hold(Rule::ReadLate));
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
                // The same each time, what an index weighs too.
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

/// What surrounds a process, or a rank.
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
