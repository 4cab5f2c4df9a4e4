//! Fuzzer of whole runs: random data, models and machines, killed and resumed, must give one model.
//!
//! - **Why.** Stepwell guarantees that the model depends only on seed, settings and data. Tests
//!   check that for chosen settings; the fuzzer checks it for settings that nobody thought of.
//! - **How.** A seed determines a case (`draw`): data, a model, and variants of the machine. A
//!   reference with everything in memory gives the expected model, and the data give the expected
//!   counts (`job`). Every variant, ended by signals and resumed on other machines, must match
//!   (`check`). The program is the real one, run from outside (`process`).
//! - **Failure.** A finding ends the run with status 1. Its seed and the last command are printed,
//!   and the directory of the case is kept, with a script of all commands.
//!
//! It is a separate crate from `xtask`, since it compresses data and parses options, and `xtask` is
//! built before every check.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod check;
mod dice;
mod draw;
mod expected;
mod fault;
mod files;
mod hunt;
mod job;
mod least_machine;
mod process;
mod tally;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;

use crate::hunt::{Hunt, Options};

/// Runs the program on random data, models and machines, kills and resumes it, and compares
#[derive(Debug, Parser)]
#[command(name = "cargo xtask fuzz")]
struct Args {
    /// Fewest training processes to run, to their end or until stopped; the last case is completed
    #[arg(long, default_value_t = 100, value_name = "N")]
    runs: u64,
    /// Seed of the first case; later cases use the following seeds (default: the time)
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Program to run (default: `stepwell` next to this one)
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Minutes after which no further case is started
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// Directory for the directories of findings (default: a temporary one)
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Seconds after which a process counts as hung
    #[arg(long, default_value_t = 120, value_name = "S")]
    limit: u64,
    /// Findings after which to stop
    #[arg(long, default_value_t = 1, value_name = "N")]
    findings: u64,
}

fn main() -> ExitCode {
    match options(Args::parse()).and_then(|options| Hunt::new(options).run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("fuzz: {why}");
            ExitCode::FAILURE
        }
    }
}

fn options(args: Args) -> Result<Options, String> {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.join("stepwell"));
    let program =
        args.program.or_else(beside).ok_or("cannot find the program: give it with --program")?;
    let program = program.canonicalize().map_err(|error| {
        format!(
            "cannot run {}: {error}; build it, or give another with --program",
            program.display()
        )
    })?;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs());
    let time = match args.minutes.map(|minutes| (minutes, 60.0 * minutes)) {
        None => Duration::MAX,
        Some((minutes, seconds)) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| format!("--minutes {minutes}: give a number of minutes, such as 5"))?,
    };
    Ok(Options {
        program,
        runs: args.runs,
        seed: args.seed.unwrap_or_else(now),
        time,
        keep: args.keep,
        limit: Duration::from_secs(args.limit),
        findings: args.findings.max(1),
    })
}
