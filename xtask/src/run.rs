//! Steps that start a tool, and the headline and time of every step.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::command::{LINTING, cargo, finish, output};
use crate::outcome::Outcome;
use crate::tally::Tally;
use crate::{hung, mpi, skipped};

/// A named check; its argument is the root of the repository.
pub(crate) type Step = (&'static str, fn(&Path) -> Outcome);

/// Runs `steps` in order, up to the first failure.
pub(crate) fn steps(root: &Path, steps: &[Step]) -> Outcome {
    skipped::begin(root);
    hung::begin(root);
    let outcome = each(root, steps);
    if let Some(text) = hung::all(root) {
        println!("{text}");
    }
    if let Some(line) = skipped::all(root) {
        println!("{line}");
    }
    if let Some(line) = Tally::of_run().line(skipped::count(root)) {
        println!("{line}");
    }
    outcome
}

fn each(root: &Path, steps: &[Step]) -> Outcome {
    let begin = Instant::now();
    for (name, check) in steps {
        println!("==> {name}");
        let begin = Instant::now();
        let outcome = check(root);
        let time_s = begin.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("<== {name} passed in {time_s:.1} s\n"),
            Err(why) => return Err(format!("<== {name} failed after {time_s:.1} s: {why}")),
        }
    }
    if steps.len() > 1 {
        let time_s = begin.elapsed().as_secs_f64();
        println!("all {} steps passed in {time_s:.1} s", steps.len());
    }
    Ok(())
}

pub(crate) fn fmt(root: &Path) -> Outcome {
    cargo(root, &["fmt", "--all", "--check"], &[])
}

/// Lints the product, whose build lacks features that tests turn on.
pub(crate) fn clippy(root: &Path) -> Outcome {
    cargo(root, &["clippy", "--package", "stepwell", "--", "-D", "warnings"], &[])
}

pub(crate) fn doc(root: &Path) -> Outcome {
    cargo(root, &["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
}

/// The quick part of the twin, with the program that `test` built.
pub(crate) fn twin(root: &Path) -> Outcome {
    let build = ["test", "--workspace", "--no-run", "--quiet"];
    beside_twin(root, (&[&build, mpi::features()].concat(), &LINTING), "debug", &["--quick"])
}

/// All of the twin, with the release build.
pub(crate) fn twin_long(root: &Path) -> Outcome {
    beside_twin(root, (&["build", "--release", "--package", "stepwell"], &[]), "release", &[])
}

/// Runs the trainer and its twin in NumPy, if a Python with NumPy is available.
fn beside_twin(
    root: &Path,
    (build, environment): (&[&str], &[(&str, &str)]),
    profile: &str,
    options: &[&str],
) -> Outcome {
    let python = std::env::var_os("STEPWELL_PYTHON").unwrap_or_else(|| "python3".into());
    if let Err(why) = output(Command::new(&python).args(["-c", "import numpy, xxhash"])) {
        let why = why.lines().last().unwrap_or_default();
        let lacks =
            format!("{why} (STEPWELL_PYTHON names a Python with both; see bench/README.md)");
        return skipped::skip_required(root, "twin", &lacks);
    }
    cargo(root, build, environment)?;
    let mut twin = Command::new(&python);
    twin.current_dir(root).arg("bench/twin.py").arg("--stepwell").arg(binary(root, profile));
    finish(twin.args(options))
}

/// Path of the program in a profile's build.
fn binary(root: &Path, profile: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join(profile).join("stepwell")
}

/// The fuzzer with the given `options`; uses the release build unless they name a program.
pub(crate) fn fuzz(root: &Path, options: &[String]) -> Outcome {
    let named = |option: &String| option == "--program" || option.starts_with("--program=");
    let program: &[&str] = if options.iter().any(named) { &[] } else { &["--package", "stepwell"] };
    let build = ["build", "--release", "--quiet", "--package", "stepwell-fuzz"];
    cargo(root, &[&build, program].concat(), &[])?;
    let run = ["run", "--release", "--quiet", "--package", "stepwell-fuzz", "--"];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    cargo(root, &[&run, options.as_slice()].concat(), &[])
}

/// A fuzzer run sized for the long suite; the first seed is the time.
pub(crate) fn fuzz_long(root: &Path) -> Outcome {
    fuzz(root, &["--runs", "500", "--minutes", "12"].map(str::to_owned))
}

/// The comparison with PyTorch, if `STEPWELL_PEER` names a Python that has it.
pub(crate) fn peer(root: &Path) -> Outcome {
    let Some(python) = std::env::var_os("STEPWELL_PEER") else {
        let lacks = "STEPWELL_PEER is not set (a Python with PyTorch; see bench/README.md)";
        skipped::skip(root, "peer", lacks);
        return Ok(());
    };
    cargo(root, &["build", "--release", "--package", "stepwell"], &[])?;
    let bench = |script: &str| {
        let mut command = Command::new(&python);
        command.current_dir(root).arg(script).arg("--stepwell").arg(binary(root, "release"));
        finish(&mut command)
    };
    println!("--- speed");
    bench("bench/compare.py")?;
    println!("--- small ids");
    bench("bench/user_item.py")?;
    if std::env::var_os("STEPWELL_DATA").is_none() {
        let lacks = "STEPWELL_DATA is not set (the folder of real data)";
        skipped::skip(root, "peer: quality", lacks);
        return Ok(());
    }
    println!("--- quality");
    bench("bench/quality.py")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_ends_the_run_and_names_the_step() {
        let good: Step = ("good", |_| Ok(()));
        let bad: Step = ("bad", |_| Err("two edges go up".into()));
        let never: Step = ("never", |_| panic!("ran after a failure"));
        let none = Path::new("/no/such/root");
        assert_eq!(steps(none, &[good, good]), Ok(()));
        let why = steps(none, &[good, bad, never]).unwrap_err();
        assert!(why.starts_with("<== bad failed after"), "{why}");
        assert!(why.ends_with("two edges go up"), "{why}");
    }
}
