//! The capacity plan: every bound of a run, before it begins. The engine plans the tiers
//! ([`TierPlan`]).

mod apart;
mod auto;
mod devices;
mod disk;
mod memory;
mod mend;
#[cfg(test)]
mod tests;
mod wanted;

use stepwell_base::ByteCount;
use stepwell_base::budget::Budget;
use stepwell_engine::process_limits::{self, Wants};
use stepwell_engine::{Checkpoint, Load, TableLoad, TableSpec, TierOptions, TierPlan};
use stepwell_settings::{Config, DensePlace, TableConfig, TierConfig};

use self::apart::Apart;
pub(crate) use self::auto::part;
pub use self::devices::DeviceRoom;
pub(crate) use self::wanted::{BLOCK_BYTES, RanksHere, Wanted};
use crate::models::{Model, named};
use crate::run_plan::{Batching, RunPlan};
use crate::{Error, Result};

/// Name of the bound on code, stacks, and the allocator's own memory.
const ALLOWANCE: &str = "code and allocator";
/// Bytes of code, stacks, and the allocator's own memory.
const ALLOWANCE_BYTES: u64 = 64 << 20;
/// Stages of the pipeline, without those that parse.
const OTHER_STAGES: u64 = 6;
/// Approximate bytes of a staging buffer's rows.
const STAGING_BUFFER_BYTES: usize = 2 << 20;

/// The sizes that a run is built with, and the sum of all bounds.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// Sizes of each table group.
    pub tiers: TierPlan,
    /// Room on devices, if there are any.
    pub devices: Option<DeviceRoom>,
    /// Bytes of a block of lines.
    pub block_bytes: usize,
    /// Examples whose scores are kept individually.
    pub exact_scores: usize,
    /// All bounds.
    pub budget: Budget,
    /// Bytes of the dense part in a checkpoint, without earlier versions.
    pub dense_bytes: u64,
    /// Rows of each table group, of all ranks, that the run begins with.
    pub rows_before: Vec<u64>,
    /// `memory`: the bytes divided among all ranks of a machine, if given.
    pub memory: Option<ByteCount>,
    /// Why this machine can't hold the run, if it can't.
    pub lacks: Option<String>,
    /// Warnings of sizes that may be too small, which only the data can show for certain.
    pub tight: Vec<String>,
    /// Devices that are not used, and why, if none were named.
    pub notes: Vec<String>,
}

/// Expectations about the tables, for a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected<'a> {
    /// The checkpoint whose model the run begins with.
    pub from: Option<&'a Checkpoint>,
    /// Final number of rows, over all tables and ranks.
    pub rows: Option<u64>,
}

/// Rows of each table group in a checkpoint, over all ranks; `None` if a store doesn't record them.
pub(crate) fn rows_by_group(from: &Checkpoint, model: &Model) -> Option<Vec<u64>> {
    let rows = |number| {
        let stores = from.manifests_of_group(number)?;
        Some(stores.iter().map(|store| store.rows).sum())
    };
    (0..model.groups().len()).map(rows).collect()
}

impl Capacity {
    /// Divides the memory among its uses.
    ///
    /// # Errors
    /// `memory` is too little, `tiers.dram` holds no row, or the store's settings don't fit
    /// together.
    pub(crate) fn plan(wanted: &Wanted<'_>) -> Result<Self> {
        let Wanted { plan, offer, .. } = wanted;
        if offer.is_none() && plan.dense.place == DensePlace::Device {
            return Err(Error::Config(format!(
                "train.dense = device needs a device, but device = {}: choose a device, such as \
                 emulated:1, or train.dense = host",
                plan.device
            )));
        }
        let apart = Apart::of(wanted)?;
        let mut capacity = match plan.config.memory {
            Some(memory) => memory::share_out(wanted, &apart, memory)?,
            None => Self::with(wanted, &apart, tier_options(plan.tiers, plan.batching))?,
        };
        capacity.lacks = capacity.lack(wanted);
        Ok(capacity)
    }

