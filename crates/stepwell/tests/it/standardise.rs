//! Columns standardised by the data's statistics: the same as with given statistics, in every
//! format, and kept with the model.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::common::{Workshop, same};

const SETTINGS: &str = r#"
[data]
mini_batch = 64
eval_fraction = 0.2

[model]
dim = 4
hidden = [8]

[[columns]]
names = ["click"]
type = "label"

[[columns]]
names = ["age", "price"]
type = "dense"
transform = "standardise"
high = 60
STATISTICS

[[columns]]
names = ["user"]
"#;

/// Ages and prices of each record, some missing; ages above 60 count as 60.
fn numbers(count: usize) -> Vec<(Option<f64>, Option<f64>)> {
    let age = |n: usize| (!n.is_multiple_of(5)).then(|| (18 + n * 7 % 50) as f64);
    (0..count)
        .map(|n| (age(n), (!n.is_multiple_of(3)).then(|| (n * 13 % 41) as f64 / 8.0)))
        .collect()
}

fn statistics(of: &[Option<f64>]) -> (f64, f64) {
    let known: Vec<f64> = of.iter().flatten().map(|number| number.min(60.0)).collect();
    let count = known.len() as f64;
    let mean = known.iter().sum::<f64>() / count;
    let squares = known.iter().map(|number| (number - mean).powi(2)).sum::<f64>();
    (mean, (squares / count).sqrt())
}

fn shop() -> Workshop {
    let (shop, mut csv, mut json) =
        (Workshop::new(), "click,age,price,user\n".to_owned(), String::new());
    for (n, (age, price)) in numbers(2000).into_iter().enumerate() {
        let (click, user) = (n * 31 % 7 / 5, n % 83);
        let text = |of: Option<f64>| of.map_or_else(String::new, |of| of.to_string());
        writeln!(csv, "{click},{},{},{user}", text(age), text(price)).unwrap();
        let null = |of: Option<f64>| of.map_or_else(|| "null".to_owned(), |of| of.to_string());
        let (age, price) = (null(age), null(price));
        let line = format!("\"click\":{click},\"age\":{age},\"price\":{price},\"user\":{user}");
        writeln!(json, "{{{line}}}").unwrap();
    }
    fs::write(shop.path("rows.csv"), csv).unwrap();
    fs::write(shop.path("rows.jsonl"), json).unwrap();
    fs::write(shop.path("bare.toml"), SETTINGS.replace("STATISTICS", "")).unwrap();
    shop
}

fn train(shop: &Workshop, settings: &str, data: &str, more: &[&str]) -> (Value, String) {
    let args = ["train", settings, "--data", data, "--report", "report.json"];
    let said = notes(shop, &[&args[..], more].concat());
    (shop.report("report.json"), said)
}

/// Notes of a command that succeeds.
fn notes(shop: &Workshop, args: &[&str]) -> String {
    let output = shop.run(args);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {notes}");
    notes
}

/// The lists after `name = ` in a note.
fn said(text: &str, name: &str) -> Vec<f64> {
    let list = text.split(&format!("{name} = [")).nth(1).unwrap().split(']').next().unwrap();
    list.split(", ").map(|number| number.parse().unwrap()).collect()
}

#[test]
fn statistics_of_the_data_are_as_good_as_given_ones() {
    let shop = shop();
    let (expected, text) = train(&shop, "bare.toml", "rows.csv", &["--checkpoint", "saved"]);
    // Only over the training part, as a fifth is for evaluation.
    let (ages, prices): (Vec<_>, Vec<_>) = numbers(2000).into_iter().take(1600).unzip();
    let (age, price) = (statistics(&ages), statistics(&prices));
    let (means, deviations) = (said(&text, "mean"), said(&text, "deviation"));
    for (found, expected) in means.iter().chain(&deviations).zip([age.0, price.0, age.1, price.1]) {
        assert!((found - expected).abs() < 1e-9, "{text}");
    }
    let given = format!("mean = {means:?}\ndeviation = {deviations:?}");
    fs::write(shop.path("given.toml"), SETTINGS.replace("STATISTICS", &given)).unwrap();
    same(&train(&shop, "given.toml", "rows.csv", &[]).0, &expected, "given");
    same(&train(&shop, "bare.toml", "rows.jsonl", &[]).0, &expected, "JSON lines");
    same(&train(&shop, "bare.toml", "rows.csv", &["--ranks", "3"]).0, &expected, "three ranks");
    // Statistics belong to the model, which uses them to score other data and to resume.
    let eval = notes(&shop, &["eval", "saved", "--data", "rows.jsonl"]);
    assert!(!eval.contains("standardised"), "{eval}");
    let more = ["--checkpoint", "saved", "--resume", "--data.epochs", "2"];
    let (resumed, _) = train(&shop, "bare.toml", "rows.csv", &more);
    let (twice, _) = train(&shop, "given.toml", "rows.csv", &["--data.epochs", "2"]);
    assert_eq!(resumed["model_digest"], twice["model_digest"]);
    // A packed file needs no statistics and has the rules it was made with.
    let pack = ["convert", "rows.csv", "--config", "bare.toml", "--out", "rows.packed"];
    let text = notes(&shop, &pack);
    assert_eq!(said(&text, "mean"), means);
    same(&train(&shop, "given.toml", "rows.packed", &[]).0, &expected, "packed");
    let told = shop.fails(&["train", "bare.toml", "--data", "rows.packed"]);
    assert!(told.contains("holds no numbers that age, price could be"), "{told}");
    shop.ok(&["plan", "bare.toml", "--data", "rows.csv"]);
}

