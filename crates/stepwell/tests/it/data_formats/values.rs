//! Ids with values and soft labels: every format gives the same model, and plain loops in f64 give
//! its scores.

use std::fs;

use serde_json::Value;

use crate::common::{TINY, Workshop, same};

const SETTINGS: &str = r#"
[data]
mini_batch = 16
epochs = 2
eval_fraction = 0.2

[model]
kind = "lr"

[optim.rows]
kind = "sgd"
lr = 0.3

[optim.dense]
kind = "sgd"
lr = 0.1

[tiers]
index = "8MiB"
dram = "1MiB"
segment = "64KiB"

[[columns]]
names = ["label"]
type = "label"

[[columns]]
names = ["none"]
type = "dense"

[[columns]]
names = ["user"]

[[columns]]
names = ["worth"]
type = "ignored"

[[columns]]
names = ["indices"]
type = "ids"
"#;

const USERS: usize = 13;
const IDS: usize = 11;

struct Row {
    label: f64,
    user: usize,
    /// Ids and their values.
    ids: Vec<(usize, f64)>,
}

fn rows() -> Vec<Row> {
    let values = [0.5, 2.0, -1.25, 0.0, 0.1, 1.0];
    let row = |n: usize| {
        let user = n * 7919 % USERS;
        let id = |at: usize| ((n * 104_729 + at * at) % IDS, values[(n + at) % values.len()]);
        let ids: Vec<(usize, f64)> = (0..n % 5).map(id).collect();
        let sum: f64 = ids.iter().map(|(id, value)| value * (id % 3) as f64).sum();
        let label = if sum > 1.0 { [1.0, 0.75][n % 2] } else { [0.0, 0.125][user % 2] };
        Row { label, user, ids }
    };
    (0..300).map(row).collect()
}

/// A header and a line for each row.
fn lines(header: &str, line: impl Fn(&Row) -> String) -> String {
    let lines: String = rows().iter().map(|row| line(row) + "\n").collect();
    header.to_owned() + &lines
}

fn joined(row: &Row, between: &str, item: impl Fn(usize, f64) -> String) -> String {
    row.ids.iter().map(|(id, value)| item(*id, *value)).collect::<Vec<_>>().join(between)
}

/// The rows in every text format, each with the settings that say where its values are.
fn shop() -> (Workshop, [(&'static str, &'static str); 6]) {
    let shop = Workshop::new();
    let put = |name: &str, text: String| fs::write(shop.path(name), text).unwrap();
    put("svm.toml", SETTINGS.to_owned());
    put("within.toml", SETTINGS.to_owned() + "values = \":\"\n");
    put("beside.toml", SETTINGS.to_owned() + "values = \"worth\"\n");
    let item = |id: usize, value: f64| format!("{id}:{value}");
    let svm = |of: &Row, field: &str| {
        let ids = of.ids.iter().map(|(id, value)| format!(" {field}{id}:{value}"));
        format!("{} none:0 user:{}{}", of.label, of.user, ids.collect::<String>())
    };
    let csv =
        |of: &Row, ids: String, worth: String| format!("{},0,{},{worth},{ids}", of.label, of.user);
    let json = |of: &Row, ids: String, worth: String| {
        let Row { label, user, .. } = of;
        format!(
            "{{\"label\":{label},\"none\":0,\"user\":{user},\"worth\":[{worth}],\
             \"indices\":[{ids}]}}"
        )
    };
    let names = "label,none,user,worth,indices\n";
    put("rows.svm", lines("", |of| svm(of, "")));
    put("rows.ffm", lines("", |of| svm(of, "indices:")));
    put("within.csv", lines(names, |of| csv(of, joined(of, "|", item), String::new())));
    let worth = |_, value: f64| value.to_string();
    let bare = |id: usize, _| id.to_string();
    put("beside.csv", lines(names, |of| csv(of, joined(of, "|", bare), joined(of, "|", worth))));
    let quoted = |id, value| format!("\"{id}:{value}\"");
    put("within.jsonl", lines("", |of| json(of, joined(of, ",", quoted), String::new())));
    put("beside.jsonl", lines("", |of| json(of, joined(of, ",", bare), joined(of, ",", worth))));
    let files = [
        ("rows.svm", "svm.toml"),
        ("rows.ffm", "svm.toml"),
        ("within.csv", "within.toml"),
        ("beside.csv", "beside.toml"),
        ("within.jsonl", "within.toml"),
        ("beside.jsonl", "beside.toml"),
    ];
    (shop, files)
}

fn train(shop: &Workshop, (data, settings): (&str, &str), more: &[&str]) -> Value {
    let args = ["train", settings, "--data", data, "--report", "report.json", "--threads", "2"];
    shop.ok(&[&args[..], more].concat());
    shop.report("report.json")
}

/// A logistic regression whose ids have values.
struct Regression {
    users: [f64; USERS],
    ids: [f64; IDS],
    bias: f64,
}

