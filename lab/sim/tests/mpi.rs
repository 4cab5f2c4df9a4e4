//! Compares the virtual clock with ranks that are processes, over MPI, and really sleep.
//!
//! If it isn't launched by MPI, this program launches itself with `mpirun`, once for each run of a
//! case.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test program prints its results")]

#[path = "it/timed/mod.rs"]
mod timed;

use std::process::ExitCode;
use std::time::Duration;

use stepwell_base::clock::{Clock, SystemClock};
use stepwell_fabric::collective::Barrier;
use stepwell_fabric::mpi::{self, Options, launcher};
use stepwell_fabric::{Fabric, Tag};

use timed::{Case, RANKS};

/// Environment variable with the case to run.
const CASE: &str = "STEPWELL_TEST_CASE";
/// The case that measures the latency of a message.
const LATENCY: &str = "latency";
const BARRIER: Tag = Tag(0x7700);

fn main() -> ExitCode {
    if mpi::is_launched() {
        run_rank();
        return ExitCode::SUCCESS;
    }
    if let Err(error) = launcher::again(RANKS, &[]) {
        stepwell_skip::skipped(format_args!("mpirun does not start ({error})"));
        return ExitCode::SUCCESS;
    }
    let latency = measured(LATENCY)[0];
    println!("a message to a rank that waits takes {:.0} us", 1e6 * latency);
    let mut failures = 0;
    for (number, case) in Case::all().into_iter().enumerate() {
        let predicted = case.predicted(latency);
        let mut ratios = Vec::new();
        // Processes are sometimes late on a busy machine, so one good time in a few suffices.
        let is_near = (0..5).any(|_| {
            let slowest = measured(&number.to_string()).into_iter().fold(0.0, f64::max);
            ratios.push(slowest / predicted);
            ratios.last().is_some_and(|ratio| (ratio - 1.0).abs() < 0.15)
        });
        let verdict = if is_near { "ok" } else { "FAILED" };
        println!("{case}: {verdict}, predicted {predicted:.3} s, measured {ratios:.3?} of it");
        failures += usize::from(!is_near);
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Times reported by each rank of a case.
fn measured(case: &str) -> Vec<f64> {
    let mut launcher = launcher::again(RANKS, &[]).unwrap();
    let output = launcher.env(CASE, case).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    let seconds: Vec<f64> = said
        .lines()
        .filter_map(|line| line.strip_prefix("seconds "))
        .map(|seconds| seconds.parse().unwrap())
        .collect();
    assert_eq!(seconds.len(), RANKS, "{said}");
    seconds
}

fn run_rank() {
    let case = std::env::var(CASE).unwrap();
    let patience = Options { patience_seconds: 30.0, ..Options::default() };
    let fabric = mpi::join(patience).unwrap().unwrap();
    // Processes start one after another; a run starts with all of them.
    fabric.wait(Barrier::start(BARRIER)).unwrap();
    let seconds = match case.parse::<usize>() {
        Ok(number) => Case::all()[number].slept(&fabric).seconds,
        Err(_) => latency(&fabric),
    };
    fabric.end();
    drop(fabric);
    println!("seconds {seconds}");
}

/// Median time per message of a barrier of all ranks, after ranks sent nothing for a while, as if
/// they computed.
fn latency(fabric: &Fabric) -> f64 {
    let (clock, mut all) = (SystemClock::new(), Vec::new());
    for _ in 0..41 {
        fabric.wait(Barrier::start(BARRIER)).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        let begin = clock.seconds();
        fabric.wait(Barrier::start(BARRIER)).unwrap();
        all.push((clock.seconds() - begin) / f64::from(RANKS.ilog2()));
    }
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
