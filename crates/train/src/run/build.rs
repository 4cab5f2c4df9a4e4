//! The tiers and the trainer of a run, built to the capacity plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_disk::{Disk, FileDisk};
use stepwell_engine::{
    Checkpoint, Group, GroupTables, OLDER, Placement, Planner, Scratch, Staging,
};
use stepwell_nn::{Precision, bf16_kernel};
use stepwell_settings::Config;
use stepwell_ssd::{
    Compaction, Error as StoreError, Executor, ExecutorOptions, Store, StoreOptions,
};

use super::Surroundings;
use super::sources::Sources;
use crate::capacity::{Capacity, Shares, Wanted};
use crate::models::Model;
use crate::step::{Trainer, compute_pool};
use crate::world::World;
use crate::{Error, Result};

/// The capacity plan.
pub(super) fn capacity(
    config: &Config,
    sources: &Sources,
    model: &Model,
    stores: &[StoreOptions],
    from: Option<&Checkpoint>,
) -> Result<Capacity> {
    let inputs = [Some(&*sources.input), sources.eval_input.as_deref()];
    let (schema, examples) = (sources.schema, sources.examples);
    let dense_bytes = from.map_or(0, |checkpoint| checkpoint.dense.bytes());
    let cache = sources.cache.as_ref().map(|cache| (cache.blocks, cache.bytes_max()));
    let wanted = Wanted { config, schema, inputs, model, examples, stores, dense_bytes, cache };
    Capacity::plan(&wanted)
}

/// The tiers and the trainer of a run.
pub(super) struct Built {
    pub(super) capacity: Capacity,
    pub(super) groups: Vec<Arc<Group>>,
    pub(super) planners: Vec<Planner>,
    pub(super) trainer: Trainer,
    /// None where the stores lie in a world of their own.
    pub(super) scratch: Option<Scratch>,
}

/// The options of each table group's store.
pub(super) fn store_options(config: &Config, model: &Model) -> Result<Vec<StoreOptions>> {
    let Shares { index, page_cache, .. } = Shares::of(config, model)?;
    let groups = model.groups().iter().zip(index).zip(page_cache);
    let options = groups.map(|((group, index_bytes_max), cached_bytes)| {
        let table = &model.tables()[group.tables[0]];
        StoreOptions {
            segment_bytes: config.tiers.segment.0,
            index_bytes_max,
            cached_bytes,
            space_max: config.tiers.space,
            ..StoreOptions::new(table.id.0, table.row_bytes())
        }
    });
    Ok(options.collect())
}

/// The model, which knows how long the bags of the data are.
pub(super) fn model(config: &Config, sources: &Sources) -> Result<Model> {
    let mut model = Model::build(config, sources.schema)?;
    if model.features().has_long_bags()
        && let Some(chunk) = sources.first_chunk(model.features())
    {
        model.expect_as_in(&chunk);
    }
    Ok(model)
}

/// Says where this processor has a unit for bf16 that cannot be used.
fn note_kernel(config: &Config, around: &Surroundings) {
    if config.model.precision == Precision::Bf16
        && let Some(note) = &bf16_kernel().note
    {
        (around.on_note)(note);
    }
}

pub(super) fn build(
    config: &Config,
    around: &Surroundings,
    sources: &Sources,
    from: Option<&Checkpoint>,
) -> Result<Built> {
    let model = model(config, sources)?;
    note_kernel(config, around);
    let stores = store_options(config, &model)?;
    let mut capacity = capacity(config, sources, &model, &stores, from)?;
    if let Some(sizes) = around.world.as_ref().and_then(|world| world.sizes) {
        sizes.apply(&mut capacity);
    }
    (around.on_plan)(&capacity);
    let scratch = match &around.world {
        Some(_) => None,
        None => Some(scratch(config, around, from)?),
    };
    let rules = around.world.as_ref().map(|world| world.rules).unwrap_or_default();
    let mut groups = Vec::new();
    // The stores of all groups take what one would.
    let executor = Executor::new(ExecutorOptions::default());
    for (number, (members, options)) in model.groups().iter().zip(stores).enumerate() {
        let disk = disk(around.world.as_ref(), scratch.as_ref(), number)?;
        let compaction = match around.world {
            Some(_) => Compaction::Inline,
            None => options.compaction,
        };
        // A world of its own is the same each time, what its index weighs too.
        let index_seed = around.world.as_ref().map(|_| 0);
        let stop = around.stop.clone();
        let executor = Some(executor.clone());
        let options = StoreOptions { compaction, index_seed, executor, stop, ..options };
        let snapshot = around.rows.from.get(number).map(PathBuf::as_path);
        let store = open_store(disk, number, options, (from, snapshot))?;
        let mut group = group((&model, members), &capacity, number, store)?;
        group.rules = rules;
        groups.push(Arc::new(group));
    }
    let mut planners: Vec<Planner> = capacity
        .slots
        .iter()
        .zip(model.groups())
        .map(|(slots, group)| {
            let planner = Planner::new(*slots, capacity.horizon, config.tiers.policy);
            planner.whole(group.whole).with_rules(rules)
        })
        .collect();
    for (planner, group) in planners.iter_mut().zip(&groups) {
        if around.rows.in_memory || group.is_whole() {
            group.preload(planner, &around.stop)?;
        }
    }
    let mut trainer = trainer(model, config, around)?;
    if let Some(checkpoint) = from {
        let wrong = |why| Error::Resume { path: checkpoint.path.clone(), why };
        trainer.load(&checkpoint.dense).map_err(wrong)?;
        trainer.set_steps(checkpoint.step);
        groups.iter().for_each(|group: &Arc<Group>| group.set_steps(checkpoint.step));
    }
    Ok(Built { capacity, groups, planners, trainer, scratch })
}

