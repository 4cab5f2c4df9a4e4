//! Models over hashed ids: few rows, and the same model from text, a packed file and after a stop.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;

use serde_json::Value;

use crate::common::Workshop;

const SETTINGS: &str = r#"
[model]
kind = "deepfm"
dim = 4
hidden = [8]

[data]
paths = ["data.csv"]
mini_batch = 64

[[columns]]
names = ["click"]
type = "label"

[[columns]]
names = ["user", "item", "shop"]
type = "ignored"

[[columns]]
names = ["all"]
type = "ids"
of = ["user", "item", "shop"]
bins = 16
"#;

fn rows(report: &Value) -> u64 {
    report["rows"].as_u64().unwrap()
}

#[test]
fn models_over_hashed_ids_have_few_rows_and_the_same_bits_from_packed_files() {
    let shop = Workshop::new();
    let mut text = String::from("click,user,item,shop\n");
    for number in 0..2000u32 {
        let click = u32::from((number * 7 % 41 + number * 13 % 53).is_multiple_of(3));
        text += &format!("{click},{},{},{}\n", number * 7 % 997, number * 13 % 53, number % 7);
    }
    fs::write(shop.path("data.csv"), text).unwrap();
    fs::write(shop.path("run.toml"), SETTINGS).unwrap();
    let train = |more: &[&str], report: &str| {
        shop.ok(&[&["train", "run.toml", "-q", "--report", report], more].concat());
        shop.report(report)
    };
    let whole = train(&["--data.epochs=2", "--checkpoint=whole"], "whole.json");
    assert!((17..=32).contains(&rows(&whole)), "{}", whole["rows"]);
    shop.ok(&["convert", "data.csv", "--config", "run.toml", "--out", "data.packed", "-q"]);
    let packed = ["--data.epochs=2", "--data.paths=data.packed"];
    assert_eq!(train(&packed, "packed.json")["model_digest"], whole["model_digest"]);
    let other = shop.fails(&["train", "run.toml", "--data=data.packed", "--columns.3.bins=17"]);
    assert!(other.contains("data.packed") && other.contains("column"), "{other}");
    for (bins, report) in [("16", "first.json"), ("17", "second.json"), ("16", "third.json")] {
        train(&["--data.cache=data.cache", "--columns.3.bins", bins], report);
    }
    let digest = |report| shop.report(report)["model_digest"].clone();
    assert_eq!(digest("first.json"), digest("third.json"));
    assert_ne!(digest("first.json"), digest("second.json"));
    train(&["--checkpoint=saved"], "first.json");
    let resumed = train(&["--checkpoint=saved", "--resume", "--data.epochs=2"], "second.json");
    assert_eq!(resumed["model_digest"], whole["model_digest"]);
    let other = shop.fails(&[
        "train",
        "run.toml",
        "--checkpoint=saved",
        "--resume",
        "--data.epochs=3",
        "--set",
        "columns.3.bins=17",
    ]);
    assert!(other.contains("columns.3.bins = 16, this run has 17"), "{other}");
    let evaluated = shop.ok(&["eval", "saved", "--data", "data.csv", "--json"]);
    let evaluated: Value = serde_json::from_str(&evaluated).unwrap();
    assert!(evaluated["eval"]["auc"].as_f64().unwrap() > 0.4, "{evaluated}");
    let wrong = shop.fails(&["train", "run.toml", "--set", "columns.3.bins=0"]);
    assert!(wrong.contains("columns.3.bins is 0: give 1 to"), "{wrong}");
}
