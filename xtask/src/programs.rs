//! Tests of the workspace: a few processes at a time, each running its tests sequentially.
//!
//! - **Why.** `cargo test` runs programs sequentially, and at the end of each, cores wait for its
//!   longest test. Here the slowest programs start first ([`LONGEST`]).
//! - **How.** Cargo builds the programs and reports their paths. A crate has a single program of
//!   integration tests, `it`, because each program takes seconds to link; each of its modules runs
//!   as a separate process. The output of a process is shown once it has ended. Documentation tests
//!   follow, run by cargo.
//! - **Failure.** All programs run, and those that failed are listed at the end: one run shows
//!   everything to fix. A program that hangs is killed at its limit ([`Length::limits`]) and may
//!   run once more; what its threads waited for is printed last ([`hung`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{LINTING, cargo_command, output};
use crate::limit::{self, How, Limits};
use crate::outcome::Outcome;
use crate::tally::Tally;
use crate::{hung, mpi, skipped};

/// How long the programs of a suite run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    /// Minutes, in a debug build.
    Short,
    /// Up to an hour, optimized and with the sizes of `STEPWELL_LONG`.
    Long,
}

impl Length {
    /// Several times the durations of the longest test and the longest program on a busy machine.
    fn limits(self) -> Limits {
        let [test, program] = match self {
            Self::Short => [5, 15],
            Self::Long => [180, 180],
        };
        Limits { test: Duration::from_secs(test * 60), program: Duration::from_secs(program * 60) }
    }

    /// Number of times to run a program that hangs.
    fn tries(self) -> u32 {
        match self {
            Self::Short => 2,
            Self::Long => 1,
        }
    }
}

/// Name of a crate's program of integration tests.
const INTEGRATION: &str = "it";
/// Slowest programs and modules, by package and name.
const LONGEST: [(&str, &str); 14] = [
    ("ssd", "store"),
    ("engine", "checkpoint"),
    ("train", "life"),
    ("train", "out_of_step"),
    ("sim", "ranks"),
    ("sim", "schedules"),
    ("train", "devices"),
    ("study", "studies"),
    ("stepwell", "exactness"),
    ("sim", "rules"),
    ("fuzz", "planted"),
    ("train", "dense_on_devices"),
    ("device", "conformance"),
    ("stepwell", "absurd"),
];
/// Programs that measure time, and run alone at the end.
const ALONE: [(&str, &str); 4] =
    [("lab", "study"), ("sim", "clock"), ("ssd", "scale"), ("study", "geeps")];

/// A test program, or a module of one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    package: String,
    name: String,
    path: PathBuf,
    /// Directory of its package, in which it runs.
    folder: PathBuf,
    /// Tests to run; empty means all.
    tests: Vec<String>,
}

impl Program {
    /// Parses one line of cargo's JSON output; `None` if it describes something else.
    fn of(line: &str) -> Option<Self> {
        let said: Value = serde_json::from_str(line).ok()?;
        let tests = said["profile"]["test"].as_bool()?;
        let path = PathBuf::from(said["executable"].as_str().filter(|_| tests)?);
        let folder = Path::new(said["manifest_path"].as_str()?).parent()?.to_path_buf();
        let package = folder.file_name()?.to_str()?.to_owned();
        let name = said["target"]["name"].as_str()?.to_owned();
        Some(Self { package, name, path, folder, tests: Vec::new() })
    }

    /// The program itself, or each module of a program of integration tests.
    fn modules(self) -> Result<Vec<Self>, String> {
        if self.name != INTEGRATION {
            return Ok(vec![self]);
        }
        let mut list = Command::new(&self.path);
        let listed = output(list.args(["--list", "--format", "terse"]))?;
        let mut modules: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in String::from_utf8_lossy(&listed).lines() {
            let Some(test) = line.strip_suffix(": test") else { continue };
            let module = test.split("::").next().unwrap_or(test);
            modules.entry(module.to_owned()).or_default().push(test.to_owned());
        }
        let Self { package, path, folder, .. } = self;
        let of = |(name, tests)| {
            let (package, path, folder) = (package.clone(), path.clone(), folder.clone());
            Self { package, name, path, folder, tests }
        };
        Ok(modules.into_iter().map(of).collect())
    }

    pub(crate) fn is_among(&self, list: &[(&str, &str)]) -> Option<usize> {
        list.iter().position(|(package, name)| self.package == *package && self.name == *name)
    }
}

