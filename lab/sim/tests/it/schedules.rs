//! Thousands of schedules of hundreds of jobs: every row is right, regardless of the order of
//! events and of the disk.
//!
//! `STEPWELL_SIM_SEED=n` replays one schedule; `STEPWELL_SIM_FROM` and `STEPWELL_SIM_SCHEDULES`
//! select schedules other than the default.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]
#![expect(clippy::print_stdout, reason = "the test prints what it found")]

use std::time::Instant;

use stepwell_base::rules::Rules;
use stepwell_sim::{Case, Dice, SCHEDULES_PER_JOB, Shape, Tally, pools, search};

/// Default seeds; each is a schedule without faults, and every other one also a schedule with some.
const SEEDS: u64 = 1_664;
const SEEDS_LONG: u64 = 96_000;
/// Fewest runs of these.
const RUNS_MIN: u64 = 3_300;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn replay(seed: u64) {
    let case = Case::of(seed, &pools().unwrap()).unwrap();
    let shape = Shape::draw(&mut Dice::new(seed, "schedule"), &case.job().config, case.oracle());
    println!("schedule {seed} of job {}: {shape:#?}", case.job().number);
    let mut tally = Tally::default();
    let outcome = case.run(seed, Rules::default(), &mut tally);
    println!("{tally:?}");
    outcome.unwrap_or_else(|finding| panic!("{finding}"));
}

#[test]
fn every_row_of_every_schedule_is_right() {
    if let Some(seed) = number("STEPWELL_SIM_SEED") {
        return replay(seed);
    }
    let asked = number("STEPWELL_SIM_SCHEDULES");
    let long = std::env::var_os("STEPWELL_LONG").is_some();
    let seeds = asked.unwrap_or(if long { SEEDS_LONG } else { SEEDS });
    let first = number("STEPWELL_SIM_FROM").unwrap_or(0);
    let begin = Instant::now();
    let tally = search(first..first + seeds, Rules::default(), stepwell_base::cores());
    let tally = tally.unwrap_or_else(|found| panic!("{found}"));
    println!("{tally:?} in {:.1} s", begin.elapsed().as_secs_f64());
    if asked.is_some() {
        return;
    }
    assert!(tally.runs >= RUNS_MIN, "{tally:?}");
    // Anything that never happened wasn't tested.
    let met =
        [tally.forwarded, tally.refilled, tally.harvested, tally.evictions, tally.compactions];
    assert!(met.iter().all(|count| *count > RUNS_MIN / 4), "{tally:?}");
    let met = [tally.lifted, tally.on_devices];
    assert!(met.iter().all(|count| *count > RUNS_MIN / 4), "{tally:?}");
    assert!(tally.device_faults > RUNS_MIN / 200, "{tally:?}");
    let met = [tally.cuts, tally.resumed, tally.fired, tally.stopped];
    assert!(met.iter().all(|count| *count > RUNS_MIN / 20), "{tally:?}");
    assert!(tally.tables.all().iter().all(|count| *count > 40), "{tally:?}");
    // A run with a power failure ends with an error, and so do most with other disk faults.
    assert!(tally.errors > tally.cuts + tally.disturbed / 4, "{tally:?}");
}

#[test]
fn a_schedule_is_the_same_every_time() {
    let seeds = 5 * SCHEDULES_PER_JOB..7 * SCHEDULES_PER_JOB;
    let first = search(seeds.clone(), Rules::default(), 1).unwrap();
    assert_eq!(search(seeds, Rules::default(), 2).unwrap(), first);
}
