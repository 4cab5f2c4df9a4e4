//! `stores`: Stepwell's row store and other key-value stores on one disk, one after the other.

#![forbid(unsafe_code)]

mod engine;
mod meter;
mod options;
mod phases;
mod program;
mod report;
mod scratch;
mod withhold;
mod workload;

use std::process::ExitCode;

use clap::Parser;

use meter::Machine;
use options::Options;
use report::Report;

/// What went wrong, in a line.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            progress(&message);
            ExitCode::FAILURE
        }
    }
}

/// Says on standard error what is going on.
#[expect(clippy::print_stderr, reason = "the one place where progress is printed")]
fn progress(message: &str) {
    eprintln!("stores: {message}");
}

#[expect(clippy::print_stdout, reason = "the table is what the program is for")]
fn run(options: Options) -> Result<()> {
    options.check()?;
    let (command, machine) = (std::env::args().collect(), Machine::here());
    let ours = match &options.stepwell {
        Some(program) => Some(program::stepwell(program, &options)?),
        None => None,
    };
    let (stepwell, stepwell_report) = ours.unzip();
    let engines = options.engines();
    let engines = engines.into_iter().map(|engine| phases::measure(engine, &options));
    let engines = engines.collect::<Result<Vec<_>>>()?;
    let fio = if options.fio { Some(program::fio(&options)?) } else { None };
    let factors = report::factors(stepwell.as_ref(), &engines);
    let report =
        Report { command, machine, options, stepwell, stepwell_report, engines, fio, factors };
    println!("{}", report::table(&report));
    write_json(&report)
}

fn write_json(report: &Report) -> Result<()> {
    let Some(path) = &report.options.json else { return Ok(()) };
    let cannot =
        |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let mut text = serde_json::to_vec_pretty(report).map_err(|error| cannot(&error))?;
    text.push(b'\n');
    std::fs::write(path, text).map_err(|error| cannot(&error))
}