#[test]
fn columns_of_one_number_or_none_are_zero() {
    let shop = Workshop::new();
    let row = |n: usize| format!("{},7,,{}\n", n % 2, n % 5);
    let text: String = (0..200).map(row).collect();
    fs::write(shop.path("rows.csv"), format!("click,age,price,user\n{text}")).unwrap();
    fs::write(shop.path("bare.toml"), SETTINGS.replace("STATISTICS", "")).unwrap();
    let (_, text) = train(&shop, "bare.toml", "rows.csv", &[]);
    assert!(text.contains("mean = [7.0, 0.0], deviation = [1.0, 1.0]"), "{text}");
    let half = SETTINGS.replace("STATISTICS", "mean = [1.0, 2.0]");
    fs::write(shop.path("half.toml"), half).unwrap();
    let told = shop.fails(&["train", "half.toml", "--data", "rows.csv"]);
    assert!(told.contains("2 numbers in mean and 0 in deviation"), "{told}");
}

#[test]
fn numbers_without_a_scale_are_named_before_a_run_and_where_it_diverges() {
    let shop = Workshop::new();
    let rows = |at: u64| -> String {
        (0..200u64).map(|n| format!("{},{},u{}\n", n % 2, at + n, n % 7)).collect()
    };
    let settings = |kind: &str, transform: &str| {
        format!(
            "[data]\neval_fraction = 0\nmini_batch = 50\n[model]\nkind = \"{kind}\"\ndim = 4\n\
             hidden = [8]\n[[columns]]\nnames = [\"click\"]\ntype = \"label\"\n[[columns]]\nnames \
             = [\"at\"]\ntype = \"dense\"\n{transform}\n[[columns]]\nnames = [\"user\"]\n"
        )
    };
    let run = |kind: &str, transform: &str, at: u64| {
        fs::write(shop.path("run.toml"), settings(kind, transform)).unwrap();
        fs::write(shop.path("data.csv"), format!("click,at,user\n{}", rows(at))).unwrap();
        let output = shop.run(&["train", "run.toml", "--data", "data.csv"]);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let far = 1_628_467_200_000_000_000;
    let (status, said) = run("dcn", "", far);
    assert_eq!(status, Some(1), "{said}");
    let named = "give the dense columns without a scale (at) transform = \"standardise\", or lower";
    assert!(said.contains(named), "{said}");
    let noted = "dense columns have large unscaled values: at (up to 1.6e18)";
    assert!(said.contains(noted), "{said}");
    assert!(run("lr", "", far).1.contains(noted));
    for (transform, at) in
        [("transform = \"standardise\"", far), ("transform = \"log1p\"", far), ("", 9000)]
    {
        let (status, said) = run("lr", transform, at);
        assert!(
            status == Some(0) && !said.contains("large unscaled values"),
            "{transform}: {said}"
        );
    }
}

/// Settings of a standardised column `x`, a weight, and columns made from `x`.
const WEIGHED: &str = r#"
[data]
mini_batch = 64
eval_fraction = 0

[model]
kind = "lr"

[[columns]]
names = ["click"]
type = "label"

[[columns]]
names = ["part"]
type = "ignored"

[[columns]]
names = ["worth"]
type = "weight"

[[columns]]
names = ["worth_as_number"]
of = ["worth"]
type = "dense"

[[columns]]
names = ["x"]
type = "dense"
transform = "standardise"

[[columns]]
names = ["user"]
"#;

/// The mean and the deviation that `train` prints with these arguments, to six digits.
fn of_training(shop: &Workshop, args: &[&str]) -> (f64, f64) {
    let args = [&["train", "weighed.toml", "--data", "rows.csv"], args].concat();
    let text = notes(shop, &args);
    let of = |name| (said(&text, name)[0] * 1e6).round() / 1e6;
    (of("mean"), of("deviation"))
}

#[test]
fn what_is_evaluated_on_is_no_part_of_statistics() {
    let shop = Workshop::new();
    fs::write(shop.path("weighed.toml"), WEIGHED).unwrap();
    // The third and the last three of ten records are much larger.
    let x = |n: usize| if n == 2 || n > 6 { 1e6 } else { [1.0, 3.0][n % 2] };
    let part = |n: usize| if n == 2 || n > 6 { "late" } else { "early" };
    let row = |n: usize| format!("{},{},1,{},u{}\n", n % 2, part(n), x(n), n % 3);
    let rows = |numbers: std::ops::Range<usize>| numbers.map(row).collect::<String>();
    let header = "click,part,worth,x,user\n";
    fs::write(shop.path("rows.csv"), format!("{header}{}", rows(0..10))).unwrap();
    fs::write(shop.path("late.csv"), format!("{header}{}", rows(7..10))).unwrap();
    let early = (2.0, 1.0);
    let by_part = ["--data.eval_column", "part", "--data.eval_values", "late"];
    assert_eq!(of_training(&shop, &by_part), early);
    assert_eq!(of_training(&shop, &[]).0, 400_001.2);
    assert_eq!(of_training(&shop, &["--data.eval_fraction", "0.3"]).0, 142_858.857_143);
    // With files for evaluation, no tail is left out.
    let own = ["--data.eval_fraction", "0.3", "--data.eval_paths", "late.csv"];
    assert_eq!(of_training(&shop, &own).0, 400_001.2);
    // A tail after more records than are sampled, and in its own file.
    let many: String = (0..60_000).map(|n| format!("1,early,1,{},u\n", n % 2 * 2 + 1)).collect();
    fs::write(shop.path("rows.csv"), format!("{header}{many}{}", rows(7..10))).unwrap();
    assert_eq!(of_training(&shop, &["--data.eval_fraction", "0.1"]), early);
    fs::write(shop.path("rows.csv"), format!("{header}{}", &rows(0..2).repeat(25))).unwrap();
    let two = ["--data", "late.csv", "--data.eval_fraction", "0.06"];
    assert_eq!(of_training(&shop, &two), early);
}

#[test]
fn a_weight_may_be_a_number_too() {
    let shop = Workshop::new();
    fs::write(shop.path("weighed.toml"), WEIGHED).unwrap();
    let text = "click,part,worth,x,user\n1,a,2,3,u1\n0,a,1,5,u2\n";
    fs::write(shop.path("rows.csv"), text).unwrap();
    let found = of_training(&shop, &["--checkpoint", "saved"]);
    assert_eq!(found, (4.0, 1.0));
    fs::write(shop.path("new.csv"), "x,worth,user\n3,2,u1\n").unwrap();
    let scores = shop.ok(&["predict", "saved", "--data", "new.csv", "--unlabelled"]);
    let with_label = shop.ok(&["predict", "saved", "--data", "rows.csv"]);
    assert_eq!(scores.lines().nth(1), with_label.lines().nth(1), "{scores}");
    fs::write(shop.path("new.csv"), "x,user\n3,u1\n").unwrap();
    let told = shop.fails(&["predict", "saved", "--data", "new.csv", "--unlabelled", "-q"]);
    assert!(told.contains("worth"), "{told}");
}

#[test]
fn standard_input_is_standardised_by_given_statistics_alone() {
    let shop = Workshop::new();
    fs::write(shop.path("weighed.toml"), WEIGHED).unwrap();
    let mut command = shop.command(&["train", "weighed.toml", "--data", "-"]);
    let rows = "click,part,worth,x,user\n1,a,2,3,u1\n";
    fs::write(shop.path("rows.csv"), rows).unwrap();
    let output = command.stdin(fs::File::open(shop.path("rows.csv")).unwrap()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("x would be standardised by statistics"), "{told}");
    assert!(told.contains("give mean and deviation"), "{told}");
}
