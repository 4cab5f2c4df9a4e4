//! `stepwell inspect`.

use serde_json::{Value, json};
use stepwell_base::{ByteCount, Key};
use stepwell_engine::{Checkpoint, Rows, Saved, TableSpec, lanes, open_rows};
use stepwell_optim::Storage;
use stepwell_ssd::{Manifest, Stats};
use stepwell_train::RunState;

use crate::cli::InspectArgs;
use crate::distribution::{Distribution, Top};
use crate::failure::Failure;
use crate::say::{self, Page, put};
use crate::snapshots::{largest_index, refuse_lack};
use crate::{bars, outputs};

/// Most rows to list; four times as many are kept for sorting, of 16 bytes each.
const TOP_MAX: usize = 1 << 20;

/// Shows what a checkpoint contains.
pub(crate) fn run(args: &InspectArgs) -> Result<(), Failure> {
    if args.top > TOP_MAX {
        let why = format!("--top {}: give at most {TOP_MAX}", args.top);
        return Err(Failure::Usage(why));
    }
    let checkpoint = Checkpoint::open(&args.checkpoint)?;
    outputs::check(&[("--svg", args.svg.as_deref())], std::slice::from_ref(&checkpoint.path))?;
    refuse_lack(largest_index(&checkpoint))?;
    let mut tables = Vec::new();
    let earlier = specs_of_run(&checkpoint);
    for (number, meta) in tables_of(&checkpoint).iter().enumerate() {
        let rows = checkpoint.rows_of(number)?;
        let spec = checkpoint.table(number).ok().or_else(|| earlier.get(number).cloned());
        let existing = spec.as_ref().map(|spec| (spec, checkpoint.step));
        let mut shown = table(rows, meta, args.top, existing)?;
        let other = |rows: &Rows| match &rows.saved {
            Saved::No(why) => Some(json!(why)),
            Saved::Yes | Saved::Unknown => None,
        };
        if let Some(why) = rows.iter().find_map(other) {
            shown["not_as_saved"] = why;
        }
        tables.push(shown);
    }
    let whole = json!({
        "checkpoint": say::path(&checkpoint.path),
        "version": checkpoint.meta["version"],
        "step": checkpoint.step,
        "ranks": checkpoint.ranks(),
        "key_hash": checkpoint.meta["key_hash"],
        "initial_values": checkpoint.meta["initial_values"],
        "position": checkpoint.run["position"],
        "kernels": checkpoint.run["kernels"],
        "dense_parameters": dense_count(&checkpoint),
        "tables": tables,
        "config": checkpoint.run["config"],
        "session_bytes": checkpoint.run["session"]["extra_bytes"],
    });
    if let Some(path) = &args.svg {
        outputs::write_text(path, &draw(&whole)?)?;
    }
    let mut page = Page::default();
    if args.json {
        put!(page, "{whole:#}");
    } else {
        show(&mut page, &whole);
    }
    page.say()
}

fn tables_of(checkpoint: &Checkpoint) -> &[Value] {
    checkpoint.meta["tables"].as_array().map_or(&[], Vec::as_slice)
}

/// The tables according to the run's settings, for a checkpoint of an earlier build without them;
/// empty if this build cannot read the settings.
fn specs_of_run(checkpoint: &Checkpoint) -> Vec<TableSpec> {
    let state = RunState::read(checkpoint).ok();
    let config = state.and_then(|state| stepwell_settings::from_json(&state.config).ok());
    config.and_then(|config| stepwell_train::tables(&config).ok()).unwrap_or_default()
}

fn dense_count(checkpoint: &Checkpoint) -> usize {
    if checkpoint.is_of_session() {
        return 0;
    }
    checkpoint.dense.sections.first().map_or(0, |(_, values)| values.len())
}

/// Figures of one table's snapshots.
#[derive(Default)]
struct Held {
    rows: u64,
    of_others: u64,
    live: u64,
    stale: u64,
    segments: usize,
    bytes: u64,
    index_bytes: u64,
    /// Bytes that only the live rows would take.
    bytes_live: f64,
    by_live: [u64; 10],
    row_bytes: u64,
    expire_before: u32,
    zeros: Zeros,
}

