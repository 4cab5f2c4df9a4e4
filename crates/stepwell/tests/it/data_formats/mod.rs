//! Data in every format, with settings files that read it: one model, from the start, from a
//! checkpoint, from a cache, by several ranks; and the workflow of a user with an own file.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod folders;
mod values;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::{Workshop, same};

/// Users, items and their tags, with a label that follows from them.
fn rows(count: usize) -> Vec<Value> {
    let row = |n: usize| {
        let (user, item) = (n * 7919 % 83, n * 104_729 % 41);
        let click = usize::from(user.is_multiple_of(3) || item.is_multiple_of(5));
        let tags: Vec<String> = (0..item % 4).map(|at| format!("t{}", (item + at) % 9)).collect();
        let age = if n.is_multiple_of(6) { Value::Null } else { json!(18 + user % 50) };
        json!({"id": format!("r{n}"), "click": click, "age": age, "user": user, "item": item,
               "tags": tags, "price": (item as f64) * 1.25})
    };
    (0..count).map(row).collect()
}

const NAMES: [&str; 7] = ["id", "click", "age", "user", "item", "tags", "price"];

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join("|"),
        other => other.to_string(),
    }
}

fn delimited(rows: &[Value], separator: &str, header: bool) -> String {
    let mut text = String::new();
    if header {
        writeln!(text, "{}", NAMES.join(separator)).unwrap();
    }
    for row in rows {
        let fields: Vec<String> = NAMES.iter().map(|name| text_of(&row[name])).collect();
        writeln!(text, "{}", fields.join(separator)).unwrap();
    }
    text
}

fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

const SETTINGS: &str = r#"
[data]
mini_batch = 64
epochs = 2
eval_fraction = 0.2

[model]
dim = 4
hidden = [8]

[tiers]
index = "8MiB"
dram = "200KiB"
segment = "64KiB"

[[columns]]
names = ["id"]
type = "ignored"

[[columns]]
names = ["click"]
type = "label"

[[columns]]
names = ["age"]
type = "dense"
transform = "standardise"
mean = [40]
deviation = [15]
indicator = true

[[columns]]
names = ["user", "item"]
type = "id"

[[columns]]
names = ["tags"]
type = "ids"
ids = 4

[[columns]]
names = ["price"]
type = "dense"
transform = "log1p"

[[columns]]
names = ["user_x_item"]
of = ["user", "item"]

[[columns]]
names = ["age_group"]
of = ["age"]
buckets = [25, 40, 60]
missing = "none"
"#;

/// Settings, and the same rows in every text format.
fn shop() -> (Workshop, Vec<&'static str>) {
    let (shop, rows) = (Workshop::new(), rows(1500));
    let put = |name: &str, bytes: &[u8]| fs::write(shop.path(name), bytes).unwrap();
    put("run.toml", SETTINGS.as_bytes());
    let csv = delimited(&rows, ",", true);
    put("rows.csv", csv.as_bytes());
    put("rows.tsv", delimited(&rows, "\t", false).as_bytes());
    put("rows.jsonl", lines(&rows).as_bytes());
    put("rows.csv.zst", &zstd::encode_all(csv.as_bytes(), 1).unwrap());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, lines(&rows).as_bytes()).unwrap();
    put("rows.jsonl.gz", &gzip.finish().unwrap());
    (shop, vec!["rows.csv", "rows.tsv", "rows.jsonl", "rows.csv.zst", "rows.jsonl.gz"])
}

fn train(shop: &Workshop, data: &str, more: &[&str]) -> Value {
    let args = ["train", "run.toml", "--data", data, "--report", "report.json", "--threads", "2"];
    shop.ok(&[&args[..], more].concat());
    shop.report("report.json")
}

