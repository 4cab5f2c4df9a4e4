//! Checkpoints of programs with their own model: their rows can be inspected, compared and
//! exported; commands that need the model refuse them.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::path::Path;

use stepwell_base::initial::Initial;
use stepwell_base::{ByteCount, Namespace};
use stepwell_engine::{Bags, Columns, Field, Purpose, Session, Shape, TableSpec, Tiers};
use stepwell_optim::{RowOptimizer, Rule};

use crate::common::Workshop;

/// Trains rows of two tables and saves after steps 3 and 6.
fn saved(directory: &Path) {
    let optimizer = RowOptimizer::new(Rule::adagrad(0.1)).unwrap();
    let initial = Initial::Uniform { range: 0.1 };
    let table = |id, name| TableSpec { initial, ..TableSpec::new(id, name, 4, optimizer) };
    let of_fields = vec![vec![Field::sum(0)], vec![Field::sum(4)]];
    let (tables, columns) =
        (vec![table(0, "user"), table(1, "item")], Columns { of_fields, count: 8 });
    let tiers = Tiers { dram: Some(ByteCount(1 << 20)), ..Tiers::default() };
    let mut session = Session::open(tables, columns, Shape::default(), &tiers).unwrap();
    for step in 1..=6_usize {
        let bags = ["user", "item"].map(|name| {
            let name = Namespace::new(name).unwrap();
            let keys = (0..20 * step).map(|id| name.key_of(id.to_string().as_bytes()));
            let ends = (1..=20 * step as u32).collect();
            Bags { keys: keys.collect(), ends, ..Bags::default() }
        });
        let examples = 20 * step;
        session.feed(&bags, &vec![1.0; examples], Purpose::Train).unwrap();
        session.ready().unwrap().unwrap().push(&vec![0.5; 8 * examples], &[]).unwrap();
        if step.is_multiple_of(3) {
            session.save(directory, 5, &[7; 1001]).unwrap();
        }
    }
}

#[test]
fn rows_of_a_program_with_its_own_model_are_read() {
    let shop = Workshop::new();
    saved(&shop.path("saved"));
    let shown = shop.ok(&["inspect", "saved"]);
    assert!(shown.contains("its own model: 1001 bytes besides rows"), "{shown}");
    assert!(shown.contains("table \"item\": dim 4"), "{shown}");
    assert!(!shown.contains("null"), "{shown}");
    for (format, files) in [("safetensors", 2), ("parquet", 2), ("npy", 3)] {
        let said = shop.ok(&["export", "saved", "--out", format, "--format", format]);
        assert!(said.contains("240 rows"), "{said}");
        let entries = std::fs::read_dir(shop.path(format)).unwrap();
        let names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(names.len() <= files && names.iter().all(|name| !name.starts_with("dense")));
    }
    let [early, late] = [3, 6].map(|step| format!("saved/step-{step:012}"));
    let same = shop.run(&["diff", &early, &early]);
    assert_eq!(same.status.code(), Some(0), "{same:?}");
    let differ = shop.run(&["diff", &early, &late, "--json"]);
    assert_eq!(differ.status.code(), Some(1), "{differ:?}");
    let differ: serde_json::Value = serde_json::from_slice(&differ.stdout).unwrap();
    assert_eq!(differ["tables"].as_array().map(Vec::len), Some(2));
}

#[test]
fn what_needs_the_model_says_that_it_is_not_there() {
    let shop = Workshop::new();
    saved(&shop.path("saved"));
    let data = shop.examples("data.tsv", 20);
    std::fs::write(shop.path("ids.csv"), "user\n1\n").unwrap();
    for command in [
        &["eval", "saved", "--data", &data][..],
        &["predict", "saved", "--data", &data, "--out", "scores.csv"],
        &["train", "--from", "saved", "--data", &data, "--checkpoint", "next"],
        &["train", "--data", &data, "--checkpoint", "saved", "--resume"],
        &["export", "saved", "--ids", "ids.csv", "--out", "rows.csv"],
    ] {
        let error = shop.fails(command);
        assert!(error.contains("a program with its own model"), "{command:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
}
