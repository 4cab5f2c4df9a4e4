//! Builds the tiers and the model of a run to the capacity plan.

use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_base::owner::{KEY_SHARDS, RankOf};
use stepwell_data::Sources;
use stepwell_device::{Device, Offer};
use stepwell_engine::process_limits::{self, FilesWanted};
use stepwell_engine::{Checkpoint, DeviceOptions, DeviceTier, Group, Placement, Planner};
use stepwell_nn::{Precision, bf16_kernel};
use stepwell_settings::{Config, DensePlace, OptimConfig};

use super::groups::Opening;
use super::space;
use super::surroundings::Surroundings;
use crate::capacity::{BLOCK_BYTES, Capacity, RanksHere, Wanted, part, rows_by_group};
use crate::exchange::Exchange;
use crate::machine::{Machine, RowPlaces};
use crate::models::{Model, schedule};
use crate::ranks::Ranks;
use crate::run_plan::{RunPlan, StoragePlan};
use crate::step::{Alone, InStep, Learner, Mode, Stepping as _, TrainedModel, compute_pool};
use crate::warm_start::Inheritance;
use crate::{Error, Result};

/// The model that a run begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beginning<'a> {
    /// No rows.
    Anew,
    /// The model of a checkpoint whose run continues.
    Resumed(&'a Checkpoint),
    /// A warm start: the parts of a checkpoint's model that fit this one.
    Warm(&'a Checkpoint),
    /// The model of a checkpoint, to score data with.
    Scored(&'a Checkpoint),
}

impl<'a> Beginning<'a> {
    fn checkpoint(self) -> Option<&'a Checkpoint> {
        match self {
            Self::Anew => None,
            Self::Resumed(from) | Self::Warm(from) | Self::Scored(from) => Some(from),
        }
    }

    fn scores(self) -> bool {
        matches!(self, Self::Scored(_))
    }

    /// Returns what `model` inherits in a warm start; `None` without one.
    fn inherited(self, config: &Config, model: &Model) -> Result<Option<Inheritance>> {
        match self {
            Self::Warm(from) => Inheritance::of(config, model, from).map(Some),
            _ => Ok(None),
        }
    }
}

/// Rows that the tables of a run start with, and are expected to have.
pub(super) struct StartWith<'a> {
    pub(super) begin: Beginning<'a>,
    /// Whether rows come from a source other than a checkpoint.
    pub(super) has_rows: bool,
    /// Expected number of rows, if given.
    pub(super) rows: Option<u64>,
}

/// The capacity plan.
pub(super) fn capacity(
    plan: &RunPlan<'_>,
    sources: &Sources,
    model: &Model,
    start: StartWith<'_>,
    (ranks, offer): (Option<&Ranks>, Option<Offer>),
) -> Result<Capacity> {
    let inputs = [Some(&*sources.input), sources.eval_input.as_deref()];
    let (schema, examples) = (sources.schema(), sources.examples);
    let cache = sources.cache_room();
    let ranks = ranks_here(plan.ranks.count, ranks);
    let StartWith { begin, has_rows, rows } = start;
    Capacity::plan(&Wanted {
        plan,
        schema,
        inputs,
        model,
        offer,
        examples,
        from: begin.checkpoint(),
        before: begin.checkpoint().and_then(|from| rows_by_group(from, model)),
        scores: begin.scores(),
        has_rows,
        rows,
        cache,
        ranks,
    })
}

/// The ranks of a run of `count` ranks on this machine.
pub(super) fn ranks_here(count: usize, ranks: Option<&Ranks>) -> RanksHere {
    match ranks {
        Some(Ranks { processes: Some(here), .. }) => RanksHere { threads: 1, processes: *here },
        _ => RanksHere { threads: count, processes: 1 },
    }
}

/// Refuses a run that may need more open files than this process is allowed.
pub(super) fn check_files(wanted: &FilesWanted) -> Result<()> {
    process_limits::lacks_files(wanted).map_or(Ok(()), |why| Err(Error::Config(why)))
}

/// The devices of a rank, if there are any.
pub(super) fn offer(
    plan: &RunPlan<'_>,
    machine: &Machine,
    note: &dyn Fn(String),
) -> Result<Option<Offer>> {
    if !plan.ranks.in_step {
        // Rows on devices are updated in step.
        return Ok(None);
    }
    let wrong = |why| Error::Config(format!("device = {}: {why}", plan.device));
    let offer = machine.devices.offer(plan.device, note).map_err(wrong)?;
    // Ranks that are threads divide this process's devices; a rank that is a process has the
    // devices that its launcher shows it.
    let of = match &machine.ranks {
        Some(ranks) if ranks.processes.is_some() => RankOf::ALONE,
        Some(ranks) => ranks.fabric.place(),
        None => RankOf { rank: 0, ranks: plan.ranks.count },
    };
    let part = |offer| part(plan, offer, of, note).map_err(wrong);
    let offer = offer.map_or(Ok(None), part)?;
    check_owners(plan.ranks.count, offer.as_ref().map_or(1, Offer::len)).map_err(wrong)?;
    Ok(offer)
}

