//! `stepwell predict`: a score for each example, in their order.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod common;

use std::fs;
use std::process::Stdio;

use self::common::{Workshop, args};

/// A model that was trained on a part of `data.tsv`, and that file.
fn trained(shop: &Workshop) -> String {
    let data = shop.examples("data.tsv", 3000);
    shop.ok(&args(&[&data], &["--checkpoint", "saved", "--set", "data.eval_fraction=0.1"]));
    data
}

fn scores_of(text: &str) -> Vec<f64> {
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("score"));
    lines.map(|line| line.parse().unwrap()).collect()
}

#[test]
fn scores_are_those_that_an_evaluation_measures() {
    let shop = Workshop::new();
    let data = trained(&shop);
    let text = shop.ok(&["predict", "saved", "--data", &data]);
    let scores = scores_of(&text);
    let labels = fs::read_to_string(&data).unwrap();
    let labels: Vec<bool> = labels.lines().map(|line| line.starts_with('1')).collect();
    assert_eq!((scores.len(), labels.len()), (3000, 3000));

    shop.ok(&["eval", "saved", "--data", &data, "--report", "eval.json"]);
    let eval = shop.report("eval.json")["eval"].clone();
    let loss = scores.iter().zip(&labels).map(|(p, label)| -if *label { *p } else { 1.0 - p }.ln());
    let is = |figure: &str, found: f64| {
        let expected = eval[figure].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-6, "{figure}: {found}, {expected}");
    };
    is("logloss", loss.sum::<f64>() / 3000.0);
    let positives = labels.iter().filter(|label| **label).count() as f64;
    is("calibration", scores.iter().sum::<f64>() / positives);
    is("auc", auc(&scores, &labels));

    // Each score is that of its own line: the last of the file alone have those at its end.
    let whole = fs::read_to_string(&data).unwrap();
    let tail: Vec<&str> = whole.lines().skip(2900).collect();
    fs::write(shop.path("tail.tsv"), tail.join("\n") + "\n").unwrap();
    let of_tail = shop.ok(&["predict", "saved", "--data", &shop.text("tail.tsv")]);
    near(&scores_of(&of_tail), &scores[2900..]);
}

/// The part of pairs of a positive and a negative example which are in the right order.
fn auc(scores: &[f64], labels: &[bool]) -> f64 {
    let of = |wanted: bool| {
        let both = scores.iter().zip(labels).filter(move |(_, label)| **label == wanted);
        both.map(|(score, _)| *score)
    };
    let right = |p: f64, n: f64| f64::from(u8::from(p > n)) + 0.5 * f64::from(u8::from(p == n));
    let sum: f64 = of(true).flat_map(|p| of(false).map(move |n| right(p, n))).sum();
    sum / (of(true).count() * of(false).count()) as f64
}

#[test]
fn scores_do_not_depend_on_what_the_data_lies_in_nor_on_tiers() {
    let shop = Workshop::new();
    let data = trained(&shop);
    let expected = shop.ok(&["predict", "saved", "--data", &data]);
    shop.ok(&["convert", &data, "--out", "data.packed"]);
    let packed = shop.text("data.packed");
    for more in [
        &["--data", &packed][..],
        &["--data", &data, "--threads", "3", "--tiers.dram", "160KiB", "--data.batch", "64"],
        &["--data", &packed, "--pipeline.lookahead", "0"],
    ] {
        let text = shop.ok(&[&["predict", "saved", "--out", "scores.csv"][..], more].concat());
        assert_eq!(text, "", "results alone go to standard output");
        let found = fs::read_to_string(shop.path("scores.csv")).unwrap();
        assert!(found == expected, "{more:?}");
    }
    let twice = shop.ok(&["predict", "saved", "--data", &packed, "--data", &data]);
    near(&scores_of(&twice), &[scores_of(&expected), scores_of(&expected)].concat());
    // Sums of matrix products are cut where mini-batches are.
    let others = ["predict", "saved", "--data", &packed, "--set", "data.mini_batch=1000"];
    near(&scores_of(&shop.ok(&others)), &scores_of(&expected));
}

fn near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    let off = found.iter().zip(expected).map(|(found, expected)| (found - expected).abs());
    assert!(off.fold(0.0, f64::max) < 1e-6);
}

#[test]
fn what_cannot_be_scored_or_written_is_one_line_and_leaves_nothing() {
    let shop = Workshop::new();
    let data = trained(&shop);
    fs::write(shop.path("bad.tsv"), "2\tno example\n").unwrap();
    fs::write(shop.path("older.csv"), "older").unwrap();
    let last = |args: &[&str]| {
        let output = shop.run(&[&["predict", "saved"][..], args].concat());
        let usage = args.iter().any(|arg| arg.starts_with("scores.") || arg.contains("skip_max"));
        assert_eq!(output.status.code(), Some(1 + i32::from(usage)), "{args:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("panicked"), "{said}");
        said.lines().last().unwrap().to_owned()
    };
    for (args, part) in [
        (&["--data", &data, "--out", "scores.npy"][..], "name it .csv or .parquet, or - to pipe"),
        (&["--data", &data, "--out", "scores.csv.gz"], "name it .csv or .parquet, or - to pipe"),
        (&["--data", &data, "--out", "none/scores.csv"], "there is no directory none"),
        (&["--data", &data, "--out", &data], "this run reads that file"),
        (&["--data", "none.tsv"], "none.tsv"),
        (&["--data", "bad.tsv", "--out", "older.csv"], "bad.tsv"),
        (&["--data", &data, "--set", "data.skip_max=1"], "every line is to have its score"),
    ] {
        let said = last(args);
        assert!(said.starts_with("stepwell: ") && said.contains(part), "{args:?}: {said}");
    }
    assert_eq!(fs::read_to_string(shop.path("older.csv")).unwrap(), "older");
    let left: Vec<_> = fs::read_dir(shop.path("")).unwrap().flatten().collect();
    let left = left.iter().filter(|entry| entry.file_name().to_string_lossy().contains("scores"));
    assert_eq!(left.count(), 0);
    // Without data there is nothing to score; that it has an evaluation part is nobody's wish.
    let output = shop.run(&["predict", "saved"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Opening it would wait, and no signal would end that.
#[test]
fn a_pipe_that_nobody_reads_is_refused() {
    let shop = Workshop::new();
    let data = trained(&shop);
    let made = std::process::Command::new("mkfifo").arg(shop.path("pipe")).status().unwrap();
    assert!(made.success());
    let output = shop.run(&["predict", "saved", "--data", &data, "--out", "pipe"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("it is a pipe that nobody reads; start its reader first"), "{said}");
    let output = shop.run(&args(&[&data], &["--metrics", "pipe"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("the run goes on"), "{said}");
    let reader = shop.path("pipe");
    let reader = std::thread::spawn(move || fs::read_to_string(reader).unwrap());
    let expected = shop.ok(&["predict", "saved", "--data", &data]);
    // The reader may not be there yet.
    let again = || shop.run(&["predict", "saved", "--data", &data, "--out", "pipe"]);
    assert!((0..100).any(|_| again().status.success()));
    assert!(reader.join().unwrap() == expected);
}

#[test]
fn whoever_reads_a_few_scores_ends_it() {
    let shop = Workshop::new();
    trained(&shop);
    let data = shop.examples("more.tsv", 60_000);
    let mut command = shop.command(&["predict", "saved", "--data", &data]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("stepwell:"), "{said}");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        shop.command(&["predict", "saved", "--data", &data]).stdout(full).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("cannot write to standard output: No space left"), "{said}");
}
