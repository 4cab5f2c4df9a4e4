//! Jobs that several ranks train, under schedules in which messages are late and pairs of ranks
//! overtake each other. The model and all its checkpoints equal those of a single rank in memory,
//! and any number of ranks can resume from a checkpoint.
//!
//! `STEPWELL_SIM_SEED=n` replays one schedule.

#![expect(clippy::panic, reason = "a failed test panics")]
#![expect(clippy::print_stdout, reason = "the test prints what it found")]

use stepwell_base::rules::Rules;
use stepwell_disk::MemDisk;
use stepwell_settings::{Config, OptimizerKind, RowsConfig, TableConfig};
use stepwell_sim::{
    Case, Detail, Dice, Job, Length, Pools, Ranked, RanksTally, SCHEDULES_PER_JOB, Shape,
    over_jobs, pools,
};

/// Jobs, and schedules per job: as many as fit in CI.
const JOBS: u64 = 50;
const JOBS_LONG: u64 = 2400;
const SCHEDULES: u64 = 4;
/// Fewest runs of these jobs.
const RUNS_MIN: u64 = 180;
/// Jobs in which all rows may be lent.
const LENDING: u64 = 14;
const LENDING_LONG: u64 = 200;
/// Most stops of a run, after each of which it resumes.
const STOPS_MAX: usize = 2;

/// Runs the schedule `seed` of `case`, unless only a single rank can run the job.
fn run(case: &Case, seed: u64, tally: &mut RanksTally) {
    let mut dice = Dice::new(seed, "ranks");
    let blocks = case.job().config.train.blocks as u64;
    if blocks < 2 || case.oracle().full.is_some() {
        return;
    }
    let world = MemDisk::new();
    let (mut ranks, mut from, mut stops) = (dice.within(2, blocks) as usize, None, 0);
    let mut turns = None;
    loop {
        let mut shape = Shape::draw(&mut dice, &case.job().config, case.oracle());
        if dice.once_in(3) || from.is_some() {
            shape.keep_some(&mut dice);
            shape.keep_at_times(&mut dice);
        }
        // A resumed run may exchange rows differently.
        shape.exchange_by(seed + stops as u64, case.oracle());
        let mut above = Dice::new(seed + stops as u64, "devices of ranks");
        if above.once_in(4) {
            shape.put_devices(&mut above, case.oracle());
            shape.find_rows(&mut Dice::new(seed + stops as u64, "lookup of ranks"));
            shape.warm_up(&mut Dice::new(seed + stops as u64, "warm-up of ranks"));
        }
        let stop_after = turns.filter(|_| stops < STOPS_MAX).map(|turns| dice.below(turns));
        let world = &world;
        let process = Ranked { shape: &shape, ranks, seed, stop_after, world, from: from.clone() };
        let end = case
            .with_ranks(process, Rules::default(), tally)
            .unwrap_or_else(|found| panic!("STEPWELL_SIM_SEED={seed}, {ranks} ranks: {found}"));
        from = end.kept.or(from);
        match turns {
            // The whole run succeeded; the next run is stopped midway and resumes.
            None if dice.once_in(3) => (turns, from) = (Some(end.turns), None),
            Some(_) if end.interrupted && shape.checkpoints => {
                stops += 1;
                ranks = dice.within(1, blocks) as usize;
            }
            _ => return,
        }
    }
}

/// Runs `jobs` jobs on all cores; `job` makes the case of each number.
fn run_all(jobs: u64, job: impl Fn(u64, &Pools) -> Case + Sync) -> RanksTally {
    let tally = over_jobs(jobs, |number, pools, tally| {
        let (case, first) = (job(number, pools), number * SCHEDULES_PER_JOB);
        (first..first + SCHEDULES).for_each(|seed| run(&case, seed, tally));
    });
    println!("{tally:?}");
    tally
}

#[test]
fn ranks_train_the_same_model_whatever_the_network_does() {
    if let Ok(seed) = std::env::var("STEPWELL_SIM_SEED") {
        let seed = seed.parse().unwrap();
        let case = Case::of(seed, &pools().unwrap()).unwrap();
        return run(&case, seed, &mut RanksTally::default());
    }
    let long = std::env::var_os("STEPWELL_LONG").is_some();
    let jobs = if long { JOBS_LONG } else { JOBS };
    let tally = run_all(jobs, |job, pools| Case::of(job * SCHEDULES_PER_JOB, pools).unwrap());
    assert!(tally.stopped > JOBS / 4 && tally.resumed > JOBS / 6, "{tally:?}");
    assert!(tally.checkpoints > JOBS, "{tally:?}");
    assert!(tally.lending > JOBS / 20 && tally.early > 40 * JOBS, "{tally:?}");
    assert!(tally.lifted > 100 * JOBS, "{tally:?}");
    assert!(tally.runs > RUNS_MIN && tally.evictions > 1000 && tally.refilled > 1000, "{tally:?}");
}

/// Jobs in which all rows may be lent, and are if a rank needs them twice.
#[test]
fn rows_that_ranks_lend_each_other_are_what_they_would_be() {
    let long = std::env::var_os("STEPWELL_LONG").is_some();
    let tally = run_all(if long { LENDING_LONG } else { LENDING }, |number, pools| {
        let mut job = Job::draw(number, Length { steps: (30, 40), ..Length::SHORT });
        job.config.pipeline.staleness = 0;
        let storage = job.config.rows.storage;
        job.config.rows = RowsConfig { storage, ..Config::default().rows };
        job.config.optim.rows.kind = OptimizerKind::Sgd.into();
        for table in &mut job.config.tables {
            let of = TableConfig::named(&table.name);
            *table = TableConfig { dim: table.dim, place: table.place, dram: table.dram, ..of };
        }
        Case::prepare(job, Detail::EachRead, pools).unwrap()
    });
    assert!(tally.lent > 20 * LENDING && tally.lending > LENDING, "{tally:?}");
    assert!(tally.stopped > LENDING / 4 && tally.resumed > LENDING / 6, "{tally:?}");
}

#[test]
fn a_schedule_of_ranks_is_the_same_every_time() {
    let pools = pools().unwrap();
    let of = || {
        let mut tally = RanksTally::default();
        for job in 0..6 {
            let seed = job * SCHEDULES_PER_JOB;
            run(&Case::of(seed, &pools).unwrap(), seed, &mut tally);
        }
        tally
    };
    assert_eq!(of(), of());
}
