//! `stepwell export`: tensors for other programs.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::HashMap;
use std::fs;

use safetensors::SafeTensors;
use stepwell_base::Namespace;
use stepwell_data::log1p_of_number;

use crate::common::{Workshop, args};

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

fn u64s(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|eight| u64::from_le_bytes(eight.try_into().unwrap())).collect()
}

/// Values and shape of a tensor in a file.
fn tensor(shop: &Workshop, file: &str, name: &str) -> (Vec<f32>, Vec<usize>) {
    let bytes = fs::read(shop.path(file)).unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = read.tensor(name).unwrap();
    (f32s(tensor.data()), tensor.shape().to_vec())
}

fn keys(shop: &Workshop, file: &str) -> Vec<u64> {
    let bytes = fs::read(shop.path(file)).unwrap();
    u64s(SafeTensors::deserialize(&bytes).unwrap().tensor("keys").unwrap().data())
}

/// A logistic regression computed from exported tensors gives the scores of `predict`.
#[test]
fn what_is_exported_is_the_model() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    for storage in ["f32", "bf16"] {
        let storage = format!("rows.storage={storage}");
        shop.ok(&args(
            &[&data],
            &["--set", "model.kind=lr", "--checkpoint", "saved", "--force", "--set", &storage],
        ));
        shop.ok(&["export", "saved", "--to", "out"]);
        let file = "out/table-embedding.safetensors";
        let keys = keys(&shop, file);
        let (first_order, shape) = tensor(&shop, file, "first_order");
        assert_eq!(shape, [keys.len(), 1]);
        let rows: HashMap<u64, f32> = keys.into_iter().zip(first_order).collect();
        let (weight, shape) = tensor(&shop, "out/dense.safetensors", "linear.weight");
        assert_eq!(shape, [1, 13]);
        let (bias, _) = tensor(&shop, "out/dense.safetensors", "linear.bias");

        let predicted = shop.ok(&["predict", "saved", "--data", &data]);
        let predicted = predicted.lines().skip(1).map(|line| line.parse::<f64>().unwrap());
        let text = fs::read_to_string(&data).unwrap();
        for (line, score) in text.lines().zip(predicted) {
            let fields: Vec<&str> = line.split('\t').collect();
            let mut logit = f64::from(bias[0]);
            for (field, weight) in fields[1..14].iter().zip(&weight) {
                let number = field.parse().unwrap_or(0.0);
                logit += f64::from(log1p_of_number(number) * weight);
            }
            for (field, column) in fields[14..].iter().zip(1..) {
                let key = Namespace::of_column(column).key_of(field.as_bytes());
                logit += f64::from(rows.get(&key.0).copied().unwrap_or(0.0));
            }
            let expected = 1.0 / (1.0 + (-logit).exp());
            assert!((score - expected).abs() < 1e-5, "{score}, by hand {expected}: {line}");
        }
        fs::remove_dir_all(shop.path("out")).unwrap();
    }
}

