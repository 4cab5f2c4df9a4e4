//! A case: a job, its oracle, and the schedules to run it under.

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};
use stepwell_base::rules::Rules;
use stepwell_disk::{Faults, FaultyDisk, MemDisk};
use stepwell_engine::Checkpoint;
use tempfile::TempDir;

use crate::bags;
use crate::devices::DeviceFault;
use crate::dice::Dice;
use crate::disk_faults::{Mishap, Uses};
use crate::finding::Finding;
use crate::job::{Examples, Job, Length};
use crate::job_properties::Traits;
use crate::oracle::{Checker, Detail, Oracle};
use crate::process::{Disks, Launch};
use crate::record::record;
use crate::shape::Shape;
use crate::tally::Tally;

/// Schedules per job, so that an oracle is worth its cost.
pub const SCHEDULES_PER_JOB: u64 = 32;
/// Most power failures in one schedule.
const CUTS_MAX: usize = 3;
/// Most stop requests in one schedule.
const STOPS_MAX: usize = 3;

/// Pools of one and of two computing threads, for one schedule at a time.
pub type Pools = [Arc<ThreadPool>; 2];

/// Starts the computing threads of schedules.
///
/// # Errors
/// Threads can't be started.
pub fn pools() -> Result<Pools, Finding> {
    let pool = |threads| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map(Arc::new).map_err(|error| Finding::Failed(error.to_string()))
    };
    Ok([pool(1)?, pool(2)?])
}

/// A job with its oracle.
#[derive(Debug)]
pub struct Case {
    job: Job,
    /// Properties that only some jobs have.
    traits: Traits,
    oracle: Arc<Oracle>,
    pools: Pools,
    /// Directory with the examples, for the lifetime of the case.
    _directory: TempDir,
}

/// Power failures of a run.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// The first one.
    pub first: Mishap,
    /// How the undisturbed run uses its disk, from which others are drawn.
    pub uses: Uses,
}

impl Case {
    /// The case of schedule `seed`.
    ///
    /// # Errors
    /// The run in memory doesn't finish, or a second one differs from it.
    pub fn of(seed: u64, pools: &Pools) -> Result<Self, Finding> {
        Self::prepare(Job::draw(seed / SCHEDULES_PER_JOB, Length::SHORT), Detail::EachRead, pools)
    }

    /// The case of `job`, whose reads are recorded in this detail.
    ///
    /// # Errors
    /// The run in memory doesn't finish, or a second one differs from it.
    pub fn prepare(mut job: Job, detail: Detail, pools: &Pools) -> Result<Self, Finding> {
        let file = |error: std::io::Error| Finding::Failed(error.to_string());
        let directory = TempDir::new().map_err(file)?;
        for (number, examples) in job.files.iter().enumerate() {
            let path = directory.path().join(format!("examples-{number}"));
            match examples {
                Examples::Lines(text) => std::fs::write(&path, text).map_err(file)?,
                Examples::Bags(chunk) => bags::write(chunk, job.block_bytes, &path)
                    .map_err(|error| Finding::Failed(error.to_string()))?,
            }
            job.config.data.paths.push(path.display().to_string());
        }
        let oracle = Arc::new(record(&job, detail, &pools[0])?);
        let traits = Traits::of(&job, &oracle)?;
        // The schedules read them from the directory.
        job.files.clear();
        Ok(Self { job, traits, oracle, pools: pools.clone(), _directory: directory })
    }

    /// Properties that only some jobs have.
    pub fn traits(&self) -> &Traits {
        &self.traits
    }

