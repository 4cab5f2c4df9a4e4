//! Runs that write checkpoints, and what they were promised.
//!
//! How       The model after a step follows from the step alone, as that of training does. So a run
//!           that was resumed from step 4 writes the same checkpoint of step 5 as one that never
//!           stopped, and a checkpoint is right or is not, whoever wrote it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::Disk;
use stepwell_engine::{
    Checkpoint, CheckpointWriter, Dense, Group, Keep, Placement, Result, Staging, TableSpec,
    prepare,
};
use stepwell_optim::{RowOptimizer, Rule};
use stepwell_ssd::{Compaction, Store, StoreOptions};

/// Where checkpoints lie.
pub(crate) const SAVED: &str = "/run/saved";
/// Checkpoints that stay.
pub(crate) const KEEP: usize = 2;
/// Steps of the first run.
const FIRST: u64 = 4;
/// Steps of each later one.
const LATER: u64 = 2;
/// Keys lie below this.
const KEYS: u64 = 60;
/// Rows that a step puts.
const ROWS: u64 = 25;

/// What was promised of the checkpoints, by step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Those that were written and not dropped, oldest first.
    pub(crate) kept: Vec<u64>,
    /// One that is being written; others may be dropped for it once it is complete.
    pub(crate) writing: Option<u64>,
    /// Those that were set aside.
    pub(crate) aside: Vec<u64>,
    /// Whether the kept ones are being set aside.
    pub(crate) moving: bool,
}

/// A run that writes, is resumed, is set aside, and written once more from its first step.
pub(crate) fn script(world: &dyn Disk, ledger: &mut Ledger) -> Result<()> {
    live(world, Placement::Fresh, FIRST, ledger)?;
    live(world, Placement::Resume, LATER, ledger)?;
    live(world, Placement::SetAside, LATER, ledger)?;
    live(world, Placement::ResumeOrStart, LATER, ledger)
}

/// One process: so many steps with a checkpoint after each.
pub(crate) fn live(
    world: &dyn Disk,
    placement: Placement,
    steps: u64,
    ledger: &mut Ledger,
) -> Result<()> {
    let directory = world.create_directory(Path::new(SAVED))?;
    ledger.moving = placement == Placement::SetAside;
    let newest = prepare(&*directory, placement)?;
    if std::mem::take(&mut ledger.moving) {
        ledger.aside.append(&mut ledger.kept);
    }
    let rows = scratch(world)?;
    let (mut writer, store, begin) = match newest {
        None => (CheckpointWriter::new(directory, KEEP), Store::create(rows, options())?, 0),
        Some(path) => {
            let checkpoint = Checkpoint::open_in(&*directory.directory(&path)?)?;
            checkpoint.check_rows()?;
            let store = Store::restore(rows, &checkpoint.rows[0].path, options())?;
            (CheckpointWriter::resume(directory, KEEP)?, store, checkpoint.step)
        }
    };
    let group = group(store);
    for step in begin + 1..=begin + steps {
        put(&group.store, step)?;
        ledger.writing = Some(step);
        writer.write(step, &run(step), &dense(step).view(), std::slice::from_ref(&group))?;
        ledger.writing = None;
        ledger.kept.push(step);
        let many = ledger.kept.len().saturating_sub(KEEP);
        ledger.kept.drain(..many);
    }
    Ok(())
}

/// A directory for the rows of one process, which nobody had before.
pub(crate) fn scratch(world: &dyn Disk) -> Result<Arc<dyn Disk>> {
    let root = world.directory(Path::new("/"))?;
    let mut number = 0;
    while root.exists(&format!("rows-{number}"))? {
        number += 1;
    }
    Ok(world.create_directory(Path::new(&format!("/rows-{number}")))?)
}

fn spec() -> TableSpec {
    TableSpec::new(0, "t", 64, RowOptimizer::new(Rule::sgd(0.1)).unwrap())
}

/// Segments of a few pages.
pub(crate) fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes: 24_576,
        buffer_bytes: 8_192,
        index_bytes_max: 2 << 20,
        compaction: Compaction::Inline,
        read_depth: 8,
        read_bytes: 16 << 10,
        ..StoreOptions::new(0, spec().row_bytes())
    }
}

fn group(store: Store) -> Arc<Group> {
    let staging = Staging::new(spec().row_lanes(), 1, 1);
    Arc::new(Group::new(spec(), 4, Arc::new(store), staging).unwrap())
}

/// What the trainer has written with the checkpoint of a step.
pub(crate) fn run(step: u64) -> Value {
    json!({ "job": "the same", "position": step * 100 })
}

/// The dense part after a step.
pub(crate) fn dense(step: u64) -> Dense {
    let values = |count: u64| (0..count).map(|n| (step * 1_000 + n) as f32).collect();
    Dense { sections: vec![("w".to_owned(), values(300)), ("m".to_owned(), values(step))] }
}

fn keys(step: u64) -> Vec<u64> {
    let mut dice = Stream::named(step, b"keys");
    let keys: std::collections::BTreeSet<u64> = (0..ROWS).map(|_| dice.next_u64() % KEYS).collect();
    keys.into_iter().collect()
}

fn payload(key: u64, step: u64) -> Vec<u8> {
    let mut dice = Stream::named(step, &key.to_le_bytes());
    (0..spec().row_bytes() / 8).flat_map(|_| dice.next_u64().to_le_bytes()).collect()
}

fn put(store: &Store, step: u64) -> Result<()> {
    let keys = keys(step);
    let rows: Vec<u8> = keys.iter().flat_map(|key| payload(*key, step)).collect();
    let used = vec![step as u32; keys.len()];
    let keys: Vec<Key> = keys.into_iter().map(Key).collect();
    Ok(store.put_many(&keys, &used, &rows)?)
}

/// All rows after a step.
pub(crate) fn rows(step: u64) -> BTreeMap<u64, Vec<u8>> {
    let each = (1..=step).flat_map(|step| keys(step).into_iter().map(move |key| (key, step)));
    let last: BTreeMap<u64, u64> = each.collect();
    last.into_iter().map(|(key, step)| (key, payload(key, step))).collect()
}
