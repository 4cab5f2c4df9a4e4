//! Runs that write checkpoints, and what these must guarantee.
//!
//! - **How.** The model after a step is a function of the step, as in training. So a run resumed
//!   from step 4 writes the same checkpoint of step 5 as one that never stopped, and a checkpoint
//!   is right or wrong regardless of the run and the number of ranks that wrote it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use stepwell_base::Key;
use stepwell_base::owner::{RankOf, owner};
use stepwell_base::random::Stream;
use stepwell_disk::Disk;
use stepwell_engine::{
    Checkpoint, CheckpointWriter, Dense, Group, Keep, ModelPart, Placement, Result, Staging,
    TableSpec, WholeModel, prepare,
};
use stepwell_optim::{RowOptimizer, Rule};
use stepwell_ssd::{Compaction, KeyShardSet, Store, StoreOptions, Verify};

/// Directory of the checkpoints.
pub(crate) const SAVED: &str = "/run/saved";
/// Number of checkpoints kept.
pub(crate) const KEEP: usize = 2;
/// Number of steps of each process of a script: the first, the resumed and the last one drop
/// checkpoints.
const STEPS: [u64; 4] = [KEEP as u64 + 1, 2, 1, 2];
/// Keys are below this.
const KEYS: u64 = 60;
/// Number of rows that a step puts.
const ROWS: u64 = 25;

/// Checkpoints that must exist, by step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Checkpoints written and not dropped, oldest first.
    pub(crate) kept: Vec<u64>,
    /// The checkpoint being written; others may be dropped once it is complete.
    pub(crate) writing: Option<u64>,
    /// Checkpoints replaced by later ones: removed, unless the disk failed to.
    pub(crate) dropped: Vec<u64>,
    /// Checkpoints that were set aside.
    pub(crate) aside: Vec<u64>,
    /// Whether the kept ones are being set aside.
    pub(crate) moving: bool,
    /// Whether a failure was reported that ended no run.
    pub(crate) noted: Arc<AtomicBool>,
}

/// Number of ranks of each process of a script.
pub(crate) type Ranks = [usize; 4];
/// A single rank.
pub(crate) const ALONE: Ranks = [1; 4];
/// A different number of ranks each time.
pub(crate) const SEVERAL: Ranks = [2, 3, 1, 2];

/// A run that writes, is resumed, is set aside, and is written again from its first step.
pub(crate) fn script(world: &dyn Disk, ranks: Ranks, ledger: &mut Ledger) -> Result<()> {
    let placements =
        [Placement::Fresh, Placement::Resume, Placement::SetAside, Placement::ResumeOrStart];
    let processes = placements.into_iter().zip(ranks.into_iter().zip(STEPS));
    processes.into_iter().try_for_each(|(placement, of)| live(world, placement, of, ledger))
}

/// One rank of a process.
struct Rank {
    place: RankOf,
    writer: CheckpointWriter,
    groups: Vec<Arc<Group>>,
}

/// One process with `ranks` ranks: `steps` steps with a checkpoint after each.
pub(crate) fn live(
    world: &dyn Disk,
    placement: Placement,
    (ranks, steps): (usize, u64),
    ledger: &mut Ledger,
) -> Result<()> {
    let directory = world.create_directory(Path::new(SAVED))?;
    ledger.moving = placement == Placement::SetAside;
    let newest = prepare(&*directory, placement)?;
    if std::mem::take(&mut ledger.moving) {
        ledger.aside.append(&mut ledger.kept);
    }
    let newest = newest.map(|path| Checkpoint::open_in(&*directory.directory(&path)?));
    let newest = newest.transpose()?;
    newest.as_ref().map_or(Ok(()), Checkpoint::check_rows)?;
    let begin = newest.as_ref().map_or(0, |from| from.step);
    let mut all = Vec::new();
    for rank in 0..ranks {
        let place = RankOf { rank, ranks };
        let groups = vec![group(open(scratch(world)?, newest.as_ref(), place)?)];
        let writer = match newest {
            Some(_) if rank == 0 => CheckpointWriter::resume(Arc::clone(&directory), KEEP)?,
            _ => CheckpointWriter::new(Arc::clone(&directory), KEEP),
        };
        let noted = Arc::clone(&ledger.noted);
        let note = move |_: &str| noted.store(true, Ordering::Relaxed);
        let writer = writer.telling(Arc::new(note));
        all.push(Rank { place, writer, groups });
    }
    // The newest checkpoint isn't held any more, so old ones may be removed.
    drop(newest);
    for step in begin + 1..=begin + steps {
        all.iter().try_for_each(|rank| put(rank, step))?;
        ledger.writing = Some(step);
        write(&mut all, step)?;
        ledger.writing = None;
        ledger.kept.push(step);
        let many = ledger.kept.len().saturating_sub(KEEP);
        ledger.dropped.extend(ledger.kept.drain(..many));
    }
    Ok(())
}

