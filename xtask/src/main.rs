//! Project checks: `cargo xtask <command>` runs them.
//!
//! - **Why.** A single command decides whether a change is good, in the same way on every machine.
//! - **How.** `ci` is a list of steps, each of which is also a separate command. A step either
//!   starts a tool (`run`) or reads the repository itself (`floors`, `tidy`).
//! - **Failure.** The first failing step ends the run with status 1 and its name on the last line.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod book;
mod circles;
mod command;
mod floors;
mod hung;
mod invariants;
mod limit;
mod mpi;
mod outcome;
mod programs;
mod python;
mod run;
mod sanitize;
mod skipped;
mod tally;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  ci       every check below but `quick` and `long`, in order, up to the first failure
  quick    formatting, floors, sources and unit tests, for the inner loop
  fmt      formatting is rustfmt's
  clippy   no warning from clippy in the program as users build it
  test     no warning from clippy in any target; unit, integration and documentation tests, over
           MPI as well where it is installed
  twin     checkpoints and rows, read anew in NumPy: seconds of `bench/twin.py`
  book     the book of `docs/` builds without a warning and its links lead somewhere: target/book
  doc      the documentation builds without a warning
  floors   imports among the crates go down, never up; those among files form no circles
  tidy     sizes of files, widths of lines, heads of crates
  long     the long suite: optimized, large sizes, kernels under sanitizers, 500 runs of the
           fuzzer, more over MPI, all of the twin, the Python package, the comparison with PyTorch
           (`long STEP` runs one of: tests, sanitize, fuzz, twin, python, peer)
  python   the Python package: builds its wheel, installs it into a new environment, and runs its
           tests; those of PyTorch if STEPWELL_PEER names a Python that has it
  mpi      ranks as processes, a part of `test`
  sanitize kernels under the C++ compiler's sanitizers, a part of `long`
  fuzz     runs of the program on drawn data, models and machines, killed and resumed
           (its options follow: --runs, --seed, --program, --minutes, --keep; see --help)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [command, options @ ..] if command == "fuzz" => run::fuzz(&root(), options),
        [command] => {
            let Some(steps) = steps(command) else {
                eprint!("unknown command `{command}`\n\n{USAGE}");
                return ExitCode::from(2);
            };
            run::steps(&root(), &steps)
        }
        [command, step] if command == "long" => {
            let Some(step) = LONG.iter().find(|(name, _)| name == step) else {
                eprint!("unknown step `{step}` of `long`\n\n{USAGE}");
                return ExitCode::from(2);
            };
            run::steps(&root(), &[*step])
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The steps of `long`, hours in all.
const LONG: [run::Step; 6] = [
    ("tests", programs::long),
    ("sanitize", sanitize::kernels),
    ("fuzz", run::fuzz_long),
    ("twin", run::twin_long),
    ("python", python::check),
    ("peer", run::peer),
];

/// The steps of a command; `None` if it doesn't exist.
fn steps(command: &str) -> Option<Vec<run::Step>> {
    const CI: [run::Step; 8] = [
        ("fmt", run::fmt),
        ("clippy", run::clippy),
        ("test", programs::test),
        ("twin", run::twin),
        ("doc", run::doc),
        ("book", book::check),
        ("floors", floors::check),
        ("tidy", tidy::check),
    ];
    match command {
        "ci" => Some(CI.to_vec()),
        "quick" => Some(vec![
            ("fmt", run::fmt),
            ("floors", floors::check),
            ("tidy", tidy::check),
            ("units", programs::units),
        ]),
        "long" => Some(LONG.to_vec()),
        "python" => Some(vec![("python", python::check)]),
        "mpi" => Some(vec![("mpi", programs::mpi)]),
        "sanitize" => Some(vec![("sanitize", sanitize::kernels)]),
        _ => CI.iter().find(|(name, _)| *name == command).map(|step| vec![*step]),
    }
}

/// Root of the repository: the parent directory of this crate.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_ci_is_a_command_of_its_own() {
        for (name, _) in steps("ci").unwrap() {
            assert_eq!(steps(name).unwrap().len(), 1, "{name}");
            assert!(USAGE.contains(&format!("\n  {name} ")), "{name} is not in the usage text");
        }
        assert!(steps("deploy").is_none());
    }
}