/// Weights that are exactly zero, as FTRL-Proximal makes them.
#[derive(Default)]
struct Zeros {
    weights: u64,
    /// Rows without another weight.
    rows: u64,
}

impl Zeros {
    fn add(&mut self, row: &[f32], storage: Storage, weights: usize) {
        if row.len() < storage.lanes(weights) {
            return;
        }
        let view = storage.view(row, weights);
        let zeros = (0..weights).filter(|index| view.get(*index) == 0.0).count();
        self.weights += zeros as u64;
        self.rows += u64::from(zeros == weights);
    }
}

impl Held {
    fn add(&mut self, stats: &Stats, manifest: &Manifest) {
        let bytes: u64 = manifest.segments.iter().map(|segment| segment.bytes).sum();
        self.live += stats.rows_live;
        self.stale += stats.rows_stale;
        self.segments += manifest.segments.len();
        self.bytes += bytes;
        self.index_bytes += stats.index_bytes;
        if stats.space_amplification > 0.0 {
            self.bytes_live += bytes as f64 / stats.space_amplification;
        }
        self.by_live.iter_mut().zip(stats.segments_by_live).for_each(|(all, of)| *all += of);
        self.row_bytes = manifest.row_bytes;
        self.expire_before = self.expire_before.max(manifest.expire_before);
    }

    fn space_amplification(&self) -> f64 {
        if self.bytes_live > 0.0 { self.bytes as f64 / self.bytes_live } else { 0.0 }
    }
}

/// Figures of a table's snapshots, one from each rank. `existing`, the table and a step, tells
/// which rows of a shared store belong to the table and exist after the step; without it, all do.
fn table(
    snapshots: &[Rows],
    meta: &Value,
    top: usize,
    existing: Option<(&TableSpec, u64)>,
) -> Result<Value, Failure> {
    let weights = (meta["dim"].as_u64().unwrap_or(0) + meta["wide"].as_u64().unwrap_or(0)) as usize;
    let storage = storage(meta)?;
    let (mut longest, mut held, mut spread) = (Top::new(top), Held::default(), Spread::default());
    for snapshot in snapshots {
        let (store, manifest) = open_rows(&snapshot.path)?;
        // The scan skips most expired rows; the row itself tells for certain.
        let scanned = store.scan_live(&mut |key, _used, row| {
            let lanes = lanes(row);
            if existing
                .is_some_and(|(spec, _)| lanes.len() == spec.row_lanes() && !spec.owns(&lanes))
            {
                held.of_others += 1;
                return Ok(());
            }
            let exists = existing.is_none_or(|(spec, step)| {
                lanes.len() != spec.row_lanes() || spec.exists(&lanes, step)
            });
            if exists {
                let salt = existing.map_or(0, |(spec, _)| spec.salt());
                let norm = norm(&lanes, storage, weights);
                longest.offer(norm, key.salted(salt));
                spread.add(norm, &lanes, existing);
                held.rows += 1;
                held.zeros.add(&lanes, storage, weights);
            }
            Ok(())
        });
        scanned?;
        held.add(&store.stats(), &manifest);
    }
    let has_history = existing.is_some_and(|(spec, _)| spec.life.is_some());
    let row = |(norm, key): (f64, Key)| json!({ "key": format!("{:016x}", key.0), "norm": norm });
    let initial = meta.as_object().and_then(|meta| {
        let names = ["init_range", "init_std", "init_value"];
        names.into_iter().find_map(|name| Some((name, meta.get(name)?.clone())))
    });
    let (initial, value) = initial.unwrap_or(("init_range", Value::Null));
    Ok(json!({
        "name": meta["name"],
        "id": meta["id"],
        "dim": meta["dim"],
        "wide": meta["wide"],
        "storage": storage.name(),
        "seed": meta["seed"],
        initial: value,
        "optimizer": meta["optimizer"],
        "life": meta["life"],
        "lanes": meta["lanes"],
        "row_bytes": held.row_bytes,
        "rows": held.rows,
        "rows_expired": held.live - held.rows - held.of_others,
        "rows_of_other_tables": held.of_others,
        "rows_zero": held.zeros.rows,
        "weights_zero": held.zeros.weights,
        "rows_stale": held.stale,
        "segments": held.segments,
        "segment_bytes": held.bytes,
        "index_bytes": held.index_bytes,
        "space_amplification": held.space_amplification(),
        "segments_by_live": held.by_live,
        "expire_before": held.expire_before,
        "shared_key_probability": (held.rows as f64).powi(2) / 2f64.powi(65),
        "distributions": spread.to_json(has_history),
        "top": longest.into_items().into_iter().map(row).collect::<Vec<Value>>(),
    }))
}

