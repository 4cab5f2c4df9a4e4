//! Other layouts from day to day: columns, tables, dimensions, optimizers.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

use crate::daily::days::{Days, SETTINGS, checkpoints};

/// Keys and the first values of each row, from exported NumPy files.
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
    // Rates too small to change anything show the initial model.
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
        let added = "column device: added; its rows start from initial values";
        assert_eq!(said.contains(added), settings == "wider.toml", "{said}");
        // Messages name parameters as exports do.
        assert!(!said.contains("/weight"), "{said}");
        assert!(said.contains("mlp1.weight") || what != "column", "{said}");
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
    // Also the dense part: with a new column without information yet, and a removed one.
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
    let gone = "column user: removed; its rows stay in the table until they expire";
    assert!(said.contains(gone) && !said.contains("columns."), "{said}");
    // Everything that remains existed before.
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
    // Back to one table: the rows of the other one are left out.
    let args = ["train", "run.toml", "--from", "two", "--data", "all.csv"];
    let said = days.said(&[&args[..], &["--checkpoint", "three"]].concat());
    assert!(
        said.contains("tables of the checkpoint that this model does not have: things"),
        "{said}"
    );
    // Tables that share a store are distinguished row by row.
    let shared = tables.replace("dim = 8", "dim = 4");
    std::fs::write(days.shop.path("shared.toml"), format!("{SETTINGS}{shared}")).unwrap();
    let args = ["train", "shared.toml", "--from", "saved", "--data", "day_2.csv"];
    let said = days.said(&[&args[..], &["--checkpoint", "four"]].concat());
    assert!(said.contains("each row is rewritten"), "{said}");
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

#[test]
fn many_columns_that_differ_have_a_line_each_and_the_rest_one() {
    let days = Days::new(2);
    days.train(&["--data", "day_1.csv", "--checkpoint", "saved"]);
    let day = std::fs::read_to_string(days.shop.path("day_2.csv")).unwrap();
    let more = |line: &str, of: &dyn Fn(usize) -> String| {
        let added = (1..=13).map(|number| format!(",{}", of(number)));
        line.to_owned() + &added.collect::<String>() + "\n"
    };
    let mut lines = day.lines();
    let mut wide = more(lines.next().unwrap(), &|number| format!("N{number}"));
    wide.extend(lines.map(|line| more(line, &|number| number.to_string())));
    std::fs::write(days.shop.path("wide.csv"), wide).unwrap();
    let columns = "[[columns]]\nnames = [\"N1-N13\"]\ntype = \"dense\"\nlow = 0\n";
    let price = "type = \"dense\"\ntransform = \"log1p\"";
    let settings = SETTINGS.replacen("type = \"dense\"", price, 1);
    // Before the others, as columns are identified by name.
    let settings = settings.replacen("[[columns]]", &format!("{columns}[[columns]]"), 1);
    std::fs::write(days.shop.path("wide.toml"), settings).unwrap();
    let args = ["train", "wide.toml", "--from", "saved", "--data", "wide.csv"];
    let said = days.said(&[&args[..], &["--checkpoint", "two"]].concat());
    let count = |part: &str| said.matches(part).count();
    assert_eq!(count("added; its dense parameters start from initial values"), 10, "{said}");
    assert!(said.contains("and 4 more columns differ: N11, N12, N13, price"), "{said}");
    assert_eq!((count("in the checkpoint none"), count("columns.")), (0, 0), "{said}");
    let one = ["train", "run.toml", "--from", "saved", "--data", "day_2.csv", "--columns.2.low=1"];
    let said = days.said(&[&one[..], &["--checkpoint", "three"]].concat());
    assert!(said.contains("column price: low is 1, was none"), "{said}");
}