/// The store of one rank, restored from its rows in the checkpoint, if given.
fn open(
    rows: Arc<dyn Disk>,
    from: Option<&Checkpoint>,
    RankOf { rank, ranks }: RankOf,
) -> Result<Store> {
    let options = StoreOptions { key_shards: KeyShardSet::part(rank, ranks), ..options() };
    let Some(from) = from else { return Ok(Store::create(rows, options)?) };
    let saved: Vec<&Path> = from.rows_of_group(0).iter().map(|rows| &*rows.path).collect();
    if let ([saved], 1) = (&saved[..], ranks) {
        return Ok(Store::restore(rows, saved, Verify::Everything, options)?);
    }
    Ok(Store::restore_shards(vec![rows], &saved, Verify::Everything, options)?)
}

/// Writes the checkpoint of `step`, each rank its part.
fn write(all: &mut [Rank], step: u64) -> Result<()> {
    let (run, dense) = (run(step), dense(step));
    if let [Rank { writer, groups, .. }] = all {
        return writer.write(step, &run, &dense.view(), groups).map(|_| ());
    }
    assert_eq!(all[0].writer.begin(step, &run)?, None);
    let mut kept = Vec::new();
    for Rank { place, writer, groups } in &mut *all {
        // State that only some ranks have.
        let past = past(step, place.rank);
        kept.push(writer.keep(&ModelPart { step, of: *place, groups, past })?);
    }
    let dense = Dense { sections: dense.sections[..1].to_vec() };
    let Rank { writer, groups, .. } = &mut all[0];
    let whole = WholeModel { step, run: &run, dense: &dense.view(), groups };
    writer.end(&whole, &kept).map(|_| ())
}

/// A rank's state besides rows: two ranks have half of the last section each.
fn past(step: u64, rank: usize) -> Dense {
    let (name, values) = &dense(step).sections[1];
    let half = values.len() / 2;
    let own = match rank {
        0 => &values[..half],
        1 => &values[half..],
        _ => return Dense::default(),
    };
    Dense { sections: vec![(name.clone(), own.to_vec())] }
}

/// A new directory for the rows of one process.
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

/// Options with segments of a few pages.
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

/// The trainer's state in the checkpoint of a step.
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

/// Puts the rank's rows of a step.
fn put(Rank { place, groups, .. }: &Rank, step: u64) -> Result<()> {
    let mut keys = keys(step);
    keys.retain(|key| owner(Key(*key), place.ranks) == place.rank);
    let rows: Vec<u8> = keys.iter().flat_map(|key| payload(*key, step)).collect();
    let used = vec![step as u32; keys.len()];
    let keys: Vec<Key> = keys.into_iter().map(Key).collect();
    Ok(groups[0].store.put_many(&keys, &used, &rows)?)
}

/// All rows after a step.
pub(crate) fn rows(step: u64) -> BTreeMap<u64, Vec<u8>> {
    let each = (1..=step).flat_map(|step| keys(step).into_iter().map(move |key| (key, step)));
    let last: BTreeMap<u64, u64> = each.collect();
    last.into_iter().map(|(key, step)| (key, payload(key, step))).collect()
}