/// Euclidean norm of the weights at the front of a row.
fn norm(lanes: &[f32], storage: Storage, weights: usize) -> f64 {
    if lanes.len() < storage.lanes(weights) {
        return f64::NAN;
    }
    let view = storage.view(lanes, weights);
    (0..weights).map(|index| f64::from(view.get(index)).powi(2)).sum::<f64>().sqrt()
}

/// Format of weights in a table's rows; f32 if it is missing, as in earlier builds.
fn storage(meta: &Value) -> Result<Storage, String> {
    let Some(name) = meta.get("storage").and_then(Value::as_str) else { return Ok(Storage::F32) };
    let known = Storage::ALL.into_iter().find(|storage| storage.name() == name);
    known.ok_or_else(|| {
        format!(
            "table {}: storage '{name}' is not known; use the build that wrote it",
            meta["name"]
        )
    })
}

/// Distributions over the rows of a table.
#[derive(Default)]
struct Spread {
    norms: Distribution,
    ages: Distribution,
    examples: Distribution,
}

impl Spread {
    fn add(&mut self, norm: f64, row: &[f32], existing: Option<(&TableSpec, u64)>) {
        self.norms.add(norm);
        let with_history =
            existing.filter(|(spec, _)| spec.life.is_some() && row.len() == spec.row_lanes());
        if let Some((spec, step)) = with_history {
            let history = spec.history(row);
            self.ages.add(step.saturating_sub(history.used.into()) as f64);
            self.examples.add(history.examples.into());
        }
    }

    /// Ages and examples are null if rows have no history.
    fn to_json(&self, has_history: bool) -> Value {
        let of_history = |of: &Distribution| has_history.then(|| of.to_json());
        json!({
            "norms": self.norms.to_json(),
            "ages": of_history(&self.ages),
            "examples": of_history(&self.examples),
        })
    }
}

/// Fields and titles of a table's distributions.
const SPREAD: [(&str, &str); 3] = [
    ("norms", "length of the weights"),
    ("ages", "steps since the last use"),
    ("examples", "examples that a row was trained on"),
];

/// All distributions of a table, with their titles.
fn spread_of(table: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    let all = SPREAD.iter().map(|(field, title)| (*title, &table["distributions"][*field]));
    all.filter(|(_, distribution)| distribution.is_object())
}

/// Draws the distributions of all tables.
fn draw(whole: &Value) -> Result<String, String> {
    let mut pictures = Vec::new();
    for table in whole["tables"].as_array().into_iter().flatten() {
        let name = table["name"].as_str().unwrap_or_default();
        pictures.extend(spread_of(table).map(|(title, of)| (format!("{name}, {title}"), of)));
    }
    bars::draw(&pictures)
}

fn show(page: &mut Page, whole: &Value) {
    put!(
        page,
        "checkpoint of step {} in {}",
        whole["step"],
        whole["checkpoint"].as_str().unwrap_or("")
    );
    match whole["session_bytes"].as_u64() {
        Some(bytes) => {
            put!(page, "  format version {}", whole["version"]);
            put!(page, "  saved by a program with its own model: {bytes} bytes besides rows");
        }
        None => put!(page, "  format version {}, kernels {}", whole["version"], whole["kernels"]),
    }
    if let Some(ranks @ 2..) = whole["ranks"].as_u64() {
        put!(page, "  written by {ranks} ranks");
    }
    put!(page, "  keys: {}", whole["key_hash"].as_str().unwrap_or(""));
    put!(page, "  initial values: {}", whole["initial_values"].as_str().unwrap_or(""));
    if whole["session_bytes"].is_null() {
        put!(page, "  data position: {}", whole["position"]);
        put!(page, "  dense parameters: {}", whole["dense_parameters"]);
    }
    for table in whole["tables"].as_array().into_iter().flatten() {
        show_table(page, table);
    }
}

