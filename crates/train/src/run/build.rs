//! The tiers and the trainer of a run, built to the capacity plan.

use std::sync::Arc;

use stepwell_disk::{Disk, FileDisk};
use stepwell_engine::{Begin, Checkpoint, Group, Placement, Planner, Scratch};
use stepwell_nn::{Precision, bf16_kernel};
use stepwell_settings::Config;
use stepwell_ssd::{Compaction, Error as StoreError, Executor, ExecutorOptions, StoreOptions};

use super::Surroundings;
use super::sources::Sources;
use crate::capacity::{Capacity, Wanted};
use crate::models::Model;
use crate::step::{Trainer, compute_pool};
use crate::world::World;
use crate::{Error, Result};

/// The capacity plan.
pub(super) fn capacity(
    config: &Config,
    sources: &Sources,
    model: &Model,
    from: Option<&Checkpoint>,
) -> Result<Capacity> {
    let inputs = [Some(&*sources.input), sources.eval_input.as_deref()];
    let (schema, examples) = (sources.schema, sources.examples);
    let dense_bytes = from.map_or(0, |checkpoint| checkpoint.dense.bytes());
    let cache = sources.cache.as_ref().map(|cache| (cache.blocks, cache.bytes_max()));
    let wanted = Wanted { config, schema, inputs, model, examples, dense_bytes, cache };
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
    let mut capacity = capacity(config, sources, &model, from)?;
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
    for number in 0..capacity.tiers.groups.len() {
        let disk = disk(around.world.as_ref(), scratch.as_ref(), number)?;
        let machine = |options: StoreOptions| StoreOptions {
            compaction: match around.world {
                Some(_) => Compaction::Inline,
                None => options.compaction,
            },
            // A world of its own is the same each time, what its index weighs too.
            index_seed: around.world.as_ref().map(|_| 0),
            executor: Some(executor.clone()),
            stop: around.stop.clone(),
            ..options
        };
        let begin = match (from, around.rows.from.get(number)) {
            (Some(checkpoint), _) => Begin::Checkpoint(checkpoint),
            (None, Some(snapshot)) => Begin::Snapshot(snapshot),
            (None, None) => Begin::Empty,
        };
        groups.push(capacity.tiers.open(number, model.tables(), (disk, begin), machine, rules)?);
    }
    let mut planners = capacity.tiers.planners(rules);
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
