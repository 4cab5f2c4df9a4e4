//! Labels of several kinds, several labels, and weights of examples: one model for every format and
//! every way of training, and correct figures.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod negatives;
mod shares;

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::common::{TINY, Workshop, same};

const SETTINGS: &str = r#"
[data]
mini_batch = 64
epochs = 6
eval_fraction = 0.2

[model]
dim = 4
hidden = [8]

[optim.rows]
lr = 0.1

[tiers]
index = "8MiB"

[[columns]]
names = ["user", "item"]

[[columns]]
names = ["price"]
type = "dense"
transform = "log1p"
"#;

const CLICK: &str = "\n[[columns]]\nnames = [\"click\"]\ntype = \"label\"\n";
const SECONDS: &str =
    "\n[[columns]]\nnames = [\"seconds\"]\ntype = \"label\"\nloss = \"squared_error\"\n";
const LIKE: &str = "\n[[columns]]\nnames = [\"like\"]\ntype = \"label\"\npositive = [\"yes\"]\n";
const WEIGHT: &str = "\n[[columns]]\nnames = [\"worth\"]\ntype = \"weight\"\n";

/// A user and an item that determine label, watched seconds and likes.
struct Row {
    user: usize,
    item: usize,
    click: bool,
    seconds: f64,
    like: bool,
    worth: f64,
}

fn rows(count: usize) -> Vec<Row> {
    let row = |n: usize| {
        let (user, item) = (n * 7919 % 83, n * 104_729 % 41);
        let seconds = (user % 7) as f64 - 0.5 * (item % 5) as f64 + (n % 4) as f64 / 16.0;
        let (click, like) = (
            user.is_multiple_of(3) || item.is_multiple_of(5),
            user % 2 == 1 && !item.is_multiple_of(3),
        );
        Row { user, item, click, seconds, like, worth: [1.0, 0.5, 3.0, 0.0][n % 4] }
    };
    (0..count).map(row).collect()
}

const NAMES: &str = "user,item,price,click,seconds,like,worth";

fn csv(rows: &[Row]) -> String {
    let mut text = format!("{NAMES}\n");
    for Row { user, item, click, seconds, like, worth } in rows {
        let (click, like) = (u8::from(*click), if *like { "yes" } else { "no" });
        writeln!(text, "{user},{item},{},{click},{seconds},{like},{worth}", item * 3).unwrap();
    }
    text
}

fn json(rows: &[Row]) -> String {
    let of = |row: &Row| {
        let Row { user, item, click, seconds, like, worth } = row;
        let (click, like) = (u8::from(*click), if *like { "yes" } else { "no" });
        format!(
            "{{\"user\":{user},\"item\":{item},\"price\":{},\"click\":{click},\
             \"seconds\":{seconds},\"like\":\"{like}\",\"worth\":{worth}}}\n",
            item * 3
        )
    };
    rows.iter().map(of).collect()
}

fn train(shop: &Workshop, settings: &str, data: &str, more: &[&str]) -> Value {
    let args = ["train", settings, "--data", data, "--report", "report.json", "--threads", "2"];
    shop.ok(&[&args[..], more].concat());
    shop.report("report.json")
}

fn shop(columns: &[&str]) -> Workshop {
    let (shop, rows) = (Workshop::new(), rows(1500));
    fs::write(shop.path("run.toml"), SETTINGS.to_owned() + &columns.concat()).unwrap();
    fs::write(shop.path("rows.csv"), csv(&rows)).unwrap();
    fs::write(shop.path("rows.jsonl"), json(&rows)).unwrap();
    shop
}

#[test]
fn one_model_whatever_the_data_lies_in_and_however_it_is_trained() {
    for columns in [&[SECONDS][..], &[CLICK, WEIGHT], &[LIKE, SECONDS, CLICK, WEIGHT]] {
        let shop = shop(columns);
        for model in ["deepfm", "lr", "dlrm"] {
            let model = ["--model", model, "--set", "model.bottom=8"];
            let expected = train(&shop, "run.toml", "rows.csv", &model);
            let with = |data: &str, more: &[&str], what: &str| {
                let found = train(&shop, "run.toml", data, &[&model[..], more].concat());
                same(&found, &expected, &format!("{columns:?}, {model:?}, {what}"));
            };
            with("rows.jsonl", &["--threads", "1"], "JSON lines");
            with("rows.csv", &TINY, "tiny tiers");
            with("rows.csv", &["--ranks", "3"], "three ranks");
            for more in ["makes", "reads"] {
                with("rows.csv", &["--data.cache", "cache"], &format!("{more} a cache"));
            }
            fs::remove_file(shop.path("cache")).unwrap();
        }
        shop.ok(&["convert", "rows.csv", "--config", "run.toml", "--out", "rows.packed"]);
        let expected = train(&shop, "run.toml", "rows.csv", &[]);
        for ranks in ["1", "2"] {
            same(&train(&shop, "run.toml", "rows.packed", &["--ranks", ranks]), &expected, ranks);
        }
        let saved = ["--checkpoint", "saved"];
        let part = [&saved[..], &["--set", "data.epochs=2"]].concat();
        train(&shop, "run.toml", "rows.csv", &part);
        let goes_on = [&saved[..], &["--resume"]].concat();
        let resumed = train(&shop, "run.toml", "rows.csv", &goes_on);
        assert_eq!(resumed["model_digest"], expected["model_digest"]);
    }
}

