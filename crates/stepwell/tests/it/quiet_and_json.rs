//! `--quiet` and `--json`: the output that scripts read, and nothing else.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::common::{SMALL, Workshop, args};

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a command that must succeed and print only one JSON value.
fn json(shop: &Workshop, args: &[&str]) -> Value {
    let output = shop.run(args);
    assert!(output.status.success(), "{args:?}: {}", err(&output));
    serde_json::from_str(&out(&output)).unwrap_or_else(|why| panic!("{args:?}: {why}"))
}

#[test]
fn quiet_runs_say_results_alone_and_errors() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    // A setting without effect is noted.
    let idle = ["--checkpoint", "saved", "--set", "synth.examples=5", "--data.epochs", "2"];
    let loud = shop.run(&args(&[&data], &idle));
    assert!(err(&loud).contains("note: "));
    fs::remove_dir_all(shop.path("saved")).unwrap();
    let quiet = shop.run(&args(&[&data], &[&idle[..], &["--quiet"]].concat()));
    assert!(quiet.status.success());
    assert_eq!(err(&quiet), "");
    let (table, digest) = (out(&quiet), shop.report("report.json")["model_digest"].clone());
    assert!(table.contains(digest.as_str().unwrap()), "{table}");
    let about_the_run =
        ["memory at most", "epoch 2/2, progressive", "checkpoint of step", "training deepfm"];
    for said in about_the_run {
        assert!(out(&loud).contains(said), "{said}: {}", out(&loud));
        assert!(!table.contains(said), "{said}: {table}");
    }
    let refused = shop.run(&args(&[&data], &["--checkpoint", "saved", "-q"]));
    assert_eq!((refused.status.code(), err(&refused).lines().count()), (Some(2), 1));
    // Also for other commands; their main output stays.
    for (args, expected) in [
        (&["-q", "eval", "saved"][..], "evaluation"),
        (&["predict", "saved", "--data", &data, "--quiet"], "score"),
        (&["synth", "--out", "some.tsv", "--examples", "10", "-q"], "10 examples in some.tsv"),
        (&["convert", &data, "--out", "packed", "-q"], "2000 examples in packed"),
        (&["export", "saved", "--to", "tensors", "-q"], "in tensors"),
        (&["plan", "-q"], "memory at most"),
    ] {
        let output = shop.run(args);
        assert!(output.status.success() && err(&output).is_empty(), "{args:?}: {}", err(&output));
        assert!(out(&output).contains(expected), "{args:?}: {}", out(&output));
    }
    let output = shop.run(&args(&[&data], &["--metrics", "/dev/full", "-q"]));
    assert!(err(&output).contains("warning: cannot write /dev/full"), "{}", err(&output));
}

#[test]
fn figures_are_printed_as_json_and_nothing_beside_them() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let output = shop.run(&args(&[&data], &["--json", "--checkpoint", "saved"]));
    let printed: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(printed, shop.report("report.json"));
    assert!(err(&output).contains("memory at most"), "{}", err(&output));
    let silent = shop.run(&args(&[&data], &["--json", "--quiet"]));
    let again: Value = serde_json::from_str(&out(&silent)).unwrap();
    assert_eq!((err(&silent), &again["model_digest"]), (String::new(), &printed["model_digest"]));

    let eval = json(&shop, &["eval", "saved", "--json"]);
    assert_eq!(eval["eval"], printed["eval"]);
    let scores = ["predict", "saved", "--data", &data, "--out", "scores.csv", "--json"];
    assert_eq!(json(&shop, &scores)["scores"], 2000);
    let error = shop.fails(&scores[..4].iter().copied().chain(["--json"]).collect::<Vec<_>>());
    assert!(error.contains("name --out FILE.csv"), "{error}");
    let rows = json(&shop, &["export", "saved", "--to", "tensors", "--json"]);
    assert_eq!((&rows["step"], &rows["rows"]), (&printed["steps"], &printed["rows"]));
    shop.ok(&["export", "saved", "--to", "whole", "--state", "-q"]);
    let import = ["import", "whole", "--like", "saved", "--to", "again", "--json"];
    let rows = json(&shop, &import);
    assert_eq!((&rows["rows"], &rows["to"]), (&printed["rows"], &"again".into()));
    let settings = json(&shop, &["config", "--json", "--model=lr"]);
    assert_eq!((&settings["model.kind"], &settings["seed"]), (&"lr".into(), &1.into()));
    let packed = json(&shop, &["convert", &data, "--out", "packed", "--json"]);
    assert_eq!((&packed["examples"], &packed["skipped_lines"]), (&2000.into(), &0.into()));
    let length = fs::metadata(shop.path("packed")).unwrap().len();
    assert_eq!(packed["bytes"], length);
    let drawn = json(&shop, &["synth", "--out", "few.tsv", "--examples", "7", "--json"]);
    assert_eq!((&drawn["examples"], &drawn["out"]), (&7.into(), &"few.tsv".into()));
    assert_eq!(json(&shop, &["inspect", "saved", "--json"])["step"], printed["steps"]);
    assert!(json(&shop, &["plan", "--json"])["memory_bytes"].as_u64() > Some(0));
    let step = fs::read_dir(shop.path("saved")).unwrap().map(|entry| entry.unwrap().path());
    let step = step.filter(|path| path.is_dir()).max().unwrap().display().to_string();
    let salvaged = json(&shop, &["store", "repair", &step, "--into", "new", "--json"]);
    assert_eq!(
        (&salvaged[0]["whole"], &salvaged[0]["salvaged"]["rows"]),
        (&true.into(), &printed["rows"])
    );
}

#[test]
fn a_layout_of_no_data_is_refused() {
    let shop = Workshop::new();
    for command in ["train", "plan", "config"] {
        let error = shop.fails(&[command, "--preset", "criteo"]);
        assert!(error.contains("--preset criteo") && error.contains("--data"), "{error}");
    }
    let data = shop.examples("data.tsv", 1000);
    shop.ok(&[&["plan", "--data", &data, "--preset", "criteo"][..], &SMALL].concat());
    let error = shop.fails(&["inspect", "saved", "--top", "18446744073709551615"]);
    assert!(error.contains("--top 18446744073709551615: give at most 1048576"), "{error}");
}
