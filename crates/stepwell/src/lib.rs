//! The `stepwell` program: reads the command line, runs the command, prints its results.
//!
//! A library, because the Python package has the program as well, in its own shared library.

#![forbid(unsafe_code)]

mod bars;
mod cli;
mod convert;
mod curves;
mod device;
mod diff;
mod distribution;
mod ended;
mod eval;
mod export;
mod figures_text;
mod graph_drawing;
mod import;
mod inspect;
mod launched_ranks;
mod man_pages;
mod new_directory;
mod plan;
mod planned;
mod predict;
mod progress;
mod record_file;
mod resolve;
mod schema;
mod score;
mod score_texts;
mod settings_file;
mod snapshots;
mod statistics;
mod store;
mod surroundings;
mod synth;
mod train;
mod tune;
mod warm_start;

use std::ffi::OsString;

use cli::{Cli, ConfigListArgs, Job, TrainArgs};
use stepwell_cli::{Failure, failure, outputs, say, signals, width};
use stepwell_settings::Config;

/// Runs the program with the command line `args`, which begins with the program's name; returns the
/// exit status. If they only ask for help or the version, the process ends.
pub fn main(args: Vec<OsString>) -> u8 {
    stepwell_cli::main("stepwell", || cli::parse(args).and_then(run))
}

fn run(cli: Cli) -> Result<(), Failure> {
    cli.verbosity.apply();
    match cli.job {
        Job::Train(args) => train_alone_or_launched(&args).map_err(Failure::of_training),
        Job::Tune(args) => tune::run(&args).map_err(Failure::of_training),
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
        Job::Completions(args) => man_pages::completions(&args),
        Job::Man(args) => man_pages::man(&args),
    }
}

/// `stepwell train`, alone or as one of several launched ranks.
fn train_alone_or_launched(args: &TrainArgs) -> Result<(), Failure> {
    match launched_ranks::join()? {
        Some(fabric) => launched_ranks::run(args, fabric),
        None => train::run(args),
    }
}

/// The layers of `graph` as TOML, after the learning rates that `config` has by its kind of model.
fn graph_as_toml(config: &Config, graph: &Config) -> String {
    let (was, now, mut text) = (&config.optim, &graph.optim, String::new());
    for (part, was, now) in
        [("rows", was.rows.lr, now.rows.lr), ("dense", was.dense.lr, now.dense.lr)]
    {
        if let Some(lr) = now.filter(|_| was.is_none()) {
            text += &format!("[optim.{part}]\nlr = {lr}\n\n");
        }
    }
    let layers = stepwell_settings::layers_to_toml(&graph.model.layers);
    text + &format!("[model]\nkind = \"graph\"\n{layers}")
}

/// `stepwell config`.
fn config(args: &ConfigListArgs) -> Result<(), Failure> {
    let (mut config, chosen) =
        resolve::resolve(&args.settings, None, Config::default()).map_err(Failure::Usage)?;
    train::check(&config, &chosen).map_err(Failure::Usage)?;
    if args.graph || args.svg.is_some() {
        let layers = stepwell_train::layers(&config)?;
        if let Some(path) = &args.svg {
            graph_drawing::write(path, &layers)?;
        }
        if !args.graph {
            return Ok(());
        }
        let graph = config.as_graph(layers);
        if !args.json && !args.toml {
            return say::whole(&graph_as_toml(&config, &graph));
        }
        config = graph;
    }
    let config = config.with_rates();
    if args.json {
        return say::json(&stepwell_settings::to_json(&config));
    }
    match args.toml {
        true => say::whole(&stepwell_settings::to_toml(&config)),
        false => figures_text::settings(&config).say(),
    }
}