/// Builds, lints and runs all tests, including those over MPI if it is installed.
pub(crate) fn test(root: &Path) -> Outcome {
    mpi::skip_if_missing(root)?;
    let mut programs = build(root, &[], &LINTING)?;
    programs.retain(|program| program.is_among(&mpi::LONG).is_none());
    all([run_suite(root, programs, Length::Short), documentation(root)])
}

/// All tests but those in documentation, optimized and at their large sizes, including the longer
/// ones over MPI. Each module is a process, because some measure their process's memory.
pub(crate) fn long(root: &Path) -> Outcome {
    mpi::skip_if_missing(root)?;
    // Clippy leaves out a part of the optimization.
    let programs = build(root, &["--profile", "long"], &[])?;
    let launched = [&mpi::QUICK[..], &mpi::LONG].concat();
    if mpi::missing().is_none() {
        check_built(&programs, &launched)?;
    }
    run_suite(root, programs, Length::Long)
}

/// Fails unless all `wanted` programs are among `programs`.
fn check_built(programs: &[Program], wanted: &[(&str, &str)]) -> Outcome {
    let is_built =
        |of: &(&str, &str)| programs.iter().any(|built| built.is_among(&[*of]).is_some());
    match wanted.iter().find(|of| !is_built(of)) {
        None => Ok(()),
        Some((package, name)) => Err(format!("{package}: {name}: no such program of tests")),
    }
}

/// Runs most programs side by side, and then those that measure time.
fn run_suite(root: &Path, programs: Vec<Program>, length: Length) -> Outcome {
    let is_alone = |program: &Program| {
        let lists = [&ALONE[..], &mpi::QUICK, &mpi::LONG];
        lists.iter().any(|list| program.is_among(list).is_some())
    };
    let (alone, mut side_by_side): (Vec<_>, Vec<_>) = programs.into_iter().partition(is_alone);
    side_by_side.sort_by_key(|program| program.is_among(&LONGEST).unwrap_or(LONGEST.len()));
    let side_by_side = run_all(root, &side_by_side, at_once(), length);
    all([side_by_side, run_all(root, &alone, 1, length)])
}

/// The failures of all `outcomes`.
fn all<const N: usize>(outcomes: [Outcome; N]) -> Outcome {
    let failures: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

/// Tests over MPI, which `test` also runs.
pub(crate) fn mpi(root: &Path) -> Outcome {
    if let Some(lacks) = mpi::missing() {
        return skipped::skip_required(root, "mpi", &lacks);
    }
    let mut found = build(root, &["--test", "mpi"], &LINTING)?;
    found.retain(|program| program.is_among(&mpi::QUICK).is_some());
    check_built(&found, &mpi::QUICK)?;
    run_all(root, &found, 1, Length::Short)
}

/// Runs the examples in documentation.
fn documentation(root: &Path) -> Outcome {
    let mut command = cargo_command();
    command.current_dir(root).args(["test", "--workspace", "--doc", "--quiet"]);
    command.args(mpi::features()).envs(LINTING).env(skipped::VARIABLE, skipped::file(root));
    let limits = Length::Short.limits();
    let limits = Limits { test: limits.program, ..limits };
    let ended = limit::run(&mut command, limits).map_err(|error| error.to_string())?;
    let succeeded = matches!(ended.how, How::Exited(status) if status.success());
    Tally::of(&ended.said, succeeded).add();
    println!("    documentation\n{}", ended.said.trim_end());
    match ended.how {
        How::Exited(_) if succeeded => Ok(()),
        How::Exited(_) => Err("examples in documentation failed".into()),
        How::Killed(why) => {
            hung::add(root, "documentation", &why);
            Err("examples in documentation hung".into())
        }
    }
}

/// Builds and runs the unit tests of all crates: those in their sources.
pub(crate) fn units(root: &Path) -> Outcome {
    let programs = build(root, &["--lib", "--bins"], &LINTING)?;
    run_all(root, &programs, at_once(), Length::Short)
}

/// Number of programs that run at a time: half as many again as there are cores, because many wait
/// for disks, timers or other processes.
fn at_once() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores + cores / 2
}

