//! `stepwell predict`: a score for each example, in their order.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{Workshop, args};

/// Trains a model on a part of `data.tsv`; returns that file.
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

    // Each score belongs to its own line: scoring only the file's last lines gives its last scores.
    let whole = fs::read_to_string(&data).unwrap();
    let tail: Vec<&str> = whole.lines().skip(2900).collect();
    fs::write(shop.path("tail.tsv"), tail.join("\n") + "\n").unwrap();
    let of_tail = shop.ok(&["predict", "saved", "--data", &shop.text("tail.tsv")]);
    near(&scores_of(&of_tail), &scores[2900..]);
}

/// The share of pairs of a positive and a negative example that are in the right order.
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
    // The order of sums in matrix products depends on mini-batches.
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
        let is_bad = args.contains(&"bad.tsv");
        assert_eq!(output.status.code(), Some(if is_bad { 1 } else { 2 }), "{args:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("panicked"), "{said}");
        said.lines().last().unwrap().to_owned()
    };
    for (args, part) in [
        (&["--data", &data, "--out", "scores.npy"][..], "name it .csv, .tsv or .parquet"),
        (&["--data", &data, "--out", "scores.csv.gz"], "name it .csv, .tsv or .parquet"),
        (&["--data", &data, "--out", "none/scores.csv"], "there is no directory none"),
        (&["--data", &data, "--out", &data], "this run reads that file"),
        (&["--data", "none.tsv"], "none.tsv"),
        (&["--data", "bad.tsv", "--out", "older.csv"], "bad.tsv"),
        (&["--data", &data, "--set", "data.skip_max=1"], "every line needs a score"),
    ] {
        let said = last(args);
        assert!(said.starts_with("stepwell: ") && said.contains(part), "{args:?}: {said}");
    }
    assert_eq!(fs::read_to_string(shop.path("older.csv")).unwrap(), "older");
    let left: Vec<_> = fs::read_dir(shop.path("")).unwrap().flatten().collect();
    let left = left.iter().filter(|entry| entry.file_name().to_string_lossy().contains("scores"));
    assert_eq!(left.count(), 0);
    // Data must be named; the evaluation part is not scored instead.
    let output = shop.run(&["predict", "saved"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Opening a pipe would wait without reacting to signals.
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
    assert!(output.status.success() && said.contains("the run continues"), "{said}");
    let reader = shop.path("pipe");
    let reader = std::thread::spawn(move || fs::read_to_string(reader).unwrap());
    let expected = shop.ok(&["predict", "saved", "--data", &data]);
    // The reader may not have opened the pipe yet.
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

/// Settings of a logistic regression on columns that the tests name.
const COLUMNS: &str = "[data]\neval_fraction = 0.0\nmini_batch = 4\nmissing = [\"NA\"]\n[model]\n\
                       kind = \"lr\"\n[[columns]]\nnames = [\"click\"]\ntype = \"label\"\n\
                       [[columns]]\nnames = [\"user\", \"item\"]\n";

/// Trains a model with these columns on `text`.
fn trained_on(text: &[u8]) -> Workshop {
    let shop = Workshop::new();
    fs::write(shop.path("run.toml"), COLUMNS).unwrap();
    fs::write(shop.path("data.csv"), text).unwrap();
    shop.ok(&["train", "run.toml", "--data", "data.csv", "--checkpoint", "saved", "-q"]);
    shop
}

/// The lines of a file of scores without the scores.
fn names_in(text: &[u8]) -> Vec<Vec<u8>> {
    let without_score = |line: &[u8]| {
        let end = line.iter().rposition(|byte| *byte == b',').unwrap();
        line[..end].to_vec()
    };
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(without_score).collect()
}

#[test]
fn names_of_records_are_the_texts_of_the_data() {
    let shop = trained_on(b"click,user,item,rid\n1,a,x,NA\n1,NA,y,caf\xe9\n0,c,z,\"a,b\"\n");
    let predict = |more: &[&str]| {
        let args = [&["predict", "saved", "--data", "data.csv", "-q"][..], more].concat();
        let output = shop.run(&args);
        (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    let (_, out, _) = predict(&["--id", "rid"]);
    // A text that means a missing value is written like any other, byte for byte.
    assert_eq!(names_in(&out), [&b"rid"[..], b"NA", b"caf\xe9", b"\"a,b\""]);
    let (_, out, _) = predict(&["--id", "item", "--id", "user", "--label"]);
    assert_eq!(
        names_in(&out),
        [&b"item,user,click"[..], b"x,a,1.0", b"y,NA,1.0", b"z,c,0.0"].map(<[u8]>::to_vec)
    );
    let (status, _, said) = predict(&["--id", "rid", "--out", "s.parquet"]);
    assert!(status == Some(1) && said.contains("--id rid: the text of record 2 is"), "{said}");
    for (args, why) in [
        (&["--id", "user", "--id", "user"][..], "--id user: named twice"),
        (&["--id", "score"], "--id score: the scores have a column of that name"),
        (&["--id", "click", "--label"], "--id click: --label writes that column"),
        (&["--label", "--unlabelled"], "cannot be used with"),
        (&["--out", "s.XLSX"], "name it .csv, .tsv or .parquet"),
        (&["--out", "s.json"], "name it .csv, .tsv or .parquet"),
    ] {
        let (status, _, said) = predict(args);
        assert!(status == Some(2) && said.contains(why), "{args:?}: {said}");
    }
}

#[test]
fn names_of_records_are_those_of_every_format() {
    let shop = trained_on(b"click,user,item\n1,a,x\n1,NA,y\n0,NA,7\n");
    let lines = "{\"click\":1,\"user\":\"a\",\"item\":\"x\"}\n{\"click\":1,\"user\":\"NA\",\
                 \"item\":\"y\"}\n{\"click\":0,\"user\":\"NA\",\"item\":7}\n";
    fs::write(shop.path("data.jsonl"), lines).unwrap();
    // Scores in Parquet can be read as data.
    let ids = ["--id", "user", "--id", "item", "--label"];
    let of = |data: &str, more: &[&str]| {
        let args = [&["predict", "saved", "-q", "--data", data][..], &ids, more].concat();
        shop.ok(&args)
    };
    let expected = of("data.csv", &[]);
    assert_eq!(expected, of("data.jsonl", &[]));
    of("data.csv", &["--out", "names.PARQUET"]);
    assert!(fs::read(shop.path("names.PARQUET")).unwrap().starts_with(b"PAR1"));
    assert_eq!(expected, of("names.PARQUET", &[]));
    of("data.csv", &["--out", "names.tsv"]);
    let tabs = fs::read_to_string(shop.path("names.tsv")).unwrap();
    assert_eq!(tabs.replace('\t', ","), expected);
}

#[test]
fn scores_that_are_all_one_are_ties_for_an_evaluation_too() {
    // Numbers so large that every logit is large, with larger ones for label 0.
    let rows: String = (0..40)
        .map(|n| format!("{},u,{}\n", n % 2, if n % 2 == 0 { 9000 } else { 5000 }))
        .collect();
    let shop = Workshop::new();
    let settings = COLUMNS.replace("\"user\", \"item\"]\n", "\"user\"]\n")
        + "[[columns]]\nnames = [\"big\"]\ntype = \"dense\"\n";
    fs::write(shop.path("run.toml"), settings).unwrap();
    let only = rows.replace("0,u,9000", "1,u,9000");
    fs::write(shop.path("ones.csv"), format!("click,user,big\n{only}")).unwrap();
    fs::write(shop.path("data.csv"), format!("click,user,big\n{rows}")).unwrap();
    let rate = "--optim.dense.lr=0.5";
    shop.ok(&["train", "run.toml", "--data", "ones.csv", "--checkpoint", "saved", "-q", rate]);
    let scores = shop.ok(&["predict", "saved", "-q", "--data", "data.csv"]);
    assert!(scores_of(&scores).iter().all(|score| *score == 1.0), "{scores}");
    let eval = shop.ok(&["eval", "saved", "--data", "data.csv", "-q", "--json"]);
    let eval: Value = serde_json::from_str(&eval).unwrap();
    assert_eq!(eval["eval"]["auc"], 0.5);
}

/// Items and ten users, some with both labels.
fn of_users() -> String {
    let row =
        |n: u32| format!("{},u{},i{}\n", u32::from(n * 7 % 11 > 4 + n % 10 / 2), n % 10, n % 13);
    "click,user,item\n".to_owned() + &(0..200).map(row).collect::<String>()
}

/// Scores and labels of each user of `new.csv`.
fn users(shop: &Workshop) -> BTreeMap<String, (Vec<f64>, Vec<bool>)> {
    let table =
        shop.ok(&["predict", "saved", "--data", "new.csv", "--id", "user", "--label", "-q"]);
    let mut users = BTreeMap::<String, (Vec<f64>, Vec<bool>)>::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let of = users.entry(fields[0].to_owned()).or_default();
        of.0.push(fields[2].parse().unwrap());
        of.1.push(fields[1] == "1.0");
    }
    users
}

/// Share of positives among the `most` highest scores, and how many they are; of equal scores, each
/// is taken in part.
fn best((scores, labels): &(Vec<f64>, Vec<bool>), most: usize) -> (f64, f64) {
    let most = most.min(scores.len());
    let mut sorted = scores.clone();
    sorted.sort_by(|one, other| other.total_cmp(one));
    let last = sorted[most - 1];
    let count = |is: &dyn Fn(f64) -> bool, only: bool| {
        let of =
            scores.iter().zip(labels).filter(|(score, label)| is(**score) && (**label || !only));
        of.count() as f64
    };
    let [all, hits] = [false, true]
        .map(|only| (count(&|score| score > last, only), count(&|score| score == last, only)));
    let taken = hits.0 + hits.1 * (most as f64 - all.0) / all.1;
    (taken / most as f64, taken)
}

#[test]
fn auc_by_group_is_the_mean_over_groups_with_both_labels() {
    let shop = trained_on(of_users().as_bytes());
    let one = "1,solo,i1\n1,solo,i2\n";
    fs::write(shop.path("new.csv"), of_users() + one).unwrap();
    let eval = |more: &[&str]| {
        let args = ["eval", "saved", "--data", "new.csv", "-q"];
        shop.ok(&[&args[..], more].concat())
    };
    let json = eval(&["--group", "user", "--json"]);
    let found = serde_json::from_str::<Value>(&json).unwrap()["by_group"].clone();
    let users = users(&shop);
    let both =
        users.values().filter(|(_, labels)| labels.contains(&true) && labels.contains(&false));
    let (mut sum, mut examples, mut groups) = (0.0, 0, 0);
    for (scores, labels) in both {
        sum += auc(scores, labels) * labels.len() as f64;
        (examples, groups) = (examples + labels.len(), groups + 1);
    }
    let wanted = sum / examples as f64;
    assert!((found["group_auc"].as_f64().unwrap() - wanted).abs() < 1e-12, "{found} {wanted}");
    assert_eq!(
        (found["groups"].as_u64(), found["examples"].as_u64()),
        (Some(groups), Some(examples as u64))
    );
    assert_eq!(found["groups_left_out"].as_u64(), Some(users.len() as u64 - groups));
    assert_eq!((found["sampled"].as_f64(), found["column"].as_str()), (Some(1.0), Some("user")));
    assert!(eval(&["--group", "user"]).contains("AUC by group"));
    // Groups can come from columns that the model does not read.
    let said = shop.fails(&["eval", "saved", "--group", "nix", "--data", "new.csv", "-q"]);
    assert!(
        said.contains("--group nix: new.csv") && said.contains("its header has no column nix"),
        "{said}"
    );
    let said = shop.fails(&[
        "eval",
        "saved",
        "--group",
        "user",
        "--data",
        "new.csv",
        "-q",
        "--set=data.skip_max=1",
    ]);
    assert!(said.contains("leave out data.skip_max"), "{said}");
}

#[test]
fn precision_by_group_and_figures_by_value_are_those_of_plain_loops() {
    let shop = trained_on(of_users().as_bytes());
    fs::write(shop.path("new.csv"), of_users() + "1,solo,i1\n1,solo,i2\n").unwrap();
    let eval = |more: &[&str]| {
        let args = ["eval", "saved", "--data", "new.csv", "-q"];
        shop.ok(&[&args[..], more].concat())
    };
    let users = users(&shop);
    let json = eval(&["--group", "user", "--at", "3", "--by", "user", "--top", "4", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let (at, by_value) = (&report["by_group"]["at"], &report["by_value"]);
    let (mut precision, mut recall, mut counted) = (0.0, 0.0, 0);
    for of in users.values().filter(|(_, labels)| labels.contains(&true)) {
        let (share, taken) = best(of, 3);
        let all = of.1.iter().filter(|label| **label).count() as f64;
        (precision, recall, counted) = (precision + share, recall + taken / all, counted + 1);
    }
    for (found, sum) in [(&at["precision"], precision), (&at["recall"], recall)] {
        let wanted = sum / f64::from(counted);
        assert!((found.as_f64().unwrap() - wanted).abs() < 1e-12, "{at} {wanted}");
    }
    assert_eq!((at["k"].as_i64(), at["groups"].as_i64()), (Some(3), Some(i64::from(counted))));
    // All users but one have as many examples.
    let values = by_value["values"].as_array().unwrap();
    let named: Vec<&str> = values.iter().map(|of| of["value"].as_str().unwrap()).collect();
    assert_eq!(named, ["u0", "u1", "u2", "u3"]);
    assert_eq!(by_value["others"], serde_json::json!({ "values": 7, "examples": 122 }));
    for (value, name) in values.iter().zip(named) {
        let (scores, labels) = &users[name];
        let sum: f64 = scores.iter().sum();
        let positives = labels.iter().filter(|label| **label).count() as f64;
        assert_eq!(value["examples"].as_u64(), Some(20));
        if labels.contains(&true) {
            let calibration = value["calibration"].as_f64().unwrap();
            assert!((calibration - sum / positives).abs() < 1e-5, "{value}");
        } else {
            assert!(value["calibration"].is_null() && value["auc"].is_null(), "{value}");
        }
        if labels.contains(&true) && labels.contains(&false) {
            let found = value["auc"].as_f64().unwrap();
            assert!((found - auc(scores, labels)).abs() < 1e-12, "{value}");
        }
    }
    assert!(eval(&["--by", "user"]).contains("user = u9: AUC"));
    for (flag, needs) in [("--at", "--group"), ("--top", "--by")] {
        let said = shop.fails(&["eval", "saved", "--data", "new.csv", flag, "3"]);
        assert!(said.contains(needs), "{said}");
    }
}

#[test]
fn ids_without_a_row_are_counted_by_column() {
    let shop = trained_on(of_users().as_bytes());
    // In four records: an unknown user twice, an unknown item, and a missing user, also unknown.
    let new = "1,who,i1\n0,who,i2\n1,u3,nothing\n0,NA,i4\n".repeat(50);
    fs::write(shop.path("new.csv"), format!("click,user,item\n{new}")).unwrap();
    for more in
        [&[][..], &["--tiers.dram", "64KiB", "--data.batch", "4", "--tiers.segment", "64KiB"]]
    {
        let args = [&["eval", "saved", "--data", "new.csv", "-q", "--json"][..], more].concat();
        let report: Value = serde_json::from_str(&shop.ok(&args)).unwrap();
        let ids = serde_json::json!([
            { "column": "user", "table": "embedding", "ids": 200, "without_row": 150 },
            { "column": "item", "table": "embedding", "ids": 200, "without_row": 50 },
        ]);
        assert_eq!(report["ids_by_column"], ids, "{more:?}");
    }
    let table = shop.ok(&["eval", "saved", "--data", "new.csv", "-q"]);
    assert!(table.contains("without a row   user: 150 of 200 ids, 75.0 %"), "{table}");
    // All ids that were trained on have rows, so there is no line about missing ones.
    let table = shop.ok(&["eval", "saved", "--data", "data.csv", "-q"]);
    assert!(!table.contains("without a row"), "{table}");
    let json = ["predict", "saved", "--data", "new.csv", "--out", "s.csv", "--json", "-q"];
    let said: Value = serde_json::from_str(&shop.ok(&json)).unwrap();
    assert_eq!(said["ids_by_column"][0]["without_row"], 150);
}

/// Scoring evicts nothing to disk, and needs memory for no more rows than there are.
#[test]
fn scoring_plans_for_the_rows_of_the_checkpoint() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    // The amount of data is unknown in training and in scoring.
    let open = ["--data.eval_fraction=0", "--report=report.json", "--checkpoint=saved"];
    let small = ["--model.dim=4", "--model.hidden=8", "--data.mini_batch=64"];
    shop.ok(&[&["train", "--data", &data][..], &open, &small].concat());
    let budget = |name: &str| shop.report(name)["budget_bytes"].as_u64().unwrap();
    let trained = budget("report.json");
    let mut scored = Vec::new();
    for more in [&[][..], &["--tiers.dram", "1GiB"], &["--memory", "1GiB"]] {
        let args = ["eval", "saved", "--data", &data, "--report", "scored.json"];
        shop.ok(&[&args[..], more].concat());
        let planned = budget("scored.json");
        assert!(planned < trained / 4, "{more:?}: {planned} of {trained}");
        scored.push(shop.report("scored.json")["eval"].clone());
    }
    assert!(scored.iter().all(|of| *of == scored[0]), "{scored:?}");
}