    /// The pool of `threads` computing threads.
    pub(crate) fn pool(&self, threads: usize) -> &Arc<ThreadPool> {
        &self.pools[threads - 1]
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The oracle.
    pub fn oracle(&self) -> &Arc<Oracle> {
        &self.oracle
    }

    /// Runs schedule `seed` of the job with the given `rules`; counts in `tally`.
    ///
    /// # Errors
    /// The finding of a checker.
    pub fn run(&self, seed: u64, rules: Rules, tally: &mut Tally) -> Result<(), Finding> {
        let mut dice = Dice::new(seed, "schedule");
        let mut shape = Shape::draw(&mut dice, &self.job.config, &self.oracle);
        let fate = dice.below(6);
        if fate == 0 {
            shape.keep_some(&mut dice);
        }
        // Separate dice, so that the rest of a schedule doesn't depend on them.
        let mut times = Dice::new(seed, "times");
        shape.keep_at_times(&mut times);
        let mut above = Dice::new(seed, "devices");
        let has_devices = above.once_in(3) && shape.put_devices(&mut above, &self.oracle);
        shape.find_rows(&mut Dice::new(seed, "lookup"));
        shape.warm_up(&mut Dice::new(seed, "warm-up"));
        tally.tables.met(&self.traits);
        let before = tally.turns;
        let uses = self.undisturbed(&shape, seed, rules, tally)?;
        if times.once_in(4) {
            let turns = tally.turns - before;
            self.stopped(&shape, seed, rules, turns, &mut times, tally)?;
        }
        match fate {
            0 => {
                let first = Mishap::cut(&mut dice, &uses);
                self.cut(&shape, seed, rules, Cuts { first, uses }, &mut dice, tally)
            }
            1 | 2 => {
                let faults = Mishap::draw(&mut dice, &uses).faults();
                if has_devices && above.once_in(2) {
                    let fault = DeviceFault::draw(&mut above, shape.config.tiers.lookup);
                    return self.without_device(&shape, seed, rules, fault, tally);
                }
                self.disturbed(&shape, seed, rules, faults, tally)
            }
            _ => Ok(()),
        }
    }

    /// A run without failures.
    ///
    /// # Errors
    /// The finding of a checker.
    pub fn undisturbed(
        &self,
        shape: &Shape,
        seed: u64,
        rules: Rules,
        tally: &mut Tally,
    ) -> Result<Uses, Finding> {
        let disks = Disks::new(MemDisk::new(), Faults::default());
        let checker = Arc::new(Checker::new(Arc::clone(&self.oracle.reads), 0));
        let launch = self.launch(shape, seed, rules, &disks, &checker);
        let exit = launch.run();
        tally.add(&exit);
        self.judge(&exit, &checker, None)?;
        if let Some(why) = exit.vault.kept().unreadable.first() {
            return Err(Finding::LostCheckpoint(why.clone()));
        }
        self.judge_end(&exit, false)?;
        if let Ok(report) = &exit.result {
            let written = self.judge_whole(report, shape)?;
            tally.tables.evicted(&self.traits, &written);
        }
        Ok(Uses::of(&disks.faulty))
    }

    /// A run on a failing disk: it ends as if nothing had failed, or with an error if something
    /// did.
    ///
    /// # Errors
    /// The finding of a checker.
    pub fn disturbed(
        &self,
        shape: &Shape,
        seed: u64,
        rules: Rules,
        faults: Faults,
        tally: &mut Tally,
    ) -> Result<(), Finding> {
        let disks = Disks::new(MemDisk::new(), faults);
        let checker = Arc::new(Checker::new(Arc::clone(&self.oracle.reads), 0));
        // In a different order, too.
        let exit = self.launch(shape, !seed, rules, &disks, &checker).run();
        tally.add(&exit);
        tally.disturbed += 1;
        tally.fired += u64::from(disks.faulty.fired() > 0);
        self.judge(&exit, &checker, None)?;
        self.judge_end(&exit, disks.faulty.fired() > 0)
    }

    /// A run with a failing device: it ends with an error if the failure occurred.
    ///
    /// # Errors
    /// The finding of a checker.
    pub fn without_device(
        &self,
        shape: &Shape,
        seed: u64,
        rules: Rules,
        fault: DeviceFault,
        tally: &mut Tally,
    ) -> Result<(), Finding> {
        let disks = Disks::new(MemDisk::new(), Faults::default());
        let checker = Arc::new(Checker::new(Arc::clone(&self.oracle.reads), 0));
        let device_fault = Some(fault);
        let launch = self.launch(shape, !seed, rules, &disks, &checker);
        let exit = Launch { device_fault, ..launch }.run();
        tally.add(&exit);
        tally.device_faults += u64::from(exit.result.is_err());
        self.judge(&exit, &checker, None)?;
        self.judge_end(&exit, true)
    }

    /// A run with power failures that resumes from its last checkpoint until it finishes.
    ///
    /// # Errors
    /// The finding of a checker.
    pub fn cut(
        &self,
        shape: &Shape,
        seed: u64,
        rules: Rules,
        cuts: Cuts,
        dice: &mut Dice,
        tally: &mut Tally,
    ) -> Result<(), Finding> {
        let mut mishap = Some(cuts.first);
        let (mut disk, mut from) = (MemDisk::new(), None);
        for number in 0..=CUTS_MAX {
            let faults = mishap.map_or(Faults::default(), |mishap| mishap.faults());
            let disks = Disks::new(disk, faults);
            let steps = from.as_ref().map(|from: &Checkpoint| from.step);
            let checker =
                Arc::new(Checker::new(Arc::clone(&self.oracle.reads), steps.unwrap_or(0)));
            let name = format!("process-{number}");
            let launch = Launch {
                name: &name,
                from: from.take(),
                seed: !seed ^ (number as u64) << 48,
                ..self.launch(shape, seed, rules, &disks, &checker)
            };
            let goes_on = launch.from.clone();
            let exit = launch.run();
            tally.add(&exit);
            tally.resumed += u64::from(steps.is_some());
            self.judge(&exit, &checker, steps)?;
            let Some(Mishap::Cut { survival, .. }) = mishap else {
                // Nothing fails anymore, so all checkpoints must be readable.
                return self.judge_end(&exit, false).map_err(|finding| match finding {
                    Finding::Failed(why) => Finding::LostCheckpoint(why),
                    other => other,
                });
            };
            self.judge_end(&exit, disks.faulty.fired() > 0)?;
            if exit.result.is_ok() || exit.full.is_some() {
                return Ok(());
            }
            tally.cuts += 1;
            from = exit.vault.kept().checkpoints.last().cloned().or(goes_on);
            disk = disks.behind.crash(survival);
            let again = number + 1 < CUTS_MAX && dice.once_in(3);
            mishap = again.then(|| Mishap::cut(dice, &cuts.uses));
        }
        Ok(())
    }

    /// A run that is asked to stop at some poll, and resumes from the checkpoint it wrote then,
    /// until it finishes. `turns` is its approximate length.
    ///
    /// # Errors
    /// The finding of a checker.
    pub fn stopped(
        &self,
        shape: &Shape,
        seed: u64,
        rules: Rules,
        turns: u64,
        dice: &mut Dice,
        tally: &mut Tally,
    ) -> Result<(), Finding> {
        let disks = Disks::new(MemDisk::new(), Faults::default());
        let mut from: Option<Checkpoint> = None;
        for number in 0..=STOPS_MAX {
            let steps = from.as_ref().map(|from| from.step);
            let checker =
                Arc::new(Checker::new(Arc::clone(&self.oracle.reads), steps.unwrap_or(0)));
            let name = format!("process-{number}");
            let launch = Launch {
                name: &name,
                from: from.clone(),
                seed: seed ^ (number as u64) << 56,
                stop_after: (number < STOPS_MAX).then(|| dice.below(turns + 1)),
                ..self.launch(shape, seed, rules, &disks, &checker)
            };
            let exit = launch.run();
            tally.add(&exit);
            tally.resumed += u64::from(steps.is_some());
            self.judge(&exit, &checker, steps)?;
            self.judge_end(&exit, false)?;
            let Ok(report) = &exit.result else { return Ok(()) };
            if !report.interrupted || !shape.checkpoints {
                return Ok(());
            }
            from = exit.vault.kept().checkpoints.last().cloned().or(from);
            let kept = from.as_ref().map_or(0, |from| from.step);
            if kept != report.steps {
                let why = format!(
                    "{} steps were trained, but the last checkpoint is of step {kept}",
                    report.steps
                );
                return Err(Finding::LostCheckpoint(why));
            }
        }
        Ok(())
    }

    /// A first process on `disks`, observed by `checker`.
    pub fn launch<'a>(
        &'a self,
        shape: &'a Shape,
        seed: u64,
        rules: Rules,
        disks: &'a Disks,
        checker: &Arc<Checker>,
    ) -> Launch<'a> {
        let witness = Arc::clone(checker) as Arc<_>;
        let pool = &self.pools[shape.config.threads - 1];
        Launch { seed, rules, ..Launch::new(shape, disks, witness, pool) }
    }
}

impl Disks {
    /// A disk with `faults` in front of `behind`.
    pub fn new(behind: MemDisk, faults: Faults) -> Self {
        let faulty = FaultyDisk::new(Arc::new(behind.clone()), faults);
        Self { faulty, behind }
    }
}
