//! `stepwell diff`: how two checkpoints differ; and distributions of rows in one.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::BTreeMap;
use std::fs;

use safetensors::SafeTensors;
use serde_json::Value;

use crate::common::{TINY, Workshop, args};

/// The JSON of `diff` and its exit status.
fn diff(shop: &Workshop, a: &str, b: &str) -> (Value, Option<i32>) {
    let output = shop.run(&["diff", a, b, "--json", "--top", "3"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.stderr.is_empty(), "{error}");
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code())
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

/// Keys and weights of all rows of a table, as exported.
fn rows(shop: &Workshop, checkpoint: &str, table: &str) -> BTreeMap<u64, Vec<f32>> {
    shop.ok(&["export", checkpoint, "--to", "tensors"]);
    let bytes = fs::read(shop.path(&format!("tensors/table-{table}.safetensors"))).unwrap();
    fs::remove_dir_all(shop.path("tensors")).unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = |name: &str| read.tensor(name).unwrap().data().to_vec();
    let keys = tensor("keys");
    let keys = keys.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight));
    let dim = read.tensor("embedding").unwrap().shape()[1];
    let (embedding, wide) = (f32s(&tensor("embedding")), f32s(&tensor("first_order")));
    let weights = embedding.chunks(dim).zip(&wide).map(|(row, wide)| [row, &[*wide]].concat());
    keys.zip(weights).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
    a.iter().zip(b).map(square).sum::<f64>().sqrt()
}

/// Two tables that share a store, through tiny tiers.
fn trained(shop: &Workshop, more: &[&str]) {
    let data = match shop.path("data.tsv").exists() {
        true => shop.text("data.tsv"),
        false => shop.examples("data.tsv", 2000),
    };
    let tables = [
        "--tables.users.dim=4",
        "--features.1.columns=C1-C5",
        "--features.1.table=users",
        "--features.2.columns=C6-C26",
        "--checkpoint=saved",
        "--checkpoint.every=10",
        "--checkpoint.keep=9",
    ];
    shop.ok(&args(&[&data], &[&TINY[..], &tables, more].concat()));
}

