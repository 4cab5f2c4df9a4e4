//! Labels between 0 and 1, and counts of clicks and impressions: training and metrics against plain
//! loops in f64.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::common::{TINY, Workshop, same};

const SETTINGS: &str = r#"
[data]
mini_batch = 16
epochs = 3
eval_fraction = 0.0

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
names = ["user", "item"]

[[columns]]
names = ["none"]
type = "dense"
"#;
const SHARE: &str = "[[columns]]\nnames = [\"ctr\"]\ntype = \"label\"\n";
const WEIGHT: &str = "[[columns]]\nnames = [\"worth\"]\ntype = \"weight\"\n";
const COUNTS: &str = r#"
[[columns]]
names = ["rate"]
type = "label"
of = ["clicks", "views"]

[[columns]]
names = ["clicks", "views"]
type = "ignored"
"#;

/// A user and an item with counts of clicks and views.
#[derive(Clone, Copy)]
struct Row {
    user: usize,
    item: usize,
    clicks: u32,
    views: u32,
    worth: f64,
}

impl Row {
    fn label(&self) -> f64 {
        f64::from(self.clicks) / f64::from(self.views.max(1))
    }
}

fn rows() -> Vec<Row> {
    let row = |n: usize| {
        let (user, item) = (n * 7919 % 13, n * 104_729 % 11);
        // Some lines have no views, some have only clicks, some have none.
        let views = (n * 31 % 7) as u32 * 2;
        let clicks = (views * (user as u32 + item as u32 % 3) / 13).min(views);
        Row { user, item, clicks, views, worth: [1.0, 0.5, 3.0, 0.0][n % 4] }
    };
    (0..300).map(row).collect()
}

const NAMES: &str = "user,item,none,ctr,clicks,views,worth";

fn csv(rows: &[Row]) -> String {
    let mut text = format!("{NAMES}\n");
    for row in rows {
        let Row { user, item, clicks, views, worth } = row;
        writeln!(text, "{user},{item},0,{},{clicks},{views},{worth}", row.label()).unwrap();
    }
    text
}

fn json(rows: &[Row]) -> String {
    let of = |row: &Row| {
        let Row { user, item, clicks, views, worth } = row;
        let ctr = row.label();
        format!(
            "{{\"user\":{user},\"item\":{item},\"none\":0,\"ctr\":{ctr},\"clicks\":{clicks},\
             \"views\":{views},\"worth\":{worth}}}\n"
        )
    };
    rows.iter().map(of).collect()
}

fn shop(columns: &[&str]) -> Workshop {
    let shop = Workshop::new();
    fs::write(shop.path("run.toml"), SETTINGS.to_owned() + &columns.concat()).unwrap();
    fs::write(shop.path("rows.csv"), csv(&rows())).unwrap();
    fs::write(shop.path("rows.jsonl"), json(&rows())).unwrap();
    shop
}

fn train(shop: &Workshop, data: &str, more: &[&str]) -> Value {
    let args = ["train", "run.toml", "--data", data, "--report", "report.json", "--threads", "2"];
    shop.ok(&[&args[..], more].concat());
    shop.report("report.json")
}

/// Weights of users, items and the bias of a logistic regression.
#[derive(Default)]
struct Regression {
    users: [f64; 13],
    items: [f64; 11],
    bias: f64,
}

impl Regression {
    fn score(&self, row: &Row) -> f64 {
        1.0 / (1.0 + (-(self.users[row.user] + self.items[row.item] + self.bias)).exp())
    }

    /// Trains on `rows` for three epochs, in steps of 16 examples.
    fn of(rows: &[Row], weight: impl Fn(&Row) -> f64) -> Self {
        Self::by(rows, weight, |score, label| score - label)
    }

    /// Likewise, with this derivative of an example's objective for a score and a label.
    fn by(rows: &[Row], weight: impl Fn(&Row) -> f64, slope: impl Fn(f64, f64) -> f64) -> Self {
        let mut model = Self::default();
        for batch in (0..3).flat_map(|_| rows.chunks(16)) {
            let slopes: Vec<f64> = batch
                .iter()
                .map(|row| weight(row) * slope(model.score(row), row.label()) / batch.len() as f64)
                .collect();
            for (row, slope) in batch.iter().zip(slopes) {
                model.users[row.user] -= 0.3 * slope;
                model.items[row.item] -= 0.3 * slope;
                model.bias -= 0.1 * slope;
            }
        }
        model
    }
}

