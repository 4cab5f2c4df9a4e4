//! Ranks as processes: the same machines, on threads, over MPI.
//!
//! If MPI did not launch it, this program launches itself by `mpirun`, once for each number of
//! ranks.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test program prints its results")]

#[path = "it/support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::sync::Arc;

use stepwell_base::clock::SystemClock;
use stepwell_fabric::mpi::launcher::again;
use stepwell_fabric::mpi::{self, Options};
use stepwell_geeps::{Applies, Running, Settings, Staleness};

use support::oracle::{Rows, same, trained};
use support::worker::Worker;
use support::{Model, Values};

const CLOCKS: u64 = 20;

fn main() -> ExitCode {
    if mpi::is_launched() {
        run_rank();
        return ExitCode::SUCCESS;
    }
    if let Err(error) = again(1, &[]) {
        stepwell_skip::skipped(error);
        return ExitCode::SUCCESS;
    }
    let mut failures = 0;
    for ranks in [1, 2, 3] {
        let output = again(ranks, &[]).unwrap().output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let is_right = output.status.success()
            && (0..ranks).all(|rank| said.contains(&format!("{rank}: bits of the oracle")));
        println!("{ranks} ranks: {}", if is_right { "ok" } else { "FAILED" });
        if !is_right {
            println!("{said}{}", String::from_utf8_lossy(&output.stderr));
            failures += 1;
        }
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One rank: trains, and compares its rows with the oracle's.
fn run_rank() {
    let options = Options { patience_seconds: 30.0, ..Options::default() };
    let fabric = mpi::join(options).unwrap().unwrap();
    let (rank, ranks) = (fabric.rank(), fabric.size());
    let model = Model::new(&[64, 48, 64], Applies::ByClock, Staleness::BSP, Values::Fractions);
    let budget_bytes = 2 * model.peak_bytes() + model.data_bytes() / 3;
    let settings = Settings { budget_bytes, ..model.settings() };
    let running = Running::start(&settings, fabric.clone(), Arc::new(SystemClock::new())).unwrap();
    let mut worker = Worker::new(&model, rank, CLOCKS);
    worker.gather(&running).unwrap();
    while !worker.is_over() {
        if !worker.poll(&running).unwrap() {
            std::thread::yield_now();
        }
    }
    assert!(worker.found.is_empty(), "{:?}", worker.found);
    let shard = running.finish().unwrap().shard;
    fabric.end();
    drop(fabric);
    let mut wanted = trained(&model, ranks, CLOCKS);
    let tables = shard.into_iter().enumerate();
    let own: Rows = tables
        .flat_map(|(table, rows)| {
            rows.into_iter().map(move |(key, row)| ((table as u32, key), row))
        })
        .collect();
    wanted.retain(|at, _| own.contains_key(at));
    match same(&own, &wanted) {
        Ok(()) => println!("{rank}: bits of the oracle in {} rows", own.len()),
        Err(difference) => println!("{rank}: {difference}"),
    }
}
