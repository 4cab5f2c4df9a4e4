//! Training on a part of the negatives, against the same lines written to a file by a plain loop.

use std::fmt::Write as _;
use std::fs;

use stepwell_base::random::Stream;

use super::{CLICK, LIKE, NAMES, SECONDS, SETTINGS, WEIGHT, csv, near, rows, shop, train};
use crate::common::{TINY, same};

const RATE: f64 = 0.25;
const GIVEN: [&str; 2] = ["--data.negative_rate", "0.25"];

#[test]
fn scores_are_those_of_the_kept_lines_corrected() {
    let shop = shop(&[CLICK, WEIGHT]);
    let text = csv(&rows(1500));
    let mut kept = format!("{NAMES}\n");
    for (line, record) in text.lines().skip(1).enumerate() {
        let is_positive = record.split(',').nth(3) == Some("1");
        let draw = Stream::of_negative(1, 0, 0, line as u64).next_f64();
        if is_positive || draw < RATE {
            writeln!(kept, "{record}").unwrap();
        }
    }
    fs::write(shop.path("kept.csv"), &kept).unwrap();
    let common =
        ["--data.epochs", "1", "--data.eval_paths", "rows.csv", "--set", "tiers.dram=4MiB"];
    let with =
        |data: &str, more: &[&str]| train(&shop, "run.toml", data, &[&common[..], more].concat());
    let plain = with("kept.csv", &["--checkpoint", "plain"]);
    let sampled = with("rows.csv", &[&GIVEN[..], &["--checkpoint", "saved"]].concat());
    for field in ["model_digest", "steps", "progressive"] {
        assert_eq!(sampled[field], plain[field], "{field}");
    }
    let scores = |saved: &str| -> Vec<f64> {
        let text = shop.ok(&["predict", saved, "--data", "rows.csv"]);
        text.lines().skip(1).map(|line| line.parse().unwrap()).collect()
    };
    let (corrected, of_kept) = (scores("saved"), scores("plain"));
    for (p, q) in corrected.iter().zip(&of_kept) {
        let wanted = q / (q + (1.0 - q) / RATE);
        assert!((p - wanted).abs() < 1e-6, "{p} {wanted}");
    }
    // In the evaluation of the run, and in one by itself.
    shop.ok(&["eval", "saved", "--data", "rows.csv", "--report", "eval.json"]);
    let rows = rows(1500);
    let (mut loss, mut all) = (0.0, 0.0);
    for (row, p) in rows.iter().zip(&corrected) {
        loss -= row.worth * if row.click { p.ln() } else { (1.0 - p).ln() };
        all += row.worth;
    }
    near(&sampled["eval"]["logloss"], loss / all, "log loss");
    assert_eq!(shop.report("eval.json")["eval"], sampled["eval"]);
    // However it is trained.
    let again = |data: &str, more: &[&str], what: &str| {
        same(&with(data, &[&GIVEN[..], more].concat()), &sampled, what);
    };
    again("rows.jsonl", &["--threads", "1"], "JSON lines");
    again("rows.csv", &TINY, "tiny tiers");
    again("rows.csv", &["--ranks", "3"], "three ranks");
    for what in ["makes a cache", "reads a cache"] {
        again("rows.csv", &["--data.cache", "cache"], what);
    }
    shop.ok(&["convert", "rows.csv", "--config", "run.toml", "--out", "rows.packed"]);
    again("rows.packed", &["--ranks", "2"], "packed");
}

#[test]
fn a_rate_that_leaves_nothing_to_learn_is_named() {
    let shop = shop(&[CLICK]);
    for (click, says) in [
        (0, "15 negatives were left out, and there is no positive); check the label, or raise"),
        (1, "trained: data.negative_rate = 0.000001 leaves out negatives; raise it, or check"),
    ] {
        let mut rows = rows(20);
        rows.iter_mut().enumerate().for_each(|(at, row)| row.click = at % 2 < click);
        fs::write(shop.path("few.csv"), csv(&rows)).unwrap();
        let args = ["train", "run.toml", "--data", "few.csv", "--data.eval_fraction", "0.25"];
        let output = shop.run(&[&args[..], &["--data.negative_rate", "1e-6"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), click == 1, "{said}");
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn a_model_keeps_its_share_of_negatives() {
    let shop = shop(&[CLICK]);
    train(&shop, "run.toml", "rows.csv", &[&GIVEN[..], &["--checkpoint", "saved"]].concat());
    for other in ["0.5", "1"] {
        let told = shop.fails(&["eval", "saved", "--data.negative_rate", other]);
        assert!(told.contains("was trained with data.negative_rate = 0.25; scoring"), "{told}");
        let args = ["train", "run.toml", "--data", "rows.csv", "--data.negative_rate", other];
        let resume = ["--checkpoint", "saved", "--resume"];
        let told = shop.fails(&[&args[..], &resume].concat());
        assert!(told.contains("data.negative_rate = 0.25"), "{told}");
        let told = shop.fails(&[&args[..], &["--from", "saved", "--again"]].concat());
        assert!(told.contains("the checkpoint was trained with 0.25"), "{told}");
    }
    let refused = |columns: &str, data: &str, more: &[&str], says: &str| {
        fs::write(shop.path("run.toml"), SETTINGS.to_owned() + columns).unwrap();
        let args = ["train", "run.toml", "--data", data];
        let told = shop.fails(&[&args[..], &GIVEN, more].concat());
        assert!(told.contains("data.negative_rate = 0.25") && told.contains(says), "{told}");
    };
    refused(&format!("{CLICK}{LIKE}"), "rows.csv", &[], "there are 2 labels");
    refused(SECONDS, "rows.csv", &[], "label seconds is a number");
    refused(CLICK, "rows.csv", &["--data.streams", "2"], "data.streams = 1");
    let share = format!("{NAMES}\n1,2,3,0.5,1.5,no,1\n");
    fs::write(shop.path("share.csv"), csv(&rows(300)).replacen(&format!("{NAMES}\n"), &share, 1))
        .unwrap();
    refused(CLICK, "share.csv", &[], "share.csv: line 2: data.negative_rate = 0.25 leaves out");
}
