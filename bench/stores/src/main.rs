//! `stores`: Stepwell's row store and other key-value stores on one disk, one after the other.

#![forbid(unsafe_code)]

mod engine;
mod fio;
mod meter;
mod options;
mod phases;
mod report;
mod scratch;
mod withhold;
mod workload;

use std::process::{Command, ExitCode, Stdio};

use clap::Parser;

use engine::Engine;
use meter::Machine;
use options::Options;
use phases::Figures;
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
    if let Some(engine) = options.alone {
        let figures = phases::measure(engine, &options)?;
        let text = serde_json::to_string(&figures).map_err(|error| error.to_string())?;
        println!("{text}");
        return Ok(());
    }
    let (command, machine) = (std::env::args().collect(), Machine::here());
    let mut disk = Vec::new();
    disk.extend(options.fio.then(|| fio::measure(&options)).transpose()?);
    let engines = options.engines().into_iter().map(measure_apart);
    let engines = engines.collect::<Result<Vec<_>>>()?;
    disk.extend(options.fio.then(|| fio::measure(&options)).transpose()?);
    let factors = report::factors(&engines);
    let report = Report { command, machine, options, engines, disk, factors };
    println!("{}", report::text(&report));
    write_json(&report)
}

/// Measures an engine in a process of its own: its memory is then nobody else's.
fn measure_apart(engine: Engine) -> Result<Figures> {
    let program = std::env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).args(["--alone", engine.name()]);
    let text = fio::run(command.stdout(Stdio::piped()))?;
    let cannot = |error| format!("figures of {}: {error}", engine.name());
    serde_json::from_slice(&text).map_err(cannot)
}

fn write_json(report: &Report) -> Result<()> {
    let Some(path) = &report.options.json else { return Ok(()) };
    let cannot =
        |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let mut text = serde_json::to_vec_pretty(report).map_err(|error| cannot(&error))?;
    text.push(b'\n');
    std::fs::write(path, text).map_err(|error| cannot(&error))
}