impl Regression {
    /// Trains on `rows` for two epochs, in steps of 16 examples.
    fn of(rows: &[Row]) -> Self {
        let mut model = Self { users: [0.0; USERS], ids: [0.0; IDS], bias: 0.0 };
        for batch in (0..2).flat_map(|_| rows.chunks(16)) {
            let slope = |row: &Row| (model.score(row) - row.label) / batch.len() as f64;
            let slopes: Vec<f64> = batch.iter().map(slope).collect();
            for (row, slope) in batch.iter().zip(slopes) {
                model.users[row.user] -= 0.3 * slope;
                row.ids.iter().for_each(|(id, value)| model.ids[*id] -= 0.3 * slope * value);
                model.bias -= 0.1 * slope;
            }
        }
        model
    }

    fn score(&self, row: &Row) -> f64 {
        let of_ids: f64 = row.ids.iter().map(|(id, value)| value * self.ids[*id]).sum();
        1.0 / (1.0 + (-(self.users[row.user] + of_ids + self.bias)).exp())
    }
}

#[test]
fn ids_with_values_are_one_model_in_every_format() {
    let (shop, files) = shop();
    let deepfm = ["--model.kind", "deepfm", "--model.dim", "4", "--model.hidden", "8"];
    let expected = train(&shop, files[0], &deepfm);
    for (data, settings) in files {
        let with = |data: &str, more: &[&str], what: &str| {
            let found = train(&shop, (data, settings), &[&deepfm[..], more].concat());
            same(&found, &expected, &format!("{data}, {what}"));
        };
        with(data, &[], "plain");
        if ["rows.svm", "beside.csv"].contains(&data) {
            with(data, &TINY, "tiny tiers");
            with(data, &["--ranks", "2"], "two ranks");
            for more in ["makes", "reads"] {
                with(data, &["--data.cache", "cache"], &format!("{more} a cache"));
            }
            fs::remove_file(shop.path("cache")).unwrap();
        }
        shop.ok(&["convert", data, "--config", settings, "--out", "rows.packed"]);
        assert_eq!(fs::read(shop.path("rows.packed")).unwrap()[8], 6, "{data}");
        with("rows.packed", &[], "packed");
        fs::remove_file(shop.path("rows.packed")).unwrap();
    }
    // Without `values` the items are other texts.
    let texts = train(&shop, ("within.csv", "svm.toml"), &deepfm);
    assert_ne!(texts["model_digest"], expected["model_digest"]);
}

#[test]
fn ids_with_values_are_learned_and_scored() {
    let (shop, files) = shop();
    let (rows, model) = (rows(), Regression::of(&rows()));
    for (data, settings) in [files[0], files[2]] {
        let all = ["--data.eval_fraction", "0", "--checkpoint", "saved"];
        train(&shop, (data, settings), &all);
        let scores = shop.ok(&["predict", "saved", "--data", data]);
        let scores: Vec<f64> = scores.lines().skip(1).map(|line| line.parse().unwrap()).collect();
        assert_eq!(scores.len(), rows.len());
        let mut loss = 0.0;
        for (score, row) in scores.iter().zip(&rows) {
            let wanted = model.score(row);
            assert!((score - wanted).abs() < 1e-5, "{data}: {score} {wanted}");
            loss -= row.label * wanted.ln() + (1.0 - row.label) * (1.0 - wanted).ln();
        }
        shop.ok(&["eval", "saved", "--data", data, "--report", "eval.json"]);
        let found = shop.report("eval.json")["eval"]["logloss"].as_f64().unwrap();
        let wanted = loss / rows.len() as f64;
        assert!((found - wanted).abs() < 1e-5, "{data}: {found} {wanted}");
        fs::remove_dir_all(shop.path("saved")).unwrap();
    }
}

#[test]
fn what_is_no_value_is_told_with_its_place() {
    let (shop, _) = shop();
    let refused = |(name, text): (&str, &str), settings: &str, says: &[&str]| {
        fs::write(shop.path(name), text).unwrap();
        let told = shop.fails(&["train", settings, "--data", name]);
        assert!(says.iter().all(|part| told.contains(part)), "{told}");
    };
    for value in ["nan", "inf", "1e39", "x"] {
        let svm = format!("1 user:3 7:0.5\n0 user:4 9:{value}\n");
        let item = format!("indices has the item '9:{value}'");
        refused(
            ("bad.svm", &svm),
            "svm.toml",
            &["bad.svm: line 2", &item, "a finite 32-bit number"],
        );
        let csv = format!("label,none,user,worth,indices\n1,0,3,,7:1\n0,0,4,,9:{value}\n");
        refused(
            ("bad.csv", &csv),
            "within.toml",
            &["bad.csv: line 3, column 5", &item, "a finite 32-bit number"],
        );
    }
    let csv = "label,none,user,worth,indices\n1,0,3,1|nan,7|8\n";
    refused(("bad.csv", csv), "beside.toml", &["line 2, column 4", "worth has the item 'nan'"]);
}
