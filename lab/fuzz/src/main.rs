//! The fuzzer of whole runs: drawn data, models and machines, killed and resumed, one model.
//!
//! - **Why.** Stepwell promises that the model depends on seed, settings and data alone. Tests show
//!   it for settings that somebody thought of; this shows it for settings that nobody did.
//! - **How.** A seed is a case (`draw`): data, a model, and variants of the machine. A reference
//!   with everything in memory says what the model is, the data say what it must count (`job`);
//!   every variant, ended by signals and resumed on other machines, must give it (`check`). The
//!   program is the real one, from outside (`process`).
//! - **Failure.** A finding ends the run with status 1: its seed and the last command are printed,
//!   and the folder of the case stays, with a script of all commands in it.
//!
//! It is a crate of its own, beside `xtask`, since it compresses data and reads options, and
//! `xtask` is built before every check.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod check;
mod dice;
mod draw;
mod fault;
mod files;
mod hunt;
mod job;
mod mend;
mod process;
mod said;
mod tally;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;

use crate::hunt::{Hunt, Options};

/// Runs the program on drawn data, models and machines, kills and resumes it, and compares.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask fuzz")]
struct Args {
    /// Processes that train to run, to their end or until they are stopped, at least: the case at
    /// hand is finished
    #[arg(long, default_value_t = 100, value_name = "N")]
    runs: u64,
    /// Seed of the first case, those after it have the next ones (default: the time)
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Program to run (default: `stepwell` beside this one)
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Minutes after which no further case is begun
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// Directory that the folders of findings are kept in (default: a temporary one)
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Seconds after which a process hangs
    #[arg(long, default_value_t = 120, value_name = "S")]
    limit: u64,
    /// Findings after which to end
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
    let program = args.program.or_else(beside).ok_or("cannot tell where the program is")?;
    let program = program.canonicalize().map_err(|error| {
        format!(
            "cannot run {}: {error}; build it, or name another with --program",
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
