//! `stepwell diff`.
//!
//! The models of two checkpoints are equal if they are of the same step, and no bit of dense part
//! and rows differs, including optimizer state and history. Settings are shown but don't count:
//! their effects show in the model.

mod dense;
mod rows;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stepwell_engine::{Checkpoint, TableSpec};
use stepwell_settings as settings;

use self::rows::Table;
use crate::bars;
use crate::cli::DiffArgs;
use crate::failure::{FAILED, Failure};
use crate::say::{self, Page, put};
use crate::snapshots::{largest_index, largest_indexes_of_group, refuse_lack};

/// Shows how two checkpoints differ; the exit status says whether they do.
pub(crate) fn run(args: &DiffArgs) -> Result<(), Failure> {
    let open = |path| {
        let opened = Checkpoint::open(path)?;
        if !args.repaired {
            opened.check_rows()?;
        }
        Ok::<_, Failure>(opened)
    };
    let (a, b) = (open(&args.a)?, open(&args.b)?);
    // One store of A is open at a time, and all stores of B with rows of one table.
    refuse_lack(largest_index(&a) + largest_indexes_of_group(&b))?;
    let whole = compare(&a, &b, args.top)?;
    let mut page = Page::default();
    if args.json {
        put!(page, "{whole:#}");
    } else {
        show(&mut page, &whole);
    }
    match page.say() {
        // The exit status says it even if the reader closed the pipe.
        Ok(()) | Err(Failure::Unheard) if whole["differ"] == true => Err(Failure::Said(FAILED)),
        said => said,
    }
}

fn compare(a: &Checkpoint, b: &Checkpoint, top: usize) -> Result<Value, Failure> {
    let (of_a, of_b) = (specs(a)?, specs(b)?);
    let dense = dense::compare(a, b)?;
    let mut tables = Vec::new();
    for (number, spec) in of_a.iter().enumerate() {
        let Some(other) = of_b.iter().position(|other| other.name == spec.name) else { continue };
        let mine = Table { checkpoint: a, number, spec };
        let others = Table { checkpoint: b, number: other, spec: &of_b[other] };
        tables.push(rows::compare(mine, others, top)?);
    }
    let only = |of: &[TableSpec], others: &[TableSpec]| -> Vec<String> {
        let names = of.iter().map(|spec| spec.name.clone());
        names.filter(|name| others.iter().all(|other| other.name != *name)).collect()
    };
    let (only_a, only_b) = (only(&of_a, &of_b), only(&of_b, &of_a));
    let differ = a.step != b.step
        || dense["differ"] == true
        || tables.iter().any(|table| table["differ"] == true)
        || !(only_a.is_empty() && only_b.is_empty());
    Ok(json!({
        "a": { "checkpoint": say::path(&a.path), "step": a.step },
        "b": { "checkpoint": say::path(&b.path), "step": b.step },
        "differ": differ,
        "settings": other_settings(&a.run["config"], &b.run["config"]),
        "dense": dense,
        "tables": tables,
        "tables_only_in_a": only_a,
        "tables_only_in_b": only_b,
    }))
}

/// The specification of each table.
fn specs(of: &Checkpoint) -> Result<Vec<TableSpec>, Failure> {
    let specs = (0..of.tables()).map(|number| of.table(number));
    Ok(specs.collect::<Result<_, _>>()?)
}

/// The settings that differ, where a default counts as its value.
fn other_settings(a: &Value, b: &Value) -> Vec<Value> {
    let [a, b] = [a, b].map(|of| match settings::from_json(of) {
        Ok(config) => settings::to_json(&config.with_rates()),
        Err(_) => of.clone(),
    });
    let keys =
        |of: &Value| of.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
    let (of_a, of_b): (BTreeSet<String>, BTreeSet<String>) = (keys(&a), keys(&b));
    let differ = of_a.union(&of_b).filter(|key| a.get(*key) != b.get(*key));
    differ.map(|key| json!({ "key": key, "a": a.get(key), "b": b.get(key) })).collect()
}

fn show(page: &mut Page, whole: &Value) {
    for name in ["a", "b"] {
        let path = whole[name]["checkpoint"].as_str().unwrap_or_default();
        put!(page, "{}: step {} in {path}", name.to_uppercase(), whole[name]["step"]);
    }
    put!(page, "the models {}", if whole["differ"] == true { "differ" } else { "are equal" });
    for setting in whole["settings"].as_array().into_iter().flatten() {
        let key = setting["key"].as_str().unwrap_or_default();
        put!(page, "  {key}: {} in A, {} in B", setting["a"], setting["b"]);
    }
    show_dense(page, &whole["dense"]);
    for table in whole["tables"].as_array().into_iter().flatten() {
        show_table(page, table);
    }
    show_only(page, whole, "tables");
}

/// Shows names that only one of both has.
fn show_only(page: &mut Page, of: &Value, what: &str) {
    for name in ["a", "b"] {
        let field = format!("{what}_only_in_{name}");
        let names = of[&field].as_array().into_iter().flatten().filter_map(Value::as_str);
        let names: Vec<&str> = names.collect();
        if !names.is_empty() {
            put!(page, "{what} only in {}: {}", name.to_uppercase(), names.join(", "));
        }
    }
}

fn show_dense(page: &mut Page, dense: &Value) {
    put!(page, "dense part, by layer and state: changed values, largest change, mean change");
    let entries = ["layers", "state"].into_iter().filter_map(|of| dense[of].as_array());
    for entry in entries.flatten() {
        let count = |field: &str| entry[field].as_u64().unwrap_or(0);
        // Counts and keys have no numeric difference.
        let number = |field: &str| entry[field].as_f64().map(|value| format!("{value:.3e}"));
        let number = |field: &str| number(field).unwrap_or_else(|| "-".to_owned());
        put!(
            page,
            "  {:<24}{:>9} of {:<9}{:>10}{:>11}",
            entry["name"].as_str().unwrap_or_default(),
            count("changed"),
            count("values"),
            number("most"),
            number("mean")
        );
    }
    for name in dense["state_of_other_shape"].as_array().into_iter().flatten() {
        put!(
            page,
            "  {}: only in one of them, or of another length",
            name.as_str().unwrap_or_default()
        );
    }
    show_only(page, dense, "layers");
}

fn show_table(page: &mut Page, table: &Value) {
    put!(
        page,
        "table {}: {} rows in both, {} only in A, {} only in B",
        table["name"],
        table["rows_in_both"],
        table["rows_only_in_a"],
        table["rows_only_in_b"]
    );
    put!(
        page,
        "  of those in both {} have other weights, {} the same with other state or history",
        table["rows_with_other_weights"],
        table["rows_with_other_state"]
    );
    if table["rows_with_other_weights"] == 0 {
        return;
    }
    bars::put_bars(page, "distance of the weights", &table["distances"]);
    put!(page, "  rows that changed most:");
    for row in table["top"].as_array().into_iter().flatten() {
        let number = |field: &str| row[field].as_f64().unwrap_or(f64::NAN);
        put!(
            page,
            "    key {}  by {:.4}, from length {:.4} to {:.4}",
            row["key"].as_str().unwrap_or_default(),
            number("distance"),
            number("norm_a"),
            number("norm_b")
        );
    }
}