#[test]
fn state_and_history_come_where_they_are_asked_for() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let more = ["--checkpoint", "saved", "--rows.expire_after", "20", "--optim.rows.kind", "adam"];
    shop.ok(&args(&[&data], &more));
    shop.ok(&["export", "saved", "--to", "weights"]);
    shop.ok(&["export", "saved", "--to", "whole", "--state"]);
    let shown: serde_json::Value =
        serde_json::from_str(&shop.ok(&["inspect", "saved", "--json"])).unwrap();
    let rows = shown["tables"][0]["rows"].as_u64().unwrap() as usize;
    assert!(shown["tables"][0]["rows_expired"].as_u64().unwrap() > 0, "{shown}");
    let names = |file: &str| {
        let bytes = fs::read(shop.path(file)).unwrap();
        let read = SafeTensors::deserialize(&bytes).unwrap();
        let mut names: Vec<String> =
            read.names().into_iter().map(|name| name.to_string()).collect();
        names.sort();
        names
    };
    let table = "table-embedding.safetensors";
    assert_eq!(names(&format!("weights/{table}")), ["embedding", "first_order", "keys"]);
    let parts = ["embedding", "exp_avg", "exp_avg_sq", "examples", "first_order", "importance"];
    let parts = [&parts[..], &["keys", "step", "used"]].concat();
    let mut whole = names(&format!("whole/{table}"));
    whole.sort_by_key(|name| parts.iter().position(|part| part == name));
    assert_eq!(whole, parts);
    for (name, shape) in [("embedding", [rows, 4]), ("exp_avg_sq", [rows, 5]), ("used", [rows, 1])]
    {
        assert_eq!(tensor(&shop, &format!("whole/{table}"), name).1, shape, "{name}");
    }
    assert!(names("whole/dense.safetensors").contains(&"mlp1.weight.exp_avg".to_owned()));
    assert_eq!(names("weights/dense.safetensors").len(), 2 * 4);
    let norm = |row: &[f32]| row.iter().map(|lane| f64::from(lane * lane)).sum::<f64>().sqrt();
    let (embedding, _) = tensor(&shop, &format!("whole/{table}"), "embedding");
    let (first_order, _) = tensor(&shop, &format!("whole/{table}"), "first_order");
    let both = embedding.chunks(4).zip(&first_order).map(|(row, last)| [row, &[*last]].concat());
    let longest = both.map(|row| norm(&row)).fold(0.0, f64::max);
    let expected = shown["tables"][0]["top"][0]["norm"].as_f64().unwrap();
    assert!((longest - expected).abs() < 1e-6, "{longest}, {expected}");
}

/// Keys and the bits of their rows.
type Rows = Vec<(u64, Vec<u32>)>;

#[test]
fn several_tables_and_ranks_are_one_model() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let tables = [
        ("tables.users.dim", "4"),
        ("features.1.columns", "C1-C5"),
        ("features.1.table", "users"),
        ("features.2.columns", "C6-C26"),
    ];
    let set: Vec<String> = tables.iter().map(|(key, value)| format!("--{key}={value}")).collect();
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let mut rows: Vec<[Rows; 2]> = Vec::new();
    for ranks in ["1", "3"] {
        let more = ["--ranks", ranks, "--threads", "1", "--checkpoint", "saved", "--force"];
        shop.ok(&args(&[&data], &[&set[..], &more].concat()));
        shop.ok(&["export", "saved", "--to", "out"]);
        let of_table = |name: &str| {
            let file = format!("out/table-{name}.safetensors");
            let bits = tensor(&shop, &file, "embedding").0;
            let bits = bits.chunks(4).map(|row| row.iter().map(|lane| lane.to_bits()).collect());
            let mut rows: Rows = keys(&shop, &file).into_iter().zip(bits).collect();
            rows.sort();
            rows
        };
        rows.push([of_table("users"), of_table("embedding")]);
        fs::remove_dir_all(shop.path("out")).unwrap();
    }
    assert!(rows[0] == rows[1] && rows[0].iter().all(|table| table.len() > 100));
}

#[test]
fn what_cannot_be_exported_is_one_line_and_leaves_nothing() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    shop.ok(&args(&[&data], &["--checkpoint", "saved"]));
    fs::create_dir(shop.path("there")).unwrap();
    for (args, part) in [
        (["saved", "--to", "there"], "already exists: name a new directory"),
        (["saved", "--to", "none/out"], "create that first"),
        (["saved", "--to", "data.tsv/out"], "data.tsv/out"),
        (["saved", "--to", ".."], ".."),
        (["none", "--to", "out"], "none"),
        (["data.tsv", "--to", "out"], "data.tsv"),
    ] {
        let error = shop.fails(&[&["export"][..], &args].concat());
        assert!(error.contains(part), "{args:?}: {error}");
    }
    let names = fs::read_dir(shop.path("")).unwrap().flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["data.tsv", "report.json", "saved", "there"]);
}

