//! The `stepwell-lab` program: measures the parts of Stepwell, runs the papers' experiments, and
//! tries eviction policies.

#![forbid(unsafe_code)]

mod bench;
mod cache_sim;
mod cli;
mod end;
mod study;

use std::process::ExitCode;

use cli::{Cli, Job};
use stepwell_cli::Failure;

fn main() -> ExitCode {
    ExitCode::from(stepwell_cli::main("stepwell-lab", || cli::parse().and_then(run)))
}

fn run(cli: Cli) -> Result<(), Failure> {
    cli.verbosity.apply();
    match cli.job {
        Job::Bench(args) => bench::run(&args),
        Job::Study(args) => study::run(&args),
        Job::CacheSim(args) => cache_sim::run(&args),
    }
}