/// The trainer, computed and watched as the surroundings want it.
fn trainer(model: Model, config: &Config, around: &Surroundings) -> Result<Trainer> {
    let pool = match around.world.as_ref().and_then(|world| world.pool.clone()) {
        Some(pool) => pool,
        None => compute_pool(config.threads)?,
    };
    let mut trainer = Trainer::new(model, config, pool, Arc::clone(&around.clock))?;
    if let Some(world) = &around.world {
        trainer.watch(Arc::clone(&world.witness));
    }
    Ok(trainer)
}

/// The directory of the stores, and a note of what was set aside there.
fn scratch(config: &Config, around: &Surroundings, from: Option<&Checkpoint>) -> Result<Scratch> {
    // Rows that lie there are made anew from a checkpoint; without one they are set aside.
    let placement = match (from, around.placement) {
        (Some(_), _) => Placement::Resume,
        (None, Placement::Resume | Placement::ResumeOrStart) => Placement::SetAside,
        (None, other) => other,
    };
    let scratch = Scratch::open(config.tiers.ssd.as_deref(), placement)?;
    if let Some(note) = scratch.note() {
        (around.on_note)(note);
    }
    Ok(scratch)
}

/// The directory of a store.
fn disk(world: Option<&World>, scratch: Option<&Scratch>, number: usize) -> Result<Arc<dyn Disk>> {
    if let Some(world) = world {
        let path = world.disk.path().join(format!("rows-{number}"));
        return Ok(world.disk.create_directory(&path).map_err(StoreError::from)?);
    }
    let Some(scratch) = scratch else { unreachable!("stores lie in a world or in a directory") };
    Ok(Arc::new(FileDisk::open(&scratch.rows(number)?).map_err(StoreError::from)?))
}

fn open_store(
    disk: Arc<dyn Disk>,
    number: usize,
    options: StoreOptions,
    (from, snapshot): (Option<&Checkpoint>, Option<&Path>),
) -> Result<Store> {
    let Some(checkpoint) = from else {
        return Ok(match snapshot {
            Some(snapshot) => Store::restore(disk, snapshot, options)?,
            None => Store::create(disk, options)?,
        });
    };
    let rows = checkpoint.rows.get(number).ok_or_else(|| Error::Resume {
        path: checkpoint.path.clone(),
        why: format!("has no rows of table group {number}"),
    })?;
    Store::restore(disk, &rows.path, options).map_err(|error| {
        let mend = match error {
            StoreError::Disk(_) => String::new(),
            StoreError::Damaged { .. } | StoreError::Missing { .. } | StoreError::Lost { .. } => {
                format!("; {OLDER}")
            }
            other => return Error::Store(other),
        };
        let why = format!("its rows cannot be restored ({error}){mend}");
        Error::Resume { path: checkpoint.path.clone(), why }
    })
}

fn group(
    (model, members): (&Model, &GroupTables),
    capacity: &Capacity,
    number: usize,
    store: Store,
) -> Result<Group> {
    let lanes = model.tables()[members.tables[0]].row_lanes();
    let staging = Staging::new(lanes, capacity.chunk_rows[number], capacity.chunks);
    let tables = (model.tables(), members.clone());
    Ok(Group::of(tables, capacity.slots[number], Arc::new(store), staging)?)
}
