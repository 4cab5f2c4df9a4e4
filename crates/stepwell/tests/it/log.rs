//! `--log LEVEL`: events of the libraries on standard error, and nothing there without it.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::process::{Command, Output};

use crate::common::{SMALL, Workshop};

/// A run that writes checkpoints and a report.
fn train<'a>(data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = ["train", "--data", data, "--report", "report.json", "--checkpoint", "saved"];
    [&run[..], &["--force", "--tiers.segment=64KiB"], &SMALL, more].concat()
}

fn events(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(output.status.success(), "{text}");
    text
}

/// Checks that each line has a time, one of these levels, and one of Stepwell's modules.
fn check_lines(events: &str, levels: &[&str]) {
    assert!(events.lines().count() > 3, "{events}");
    for line in events.lines() {
        let mut words = line.split_whitespace();
        let time = words.next().unwrap();
        assert!(time.starts_with("20") && time.contains('T') && time.ends_with('Z'), "{line}");
        assert!(levels.contains(&words.next().unwrap()), "{line}");
        assert!(words.next().unwrap().starts_with("stepwell_"), "{line}");
    }
}

#[test]
fn the_log_names_the_committed_checkpoint_and_changes_no_result() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 600);
    assert_eq!(events(&shop.run(&train(&data, &[]))), "", "off by default");
    let digest = shop.report("report.json")["model_digest"].clone();
    let said = events(&shop.run(&train(&data, &["--log", "info"])));
    assert_eq!(shop.report("report.json")["model_digest"], digest);
    check_lines(&said, &["INFO", "WARN"]);
    let committed = said.lines().find(|line| line.contains("checkpoint committed"));
    let path = format!("path=saved/{}", shop.newest().unwrap());
    assert!(committed.is_some_and(|line| line.ends_with(&path)), "{path}: {said}");
    for event in ["run begins", "store opened", "checkpoint begun", "evaluated", "run ended"] {
        assert!(said.contains(event), "{event}: {said}");
    }
    assert!(said.contains("aside=\"set-aside-1\""), "of --force: {said}");
    // Before the command's name, with results alone on standard output.
    let quiet = shop.run(&[&["-q", "--log=debug"][..], &train(&data, &["--ranks=2"])].concat());
    let said = events(&quiet);
    check_lines(&said, &["DEBUG", "INFO", "WARN"]);
    assert!(said.contains("commit made") && said.contains("ranks connected"), "{said}");
    assert_eq!(shop.report("report.json")["model_digest"], digest);
}

#[test]
fn a_resumed_run_names_its_checkpoint() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 600);
    shop.ok(&train(&data, &[]));
    let run = ["train", "--data", &data, "--checkpoint", "saved", "--resume", "--log", "info"];
    let more = ["--tiers.segment=64KiB", "--data.epochs=2"];
    let path = shop.newest().unwrap();
    let said = events(&shop.run(&[&run[..], &more, &SMALL].concat()));
    let resumes = said.lines().find(|line| line.contains("run resumes"));
    assert!(resumes.is_some_and(|line| line.ends_with(&path)), "{path}: {said}");
}

#[test]
fn a_wrong_level_is_refused_in_one_line() {
    let shop = Workshop::new();
    for args in [&["config", "--log", "loud"][..], &["--log=loud", "config"]] {
        let said = shop.fails(args);
        let wrong = "stepwell: invalid value 'loud' for '--log <LEVEL>'";
        assert!(said.starts_with(wrong) && said.contains("error, warn, info, debug, trace"));
        assert_eq!(shop.run(args).status.code(), Some(2), "{said}");
    }
}

#[test]
fn a_log_that_nobody_reads_fails_no_run() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    shop.ok(&train(&data, &[]));
    let digest = shop.report("report.json")["model_digest"].clone();
    let args = train(&data, &["--log", "trace"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut unheard = shop.command(&args);
    unheard.stderr(writer);
    let mut closed = Command::new("sh");
    closed.args(["-c", "exec \"$0\" \"$@\" 2>&-", crate::PROGRAM]).args(&args);
    closed.current_dir(shop.path("")).env("TMPDIR", shop.path(""));
    for mut run in [unheard, closed] {
        std::fs::remove_file(shop.path("report.json")).unwrap();
        let output = run.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(shop.report("report.json")["model_digest"], digest);
    }
}
