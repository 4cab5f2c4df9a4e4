//! Jobs that ranks train out of step, under schedules with late messages. With fresh rows and the
//! blocking sum, the model and every checkpoint equal those of a single rank. Under every protocol,
//! all steps are trained, no bound is exceeded and no rank waits forever, whichever rank asks to
//! stop and whenever.
//!
//! `STEPWELL_SIM_SEED=n` replays one schedule.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]
#![expect(clippy::print_stdout, reason = "the test prints what it found")]

use stepwell_base::rules::{Rule, Rules};
use stepwell_disk::MemDisk;
use stepwell_sim::{
    Case, Detail, Dice, Finding, Job, Length, Pools, Ranked, RanksTally, SCHEDULES_PER_JOB, Shape,
    over_jobs, pools,
};

const JOBS: u64 = 24;
const JOBS_LONG: u64 = 900;
/// Most jobs until a hazard must occur.
const JOBS_MAX: u64 = 36;
const SCHEDULES: u64 = 4;
/// Most stops of a run, after each of which it resumes.
const STOPS_MAX: usize = 2;

/// Runs the schedule `seed` of `case`, unless only a single rank can run the job.
///
/// # Errors
/// The finding of a checker.
fn run(case: &Case, seed: u64, rules: Rules, tally: &mut RanksTally) -> Result<(), Finding> {
    let mut dice = Dice::new(seed, "apart");
    let blocks = case.job().config.train.blocks as u64;
    if blocks < 2 || case.oracle().full.is_some() {
        return Ok(());
    }
    let world = MemDisk::new();
    let ranks = dice.within(2, blocks) as usize;
    let (mut from, mut stops, mut turns) = (None, 0, None);
    loop {
        let mut shape = Shape::draw(&mut dice, &case.job().config, case.oracle());
        if dice.once_in(3) || from.is_some() {
            shape.keep_some(&mut dice);
            shape.keep_at_times(&mut dice);
        }
        // A resumed run has the same model, so its ranks use the same protocol.
        shape.agree_by(seed, ranks);
        let stop_after = turns.filter(|_| stops < STOPS_MAX).map(|turns| dice.below(turns));
        let world = &world;
        let process = Ranked { shape: &shape, ranks, seed, stop_after, world, from: from.clone() };
        let end = case.with_ranks(process, rules, tally)?;
        from = end.kept.or(from);
        match turns {
            // The whole run succeeded; the next run is stopped midway and resumes.
            None if dice.once_in(3) => (turns, from) = (Some(end.turns), None),
            Some(_) if end.interrupted && shape.checkpoints => stops += 1,
            _ => return Ok(()),
        }
    }
}

fn case_of(job: u64, pools: &Pools) -> Case {
    let mut job = Job::draw(job * SCHEDULES_PER_JOB, Length::SHORT);
    job.config.pipeline.staleness = 0;
    Case::prepare(job, Detail::EachRead, pools).unwrap()
}

#[test]
fn ranks_out_of_step_train_every_step_and_keep_their_bound() {
    if let Ok(seed) = std::env::var("STEPWELL_SIM_SEED") {
        let seed: u64 = seed.parse().unwrap();
        let case = case_of(seed / SCHEDULES_PER_JOB, &pools().unwrap());
        return run(&case, seed, Rules::default(), &mut RanksTally::default()).unwrap();
    }
    let jobs = if std::env::var_os("STEPWELL_LONG").is_some() { JOBS_LONG } else { JOBS };
    let tally = over_jobs(jobs, |number, pools, tally| {
        let (case, first) = (case_of(number, pools), number * SCHEDULES_PER_JOB);
        for seed in first..first + SCHEDULES {
            run(&case, seed, Rules::default(), tally)
                .unwrap_or_else(|found| panic!("STEPWELL_SIM_SEED={seed}: {found}"));
        }
    });
    println!("{tally:?}");
    assert!(tally.runs > 3 * JOBS && tally.stopped > JOBS / 6, "{tally:?}");
    assert!(tally.resumed > JOBS / 10 && tally.checkpoints > JOBS, "{tally:?}");
    assert!(tally.in_tables > JOBS && tally.missed > 1, "{tally:?}");
    assert!(tally.lacked > 2 && tally.dropped > 0 && tally.evictions > 1000, "{tally:?}");
}

/// Runs schedules without `rule` until one of these checkers finds something.
fn breaks(rule: Rule, checkers: &[&str]) {
    let (pools, mut tally) = (pools().unwrap(), RanksTally::default());
    for job in 0..JOBS_MAX {
        let case = case_of(job, &pools);
        for seed in job * SCHEDULES_PER_JOB..job * SCHEDULES_PER_JOB + SCHEDULES {
            let Err(found) = run(&case, seed, Rules::without(rule), &mut tally) else { continue };
            println!("without {rule:?}, after {} runs, seed {seed}: {found}", tally.runs);
            assert!(checkers.contains(&found.checker()), "{found}");
            return;
        }
    }
    panic!("without {rule:?} nothing is found: {tally:?}");
}

#[test]
fn h27_a_rank_that_is_answered_too_early_reads_rows_that_lack_too_much() {
    breaks(Rule::HoldBackReads, &["wrong row", "wrong model", "wrong checkpoint", "wrong figures"]);
}

#[test]
fn h28_ranks_that_stop_at_once_leave_others_behind() {
    breaks(Rule::EndTogether, &["panic", "deadlock", "error", "wrong end", "lost checkpoint"]);
}

#[test]
fn h29_a_model_that_is_looked_at_too_early_lacks_gradients() {
    breaks(Rule::SettleAtMarks, &["wrong model", "wrong checkpoint", "wrong figures", "panic"]);
}
