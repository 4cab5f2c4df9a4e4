//! Columns in the names of folders give the same model as columns in records.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::common::{Workshop, same};

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

[[columns]]
names = ["click"]
type = "label"

[[columns]]
names = ["user", "item", "city", "hour"]

[[columns]]
names = ["hour_number"]
type = "dense"
of = ["hour"]

[[columns]]
names = ["dt"]
type = "ignored"

[[columns]]
names = ["weekday"]
of = ["dt"]
part = "weekday"
"#;

/// Folders of the files, with their day, hour and city.
const FOLDERS: [(&str, [&str; 3]); 4] = [
    ("dt=2026-11-25/hour=03/city=Oslo", ["2026-11-25", "03", "Oslo"]),
    ("dt=2026-11-25/hour=23/city=S%C3%A3o%20Paulo", ["2026-11-25", "23", "São Paulo"]),
    ("dt=2026-11-26/hour=04/city=__HIVE_DEFAULT_PARTITION__", ["2026-11-26", "04", ""]),
    ("dt=2026-11-27/hour=05/city=a%2Fb", ["2026-11-27", "05", "a/b"]),
];

/// One file with all columns, and one in each folder, as CSV and JSON lines.
fn shop() -> Workshop {
    let shop = Workshop::new();
    fs::write(shop.path("run.toml"), SETTINGS).unwrap();
    let mut flat = "click,user,item,dt,hour,city\n".to_owned();
    for (number, (folder, [dt, hour, city])) in FOLDERS.into_iter().enumerate() {
        let (mut csv, mut json) = ("click,user,item\n".to_owned(), String::new());
        for n in number * 300..(number + 1) * 300 {
            let (user, item) = (n * 7919 % 83, n * 104_729 % 41);
            let click = u8::from(user.is_multiple_of(3) || item.is_multiple_of(5));
            writeln!(flat, "{click},{user},{item},{dt},{hour},{city}").unwrap();
            writeln!(csv, "{click},{user},{item}").unwrap();
            writeln!(json, r#"{{"click":{click},"user":{user},"item":{item}}}"#).unwrap();
        }
        for (kind, text) in [("csv", csv), ("json", json)] {
            let folder = shop.path("clicks").join(folder).join(kind);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("part-0"), text).unwrap();
        }
    }
    fs::write(shop.path("flat.csv"), flat).unwrap();
    shop
}

const CSV: &str = "clicks/*/*/*/csv/part-0";
const JSON: &str = "clicks/*/*/*/json/part-0";

fn train(shop: &Workshop, data: &str, more: &[&str]) -> Value {
    let args = ["train", "run.toml", "--data", data, "--report", "report.json", "--threads", "2"];
    shop.ok(&[&args[..], more].concat());
    shop.report("report.json")
}

#[test]
fn columns_of_folders_are_those_of_records() {
    let shop = shop();
    for split in [
        &[][..],
        &["--data.eval_column", "dt", "--data.eval_from", "2026-11-27"],
        &["--data.eval_column", "city", "--data.eval_values", "São Paulo"],
    ] {
        let expected = train(&shop, "flat.csv", split);
        for data in [CSV, JSON] {
            same(&train(&shop, data, split), &expected, &format!("{data}, {split:?}"));
            let ranks = train(&shop, data, &[split, &["--ranks", "2"]].concat());
            same(&ranks, &expected, &format!("{data}, {split:?}, two ranks"));
        }
    }
    let expected = train(&shop, "flat.csv", &["--checkpoint", "saved"]);
    for more in ["makes", "reads"] {
        let found = train(&shop, CSV, &["--data.cache", "cache"]);
        same(&found, &expected, &format!("{more} a cache"));
    }
    shop.ok(&["convert", JSON, "--config", "run.toml", "--out", "rows.packed"]);
    same(&train(&shop, "rows.packed", &[]), &expected, "packed");
    let score = |data: &str| {
        let ids = ["--id", "user", "--id", "dt", "--id", "city"];
        let scores = shop.ok(&[&["predict", "saved", "--data", data], &ids[..]].concat());
        let args = ["eval", "saved", "--data", data, "--group", "hour", "--report", "eval.json"];
        shop.ok(&args);
        let report = shop.report("eval.json");
        (scores, report["eval"].clone(), report["by_group"].clone())
    };
    let flat = score("flat.csv");
    assert!(flat.0.contains("user,dt,city,") && flat.0.contains(",2026-11-25,São Paulo,"));
    assert_eq!(score(CSV), flat);
    assert_eq!(score(JSON), flat);
}