    /// The plan whose tiers have `options` in total.
    fn with(wanted: &Wanted<'_>, apart: &Apart, options: TierOptions) -> Result<Self> {
        let exact = wanted.examples.unwrap_or(u64::MAX);
        let Wanted { plan, model, offer, .. } = wanted;
        let (mut tiers, load) = (tiers(wanted, options)?, load(wanted));
        match wanted.from {
            Some(checkpoint) if wanted.scores => tiers.hold(checkpoint),
            None if !wanted.has_rows && wanted.rows.is_none() && plan.tiers.index.is_none() => {
                tiers.hold_known();
            }
            _ => {}
        }
        let of_offer = |offer| auto::plan(plan, model, (&tiers, &load), offer);
        let (devices, notes) = offer.as_ref().map(of_offer).transpose()?.unwrap_or_default();
        let mut capacity = Self {
            devices,
            tiers,
            block_bytes: BLOCK_BYTES,
            exact_scores: usize::try_from(exact).unwrap_or(usize::MAX),
            budget: Budget::default(),
            dense_bytes: apart.dense,
            rows_before: wanted.before.clone().unwrap_or_default(),
            memory: plan.config.memory,
            lacks: None,
            tight: Vec::new(),
            notes,
        };
        capacity.tight = capacity.tiers.tight(wanted.model.tables(), &load);
        let devices = capacity.devices.as_ref();
        capacity.tight.extend(devices.and_then(|devices| devices.tight(&capacity.tiers, wanted)));
        capacity.tiers.check_index(&load)?;
        capacity.add_bounds(wanted, &load, apart);
        Ok(capacity)
    }

    /// Refuses a plan that exceeds this machine, or this process's limits.
    ///
    /// # Errors
    /// Names what is lacking, the largest part, and the fix.
    pub(crate) fn check_room(&self) -> Result<()> {
        self.lacks.as_ref().map_or(Ok(()), |why| Err(Error::Config(why.clone())))
    }

    /// Describes what this machine or process lacks for the run; `None` if nothing.
    fn lack(&self, wanted: &Wanted<'_>) -> Option<String> {
        let why = process_limits::lacks(&self.wants(wanted))?;
        Some(match self.memory {
            Some(memory) if self.budget.total() <= memory.0 => {
                format!("{why}; lower memory, which is {memory}")
            }
            _ => format!("{why}{}", self.largest(wanted)),
        })
    }

    /// Clause that names the largest part that a setting of this command can reduce, and the
    /// setting.
    fn largest(&self, wanted: &Wanted<'_>) -> String {
        let bounds = self.budget.bounds().iter();
        let mended = bounds.filter_map(|bound| Some((bound, mend::of(&bound.name, wanted)?)));
        let Some((bound, mend)) = mended.max_by_key(|(bound, _)| bound.bytes) else {
            return String::new();
        };
        let (name, bytes, why) = (&bound.name, ByteCount(bound.bytes), &bound.why);
        format!("; the largest part is '{name}' with {bytes} ({why}); lower {mend}")
    }

    /// Needs of this process, and the number of processes of the run on this machine.
    fn wants(&self, wanted: &Wanted<'_>) -> Wants {
        let bounds = self.budget.bounds().iter();
        let mapped = bounds.filter(|bound| bound.name == TierPlan::ROWS_IN_MEMORY);
        let ranks = wanted.ranks.threads as u64;
        Wants {
            bytes: self.budget.total().saturating_mul(ranks),
            mapped: mapped.map(|bound| bound.bytes).sum::<u64>().saturating_mul(ranks),
            threads: self.threads(wanted.plan) * ranks,
            processes: wanted.ranks.processes as u64,
        }
    }

    /// Threads that a run starts: those that parse and compute, one for each other stage, and one
    /// per store, which merges segments.
    fn threads(&self, plan: &RunPlan<'_>) -> u64 {
        let threads = plan.threads as u64;
        // Each rank adds a thread and a stage.
        let of_rank = if plan.ranks.count > 1 { 2 } else { 0 };
        // Out of step, another stage computes in a separate pool.
        let of_learner = if plan.ranks.in_step { 0 } else { 1 + threads };
        let of_devices = self.devices.as_ref().map_or(0, |devices| {
            // Two more stages, and the threads of their streams.
            2 + devices::THREADS * devices.offer.len() as u64
        });
        let stores = self.tiers.groups.len() as u64;
        2 * threads + OTHER_STAGES + of_rank + of_learner + of_devices + stores
    }

    fn add_bounds(&mut self, wanted: &Wanted<'_>, load: &Load, apart: &Apart) {
        let mut budget = Budget::default();
        self.tiers.add_rows(load, &mut budget);
        if let Some(devices) = &self.devices {
            devices.add_host(&self.tiers, load, &mut budget);
        }
        budget.extend(&apart.data);
        self.tiers.add_planning(load, &mut budget);
        budget.extend(&apart.training);
        self.tiers.add_history(wanted.model.tables(), load, &mut budget);
        budget.add(ALLOWANCE, ALLOWANCE_BYTES, "fixed");
        self.budget = budget;
    }
}

