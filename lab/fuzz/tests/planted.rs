//! The fuzzer finds planted defects, and passes the unmodified program.
//!
//! The defects are scripts around the program, which `cargo test --workspace` builds next to this
//! test (`cargo test -p stepwell-fuzz` uses an existing one). If it wasn't built, tests that need
//! it report that and do nothing.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The program next to the fuzzer.
fn stepwell() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_stepwell-fuzz")).parent()?.join("stepwell");
    if program.exists() {
        return Some(program);
    }
    let program = program.display();
    stepwell_skip::skipped(format_args!(
        "there is no {program}: cargo build -p stepwell builds it"
    ));
    None
}

/// Directory for scripts and findings.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A program that is a script; `$REAL` is the real program, if it exists.
    fn script(&self, body: &str) -> PathBuf {
        let path = self.path("program");
        let real = stepwell().unwrap_or_default();
        fs::write(&path, format!("#!/bin/sh\nREAL='{}'\n{body}\n", real.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn fuzz(&self, program: &Path, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepwell-fuzz"));
        command.arg("--program").arg(program).arg("--keep").arg(self.path("kept"));
        command.args(more).output().unwrap()
    }
}

fn text(output: &Output) -> String {
    let parts = [&output.stdout, &output.stderr];
    parts.map(|part| String::from_utf8_lossy(part).into_owned()).concat()
}

/// Fuzzes a script until its defect is found, and reported with one of `words`.
fn finds(script: &str, words: &[&str]) {
    finds_from(3, 60, script, words);
}

/// Like [`finds`], from a seed on, with a limit of `seconds` before a process counts as hung.
fn finds_from(seed: u64, seconds: u64, script: &str, words: &[&str]) {
    if stepwell().is_none() {
        return;
    }
    let place = Place::new();
    let program = place.script(script);
    let [seed, seconds] = [seed, seconds].map(|number| number.to_string());
    let output = place.fuzz(&program, &["--runs", "60", "--seed", &seed, "--limit", &seconds]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("FOUND with seed "), "{words:?}: {said}");
    assert!(words.iter().any(|words| said.contains(words)), "{words:?}: {said}");
    assert!(said.contains("reproduce it: cargo xtask fuzz --seed "), "{said}");
    let kept: Vec<_> = fs::read_dir(place.path("kept")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1, "one folder is kept");
    let commands = fs::read_to_string(kept[0].path().join("reproduce.sh")).unwrap();
    assert!(commands.contains("\"$P\" train run.toml"), "{commands}");
}

#[test]
fn the_program_as_it_is_passes() {
    let Some(program) = stepwell() else { return };
    let place = Place::new();
    let output = place.fuzz(&program, &["--runs", "25", "--seed", "15"]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("runs that ended") && said.contains("evictions"), "{said}");
    assert_eq!(fs::read_dir(place.path("kept")).unwrap().count(), 0, "folders are removed: {said}");
}

#[test]
fn a_setting_that_reaches_the_model_is_found() {
    let script = r#"
        case " $* " in *" --threads 3 "*) exec "$REAL" "$@" --optim.rows.lr 0.012;; esac
        exec "$REAL" "$@"
    "#;
    finds(script, &["differs: the run has", "was trained with optim.rows.lr = "]);
}

#[test]
fn another_seed_after_a_resume_is_found() {
    let script = r#"
        case " $* " in *" --resume "*) exec "$REAL" "$@" --seed 9;; esac
        exec "$REAL" "$@"
    "#;
    finds(script, &["differs: the run has", "was trained with seed = "]);
}

#[test]
fn a_resume_that_begins_anew_is_found() {
    let script = r#"
        case " $* " in *" --resume "*)
            rm -rf saved-*/step-*
            set -f
            exec "$REAL" $(echo " $* " | sed 's/ --resume / --resume=auto /')
        esac
        exec "$REAL" "$@"
    "#;
    // An early case resumes.
    finds_from(24, 60, script, &["the newest checkpoint was "]);
}

#[test]
fn a_line_of_data_that_is_dropped_is_found() {
    let script = r#"
        case "$*" in *reference.json*) [ -e data/part-0.tsv ] && sed -i 1d data/part-0.tsv;; esac
        exec "$REAL" "$@"
    "#;
    // Models that leave out examples show it in their bits alone.
    finds(script, &["but the data has ", "data file ", "differs: the run has"]);
}

#[test]
fn damage_in_a_checkpoint_is_found() {
    let script = r#"
        "$REAL" "$@"
        status=$?
        for file in saved-*/step-*/rows-0/*; do
            [ "$1" = train ] && [ -e "$file" ] && truncate -s -1 "$file"
        done
        exit $status
    "#;
    finds(script, &["saved-"]);
}

#[test]
fn memory_above_the_plan_is_found() {
    let script = r#"
        "$REAL" "$@"
        status=$?
        for file in report-*.json; do
            [ -e "$file" ] && sed -i 's/"budget_bytes": [0-9]*/"budget_bytes": 9999/' "$file"
        done
        exit $status
    "#;
    finds(script, &["9999) were planned"]);
}

#[test]
fn a_panic_and_a_hang_are_found() {
    let script = r#"
        [ "$1" = eval ] && echo "thread 'main' panicked at x" >&2 && exit 101
        exec "$REAL" "$@"
    "#;
    finds(script, &["a broken invariant"]);
    let script = r#"
        [ "$1" = store ] && exec sleep 100
        exec "$REAL" "$@"
    "#;
    finds_from(3, 4, script, &["did not end within 4 s"]);
}

#[test]
fn a_program_that_refuses_everything_is_noticed_and_a_seed_gives_the_same_commands() {
    let script = r#"
        if [ "$1" != train ]; then
            while [ $# -gt 0 ]; do [ "$1" = --out ] && : > "$2"; shift; done
            exit 0
        fi
        { echo "$@"; cat run.toml data/*.tsv data/*.gz data/*.zst; } 2> /dev/null >> "$LOG"
        echo "stepwell: not today" >&2
        exit 1
    "#;
    let log = || {
        let place = Place::new();
        let log = place.path("log");
        let program = place.script(&script.replace("$LOG", &log.display().to_string()));
        let output = place.fuzz(&program, &["--runs", "60", "--seed", "5"]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("most drawn cases were refused"), "{said}");
        assert!(said.contains("refused: not today"), "{said}");
        fs::read(log).unwrap()
    };
    let first = log();
    assert!(first.len() > 100_000, "{} bytes", first.len());
    assert!(first == log(), "the same seed gave other commands, settings or data");
}