#[test]
fn differences_are_those_of_what_is_exported() {
    let shop = Workshop::new();
    trained(&shop, &["--ranks=2", "--threads=1", "--rows.expire_after=12"]);
    let (a, b) = ("saved/step-000000000010", "saved");
    let (said, status) = diff(&shop, a, b);
    assert_eq!((status, &said["differ"]), (Some(1), &Value::Bool(true)));
    for (number, name) in ["embedding", "users"].into_iter().enumerate() {
        let table = said["tables"].as_array().unwrap().iter().find(|of| of["name"] == name);
        let table = table.unwrap();
        let (of_a, of_b) = (rows(&shop, a, name), rows(&shop, b, name));
        let both: Vec<u64> = of_a.keys().filter(|key| of_b.contains_key(key)).copied().collect();
        let count = |field: &str| table[field].as_u64().unwrap() as usize;
        assert_eq!(count("rows_in_both"), both.len(), "{number}");
        assert_eq!(count("rows_only_in_a"), of_a.len() - both.len());
        assert_eq!(count("rows_only_in_b"), of_b.len() - both.len());
        assert!(!both.is_empty() && count("rows_only_in_a") > 0 && count("rows_only_in_b") > 0);
        let mut distances: Vec<(f64, u64)> =
            both.iter().map(|key| (distance(&of_a[key], &of_b[key]), *key)).collect();
        let changed = both.iter().filter(|key| of_a[key] != of_b[key]).count();
        assert_eq!(count("rows_with_other_weights"), changed);
        distances.sort_by(|a, b| b.0.total_cmp(&a.0));
        let top = table["top"].as_array().unwrap();
        assert_eq!(top.len(), 3);
        for (row, (distance, key)) in top.iter().zip(&distances) {
            assert_eq!(row["key"], format!("{key:016x}"));
            assert!((row["distance"].as_f64().unwrap() - distance).abs() < 1e-9);
        }
        let spread = &table["distances"];
        assert_eq!(spread["count"], both.len());
        assert!((spread["most"].as_f64().unwrap() - distances[0].0).abs() < 1e-9);
    }
    let layers = said["dense"]["layers"].as_array().unwrap();
    assert!(layers.iter().any(|of| of["name"] == "mlp1.weight" && of["changed"] != 0));
    let (turned, _) = diff(&shop, b, a);
    for (there, here) in
        said["tables"].as_array().unwrap().iter().zip(turned["tables"].as_array().unwrap())
    {
        assert_eq!(there["rows_only_in_a"], here["rows_only_in_b"]);
        assert_eq!(there["rows_only_in_b"], here["rows_only_in_a"]);
    }
    let text = shop.run(&["diff", a, b]);
    assert_eq!(text.status.code(), Some(1));
    let text = String::from_utf8(text.stdout).unwrap();
    for part in ["the models differ", "mlp1.weight", "rows that changed most", "####"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Models with equal bits are equal despite different settings and ranks; one different bit of a
/// row or of the dense part makes them differ.
#[test]
fn equal_models_are_equal_and_a_bit_tells() {
    let shop = Workshop::new();
    trained(&shop, &["--rows.history=true"]);
    shop.ok(&["export", "saved", "--to", "tensors", "--state"]);
    shop.ok(&["import", "tensors", "--like", "saved", "--to", "back"]);
    let data = shop.text("data.tsv");
    fs::rename(shop.path("saved"), shop.path("first")).unwrap();
    trained(&shop, &["--rows.history=true", "--ranks=3", "--threads=1"]);
    for other in ["first", "back", "saved"] {
        let (said, status) = diff(&shop, "first", other);
        assert_eq!((status, &said["differ"]), (Some(0), &Value::Bool(false)), "{other}");
    }
    let (said, _) = diff(&shop, "first", "saved");
    let keys: Vec<&str> =
        said["settings"].as_array().unwrap().iter().map(|of| of["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"ranks.count") && !keys.contains(&"model.dim"), "{keys:?}");
    assert!(shop.ok(&["diff", "first", "back"]).contains("the models are equal"));

    let file = shop.path("tensors/table-users.safetensors");
    let whole = fs::read(&file).unwrap();
    for (name, weights, state) in [("embedding", 1, 0), ("sum", 0, 1), ("examples", 0, 1)] {
        let mut bytes = whole.clone();
        let read = SafeTensors::deserialize(&whole).unwrap();
        let at = read.tensor(name).unwrap().data().as_ptr() as usize - whole.as_ptr() as usize;
        bytes[at] ^= 1;
        fs::write(&file, bytes).unwrap();
        shop.ok(&["import", "tensors", "--like", "first", "--to", "edited"]);
        let (said, status) = diff(&shop, "first", "edited");
        assert_eq!((status, &said["dense"]["differ"]), (Some(1), &Value::Bool(false)), "{name}");
        let table = said["tables"].as_array().unwrap().iter().find(|of| of["name"] == "users");
        let table = table.unwrap();
        assert_eq!(table["rows_with_other_weights"], weights, "{name}");
        assert_eq!(table["rows_with_other_state"], state, "{name}");
        fs::remove_dir_all(shop.path("edited")).unwrap();
    }
    let error = shop.fails(&["diff", "first", &data]);
    assert!(error.contains("data.tsv"), "{error}");
    let error = shop.fails(&["diff", "none", "first"]);
    assert!(error.contains("none"), "{error}");
}

#[test]
fn models_of_other_shapes_differ() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    shop.ok(&args(&[&data], &["--checkpoint=saved"]));
    let more = ["--set=model.dim=6", "--rows.storage=f16", "--optim.rows.kind=adam"];
    shop.ok(&args(&[&data], &[&["--checkpoint=other"], &more[..]].concat()));
    let (said, status) = diff(&shop, "saved", "other");
    assert_eq!(status, Some(1));
    assert!(said["dense"]["layers_only_in_a"].as_array().unwrap().contains(&"mlp1.weight".into()));
    assert!(said["dense"]["layers_only_in_b"].as_array().unwrap().contains(&"mlp1.weight".into()));
    let table = &said["tables"][0];
    assert_eq!(table["rows_with_other_weights"], table["rows_in_both"]);
    shop.run(&["diff", "other", "saved"]);
}

/// Quantiles, counts and pictures of norms, ages and examples match the exported rows.
#[test]
fn rows_are_distributed_as_inspect_says() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    shop.ok(&args(&[&data], &["--checkpoint=saved", "--rows.history=true"]));
    let shown: Value =
        serde_json::from_str(&shop.ok(&["inspect", "saved", "--json", "--svg", "rows.svg"]))
            .unwrap();
    let spread = &shown["tables"][0]["distributions"];
    let weights = rows(&shop, "saved", "embedding");
    let mut norms: Vec<f64> = weights.values().map(|row| distance(row, &[0.0; 5])).collect();
    norms.sort_by(f64::total_cmp);
    assert_eq!(spread["norms"]["count"], norms.len());
    for (name, part) in [("p10", 0.1), ("p50", 0.5), ("p99", 0.99)] {
        let exact = norms[(part * norms.len() as f64).ceil() as usize - 1];
        let found = spread["norms"]["quantiles"][name].as_f64().unwrap();
        assert!(found <= exact && found > 0.96 * exact, "{name}: {found}, exactly {exact}");
    }
    shop.ok(&["export", "saved", "--to", "tensors", "--state"]);
    let bytes = fs::read(shop.path("tensors/table-embedding.safetensors")).unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    let u32s = |name: &str| -> Vec<u32> {
        let data = read.tensor(name).unwrap().data().to_vec();
        data.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four)).collect()
    };
    let step = shown["step"].as_u64().unwrap() as u32;
    let mut ages: Vec<u32> = u32s("used").into_iter().map(|used| step - used).collect();
    ages.sort_unstable();
    assert_eq!(spread["ages"]["quantiles"]["p50"], f64::from(ages[ages.len().div_ceil(2) - 1]));
    assert_eq!(spread["ages"]["most"], f64::from(ages[ages.len() - 1]));
    let examples = u32s("examples");
    assert_eq!(spread["examples"]["most"], f64::from(*examples.iter().max().unwrap()));
    let bars = spread["examples"]["bars"].as_array().unwrap();
    assert_eq!(bars[0]["count"], examples.iter().filter(|count| **count == 1).count());
    let sum: u64 = bars.iter().map(|bar| bar["count"].as_u64().unwrap()).sum();
    assert_eq!(sum as usize, examples.len());
    let text = shop.ok(&["inspect", "saved"]);
    for part in ["length of the weights: least", "steps since the last use", "p50", "####"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let svg = fs::read_to_string(shop.path("rows.svg")).unwrap();
    for part in ["<svg", "embedding, steps since the last use", "</svg>"] {
        assert!(svg.contains(part), "{part}");
    }
    let error = shop.fails(&["inspect", "saved", "--svg", "none/rows.svg"]);
    assert!(error.contains("--svg none/rows.svg: there is no directory"), "{error}");
    let inside = format!("saved/step-{step:012}/rows.svg");
    let error = shop.fails(&["inspect", "saved", "--svg", &inside]);
    assert!(error.contains("which this run reads") && !shop.path(&inside).exists(), "{error}");

    shop.ok(&args(&[&data], &["--checkpoint=bare"]));
    let bare: Value = serde_json::from_str(&shop.ok(&["inspect", "bare", "--json"])).unwrap();
    let spread = &bare["tables"][0]["distributions"];
    assert!(spread["ages"].is_null() && spread["norms"]["count"].as_u64().unwrap() > 0);
}