#[test]
fn the_same_file_in_another_folder_is_other_data() {
    let shop = shop();
    let of = |day: &str| format!("clicks/dt={day}");
    let cached = ["--data.cache", "cache"];
    let saved = ["--checkpoint", "saved", "--set", "checkpoint.every=10"];
    let trained = train(&shop, CSV, &[&cached[..], &saved].concat());
    fs::rename(shop.path(&of("2026-11-26")), shop.path(&of("2026-11-20"))).unwrap();
    let args = ["train", "run.toml", "--data", CSV];
    let told = shop.fails(&[&args[..], &saved, &["--resume"]].concat());
    assert!(told.contains("dt=2026-11-2"), "{told}");
    let output = shop.run(&[&args[..], &cached].concat());
    let said = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
    assert!(said.contains("made of other data") && said.contains("dt=2026-11-2"), "{said}");
    // Back in its folder the file is the same again, and folders that aren't columns don't matter.
    fs::rename(shop.path(&of("2026-11-20")), shop.path(&of("2026-11-26"))).unwrap();
    fs::create_dir(shop.path("team=ads")).unwrap();
    fs::rename(shop.path("clicks"), shop.path("team=ads/clicks")).unwrap();
    let moved = format!("team=ads/{CSV}");
    let resumed = train(&shop, &moved, &[&saved[..], &["--resume"]].concat());
    assert_eq!(resumed["model_digest"], trained["model_digest"]);
}

#[test]
fn folders_that_do_not_suit_are_told() {
    let shop = shop();
    let refused = |data: &[&str], status: i32, says: &[&str]| {
        let data = data.iter().flat_map(|data| ["--data", *data]);
        let args: Vec<&str> = ["train", "run.toml", "-q"].into_iter().chain(data).collect();
        let output = shop.run(&args);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{told}");
        assert!(says.iter().all(|part| told.contains(part)), "{told}");
    };
    let lines = fs::read(shop.path("clicks").join(FOLDERS[0].0).join("json/part-0")).unwrap();
    fs::write(shop.path("clicks/late.json"), lines).unwrap();
    refused(&[JSON, "clicks/late.json"], 1, &["late.json: has no folder city=", "in its path"]);
    refused(&["clicks/late.json", JSON], 1, &["late.json: has no folder city=", "in its path"]);
    // In the path and in the file.
    let folder = shop.path("two/dt=2026-11-25");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(shop.path("flat.csv"), folder.join("flat.csv")).unwrap();
    let says = ["has the column dt, and its path has the column dt", "rename one of them"];
    refused(&["two/*/flat.csv"], 1, &says);
    let record = r#"{"click":1,"user":1,"item":2,"dt":"2026-11-25","hour":3,"city":"Oslo"}"#;
    fs::write(folder.join("a.json"), format!("{record}\n")).unwrap();
    refused(&["two/*/a.json"], 1, &["line 1", "dt is '2026-11-25', but the path of the file has"]);
    fs::create_dir_all(shop.path("dt=1/dt=2")).unwrap();
    fs::copy(shop.path("flat.csv"), shop.path("dt=1/dt=2/flat.csv")).unwrap();
    refused(&["dt=1/dt=2/flat.csv"], 1, &["has the column dt twice in its path"]);
}

#[test]
fn schema_lists_columns_of_folders() {
    let shop = shop();
    for kind in ["csv", "json"] {
        let data = format!("clicks/{}/{kind}/part-0", FOLDERS[1].0);
        let guessed = shop.ok(&["schema", &data]);
        assert!(guessed.contains("# dt: in the path of the file: 2026-11-25"), "{guessed}");
        assert!(guessed.contains("# city: in the path of the file: São Paulo"), "{guessed}");
        let guessed: toml::Table = guessed.parse().unwrap();
        let columns = guessed["columns"].as_array().unwrap();
        let kind_of = |name: &str| {
            let has = |of: &&toml::Value| {
                of["names"].as_array().unwrap().contains(&toml::Value::from(name))
            };
            let column = columns.iter().find(has).unwrap();
            column.get("type").map_or("id", |kind| kind.as_str().unwrap()).to_owned()
        };
        assert_eq!((kind_of("dt"), kind_of("hour")), ("ignored".to_owned(), "id".to_owned()));
        assert_eq!((kind_of("city"), kind_of("click")), ("id".to_owned(), "label".to_owned()));
    }
}
