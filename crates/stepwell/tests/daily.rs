//! `train --from`: the next day, again, after a kill, with other settings and columns.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;

use common::{TINY, Workshop};
use serde_json::Value;

/// Examples of a day: a multiple of the mini-batch.
const DAY: usize = 400;

const SETTINGS: &str = r#"
[data]
eval_fraction = 0.0
mini_batch = 50
[model]
kind = "deepfm"
dim = 4
hidden = [8]
[tiers]
dram = "16MiB"
index = "16MiB"
[[columns]]
names = ["click"]
type = "label"
[[columns]]
names = ["price"]
type = "dense"
[[columns]]
names = ["user", "item"]
"#;

/// Some days of clicks, in which what users like drifts.
struct Days {
    shop: Workshop,
}

impl Days {
    fn new(days: usize) -> Self {
        let shop = Workshop::new();
        std::fs::write(shop.path("run.toml"), SETTINGS).unwrap();
        let head = "click,price,user,item,device\n";
        let mut all = head.to_owned();
        let mut state = 7_u64;
        for day in 1..=days {
            let mut text = String::new();
            for _ in 0..DAY {
                let mut draw = |below: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % below
                };
                let (user, item, device, noise) = (draw(60), draw(40), draw(3), draw(10));
                let likes = (user + item + day as u64 / 2) % 3 == 0;
                let click = u64::from(likes == (noise > 2));
                writeln!(text, "{click},{},u{user},i{item},d{device}", draw(9)).unwrap();
            }
            std::fs::write(shop.path(&format!("day_{day}.csv")), format!("{head}{text}")).unwrap();
            all += &text;
        }
        std::fs::write(shop.path("all.csv"), all).unwrap();
        Self { shop }
    }

    /// Trains with the settings of the file and `more`; the report.
    fn train(&self, more: &[&str]) -> Value {
        let mut args = vec!["train", "run.toml", "--report", "report.json"];
        args.extend(more);
        self.shop.ok(&args);
        self.shop.report("report.json")
    }

    /// Trains day after day from one directory of checkpoints, with `more` each day; the last
    /// report.
    fn daily(&self, days: usize, saved: &str, more: &[&str]) -> Value {
        let mut report = Value::Null;
        for day in 1..=days {
            let data = format!("day_{day}.csv");
            let mut args = vec!["--data", &data, "--checkpoint", saved];
            if day > 1 {
                args.extend(["--from", saved]);
            }
            args.extend(more);
            report = self.train(&args);
        }
        report
    }

    /// What a run says, on both streams.
    fn said(&self, args: &[&str]) -> String {
        let output = self.shop.run(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat()
    }

    /// The model of all days in one run.
    fn whole(&self, more: &[&str]) -> Value {
        self.train(&[&["--data", "all.csv"], more].concat())["model_digest"].clone()
    }
}

/// The checkpoints in a directory, oldest first.
fn checkpoints(days: &Days, saved: &str) -> Vec<String> {
    let entries = std::fs::read_dir(days.shop.path(saved)).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("step-")).collect();
    names.sort();
    names
}

#[test]
fn days_one_by_one_are_all_days_in_one_run() {
    let days = Days::new(3);
    let lives: &[&str] =
        &["--rows.history", "true", "--rows.admit_after", "2", "--rows.expire_after", "12"];
    let ranks: &[&str] = &["--ranks", "2", "--threads", "1"];
    let shuffled: &[&str] = &["--data.shuffle", "200"];
    let stale: &[&str] = &["--pipeline.staleness", "2"];
    let odd: &[&str] = &["--optim.rows.kind", "adam", "--optim.dense.kind", "adam"];
    for (what, more) in [
        ("plain", &[][..]),
        ("tiny tiers", &TINY[..4]),
        ("lives", lives),
        ("ranks", ranks),
        ("shuffled", shuffled),
        ("stale", stale),
        ("adam", odd),
    ] {
        let report = days.daily(3, &format!("saved {what}"), more);
        assert_eq!(report["model_digest"], days.whole(more), "{what}");
        assert_eq!(report["steps"], 24, "{what}");
        assert_eq!(report["examples"], DAY, "{what}");
    }
}