/// Refuses more owners of rows than there are key shards: each owns at least one.
fn check_owners(ranks: usize, devices: usize) -> std::result::Result<(), String> {
    let owners = ranks.saturating_mul(devices);
    if owners <= KEY_SHARDS {
        return Ok(());
    }
    Err(format!(
        "{ranks} ranks with {devices} devices each are {owners} owners of rows, but a table has \
         {KEY_SHARDS} key shards; give each rank at most {} devices",
        KEY_SHARDS / ranks
    ))
}

/// Takes the planned devices, with slots for rows.
fn devices(
    plan: &RunPlan<'_>,
    machine: &Machine,
    capacity: &Capacity,
) -> Result<(Option<Arc<DeviceTier>>, Vec<Device>)> {
    let Some(room) = &capacity.devices else { return Ok((None, Vec::new())) };
    let wrong = |why| Error::Config(format!("device = {}: {why}", plan.device));
    let devices = machine.devices.open(&room.offer, room.wanted(plan.threads)).map_err(wrong)?;
    let options = DeviceOptions { devices: devices.clone(), place: machine.place() };
    let rows = room.rows.clone();
    Ok((Some(DeviceTier::new(&options, rows, &capacity.tiers, machine.rules)?), devices))
}

/// The tiers and the model of a run.
pub(super) struct Built {
    pub(super) capacity: Capacity,
    pub(super) groups: Vec<Arc<Group>>,
    pub(super) planners: Vec<Planner>,
    pub(super) mode: Mode,
    /// The place of the stores, until they are closed.
    pub(super) place: Box<dyn RowPlaces>,
}

/// Builds the model, which knows how long the data's bags are.
pub(super) fn model(config: &Config, sources: &Sources) -> Result<Model> {
    let mut model = Model::build(config, sources.schema())?;
    if model.features().has_long_bags()
        && let Some(chunk) = sources.first_chunk(&model.features().read_options(BLOCK_BYTES))
    {
        model.expect_as_in(&chunk);
    }
    if sources.may_have_values()? {
        model.expect_values();
    }
    Ok(model)
}

/// Notes that this processor has a bf16 unit that cannot be used.
fn note_kernel(precision: Precision, around: &Surroundings) {
    if precision == Precision::Bf16
        && let Some(note) = &bf16_kernel().note
    {
        (around.on_note)(note);
    }
}

pub(super) fn build(
    plan: &RunPlan<'_>,
    around: &Surroundings,
    sources: &Sources,
    begin: Beginning<'_>,
) -> Result<Built> {
    let (config, from) = (plan.config, begin.checkpoint());
    let model = model(config, sources)?;
    let inherited = begin.inherited(config, &model)?;
    inherited.iter().flat_map(|of| &of.notes).for_each(|note| (around.on_note)(note));
    note_kernel(plan.dense.precision, around);
    let offer = offer(plan, &around.machine, &|note| (around.on_note)(&note))?;
    let on = (around.machine.ranks.as_ref(), offer);
    let is_pretrained = config.tables.iter().any(|table| table.pretrained.is_some());
    let has_rows = is_pretrained || !around.rows.from.is_empty();
    let begun = StartWith { begin, has_rows, rows: None };
    let mut capacity = capacity(plan, sources, &model, begun, on)?;
    capacity.check_room()?;
    std::mem::take(&mut capacity.notes).iter().for_each(|note| (around.on_note)(note));
    let machine = &around.machine;
    check_files(&FilesWanted {
        ranks: ranks_here(plan.ranks.count, machine.ranks.as_ref()).threads,
        stores: capacity.tiers.groups.len(),
        checkpoints: plan.storage.saves(),
    })?;
    if let Some(sizes) = &machine.sizes {
        sizes.apply(&mut capacity);
    }
    (around.on_plan)(&capacity);
    let same = from.filter(|_| inherited.is_none());
    same.map_or(Ok(()), |from| capacity.tiers.check_groups(model.tables(), from))?;
    let place = place(&plan.storage, around, from)?;
    // Rows that the run replaces are removed by now.
    check_space(plan, machine, &capacity, (begin, same))?
        .iter()
        .for_each(|note| (around.on_note)(note));
    let rules = machine.rules;
    let (above, devices) = devices(plan, machine, &capacity)?;
    let (scores, inherited_rows) = (begin.scores(), inherited.as_ref());
    let opening = Opening {
        capacity: &capacity,
        model: &model,
        from,
        scores,
        inherited: inherited_rows,
        config,
    };
    let groups = opening.groups(around, &*place, above.as_ref())?;
    let mut planners = capacity.tiers.planners(rules);
    for (planner, group) in planners.iter_mut().zip(&groups) {
        if around.rows.in_memory || group.is_whole() {
            group.preload(planner, &around.stop)?;
        }
    }
    let mut trained = trained(model, plan, around, &devices)?;
    let of = machine.place();
    if let Some(checkpoint) = from {
        let wrong = |why| Error::Resume { path: checkpoint.path.clone(), why };
        match &inherited {
            None => trained.load(&checkpoint.dense, of).map_err(wrong)?,
            Some(inherited) => {
                let (dense, note) = inherited.dense(config, &trained, &checkpoint.dense)?;
                note.iter().for_each(|note| (around.on_note)(note));
                trained.load(&dense, of).map_err(wrong)?;
            }
        }
        trained.set_steps(checkpoint.step);
        for note in ended_schedules(config, checkpoint.step) {
            (around.on_note)(&note);
        }
        groups.iter().for_each(|group: &Arc<Group>| group.set_steps(checkpoint.step));
    }
    let mode = mode(trained, plan, machine)?;
    Ok(Built { capacity, groups, planners, mode, place })
}