/// AUC of scores with labels and weights, computed pair by pair, and their total weight; `None` if
/// all labels are equal.
fn auc(of: &[(f64, f64, f64)]) -> Option<(f64, f64)> {
    let (mut won, mut pairs) = (0.0, 0.0);
    for (score, label, weight) in of {
        for (other, other_label, other_weight) in of {
            let pair = label * weight * (1.0 - other_label) * other_weight;
            pairs += pair;
            won += if score > other {
                pair
            } else if score == other {
                pair / 2.0
            } else {
                0.0
            };
        }
    }
    (pairs > 0.0).then(|| (won / pairs, of.iter().map(|(_, _, weight)| weight).sum()))
}

fn near(found: &Value, expected: f64, what: &str) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() < 1e-5, "{what}: {found} {expected}");
}

#[test]
fn shares_are_learned_and_measured() {
    type Weight = fn(&Row) -> f64;
    let weights: [(&[&str], Weight); 4] = [
        (&[SHARE], |_| 1.0),
        (&[SHARE, WEIGHT], |row| row.worth),
        (&[COUNTS], |row| f64::from(row.views)),
        (&[COUNTS, WEIGHT], |row| row.worth * f64::from(row.views)),
    ];
    for (columns, weight) in weights {
        let (shop, rows) = (shop(columns), rows());
        let trained = train(&shop, "rows.csv", &["--checkpoint", "saved"]);
        let model = Regression::of(&rows, weight);
        let scores = shop.ok(&["predict", "saved", "--data", "rows.csv"]);
        let scores: Vec<f64> = scores.lines().skip(1).map(|line| line.parse().unwrap()).collect();
        assert_eq!(scores.len(), rows.len());
        for (score, row) in scores.iter().zip(&rows) {
            assert!((score - model.score(row)).abs() < 1e-5, "{score} {}", model.score(row));
        }
        let args = ["eval", "saved", "--data", "rows.csv", "--group", "user"];
        shop.ok(&[&args[..], &["--report", "eval.json"]].concat());
        let report = shop.report("eval.json");
        let of: Vec<(f64, f64, f64)> = scores
            .iter()
            .zip(&rows)
            .map(|(score, row)| (*score, row.label(), weight(row)))
            .collect();
        let sum = |of_row: &dyn Fn(f64, f64) -> f64| -> f64 {
            of.iter().map(|(score, label, weight)| weight * of_row(*score, *label)).sum()
        };
        let all = sum(&|_, _| 1.0);
        let loss = |q: f64, p: f64| -p * q.ln() - (1.0 - p) * (1.0 - q).ln();
        let (eval, rate) = (&report["eval"], sum(&|_, label| label) / all);
        near(&eval["auc"], auc(&of).unwrap().0, "AUC");
        near(&eval["logloss"], sum(&loss) / all, "log loss");
        near(&eval["normalized_entropy"], sum(&loss) / all / loss(rate, rate), "entropy");
        near(&eval["positive_rate"], rate, "base rate");
        near(&eval["calibration"], sum(&|score, _| score) / all / rate, "calibration");
        // AUC by group.
        let of_user = |user: usize| -> Vec<(f64, f64, f64)> {
            let own = of.iter().zip(&rows).filter(|(_, row)| row.user == user);
            own.map(|(of, _)| *of).collect()
        };
        let users: Vec<(f64, f64)> = (0..13).filter_map(|user| auc(&of_user(user))).collect();
        let weights: f64 = users.iter().map(|(_, weight)| weight).sum();
        let mean = users.iter().map(|(auc, weight)| auc * weight).sum::<f64>() / weights;
        near(&report["by_group"]["group_auc"], mean, "AUC by group");
        assert_eq!(report["by_group"]["groups"], users.len());
        // Scores come before the step that learns from them.
        let progressive = &trained["progressive_by_epoch"][2];
        near(&progressive["positive_rate"], rate, "base rate while training");
        assert!(progressive["auc"].as_f64().unwrap() > 0.5, "{progressive}");
    }
}