#[test]
fn the_number_of_ranks_and_the_format_may_change_from_day_to_day() {
    let days = Days::new(4);
    let expected = days.whole(&[]);
    days.shop.ok(&["convert", "day_3.csv", "--config", "run.toml", "--out", "day_3.packed"]);
    days.train(&["--data", "day_1.csv", "--checkpoint", "saved", "--ranks", "2"]);
    let from = ["--from", "saved", "--checkpoint", "saved"];
    days.train(&[&from[..], &["--data", "day_2.csv", "--ranks", "3", "--threads", "1"]].concat());
    days.train(&[&from[..], &["--data", "day_3.packed"]].concat());
    let report = days.train(&[&from[..], &["--data", "day_4.csv", "--ranks", "2"]].concat());
    assert_eq!(report["model_digest"], expected);
}

#[test]
fn a_checkpoint_says_enough_to_go_on_without_a_file_of_settings() {
    let days = Days::new(2);
    days.train(&["--data", "day_1.csv", "--checkpoint", "one"]);
    let args = ["train", "--from", "one", "--data", "day_2.csv", "--checkpoint", "two"];
    days.shop.ok(&[&args[..], &["--report", "report.json"]].concat());
    let report = days.shop.report("report.json");
    assert_eq!(report["model_digest"], days.whole(&[]));
    assert_eq!(report["config"]["data.mini_batch"], 50);
    // What the first directory holds is as it was.
    assert_eq!(checkpoints(&days, "one"), ["step-000000000008"]);
}