/// A shop with data of users and items, whose items have rows in two tables, and files of ids.
fn of_two_tables() -> Workshop {
    let shop = Workshop::new();
    let rows: String =
        (0..300).map(|n| format!("{},u{},i{}\n", n * 7 % 3 % 2, n % 20, n % 30)).collect();
    fs::write(shop.path("data.csv"), format!("click,user,item\n{rows}")).unwrap();
    let settings = "[data]\nmini_batch = 32\neval_fraction = 0\n[model]\ndim = 3\nhidden = [4]\n\
                    [[columns]]\nnames = [\"click\"]\ntype = \"label\"\n[[columns]]\nnames = \
                    [\"user\", \"item\"]\n[tables.items]\ndim = 2\n[[features]]\ncolumns = \
                    [\"item\"]\ntable = \"items\"\n[[features]]\ncolumns = [\"user\", \"item\"]\n";
    fs::write(shop.path("run.toml"), settings).unwrap();
    fs::write(shop.path("items.csv"), "price,item\n1,i7\n2,nobody\n3,\"i3\"\n").unwrap();
    fs::write(shop.path("users.csv"), "u1\nu2\n").unwrap();
    shop
}

#[test]
fn embeddings_of_given_ids_are_those_of_their_rows() {
    let shop = of_two_tables();
    for ranks in ["--ranks=1", "--ranks=2"] {
        let train =
            ["train", "run.toml", "--data=data.csv", "--checkpoint=saved", "--force", ranks];
        shop.ok(&train);
        let _ = fs::remove_dir_all(shop.path("out"));
        shop.ok(&["export", "saved", "--to", "out"]);
        for (table, dim) in [("items", 2), ("embedding", 3)] {
            let said = shop.ok(&[
                "export",
                "saved",
                "--ids",
                "items.csv",
                "--table",
                table,
                "--to",
                "ids.csv",
            ]);
            assert!(said.contains("3 ids of item in ids.csv, 1 of them without a row"), "{said}");
            let text = fs::read_to_string(shop.path("ids.csv")).unwrap();
            let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
            let head = lines.next().unwrap();
            assert_eq!(head[..3], ["item", "initial", "embedding_0"]);
            assert_eq!((head.len(), head.last()), (dim + 3, Some(&"first_order")));
            let file = format!("out/table-{table}.safetensors");
            let keys = keys(&shop, &file);
            let (embedding, _) = tensor(&shop, &file, "embedding");
            let (first_order, _) = tensor(&shop, &file, "first_order");
            for (line, id) in lines.zip(["i7", "nobody", "i3"]) {
                let key = Namespace::new("item").unwrap().key_of(id.as_bytes()).0;
                let row = keys.iter().position(|known| *known == key);
                assert_eq!((line[0], line[1]), (id, if row.is_none() { "1.0" } else { "0.0" }));
                let numbers: Vec<f32> =
                    line[2..].iter().map(|text| text.parse().unwrap()).collect();
                match row {
                    Some(row) => {
                        assert_eq!(numbers[..dim], embedding[row * dim..][..dim]);
                        assert_eq!(numbers[dim], first_order[row]);
                    }
                    None => {
                        assert!(numbers[..dim].iter().any(|of| *of != 0.0) && numbers[dim] == 0.0);
                    }
                }
            }
        }
        // A file without a header, and a Parquet file.
        let users = ["export", "saved", "--ids", "users.csv", "--column", "user", "--to"];
        shop.ok(&[&users[..], &["users.parquet"]].concat());
        let predicted = shop.ok(&["schema", "users.parquet"]);
        assert!(predicted.contains("2 records"), "{predicted}");
    }
}

#[test]
fn ids_that_cannot_be_told_apart_are_refused() {
    let shop = of_two_tables();
    shop.ok(&["train", "run.toml", "--data=data.csv", "--checkpoint=saved"]);
    for (args, why) in [
        (
            &["--ids", "items.csv"][..],
            "column item has rows in items, embedding: name one with --table",
        ),
        (&["--ids", "items.csv", "--table", "none"], "--table none: has no rows for column item"),
        (&["--ids", "users.csv"], "has no id column of the model (user, item)"),
        (&["--ids", "data.csv"], "has user, item: name one with --column"),
        (&["--ids", "items.csv", "--column", "price"], "--column price: is not an id column"),
        (&["--ids", "none.csv"], "none.csv"),
        (&["--ids", "items.csv", "--table", "items", "--to", "x.xlsx"], "name it .csv"),
    ] {
        let to = if args.contains(&"--to") { &[][..] } else { &["--to", "no.csv"] };
        let said = shop.fails(&[&["export", "saved", "-q"][..], args, to].concat());
        assert!(said.contains(why), "{args:?}: {said}");
    }
}