/// A share counts as positives and negatives, each of which has its own weight and focal loss.
#[test]
fn emphasis_on_classes_is_learned_and_not_measured() {
    for (columns, gamma, smoothing) in
        [(&[SHARE][..], 0.0, 0.1), (&[COUNTS, WEIGHT], 2.0, 0.0), (&[COUNTS, WEIGHT], 0.5, 0.2)]
    {
        let (shop, rows) = (shop(columns), rows());
        let is_counted = columns.len() > 1;
        let weight = |row: &Row| if is_counted { row.worth * f64::from(row.views) } else { 1.0 };
        let positive = 3.0;
        // Derivatives by the logit of the loss of one positive and of one negative.
        let slope = |q: f64, y: f64| {
            let up = -(1.0 - q).powf(gamma) * (gamma * q * -q.ln() + (1.0 - q));
            let down = q.powf(gamma) * (gamma * (1.0 - q) * -(1.0 - q).ln() + q);
            let class = |is: f64| {
                let target = is * (1.0 - smoothing) + smoothing / 2.0;
                target * up + (1.0 - target) * down
            };
            positive * y * class(1.0) + (1.0 - y) * class(0.0)
        };
        let model = Regression::by(&rows, weight, slope);
        let (gamma, smoothing) = (gamma.to_string(), smoothing.to_string());
        let more = ["--data.class_weight", "3", "--train.focal_gamma", &gamma];
        let more = [&more[..], &["--train.label_smoothing", &smoothing]].concat();
        let args = [&more[..], &["--checkpoint", "saved"]].concat();
        let trained = train(&shop, "rows.csv", &args);
        let scores = shop.ok(&["predict", "saved", "--data", "rows.csv"]);
        let scores: Vec<f64> = scores.lines().skip(1).map(|line| line.parse().unwrap()).collect();
        assert_eq!(scores.len(), rows.len());
        for (score, row) in scores.iter().zip(&rows) {
            assert!((score - model.score(row)).abs() < 1e-5, "{score} {}", model.score(row));
        }
        shop.ok(&["eval", "saved", "--data", "rows.csv", "--report", "eval.json"]);
        let of = scores.iter().zip(&rows);
        let losses = of.map(|(q, row)| {
            let p = row.label();
            weight(row) * (-p * q.ln() - (1.0 - p) * (1.0 - q).ln())
        });
        let all: f64 = rows.iter().map(weight).sum();
        near(&shop.report("eval.json")["eval"]["logloss"], losses.sum::<f64>() / all, "log loss");
        same(
            &train(&shop, "rows.csv", &[&more[..], &["--ranks", "3"]].concat()),
            &trained,
            "ranks",
        );
        same(&train(&shop, "rows.csv", &[&more[..], &TINY].concat()), &trained, "tiny tiers");
        let own = columns.concat().replace("\"label\"", "\"label\"\nclass_weight = 3");
        fs::write(shop.path("run.toml"), SETTINGS.to_owned() + &own).unwrap();
        same(&train(&shop, "rows.csv", &more[2..]), &trained, "the label's own weight");
    }
}

#[test]
fn one_model_whatever_shares_lie_in_and_however_they_are_trained() {
    let plain = train(&shop(&[SHARE, &WEIGHT.replace("worth", "views")]), "rows.csv", &[]);
    for columns in [&[SHARE][..], &[COUNTS], &[COUNTS, WEIGHT]] {
        let shop = shop(columns);
        let eval = ["--data.eval_fraction", "0.2"];
        let expected = train(&shop, "rows.csv", &eval);
        let with = |data: &str, more: &[&str], what: &str| {
            let found = train(&shop, data, &[&eval[..], more].concat());
            same(&found, &expected, &format!("{columns:?}, {what}"));
        };
        with("rows.jsonl", &["--threads", "1"], "JSON lines");
        with("rows.csv", &TINY, "tiny tiers");
        with("rows.csv", &["--ranks", "3"], "three ranks");
        for more in ["makes", "reads"] {
            with("rows.csv", &["--data.cache", "cache"], &format!("{more} a cache"));
        }
        shop.ok(&["convert", "rows.csv", "--config", "run.toml", "--out", "rows.packed"]);
        for ranks in ["1", "2"] {
            with("rows.packed", &["--ranks", ranks], "packed");
        }
        if columns == [COUNTS] {
            let counted = train(&shop, "rows.csv", &[]);
            same(&counted, &plain, "counts, and a share with a weight");
        }
    }
}