/// Scores of the data, by column.
fn scores(shop: &Workshop, header: &str) -> Vec<Vec<f64>> {
    let text = shop.ok(&["predict", "saved", "--data", "rows.csv"]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(header));
    let mut columns = vec![Vec::new(); header.split(',').count()];
    for line in lines {
        let fields = line.split(',').map(|field| field.parse::<f64>().unwrap());
        columns.iter_mut().zip(fields).for_each(|(column, score)| column.push(score));
    }
    columns
}

fn near(found: &Value, expected: f64, what: &str) {
    let found = found.as_f64().unwrap();
    assert!(
        (found - expected).abs() < 1e-5 * expected.abs().max(1.0),
        "{what}: {found} {expected}"
    );
}

/// The sum over all rows of weight and value.
fn sum(rows: &[Row], weighted: bool, of: impl Fn(usize, &Row) -> f64) -> f64 {
    let weight = |row: &Row| if weighted { row.worth } else { 1.0 };
    rows.iter().enumerate().map(|(number, row)| weight(row) * of(number, row)).sum()
}

#[test]
fn numbers_are_learned_and_measured() {
    for weighted in [false, true] {
        let shop = shop(if weighted { &[SECONDS, WEIGHT] } else { &[SECONDS] });
        train(&shop, "run.toml", "rows.csv", &["--checkpoint", "saved"]);
        let rows = rows(1500);
        let scores = scores(&shop, "score").remove(0);
        shop.ok(&["eval", "saved", "--data", "rows.csv", "--report", "eval.json"]);
        let eval = shop.report("eval.json")["eval"].clone();
        let other = ["eval", "saved", "--data", "rows.csv", "--columns.3.loss", "log_loss"];
        let told = shop.fails(&other);
        assert!(told.contains("columns.3.loss = squared_error"), "{told}");
        let sum = |of: &dyn Fn(f64, f64) -> f64| {
            sum(&rows, weighted, |number, row| of(scores[number], row.seconds))
        };
        let count = sum(&|_, _| 1.0);
        let mean = sum(&|_, label| label) / count;
        let squares = sum(&|score, label| (score - label).powi(2));
        near(&eval["rmse"], (squares / count).sqrt(), "RMSE");
        near(&eval["mae"], sum(&|score, label| (score - label).abs()) / count, "MAE");
        let variance = sum(&|_, label| (label - mean).powi(2));
        near(&eval["r2"], 1.0 - squares / variance, "R2");
        near(&eval["positive_rate"], mean, "mean");
        near(&eval["calibration"], sum(&|score, _| score) / count / mean, "calibration");
        assert!(eval["r2"].as_f64().unwrap() > 0.9, "{eval}");
        assert!(eval["auc"].is_null() && eval["logloss"].is_null());
    }
}

#[test]
fn several_labels_have_scores_and_figures_each() {
    let shop = shop(&[LIKE, SECONDS, CLICK]);
    let more = ["--checkpoint", "saved", "--metrics", "metrics.jsonl", "--html", "page.html"];
    train(&shop, "run.toml", "rows.csv", &more);
    let scores = scores(&shop, "score_like,score_seconds,score_click");
    let said = shop.ok(&["eval", "saved", "--data", "rows.csv", "--report", "eval.json"]);
    assert!(said.contains("like: AUC") && said.contains("seconds: RMSE"), "{said}");
    let eval = shop.report("eval.json")["eval"].clone();
    let labels = eval["labels"].as_array().unwrap();
    let named: Vec<&str> = labels.iter().map(|of| of["label"].as_str().unwrap()).collect();
    assert_eq!(named, ["like", "seconds", "click"]);
    let rows = rows(1500);
    let truths: [fn(&Row) -> bool; 2] = [|row| row.like, |row| row.click];
    for (at, truth) in [(0, truths[0]), (2, truths[1])] {
        let loss = sum(&rows, false, |number, row| {
            let score = scores[at][number];
            -(if truth(row) { score } else { 1.0 - score }).ln()
        });
        near(&labels[at]["logloss"], loss / 1500.0, "log loss");
        assert!(labels[at]["auc"].as_f64().unwrap() > 0.8, "{}", labels[at]);
    }
    let squares = sum(&rows, false, |number, row| (scores[1][number] - row.seconds).powi(2));
    near(&labels[1]["rmse"], (squares / 1500.0).sqrt(), "RMSE");
    let metrics = fs::read_to_string(shop.path("metrics.jsonl")).unwrap();
    assert!(metrics.contains("\"loss\":") && !metrics.contains("logloss_recent"), "{metrics}");
}

