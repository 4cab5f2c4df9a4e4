//! The virtual clock beside ranks that are processes, over MPI, and really sleep.
//!
//! Not launched by MPI, this program launches itself by `mpirun`, once for each run of a case.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program of tests")]

mod timed;

use std::process::ExitCode;

use stepwell_fabric::mpi::{self, Options, launcher};

use timed::{Case, RANKS};

/// Which case ranks are to run.
const CASE: &str = "STEPWELL_TEST_CASE";

fn main() -> ExitCode {
    if mpi::is_launched() {
        run_rank();
        return ExitCode::SUCCESS;
    }
    if let Err(error) = launcher::again(RANKS, &[]) {
        stepwell_skip::skipped(format_args!("mpirun does not start ({error})"));
        return ExitCode::SUCCESS;
    }
    let mut failures = 0;
    for (number, case) in Case::all().into_iter().enumerate() {
        let predicted = case.predicted();
        let mut ratios = Vec::new();
        // Processes are late now and then on a busy machine, so that one good time of a few counts.
        let is_near = (0..5).any(|_| {
            ratios.push(measured(number) / predicted);
            ratios.last().is_some_and(|ratio| (ratio - 1.0).abs() < 0.15)
        });
        let verdict = if is_near { "ok" } else { "FAILED" };
        println!("{case}: {verdict}, predicted {predicted:.3} s, measured {ratios:.3?} of it");
        failures += usize::from(!is_near);
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the slowest rank of a case says that it took.
fn measured(case: usize) -> f64 {
    let mut launcher = launcher::again(RANKS, &[]).unwrap();
    let output = launcher.env(CASE, case.to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    let seconds: Vec<f64> = said
        .lines()
        .filter_map(|line| line.strip_prefix("seconds "))
        .map(|seconds| seconds.parse().unwrap())
        .collect();
    assert_eq!(seconds.len(), RANKS, "{said}");
    seconds.into_iter().fold(0.0, f64::max)
}

fn run_rank() {
    let case: usize = std::env::var(CASE).unwrap().parse().unwrap();
    let patience = Options { patience_seconds: 30.0, ..Options::default() };
    let fabric = mpi::join(patience).unwrap().unwrap();
    let driven = Case::all()[case].slept(&fabric);
    fabric.end();
    drop(fabric);
    println!("seconds {}", driven.seconds);
}
