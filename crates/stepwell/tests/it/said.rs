//! Output that nobody reads: a run continues, a command whose purpose is its output ends, and
//! nothing panics.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs::File;
use std::process::{Command, Output, Stdio};

use crate::common::{SMALL, Workshop};

/// Runs with a standard output whose reader has closed the pipe.
fn unheard(shop: &Workshop, args: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    shop.command(args).stdout(writer).output().unwrap()
}

/// Runs with a standard output on a full disk.
fn full(shop: &Workshop, args: &[&str]) -> Output {
    let full = File::options().write(true).open("/dev/full").unwrap();
    shop.command(args).stdout(full).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn train<'a>(data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--data", data, "--report", "report.json"];
    args.extend(SMALL);
    args.extend(more);
    args
}

#[test]
fn a_run_goes_on_where_nobody_listens() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    shop.ok(&train(&data, &["--checkpoint", "saved"]));
    let digest = shop.report("report.json")["model_digest"].clone();
    for (run, errors_max) in [(unheard as fn(&_, &[&str]) -> _, 0), (full, 1)] {
        std::fs::remove_file(shop.path("report.json")).unwrap();
        let output: Output = run(&shop, &train(&data, &[]));
        let said = errors(&output);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.lines().count(), errors_max, "{said}");
        assert!(said.is_empty() || said.contains("cannot write to standard output"), "{said}");
        assert_eq!(shop.report("report.json")["model_digest"], digest);
    }
    // So do commands whose purpose is a file.
    for args in [
        &["synth", "--out", "some.tsv", "--examples", "100", "--force"][..],
        &["convert", &data, "--out", "some.packed", "--force"],
    ] {
        assert!(unheard(&shop, args).status.success(), "{args:?}");
        let output = full(&shop, args);
        assert!(output.status.success(), "{args:?}: {}", errors(&output));
        assert_eq!(errors(&output).lines().count(), 1, "{args:?}: {}", errors(&output));
    }
}

#[test]
fn a_command_whose_output_is_its_job_ends_where_nobody_reads_it() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    shop.ok(&train(&data, &["--checkpoint", "saved"]));
    let step = std::fs::read_dir(shop.path("saved")).unwrap().flatten().map(|entry| entry.path());
    let step = step.filter(|path| path.is_dir()).max().unwrap().display().to_string();
    for args in [
        &["config"][..],
        &["plan"],
        &["inspect", "saved"],
        &["inspect", "saved", "--json"],
        &["eval", "saved"],
        &["store", "check", &step],
        &["store", "check", &step, "--json"],
        &["--help"],
        &["completions", "bash"],
        &["man"],
        &["train", "--help"],
    ] {
        let output = unheard(&shop, args);
        assert!(output.status.success(), "{args:?}: {}", errors(&output));
        assert_eq!(errors(&output), "", "{args:?}");
        let output = full(&shop, args);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        let last = said.lines().last().unwrap();
        assert!(last.contains("cannot write to standard output: No space left"), "{said}");
        // An evaluation prints lines of a run before its figures.
        assert_eq!(said.lines().count(), if args[0] == "eval" { 2 } else { 1 }, "{said}");
    }
}

#[test]
fn the_verdict_on_a_store_does_not_depend_on_who_reads_it() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    shop.ok(&train(&data, &["--checkpoint", "saved"]));
    let step = std::fs::read_dir(shop.path("saved")).unwrap().flatten().map(|entry| entry.path());
    let rows = step.filter(|path| path.is_dir()).max().unwrap().join("rows-0");
    let segment = std::fs::read_dir(&rows).unwrap().flatten().map(|entry| entry.path());
    let segment = segment.filter(|path| path.extension().is_some_and(|it| it == "rows"));
    let segment = segment.max().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let output = unheard(&shop, &["store", "check", &rows.display().to_string()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(errors(&output).contains("damaged"), "{}", errors(&output));
}

#[test]
fn closed_outputs_are_no_panic() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let program = env!("CARGO_BIN_EXE_stepwell");
    let run = |redirect: &str, args: &[&str]| {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec \"$0\" \"$@\" {redirect}")).arg(program).args(args);
        shell.current_dir(shop.path("")).stdout(Stdio::null()).stderr(Stdio::null());
        shell.status().unwrap().code()
    };
    shop.ok(&train(&data, &["--checkpoint", "saved"]));
    let step = std::fs::read_dir(shop.path("saved")).unwrap().flatten().map(|entry| entry.path());
    let step = step.filter(|path| path.is_dir()).max().unwrap().display().to_string();
    for redirect in [">&-", "2>&-", ">&- 2>&-", ">&- 2>&- <&-", "2>/dev/full", ">/dev/full 2>&-"] {
        assert_eq!(run(redirect, &train(&data, &[])), Some(0), "train {redirect}");
        assert_eq!(run(redirect, &["train", "--data", "nowhere"]), Some(2), "{redirect}");
        assert_eq!(run(redirect, &["train", "--nonsense"]), Some(2), "{redirect}");
        let full = redirect.starts_with(">/dev/full");
        // Commands whose purpose is their output, and commands that write a file.
        for args in [
            &["config"][..],
            &["plan"],
            &["inspect", "saved"],
            &["--version"],
            &["eval", "saved", "--report", "out"],
        ] {
            let _ = std::fs::remove_file(shop.path("out"));
            assert_eq!(run(redirect, args), Some(i32::from(full)), "{args:?} {redirect}");
            assert_eq!(shop.path("out").exists(), args.contains(&"out"), "{args:?} {redirect}");
        }
        for args in [
            &["synth", "--out", "some.tsv", "--examples", "20", "--force"][..],
            &["convert", &data, "--out", "packed", "--force"],
            &["store", "repair", &step, "--into", "new"],
        ] {
            let _ = std::fs::remove_dir_all(shop.path("new"));
            assert_eq!(run(redirect, args), Some(0), "{args:?} {redirect}");
        }
    }
}