/// Data with one in ten negatives kept, with a weight of ten.
#[test]
fn weights_make_up_for_examples_that_were_left_out() {
    let shop = Workshop::new();
    fs::write(shop.path("run.toml"), SETTINGS.to_owned() + CLICK + WEIGHT).unwrap();
    // One in ten, independent of user and item.
    let click =
        |number: usize| (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & 1023 < 102;
    let of = |(n, row): (usize, Row)| Row { click: click(n), ..row };
    let all: Vec<Row> = rows(12_000).into_iter().enumerate().map(of).collect();
    let weighed = |worth: f64| {
        let kept = all.iter().enumerate().filter(|(n, row)| row.click || n.is_multiple_of(10));
        let of = |row: &Row| Row { worth: if row.click { 1.0 } else { worth }, ..*row };
        csv(&kept.map(|(_, row)| of(row)).collect::<Vec<_>>())
    };
    fs::write(shop.path("weighed.csv"), weighed(10.0)).unwrap();
    fs::write(shop.path("alike.csv"), weighed(1.0)).unwrap();
    let every = all.iter().map(|row| Row { worth: 1.0, ..*row }).collect::<Vec<_>>();
    fs::write(shop.path("all.csv"), csv(&every)).unwrap();
    let calibration = |data: &str| {
        let some = ["--model", "lr", "--checkpoint", data, "--data.epochs", "20"];
        train(&shop, "run.toml", &format!("{data}.csv"), &some);
        shop.ok(&["eval", data, "--data", "all.csv", "--report", "eval.json"]);
        shop.report("eval.json")["eval"]["calibration"].as_f64().unwrap()
    };
    let (weighed, alike) = (calibration("weighed"), calibration("alike"));
    assert!((weighed - 1.0).abs() < 0.15, "{weighed}");
    assert!(alike > 2.0, "{alike}");
}

#[test]
fn what_is_no_label_or_weight_is_told() {
    let shop = shop(&[SECONDS, WEIGHT]);
    let refused = |row: &str, says: &str| {
        fs::write(shop.path("bad.csv"), format!("{NAMES}\n1,2,3,0,1.5,no,1\n{row}\n")).unwrap();
        let told = shop.fails(&["train", "run.toml", "--data", "bad.csv"]);
        assert!(told.contains(says) && told.contains("line 3"), "{told}");
    };
    refused("1,2,3,0,soon,no,1", "seconds is 'soon', and the label is a finite number");
    refused("1,2,3,0,,no,1", "seconds is missing, and it is the label");
    refused("1,2,3,0,1.5,no,-1", "worth is '-1', and a weight is a number of 0 or more");
    refused("1,2,3,0,1.5,no,much", "worth is 'much', and a weight is a number of 0 or more");
    refused("1,2,3,0,1.5,no,", "worth is missing, and it is the weight");
    let settings = |columns: &str, says: &str| {
        fs::write(shop.path("bad.toml"), SETTINGS.to_owned() + columns).unwrap();
        let told = shop.fails(&["train", "bad.toml", "--data", "rows.csv"]);
        assert!(told.contains(says), "{told}");
    };
    let weights = WEIGHT.replace("worth", "click") + WEIGHT + SECONDS;
    settings(&weights, "is a second weight");
    settings(&SECONDS.replace("squared_error", "hinge"), "give one of log_loss, squared_error");
    settings(&(SECONDS.to_owned() + "positive = [\"3\"]\n"), "give one of them");
    let weighed = SECONDS.to_owned() + "class_weight = 2\n";
    settings(&weighed, "columns.3.class_weight = 2: label seconds is a number");
    for given in ["data.class_weight", "train.label_smoothing", "train.focal_gamma"] {
        let columns = ["--set", &format!("{given}=0.5")];
        let args = [&["train", "run.toml", "--data", "rows.csv"][..], &columns].concat();
        let told = shop.fails(&args);
        assert!(told.contains(&format!("{given} = 0.5: label seconds is a number")), "{told}");
    }
}

#[test]
fn labels_and_weights_that_no_optimizer_can_sum_up_end_the_run() {
    let shop = Workshop::new();
    let run = |columns: &str, label: &str, weight: &str| {
        fs::write(shop.path("run.toml"), format!("{SETTINGS}{columns}")).unwrap();
        let row = |n: usize| format!("u{},i{},1,1,{label},{weight}\n", n % 7, n % 5);
        let rows: String = (0..400).map(row).collect();
        let text = format!("user,item,price,click,seconds,worth\n{rows}");
        fs::write(shop.path("data.csv"), text).unwrap();
        shop.run(&["train", "run.toml", "--data", "data.csv", "-q"])
    };
    for (columns, label, weight) in [
        (SECONDS.to_owned(), "1e25", "1"),
        (format!("{CLICK}{WEIGHT}"), "1", "1e25"),
        (format!("{CLICK}{SECONDS}"), "-1e22", "1"),
    ] {
        let output = run(&columns, label, weight);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("the gradient of an example of step 1 is"), "{said}");
    }
    assert!(run(SECONDS, "1e6", "1").status.success());
    assert!(run(&format!("{CLICK}{WEIGHT}"), "1", "1e6").status.success());
}