#[test]
fn every_format_trains_one_model_however_it_is_read() {
    let (shop, files) = shop();
    let expected = train(&shop, files[0], &[]);
    // The model learns something.
    assert!(expected["eval"]["auc"].as_f64().unwrap() > 0.8, "{}", expected["eval"]);
    for file in &files {
        same(&train(&shop, file, &["--threads", "1"]), &expected, file);
        same(&train(&shop, file, &["--ranks", "2"]), &expected, &format!("{file}, two ranks"));
        for more in ["makes", "reads"] {
            let found = train(&shop, file, &["--data.cache", &format!("{file}.cache")]);
            same(&found, &expected, &format!("{file}, {more} its cache"));
        }
        let packed = format!("{file}.packed");
        shop.ok(&["convert", file, "--config", "run.toml", "--out", &packed]);
        same(&train(&shop, &packed, &[]), &expected, &packed);
        // Ten steps of 38; the rest is resumed from the checkpoint.
        let saved = format!("{file}.saved");
        let first = ["--checkpoint", &saved, "--set", "checkpoint.every=13"];
        train(&shop, file, &[&first[..], &["--set", "data.epochs=1"]].concat());
        let steps = fs::read_dir(shop.path(&saved)).unwrap().flatten().map(|entry| entry.path());
        let last: PathBuf = steps.max().unwrap();
        fs::remove_dir_all(last).unwrap();
        let resumed = train(&shop, file, &[&first[..], &["--resume"]].concat());
        assert_eq!(resumed["model_digest"], expected["model_digest"], "{file}, resumed");
    }
}

#[test]
fn what_is_evaluated_on_may_be_told_by_a_column() {
    let (shop, files) = shop();
    for split in [
        &["--set", "data.eval_column=user"][..],
        &["--set", "data.eval_column=user", "--set", "data.eval_values=3,17,41"],
        &["--data.eval_column", "user", "--data.eval_from", "40"],
    ] {
        let expected = train(&shop, files[0], split);
        let examples = |report: &Value| {
            let of = |part: &str| report[part].as_array().unwrap()[0]["examples"].as_u64().unwrap();
            (of("progressive_by_epoch"), of("eval_by_epoch"))
        };
        let (trained, evaluated) = examples(&expected);
        assert!(trained + evaluated == 1500 && evaluated > 20, "{trained} {evaluated}");
        for file in &files[1..] {
            same(&train(&shop, file, split), &expected, file);
        }
        let ranks = train(&shop, files[0], &[split, &["--ranks", "3"]].concat());
        same(&ranks, &expected, "three ranks");
        let saved = ["--checkpoint", "split", "--set", "checkpoint.every=7"];
        train(&shop, files[0], &[split, &saved, &["--set", "data.epochs=1"]].concat());
        let resumed = train(&shop, files[0], &[split, &saved, &["--resume"]].concat());
        assert_eq!(resumed["model_digest"], expected["model_digest"]);
        let other = ["train", "run.toml", "--data", files[0], "--checkpoint", "split", "--resume"];
        let error = shop.fails(&other);
        assert!(error.contains("data.eval_column"), "{error}");
        fs::remove_dir_all(shop.path("split")).unwrap();
    }
    let run = |more: &[&str]| {
        let split = ["train", "run.toml", "--data", files[0], "--set", "data.eval_column=user"];
        shop.fails(&[&split[..], more].concat())
    };
    assert!(run(&["--data.cache", "c"]).contains("leave out data.cache or data.eval_column"));
    let streams = run(&["--set", "data.streams=2"]);
    assert!(streams.contains("data.streams"), "{streams}");
    // Values that match nothing are an error, not an empty evaluation.
    let nobody = run(&["--data.eval_values", "nobody"]);
    assert!(nobody.contains("data.eval_values = nobody: no record has one of these"), "{nobody}");
    let later = run(&["--data.eval_from", "1e9"]);
    assert!(later.contains("no user is at or after it"), "{later}");
    let soon = run(&["--data.eval_from", "soon"]);
    assert!(soon.contains("not a date, time or number"), "{soon}");
    let both = run(&["--data.eval_from", "1", "--data.eval_values", "3"]);
    assert!(both.contains("give one of them"), "{both}");
}

#[test]
fn columns_that_no_record_has_are_told() {
    let (shop, files) = shop();
    let other =
        |name: &str| SETTINGS.replace("[\"user\", \"item\"]", &format!("[\"user\", \"{name}\"]"));
    fs::write(shop.path("typo.toml"), other("itme")).unwrap();
    fs::write(shop.path("other.toml"), other("shop")).unwrap();
    let train = |settings: &str| shop.run(&["train", settings, "--data", "rows.jsonl", "-q"]);
    let warned = |settings: &str| String::from_utf8(train(settings).stderr).unwrap();
    let said = warned("other.toml");
    assert!(said.contains("records of rows.jsonl has shop: missing in each"), "{said}");
    assert_eq!(warned("run.toml"), "");
    let refused = shop.fails(&["train", "typo.toml", "--data", files[0]]);
    assert!(refused.contains("no column itme"), "{refused}");
}