/// Builds the tests of the workspace that these `options` of cargo choose, with additional
/// variables.
pub(crate) fn build(
    root: &Path,
    options: &[&str],
    environment: &[(&str, &str)],
) -> Result<Vec<Program>, String> {
    let mut command = cargo_command();
    let format = "--message-format=json-render-diagnostics";
    command.current_dir(root).args(["test", "--workspace", "--no-run", format]);
    command.args(mpi::features()).args(options).envs(environment.iter().copied());
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo test --no-run: {error}"))?;
    if !output.status.success() {
        return Err(format!("`cargo test --workspace --no-run` ended with {}", output.status));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let modules: Result<Vec<_>, _> =
        said.lines().filter_map(Program::of).map(Program::modules).collect();
    Ok(modules?.into_iter().flatten().collect())
}

/// Runs `programs`, `at_once` at a time.
fn run_all(root: &Path, programs: &[Program], at_once: usize, length: Length) -> Outcome {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || {
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begin = Instant::now();
            let (said, ended) = run_one(root, program, length);
            Tally::of(&said, ended.is_ok()).add();
            let time_s = begin.elapsed().as_secs_f64();
            let mut failures = failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let Program { package, name, .. } = program;
            println!("    {package}: {name}, {time_s:.1} s\n{}", said.trim_end());
            if let Err(why) = ended {
                failures.push(format!("{package}: {name}: {why}"));
            }
        }
    };
    std::thread::scope(|scope| {
        (0..at_once).for_each(|_| {
            scope.spawn(work);
        });
    });
    let failures = failures.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

/// Runs a program; returns its output and how it ended.
fn run_one(root: &Path, program: &Program, length: Length) -> (String, Outcome) {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.env("RUST_TEST_THREADS", "1").env(skipped::VARIABLE, skipped::file(root));
    if !program.tests.is_empty() {
        command.arg("--exact").args(&program.tests);
    }
    if matches!(length, Length::Long) {
        command.arg("--nocapture").env("STEPWELL_LONG", "1");
    }
    let (limits, tries) = (length.limits(), length.tries());
    let Program { package, name, .. } = program;
    let mut said = String::new();
    for _ in 0..tries {
        let ended = match limit::run(&mut command, limits) {
            Ok(ended) => ended,
            Err(error) => return (said, Err(error.to_string())),
        };
        said.push_str(&ended.said);
        match ended.how {
            How::Exited(status) if status.success() => return (said, Ok(())),
            How::Exited(status) => return (said, Err(status.to_string())),
            How::Killed(why) => hung::add(root, &format!("{package}: {name}"), &why),
        }
    }
    let (test, program) = (limits.test.as_secs(), limits.program.as_secs());
    let why = format!("hung each time, of {tries}: a test over {test} s, or all over {program} s");
    (said, Err(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_cargo_names_a_program_of_tests() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/h/crates/sim/Cargo.toml",
                "target":{{"name":"ranks"}},"profile":{{"test":{test}}},
                "executable":{executable}}}"#
            )
        };
        let found = Program::of(&line(true, "\"/t/ranks-1\"")).unwrap();
        assert_eq!((&*found.package, &*found.name), ("sim", "ranks"));
        assert_eq!((found.path, found.folder), ("/t/ranks-1".into(), "/h/crates/sim".into()));
        let others = [line(false, "\"/t/stepwell\""), line(true, "null"), "{}".into(), "x".into()];
        others.iter().for_each(|other| assert_eq!(Program::of(other), None, "{other}"));
    }

    #[test]
    fn each_module_of_integration_tests_is_a_process() {
        let own = std::env::current_exe().unwrap();
        let program = |name: &str| Program {
            package: "xtask".into(),
            name: name.into(),
            path: own.clone(),
            folder: "/".into(),
            tests: Vec::new(),
        };
        assert_eq!(program("xtask").modules().unwrap(), [program("xtask")]);
        let modules = program(INTEGRATION).modules().unwrap();
        let here = modules.iter().find(|module| module.name == "programs").unwrap();
        assert!(here.tests.iter().all(|test| test.starts_with("programs::tests::")), "{here:?}");
        assert!(here.tests.iter().any(|test| test.ends_with("is_a_process")), "{here:?}");
        assert!(modules.len() > 2, "{modules:?}");
    }

    #[test]
    fn a_program_that_fails_is_named() {
        let program = |name: &str, path: &str| Program {
            package: "p".into(),
            name: name.into(),
            path: path.into(),
            folder: "/".into(),
            tests: Vec::new(),
        };
        let root = Path::new("/no/such/root");
        let good = || program("good", "/bin/true");
        assert_eq!(run_all(root, &[good(), good()], 2, Length::Short), Ok(()));
        let bad = program("bad", "/bin/false");
        let why = run_all(root, &[good(), bad, good()], 1, Length::Short).unwrap_err();
        assert_eq!(why, "p: bad: exit status: 1");
        let none =
            run_all(root, &[program("none", "/no/such/program")], 1, Length::Long).unwrap_err();
        assert!(none.starts_with("p: none: "), "{none}");
    }
}