/// Two weighted lines for each row, as scripts would write them.
#[test]
fn counts_are_lines_of_clicks_and_of_none() {
    let shop = shop(&[COUNTS, WEIGHT]);
    let rows: Vec<Row> = rows().into_iter().map(|row| Row { worth: 1.0, ..row }).collect();
    fs::write(shop.path("rows.csv"), csv(&rows)).unwrap();
    train(&shop, "rows.csv", &["--checkpoint", "saved"]);
    let mut text = "user,item,none,clicks,views,worth\n".to_owned();
    for Row { user, item, clicks, views, .. } in rows {
        writeln!(text, "{user},{item},0,1,1,{clicks}").unwrap();
        writeln!(text, "{user},{item},0,0,1,{}", views - clicks).unwrap();
    }
    fs::write(shop.path("two.csv"), text).unwrap();
    let [one, two] = ["rows.csv", "two.csv"].map(|data| {
        shop.ok(&["eval", "saved", "--data", data, "--group", "user", "--report", "eval.json"]);
        shop.report("eval.json")
    });
    for figure in ["auc", "logloss", "normalized_entropy", "positive_rate", "calibration"] {
        near(&one["eval"][figure], two["eval"][figure].as_f64().unwrap(), figure);
    }
    let [one, two] = [one, two].map(|report| report["by_group"]["group_auc"].clone());
    near(&one, two.as_f64().unwrap(), "AUC by group");
}

#[test]
fn what_is_no_share_and_no_count_is_told() {
    let refused = |columns: &[&str], row: &str, says: &str| {
        let shop = shop(columns);
        fs::write(shop.path("bad.csv"), format!("{NAMES}\n1,2,0,0.5,1,2,1\n{row}\n")).unwrap();
        let told = shop.fails(&["train", "run.toml", "--data", "bad.csv"]);
        assert!(told.contains("bad.csv: line 3, column") && told.contains(says), "{told}");
    };
    for label in ["1.5", "-0.1", "2", "nan", "soon"] {
        let says = format!("ctr is '{label}', but a label is a number from 0 to 1");
        refused(&[SHARE], &format!("1,2,0,{label},1,2,1"), &says);
    }
    refused(&[SHARE], "1,2,0,,1,2,1", "ctr is missing, and it is the label");
    refused(&[COUNTS], "1,2,0,0,3,2,1", "clicks is '3', more than views has");
    refused(&[COUNTS], "1,2,0,0,1,0,1", "clicks is '1', more than views has");
    refused(&[COUNTS], "1,2,0,0,-1,2,1", "clicks is '-1', and a count is a number of 0 or more");
    refused(&[COUNTS], "1,2,0,0,1,many,1", "views is 'many', and a count is a number");
    refused(&[COUNTS], "1,2,0,0,1,,1", "views is missing, and a label is made of it");
    refused(&[COUNTS, WEIGHT], "1,2,0,0,1,1e30,1e30", "times the weight is beyond 32-bit numbers");
    let settings = |columns: &[&str], says: &str| {
        let told = shop(columns).fails(&["train", "run.toml", "--data", "rows.csv"]);
        assert!(told.contains(says), "{told}");
    };
    let twice = COUNTS.replace("of = [\"clicks\"", "of = [\"views\"");
    settings(&[&twice], "has views twice");
    settings(&[&COUNTS.replace("of =", "positive = [\"1\"]\nof =")], "without `positive`");
    settings(&[&COUNTS.replace("of =", "loss = \"squared_error\"\nof =")], "the loss log_loss");
    let weighs = COUNTS.replace("names = [\"clicks\", \"views\"]", "names = [\"clicks\"]");
    settings(&[&weighs, &WEIGHT.replace("worth", "views")], "give views the type ignored");
    let other = "[[columns]]\nnames = [\"sold\"]\ntype = \"label\"\nof = [\"ctr\", \"clicks\"]\n\
                 [[columns]]\nnames = [\"ctr\"]\ntype = \"ignored\"\n";
    settings(&[COUNTS, other], "train a model for each");
}