/// Refuses a run that certainly doesn't fit a disk, and notes if it may not. `same` is the
/// checkpoint whose stores the run begins with. The first rank checks for all ranks of its process.
fn check_space(
    plan: &RunPlan<'_>,
    machine: &Machine,
    capacity: &Capacity,
    (begin, same): (Beginning<'_>, Option<&Checkpoint>),
) -> Result<Vec<String>> {
    let ranks = machine.ranks.as_ref();
    if ranks.is_some_and(|ranks| ranks.fabric.rank() > 0) {
        return Ok(Vec::new());
    }
    let start = space::Start {
        storage: &plan.storage,
        capacity,
        places: &*machine.places,
        from: same,
        saves: plan.storage.saves() && !begin.scores(),
        ranks: ranks_here(plan.ranks.count, ranks).threads as u64,
    };
    start.check()
}

/// Returns how `model` is trained: alone, or with the other ranks of `machine`.
fn mode(model: TrainedModel, plan: &RunPlan<'_>, machine: &Machine) -> Result<Mode> {
    let Some(ranks) = &machine.ranks else { return Ok(Mode::Alone(Box::new(Alone(model)))) };
    ranks.fabric.keep_at_most(Exchange::of(plan, model.model()).kept() as usize);
    let steps = Box::new(InStep::new(plan, model, ranks, machine.late)?);
    if plan.ranks.in_step {
        return Ok(Mode::InStep(steps));
    }
    // The owner must answer other ranks while its learner computes.
    let pool = pool(plan.threads, machine)?;
    let learner = Learner::new(plan, steps.model(), ranks, machine.late, pool)?;
    Ok(Mode::OutOfStep(steps, Box::new(learner)))
}

/// Compute threads: the machine's, or new ones.
fn pool(threads: usize, machine: &Machine) -> Result<Arc<ThreadPool>> {
    machine.pool.as_ref().map_or_else(|| compute_pool(threads), |pool| Ok(Arc::clone(pool)))
}

/// Notes on optimizers whose learning rate is 0 after `steps` steps.
fn ended_schedules(config: &Config, steps: u64) -> impl Iterator<Item = String> {
    let OptimConfig { rows, dense } = &config.optim;
    let parts = [("rows", schedule(rows)), ("dense", schedule(dense))];
    let ended = parts.into_iter().filter(move |(_, of)| of.factor(steps) == 0.0);
    ended.map(move |(part, _)| {
        format!(
            "the learning rate of optim.{part} is 0 from step {steps} on, where its schedule has \
             ended: give optim.{part}.schedule = constant, or more optim.{part}.decay_steps"
        )
    })
}

/// Creates the model as the surroundings ask, with its dense part on `devices` if it belongs
/// there.
fn trained(
    model: Model,
    plan: &RunPlan<'_>,
    around: &Surroundings,
    devices: &[Device],
) -> Result<TrainedModel> {
    let machine = &around.machine;
    let pool = pool(plan.threads, machine)?;
    let mut trained = TrainedModel::new(model, plan, pool, Arc::clone(&machine.clock))?;
    if plan.dense.place == DensePlace::Device {
        trained.compute_on(devices, plan)?;
    }
    let shown = around.observer.layers();
    if !shown.is_empty() {
        if plan.dense.place == DensePlace::Device {
            return Err(Error::Config(
                "outputs of layers are not read from devices: give train.dense = host".to_owned(),
            ));
        }
        trained.show(&shown)?;
    }
    if let Some(witness) = &machine.witness {
        trained.watch(Arc::clone(witness));
    }
    Ok(trained)
}

/// The place of the stores.
fn place(
    storage: &StoragePlan,
    around: &Surroundings,
    from: Option<&Checkpoint>,
) -> Result<Box<dyn RowPlaces>> {
    // Existing rows are replaced by a checkpoint's; without a checkpoint, they are set aside.
    let placement = match (from, around.placement) {
        (Some(_), _) => Placement::Resume,
        (None, Placement::Resume | Placement::ResumeOrStart | Placement::Append) => {
            Placement::SetAside
        }
        (None, other) => other,
    };
    let (place, note) = around.machine.places.rows(storage, placement)?;
    note.iter().for_each(|note| (around.on_note)(note));
    let is_first = around.machine.ranks.as_ref().is_none_or(|ranks| ranks.fabric.rank() == 0);
    if is_first {
        let notes = around.machine.places.clear_other_ranks(storage, placement)?;
        notes.iter().for_each(|note| (around.on_note)(note));
    }
    Ok(place)
}