#[test]
fn a_file_of_ones_own_becomes_scores() {
    let shop = Workshop::new();
    let rows = rows(3000);
    fs::write(shop.path("mine.csv"), delimited(&rows[..2500], ",", true)).unwrap();
    // The two commands of a user who only has a file.
    let settings = shop.ok(&["schema", "mine.csv"]);
    fs::write(shop.path("mine.toml"), &settings).unwrap();
    for (column, kind) in
        [("\"click\"", "label"), ("\"id\"", "ignored"), ("\"tags\"", "ids"), ("\"age\"", "dense")]
    {
        let after = settings.split(&format!("names = [{column}")).nth(1);
        let found = after.and_then(|text| text.split("type = ").nth(1));
        let found = found.and_then(|text| text.split('"').nth(1));
        assert_eq!(found, Some(kind), "{column}: {settings}");
    }
    shop.ok(&["train", "mine.toml", "--checkpoint", "saved"]);
    // Rows without labels.
    let bare: String = delimited(&rows[2500..], ",", true)
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            format!("{},{}\n", fields[0], fields[2..].join(","))
        })
        .collect();
    fs::write(shop.path("new.csv"), bare).unwrap();
    let args = ["predict", "saved", "--data", "new.csv", "--unlabelled", "--id", "id"];
    let scores = shop.ok(&args);
    let mut lines = scores.lines();
    assert_eq!(lines.next(), Some("id,score"));
    let mut right = 0;
    for (line, row) in lines.clone().zip(&rows[2500..]) {
        let (id, score) = line.split_once(',').unwrap();
        assert_eq!(id, row["id"].as_str().unwrap());
        let score: f64 = score.parse().unwrap();
        right += usize::from((score > 0.5) == (row["click"] == 1));
    }
    assert_eq!(lines.count(), 500);
    assert!(right > 400, "{right} of 500");
    // With labels, the scores are the same, and the order of columns does not matter.
    fs::write(shop.path("new.jsonl"), self::lines(&rows[2500..])).unwrap();
    let labelled = shop.ok(&[
        "predict",
        "saved",
        "--data",
        "new.jsonl",
        "--id",
        "id",
        "--set",
        "data.header=",
    ]);
    assert_eq!(labelled, scores);
    // Scores in Parquet can be read as data.
    shop.ok(&[&args[..], &["--out", "scores.parquet"]].concat());
    let guessed = shop.ok(&["schema", "scores.parquet"]);
    assert!(guessed.contains("500 records") && guessed.contains("[\"score\"]"), "{guessed}");
    let eval = shop.fails(&["eval", "saved", "--data", "new.csv", "--set", "data.labels=false"]);
    assert!(eval.contains("stepwell predict"), "{eval}");
}

#[test]
fn presets_and_examples_train_on_what_they_are_for() {
    let shop = Workshop::new();
    let avazu = |n: usize| {
        let ids: Vec<String> = (0..21).map(|at| format!("v{}", n * (at + 3) % 17)).collect();
        let click = usize::from(n * 3 % 17 < 6);
        format!("{n},{click},14102100,{}\n", ids.join(","))
    };
    let header = "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,\
                  app_category,device_id,device_ip,device_model,device_type,device_conn_type,C14,\
                  C15,C16,C17,C18,C19,C20,C21\n";
    let text: String = std::iter::once(header.to_owned()).chain((0..2000).map(avazu)).collect();
    fs::write(shop.path("avazu.csv"), text).unwrap();
    let rating = |n: usize| {
        let (user, film) = (n * 31 % 97, n * 17 % 43);
        let stars = ["0.5", "3.0", "4.0", "4.5", "5.0"][(user + film) % 5];
        format!("{user},{film},{stars},{}\n", 1_000_000 + n)
    };
    let header = "userId,movieId,rating,timestamp\n".to_owned();
    let text: String = std::iter::once(header).chain((0..4000).map(rating)).collect();
    fs::write(shop.path("ratings.csv"), text).unwrap();
    let mut found = Vec::new();
    for (preset, file) in [("avazu", "avazu.csv"), ("movielens", "ratings.csv")] {
        let args = ["train", "--data", file, "--preset", preset, "--report", "report.json"];
        let small = ["--set", "model.dim=8", "--set", "model.hidden=16", "--set"];
        let more = ["data.mini_batch=64", "--data.epochs", "8", "--set", "optim.rows.lr=0.2"];
        shop.ok(&[&args[..], &small, &more].concat());
        found.push(shop.report("report.json")["eval"]["auc"].as_f64().unwrap());
    }
    assert!(found[0] > 0.9 && found[1] > 0.8, "{found:?}");
}

