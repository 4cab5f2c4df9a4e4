//! The `stepwell` program: reads the command line, runs the command, prints its results.

#![forbid(unsafe_code)]

mod bars;
mod cli;
mod convert;
mod curves;
mod device;
mod diff;
mod distribution;
mod eval;
mod export;
mod file;
mod folder;
mod import;
mod inspect;
mod launched;
mod names;
mod pages;
mod plan;
mod predict;
mod progress;
mod record_file;
mod resolve;
mod schema;
mod score;
mod snapshots;
mod statistics;
mod store;
mod synth;
mod table;
mod train;
mod warm_start;

use std::process::ExitCode;

use cli::{Cli, ConfigListArgs, Job};
use stepwell_cli::{Failure, failure, outputs, say, signals, width};
use stepwell_settings::Config;

fn main() -> ExitCode {
    stepwell_cli::main("stepwell", || cli::parse().and_then(run))
}

fn run(cli: Cli) -> Result<(), Failure> {
    if cli.quiet {
        say::be_quiet();
    }
    match cli.job {
        Job::Train(args) => train::run(&args).map_err(Failure::of_training),
        Job::Eval(args) => eval::run(&args),
        Job::Predict(args) => predict::run(&args),
        Job::Export(args) => export::run(&args),
        Job::Import(args) => import::run(&args),
        Job::Diff(args) => diff::run(&args),
        Job::Inspect(args) => inspect::run(&args),
        Job::Synth(args) => synth::run(&args),
        Job::Device(args) => device::run(&args),
        Job::Convert(args) => convert::run(&args),
        Job::Plan(args) => plan::run(&args),
        Job::Store(args) => store::run(&args),
        Job::Config(args) => config(&args),
        Job::Schema(args) => schema::run(&args),
        Job::Completions(args) => pages::completions(&args),
        Job::Man(args) => pages::man(&args),
    }
}

/// `stepwell config`.
fn config(args: &ConfigListArgs) -> Result<(), Failure> {
    let (config, chosen) =
        resolve::resolve(&args.settings, None, Config::default()).map_err(Failure::Usage)?;
    train::check(&config, &chosen).map_err(Failure::Usage)?;
    if args.json {
        return say::json(&stepwell_settings::to_json(&config));
    }
    match args.toml {
        true => say::whole(&stepwell_settings::to_toml(&config)),
        false => table::settings(&config).say(),
    }
}