/// The tiers of a run.
fn tiers(wanted: &Wanted<'_>, options: TierOptions) -> Result<TierPlan> {
    let Wanted { plan, model, .. } = wanted;
    let features = model.features();
    let (expected, most) = (features.expected_by_table(), features.ids_by_table());
    let tables = model.tables().iter().zip(expected).zip(most);
    // Sizes that are set are kept, and rows on devices are a part of those in memory.
    let is_shared = plan.tiers.dram.is_none() && wanted.offer.is_none();
    let examples = wanted.examples.filter(|_| is_shared);
    let scored = rows_to_score(wanted);
    let loads: Vec<TableLoad> = tables
        .enumerate()
        .map(|(number, ((table, expected), ids_max))| {
            let given = given(&plan.config.tables, table).map(|bytes| bytes.0);
            let asked = examples.map(|examples| examples.saturating_mul(ids_max));
            let scored = scored.as_ref().map(|rows| rows[number]);
            let rows_max = asked.into_iter().chain(scored).min().filter(|_| given.is_none());
            TableLoad { given, expected, ids_max, rows_max }
        })
        .collect();
    Ok(TierPlan::new(model.tables(), model.groups(), &loads, options)?)
}

/// Rows of each table that scoring can use in memory: the checkpoint's rows and a quarter more,
/// plus the ids of the mini-batches in flight.
fn rows_to_score(wanted: &Wanted<'_>) -> Option<Vec<u64>> {
    let Wanted { plan: RunPlan { batching, .. }, model, offer, .. } = wanted;
    let rows = wanted.before.as_ref().filter(|_| wanted.scores && offer.is_none())?;
    let on_their_way = (batching.lookahead + 2).saturating_mul(batching.batch()) as u64;
    let ids = model.features().ids_by_table();
    let mut by_table: Vec<u64> =
        ids.into_iter().map(|ids| ids.saturating_mul(on_their_way)).collect();
    for (group, rows) in model.groups().iter().zip(rows) {
        // Tables of a group share its slots.
        if let Some(first) = group.tables.first() {
            by_table[*first] = by_table[*first].saturating_add(rows.saturating_add(rows / 4));
        }
    }
    Some(by_table)
}

/// Bytes of memory that the settings of `tables` give `table`.
fn given(tables: &[TableConfig], table: &TableSpec) -> Option<ByteCount> {
    named(tables, &table.name).dram
}

/// Memory and index of all tables together if `memory` doesn't share them out.
fn tier_options(tiers: &TierConfig, batching: Batching) -> TierOptions {
    TierOptions {
        dram: tiers.dram.unwrap_or(TierConfig::DRAM),
        index: tiers.index.unwrap_or(TierConfig::INDEX),
        page_cache: tiers.page_cache,
        harvest: tiers.harvest.unwrap_or(TierConfig::HARVEST),
        read_unit: tiers.read_unit,
        segment: tiers.segment.unwrap_or(TierConfig::SEGMENT),
        space: tiers.space,
        policy: tiers.policy,
        staging_buffer_bytes: STAGING_BUFFER_BYTES,
        horizon: (batching.horizon + 1) * batching.per_batch,
    }
}

/// The run's demands on its tiers.
fn load(wanted: &Wanted<'_>) -> Load {
    let RunPlan { batching, storage, .. } = wanted.plan;
    Load {
        mini_batch: batching.mini_batch as u64,
        batch: batching.batch() as u64,
        lookahead: batching.lookahead as u64,
        staleness: batching.staleness as u64,
        sketch_bytes: wanted.model.sketch_bytes().to_vec(),
        saves: storage.saves(),
        // Stores of the first format, which do not describe their rows, are rewritten.
        unchanged: wanted.scores && wanted.before.is_some(),
        examples: wanted.examples,
    }
}

/// Bytes of `slots` slots of `table` with index and metadata: the `tiers.dram` that gives a model
/// of this one table exactly that many slots.
pub fn slab_bytes(config: &Config, table: &TableSpec, slots: u64) -> u64 {
    tier_options(&config.tiers, Batching::of(config)).slab_bytes(slots, table.row_lanes())
}