/// Real data, with the settings of `examples/`.
#[test]
fn examples_learn_from_real_data() {
    let Ok(data) = std::env::var("STEPWELL_DATA") else {
        stepwell_skip::skipped("STEPWELL_DATA is not set");
        return;
    };
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let shop = Workshop::new();
    let auc = |example: &str, args: &[&str]| {
        let example = format!("{examples}/{example}.toml");
        let common = ["train", &example, "--report", "report.json", "--threads", "2"];
        shop.ok(&[&common[..], args].concat());
        shop.report("report.json")["eval"]["auc"].as_f64().unwrap()
    };
    let adult = auc("adult", &["--data", &format!("{data}/adult/adult.data.zst")]);
    assert!(adult > 0.905, "{adult}");
    let folder = format!("{data}/criteo-attribution");
    let valid = format!("{folder}/valid.csv.zst");
    let train = format!("{folder}/train.csv.zst");
    let attribution = auc("criteo-attribution", &["--data", &train, "--data.eval_paths", &valid]);
    assert!(attribution > 0.645, "{attribution}");
}

/// The output on both streams of a command that succeeds.
fn said(shop: &Workshop, args: &[&str]) -> String {
    let output = shop.run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn what_lists_lose_is_told_by_every_command() {
    let (shop, files) = shop();
    let cut = rows(1500).iter().filter(|row| row["tags"].as_array().unwrap().len() > 2).count();
    let expected = json!([
        {"column": "tags", "taken": 2, "examples": cut, "of_examples": 1500, "ids": cut}
    ]);
    let note = format!("tags: {cut} of 1500 examples have more than 2 ids, and {cut} ids after");
    fs::write(shop.path("short.toml"), SETTINGS.replace("ids = 4", "ids = 2")).unwrap();
    for file in &files {
        for more in [&["--ranks", "1"][..], &["--ranks", "2"], &["--data.shuffle", "100"]] {
            let report = train(&shop, file, &[&["--set", "columns.5.ids=2"][..], more].concat());
            assert_eq!(report["cut_lists"], expected, "{file} {more:?}");
        }
    }
    assert!(train(&shop, files[0], &[]).get("cut_lists").is_none());
    let trained = ["train", "short.toml", "--data", files[0], "--checkpoint", "saved"];
    assert!(said(&shop, &trained).contains(&note));
    assert!(said(&shop, &["eval", "saved", "--data", files[2]]).contains(&note));
    assert!(said(&shop, &["predict", "saved", "--data", files[1], "--out", "s"]).contains(&note));
    let convert = ["convert", files[0], "--config", "short.toml", "--out", "p"];
    assert!(said(&shop, &convert).contains(&note));
}

#[test]
fn a_header_in_another_case_is_read_by_its_names() {
    let (shop, files) = shop();
    let expected = train(&shop, files[0], &["--checkpoint", "saved"]);
    let text = fs::read_to_string(shop.path(files[0])).unwrap();
    let (names, records) = text.split_once('\n').unwrap();
    fs::write(shop.path("upper.csv"), format!("{}\n{records}", names.to_uppercase())).unwrap();
    same(&train(&shop, "upper.csv", &[]), &expected, "names in another case");
    let said = said(&shop, &["eval", "saved", "--data", "upper.csv"]);
    assert!(said.contains("upper.csv has CLICK for click"));
}

#[test]
fn a_resumed_run_keeps_how_data_is_read() {
    let (shop, files) = shop();
    let first = ["--checkpoint", "saved", "--set", "checkpoint.every=13", "--data.epochs", "1"];
    train(&shop, files[0], &first);
    let headers = [("data.header", "true"), ("data.header", "false")];
    for (key, value) in headers.into_iter().chain([("data.separator", ","), ("data.format", "csv")])
    {
        let set = ["--set", &format!("{key}={value}"), "--resume", "--checkpoint", "saved"];
        let error = shop.fails(&[&["train", "run.toml", "--data", files[0]], &set[..]].concat());
        let says = format!("this run has {value}; a resumed run must keep it");
        assert!(error.contains(key) && error.contains(&says), "{error}");
    }
    train(&shop, files[0], &[&first[..4], &["--resume"]].concat());
}
