//! No command writes over what it reads.

mod common;

use std::fs;

use common::{SMALL, Workshop};

#[test]
fn what_a_run_reads_is_never_written_over() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    fs::write(shop.path("run.toml"), "seed = 1\n").unwrap();
    let before = fs::read(&data).unwrap();
    let refused = |args: &[&str], why: &str| {
        let message = shop.fails(args);
        assert!(message.contains(why), "{args:?}: {message}");
    };
    let train = |report| {
        let mut args = vec!["train", "run.toml", "--data", &data, "--report", report];
        args.extend(SMALL);
        args
    };
    for report in ["data.tsv", "./data.tsv", "run.toml"] {
        refused(&train(report), "this run reads that file");
    }
    refused(&["cache-sim", &data, "--json", "data.tsv"], "this run reads that file");
    refused(&["cache-sim", &data, "--picture", "new.svg", "--json", "new.svg"], "two outputs");
    refused(&["cache-sim", &data, "--json", "no/where.json"], "--json no/where.json");
    let mut args = train("report.json");
    args.extend(["--checkpoint", "saved"]);
    shop.ok(&args);
    let step = fs::read_dir(shop.path("saved")).unwrap().next().unwrap().unwrap().path();
    let inside = step.join("checkpoint.json").display().to_string();
    let step = step.display().to_string();
    refused(&["eval", &step, "--report", &inside], "which this run reads");
    let mut again = train(&inside);
    again.extend(["--checkpoint", "saved", "--resume"]);
    refused(&again, "which this run reads");
    again[5] = "saved/report.json";
    shop.ok(&again);
    shop.ok(&["inspect", &step]);
    assert_eq!(fs::read(&data).unwrap(), before);
    assert!(!shop.path("new.svg").exists(), "a refused run leaves nothing");
}