#[test]
fn the_daily_command_may_run_twice() {
    let days = Days::new(3);
    days.daily(2, "saved", &[]);
    let again = ["--data", "day_2.csv", "--from", "saved", "--checkpoint", "saved"];
    let command = [&["train", "run.toml"], &again[..]].concat();
    let said = days.said(&command);
    assert!(said.contains("trained before (step 16)") && said.contains("--again"), "{said}");
    let json: Value =
        serde_json::from_str(&days.shop.ok(&[&command[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["trained_before"], true);
    let report = days.train(&[&again[..], &["--again"]].concat());
    assert_eq!((report["steps"].clone(), report["examples"].clone()), (24.into(), DAY.into()));
    // An earlier day counts as trained as well, and so does a file that was moved.
    let said = days.said(&[&["train", "run.toml", "--data", "day_1.csv"], &again[2..]].concat());
    assert!(said.contains("trained before"), "{said}");
    std::fs::rename(days.shop.path("day_1.csv"), days.shop.path("old.csv")).unwrap();
    let said = days.said(&[&["train", "run.toml", "--data", "old.csv"], &again[2..]].concat());
    assert!(said.contains("trained before"), "{said}");
    assert_eq!(checkpoints(&days, "saved").last().unwrap(), "step-000000000024");
}

#[test]
fn a_pattern_that_finds_one_more_file_trains_on_that_one() {
    let days = Days::new(3);
    std::fs::rename(days.shop.path("day_3.csv"), days.shop.path("later")).unwrap();
    days.train(&["--data", "day_*.csv", "--checkpoint", "saved"]);
    std::fs::rename(days.shop.path("later"), days.shop.path("day_3.csv")).unwrap();
    let args = ["--data", "day_*.csv", "--from", "saved", "--checkpoint", "saved"];
    let said = days.said(&[&["train", "run.toml", "--report", "report.json"], &args[..]].concat());
    assert!(said.contains("2 of 3 files were trained before"), "{said}");
    let report = days.shop.report("report.json");
    assert_eq!(report["model_digest"], days.whole(&[]));
    assert_eq!(report["examples"], DAY);
}

#[test]
fn a_day_that_was_stopped_goes_on_with_the_same_bits() {
    let days = Days::new(2);
    let expected = days.whole(&[]);
    days.train(&["--data", "day_1.csv", "--checkpoint", "first"]);
    for to in ["first", "second"] {
        let args = ["--from", "first", "--data", "day_2.csv", "--checkpoint", to];
        let often = ["--checkpoint.every", "3", "--checkpoint.keep", "100"];
        // Stopped by a line that is no record, then with the line as it should be.
        let good = std::fs::read_to_string(days.shop.path("day_2.csv")).unwrap();
        let first_day = checkpoints(&days, "first");
        days.train(&[&args[..], &often[..]].concat());
        // As a kill leaves it: the last checkpoints were never written.
        for name in checkpoints(&days, to) {
            if name.as_str() > "step-000000000012" {
                std::fs::remove_dir_all(days.shop.path(&format!("{to}/{name}"))).unwrap();
            }
        }
        assert_eq!(std::fs::read_to_string(days.shop.path("day_2.csv")).unwrap(), good);
        let report = days.train(&[&args[..], &often[..]].concat());
        assert_eq!(report["model_digest"], expected, "{to}");
        assert_eq!(report["examples"], 4 * 50, "{to}");
        let said = days.said(&[&["train", "run.toml"], &args[..]].concat());
        assert!(said.contains("trained before"), "{said}");
        if to == "first" {
            // The second round begins with the first day again.
            for name in checkpoints(&days, to) {
                if !first_day.contains(&name) {
                    std::fs::remove_dir_all(days.shop.path(&format!("{to}/{name}"))).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_run_in_the_middle_of_its_data_is_finished_first() {
    let days = Days::new(2);
    days.train(&[
        "--data",
        "day_1.csv",
        "--checkpoint",
        "saved",
        "--checkpoint.every",
        "3",
        "--checkpoint.keep",
        "9",
    ]);
    std::fs::remove_dir_all(days.shop.path("saved/step-000000000008")).unwrap();
    let args = ["train", "run.toml", "--data", "day_2.csv", "--checkpoint", "next", "--from"];
    let why = days.shop.fails(&[&args[..], &["saved"]].concat());
    assert!(why.contains("stands after line 300 of day_1.csv: train the rest first"), "{why}");
    // Who names the checkpoint itself knows what is left out.
    let said = days.said(&[&args[..], &["saved/step-000000000006"]].concat());
    assert!(said.contains("is not trained by this run"), "{said}");
}

#[test]
fn what_would_mix_up_runs_or_data_is_refused() {
    let days = Days::new(3);
    days.train(&["--data", "day_1.csv", "--checkpoint", "one"]);
    days.train(&["--data", "day_1.csv", "--checkpoint", "other", "--seed", "9"]);
    let fails = |more: &[&str]| days.shop.fails(&[&["train", "run.toml"], more].concat());
    let why = fails(&["--from", "one", "--data", "day_2.csv", "--checkpoint", "other"]);
    assert!(why.contains("holds checkpoints of another run"), "{why}");
    let why = fails(&["--from", "one", "--checkpoint", "new"]);
    assert!(why.contains("name it with --data"), "{why}");
    let why = fails(&["--from", "nowhere", "--data", "day_2.csv"]);
    assert!(why.contains("nowhere: does not exist"), "{why}");
    let why = fails(&["--from", "one", "--data", "day_2.csv", "--checkpoint", "one", "--force"]);
    assert!(why.contains("leave --force out"), "{why}");
    let why = fails(&["--from", "one", "--data", "day_2.csv", "--model.dim", "2"]);
    assert!(why.contains("aren't cut"), "{why}");
    // A file that grew would be trained twice in part.
    let mut grown = std::fs::read_to_string(days.shop.path("day_1.csv")).unwrap();
    grown += "1,2,u1,i1,d1\n";
    std::fs::write(days.shop.path("day_1.csv"), grown).unwrap();
    let why = fails(&["--from", "one", "--data", "day_1.csv", "--checkpoint", "one"]);
    assert!(why.contains("was trained when it had") && why.contains("--again"), "{why}");
    // A day without a record trains nothing, and says so.
    std::fs::write(days.shop.path("none.csv"), "click,price,user,item,device\n").unwrap();
    let why = fails(&["--from", "one", "--data", "none.csv", "--checkpoint", "one"]);
    assert!(why.contains("no record"), "{why}");
}

#[test]
fn the_model_before_is_evaluated_on_the_day_to_come() {
    let days = Days::new(2);
    days.train(&["--data", "day_1.csv", "--checkpoint", "saved"]);
    days.shop.ok(&["eval", "saved", "--data", "day_2.csv", "--report", "eval.json"]);
    let args = ["--from", "saved", "--data", "day_2.csv", "--checkpoint", "saved"];
    let report = days.train(&[&args[..], &["--evaluate-first"]].concat());
    assert_eq!(report["before"], days.shop.report("eval.json")["eval"]);
    assert_eq!(report["model_digest"], days.whole(&[]));
}

/// The first values of each row of a matrix in a file of NumPy's, with keys.
fn rows(days: &Days, folder: &str, lanes: usize, first: usize) -> Vec<(u64, Vec<f32>)> {
    let read = |name: &str| {
        let bytes = std::fs::read(days.shop.path(&format!("{folder}/{name}"))).unwrap();
        let head = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
        bytes[10 + head..].to_vec()
    };
    let keys = read("table-embedding/keys.npy");
    let keys = keys.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight));
    let values = read("table-embedding/embedding.npy");
    let values: Vec<f32> =
        values.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    let mut rows: Vec<_> = keys
        .zip(values.chunks_exact(lanes))
        .map(|(key, row)| (key, row[..first].to_vec()))
        .collect();
    rows.sort_by_key(|(key, _)| *key);
    rows
}

#[test]
fn larger_embeddings_and_new_columns_keep_what_was_learned() {
    let days = Days::new(2);
    days.train(&["--data", "day_1.csv", "--checkpoint", "saved"]);
    days.shop.ok(&["export", "saved", "--to", "before", "--format", "npy"]);
    let before = rows(&days, "before", 4, 4);
    // Rates that change nothing show what a model begins with.
    let still = ["--optim.rows.lr", "1e-38", "--optim.dense.lr", "1e-38"];
    let wider = SETTINGS.replace("\"item\"]", "\"item\", \"device\"]");
    std::fs::write(days.shop.path("wider.toml"), wider).unwrap();
    for (what, settings, more) in [
        ("dim", "run.toml", &["--model.dim", "6"][..]),
        ("column", "wider.toml", &[]),
        ("both", "wider.toml", &["--model.dim", "6"]),
        ("optimizer", "run.toml", &["--optim.rows.kind", "adam"]),
        ("model", "run.toml", &["--model", "dcn"]),
    ] {
        let lanes = if more.contains(&"6") { 6 } else { 4 };
        let mut args = vec!["train", settings, "--from", "saved", "--data", "day_2.csv"];
        args.extend(["--checkpoint", what]);
        args.extend(still);
        args.extend(more);
        let said = days.said(&args);
        let is_dense_new = said.contains("initial, in whole or in part");
        assert_eq!(is_dense_new, what != "optimizer", "{said}");
        let to = format!("{what} after");
        days.shop.ok(&["export", what, "--to", &to, "--format", "npy"]);
        let after: Vec<_> = rows(&days, &to, lanes, 4);
        let kept: BTreeSet<u64> = before.iter().map(|(key, _)| *key).collect();
        let after: Vec<_> = after.into_iter().filter(|(key, _)| kept.contains(key)).collect();
        assert_eq!(after.len(), before.len(), "{what}");
        for ((key, before), (_, after)) in before.iter().zip(&after) {
            let near = before.iter().zip(after).all(|(a, b)| (a - b).abs() < 1e-6);
            assert!(near, "{what}: {key:016x} {before:?} {after:?}");
        }
    }
    // The dense part, too: with a column that says nothing yet, and one that goes.
    let score = |saved: &str| {
        days.shop.ok(&["eval", saved, "--data", "day_2.csv", "--report", "eval.json"]);
        days.shop.report("eval.json")["eval"]["auc"].as_f64().unwrap()
    };
    let (was, column) = (score("saved"), score("column"));
    assert!((was - column).abs() < 0.03, "{was} {column}");
    let narrower = SETTINGS.replace("\"user\", ", "");
    std::fs::write(days.shop.path("narrower.toml"), narrower).unwrap();
    let args = ["train", "narrower.toml", "--from", "saved", "--data", "day_2.csv"];
    let said = days.said(&[&args[..], &["--checkpoint", "narrow"]].concat());
    assert!(said.contains("columns.3.names"), "{said}");
    // All that is left was there before.
    assert!(!said.contains("initial, in whole or in part"), "{said}");
}

#[test]
fn tables_come_and_go() {
    let days = Days::new(2);
    days.train(&["--data", "day_1.csv", "--checkpoint", "saved"]);
    let tables = r#"
[tables.embedding]
[tables.things]
dim = 8
[[features]]
table = "embedding"
columns = ["user"]
[[features]]
table = "things"
columns = ["item"]
"#;
    std::fs::write(days.shop.path("tables.toml"), format!("{SETTINGS}{tables}")).unwrap();
    let args = ["train", "tables.toml", "--from", "saved", "--data", "day_2.csv"];
    let said = days.said(&[&args[..], &["--checkpoint", "two"]].concat());
    assert!(said.contains("new tables, without rows yet: things"), "{said}");
    // Back to one table: what the other one learned is left.
    let args = ["train", "run.toml", "--from", "two", "--data", "all.csv"];
    let said = days.said(&[&args[..], &["--checkpoint", "three"]].concat());
    assert!(said.contains("tables of the checkpoint that this model leaves: things"), "{said}");
    // Tables that share a store are told apart row by row.
    let shared = tables.replace("dim = 8", "dim = 4");
    std::fs::write(days.shop.path("shared.toml"), format!("{SETTINGS}{shared}")).unwrap();
    let args = ["train", "shared.toml", "--from", "saved", "--data", "day_2.csv"];
    let said = days.said(&[&args[..], &["--checkpoint", "four"]].concat());
    assert!(said.contains("each is written anew"), "{said}");
    days.shop.ok(&["eval", "four", "--data", "day_2.csv"]);
}

#[test]
fn an_unchanged_layout_is_taken_over_by_links() {
    let days = Days::new(2);
    let places = ["--tiers.ssd", "rows", "--tiers.segment", "64KiB"];
    days.train(&[&["--data", "day_1.csv", "--checkpoint", "one"][..], &places[..]].concat());
    let args = ["--from", "one", "--data", "day_2.csv", "--checkpoint", "two"];
    days.train(&[&args[..], &places[..]].concat());
    let inodes = |saved: &str| -> BTreeSet<u64> {
        let newest = checkpoints(&days, saved).pop().unwrap();
        let rows = days.shop.path(&format!("{saved}/{newest}/rows-0"));
        std::fs::read_dir(rows)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().ino())
            .collect()
    };
    assert!(inodes("one").intersection(&inodes("two")).count() > 0);
}

#[test]
fn statistics_of_the_first_day_are_kept() {
    let days = Days::new(2);
    let standardised =
        SETTINGS.replace("type = \"dense\"", "type = \"dense\"\ntransform = \"standardise\"");
    std::fs::write(days.shop.path("run.toml"), standardised).unwrap();
    let first = days.train(&["--data", "day_1.csv", "--checkpoint", "saved"]);
    let next = days.train(&["--from", "saved", "--data", "day_2.csv", "--checkpoint", "saved"]);
    assert!(first["config"]["columns.2.mean"].is_array());
    for key in ["columns.2.mean", "columns.2.deviation"] {
        assert_eq!(first["config"][key], next["config"][key], "{key}");
    }
}