fn show_table(page: &mut Page, table: &Value) {
    let count = |field: &str| table[field].as_u64().unwrap_or(0);
    let bytes = |field: &str| ByteCount(count(field)).to_string();
    put!(
        page,
        "table {}: dim {}, weights in {}, rows of {} bytes",
        table["name"],
        table["dim"],
        table["storage"].as_str().unwrap_or(""),
        table["row_bytes"]
    );
    show_meaning(page, table);
    if let Some(why) = table["not_as_saved"].as_str() {
        put!(page, "  NOT THE ROWS THAT WERE SAVED: {why}");
    }
    put!(
        page,
        "  on disk: {} live rows, {} of them expired, and {} stale in {} segments of {} together",
        count("rows") + count("rows_expired"),
        count("rows_expired"),
        table["rows_stale"],
        table["segments"],
        bytes("segment_bytes")
    );
    put!(
        page,
        "  space: {:.2} times the live rows; segments by live part, in tenths: {}",
        table["space_amplification"].as_f64().unwrap_or(0.0),
        table["segments_by_live"]
    );
    if count("weights_zero") > 0 {
        put!(
            page,
            "  zero: {} weights; all weights of {} rows",
            table["weights_zero"],
            table["rows_zero"]
        );
    }
    put!(page, "  in memory when opened: index {}", bytes("index_bytes"));
    put!(
        page,
        "  probability that two values share a key: {:.1e}",
        table["shared_key_probability"].as_f64().unwrap_or(0.0)
    );
    for (title, distribution) in spread_of(table).filter(|_| table["rows"] != 0) {
        bars::put_bars(page, title, distribution);
    }
    put!(page, "  rows with the longest weights:");
    for row in table["top"].as_array().into_iter().flatten() {
        let norm = row["norm"].as_f64().unwrap_or(0.0);
        put!(page, "    key {}  {norm:.4}", row["key"].as_str().unwrap_or(""));
    }
}

/// Shows the meaning of a row if the checkpoint has it.
fn show_meaning(page: &mut Page, table: &Value) {
    let Some(lanes) = table["lanes"].as_array() else {
        put!(page, "  a row: from an earlier build's settings, not from the checkpoint");
        return;
    };
    let part = |part: &Value| {
        let text = |field: &str| part[field].as_str().unwrap_or("").to_owned();
        format!("{} {} ({})", text("name"), part["count"], text("holds"))
    };
    let parts: Vec<String> = lanes.iter().map(part).collect();
    put!(page, "  a row, in lanes of 4 bytes: {}", parts.join(", "));
    put!(
        page,
        "  begins: table {}, seed {}, {} weights {}, then {} of 0",
        table["id"],
        table["seed"],
        table["dim"],
        initial_of(table),
        table["wide"]
    );
    put!(page, "  changes: {}", settings_of(&table["optimizer"]));
    match table["life"].as_object() {
        None => put!(page, "  exists: from its first use on, forever"),
        Some(life) => {
            let admission = settings_of(&life["admission"]);
            put!(page, "  exists: admitted {admission}; {}", expiry(&life["expire_after"]));
        }
    }
}

fn expiry(after: &Value) -> String {
    match after.as_u64() {
        Some(0) | None => "forever".to_owned(),
        Some(steps) => format!("expires after {steps} steps without use"),
    }
}

/// The distribution of a table's initial weights.
fn initial_of(table: &Value) -> String {
    let single = |name: &str| table[name].as_f64().map(|value| value as f32);
    match (single("init_std"), single("init_value")) {
        (Some(std), _) => format!("with standard deviation {std}"),
        (None, Some(value)) => format!("of {value}"),
        (None, None) => format!("in ±{}", single("init_range").unwrap_or(0.0)),
    }
}

/// A name followed by its settings: `adagrad, eps 1e-10, initial 0.0, lr 0.1`.
fn settings_of(named: &Value) -> String {
    let name = named["name"].as_str().unwrap_or("").to_owned();
    let settings = named.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
    settings.fold(name, |text, (key, value)| format!("{text}, {key} {value}"))
}
