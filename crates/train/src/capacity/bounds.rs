//! The capacity plan of given tiers: the sum of all bounds, and whether this machine has room.

use stepwell_base::ByteCount;
use stepwell_base::budget::Budget;
use stepwell_engine::process_limits::{self, Wants};
use stepwell_engine::{Load, TierOptions, TierPlan};

use super::apart::Apart;
use super::devices::{self, DeviceRoom};
use super::tiers::{load, tiers};
use super::wanted::{BLOCK_BYTES, Wanted};
use super::{auto, mend};
use crate::run_plan::RunPlan;
use crate::{Error, Result};

/// Name of the bound on code, stacks, and the allocator's own memory.
const ALLOWANCE: &str = "code and allocator";
/// Bytes of code, stacks, and the allocator's own memory.
const ALLOWANCE_BYTES: u64 = 64 << 20;
/// Stages of the pipeline, without those that parse.
const OTHER_STAGES: u64 = 6;

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

impl Capacity {
    /// The plan whose tiers have `options` in total.
    pub(super) fn with(wanted: &Wanted<'_>, apart: &Apart, options: TierOptions) -> Result<Self> {
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
    pub(super) fn lack(&self, wanted: &Wanted<'_>) -> Option<String> {
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
    pub(super) fn largest(&self, wanted: &Wanted<'_>) -> String {
        let bounds = self.budget.bounds().iter();
        let mended = bounds.filter_map(|bound| Some((bound, mend::of(&bound.name, wanted)?)));
        let Some((bound, mend)) = mended.max_by_key(|(bound, _)| bound.bytes) else {
            return String::new();
        };
        let (name, bytes, why) = (&bound.name, ByteCount(bound.bytes), &bound.why);
        format!("; the largest part is '{name}' with {bytes} ({why}); lower {mend}")
    }

    /// Needs of this process, and the number of processes of the run on this machine.
    pub(super) fn wants(&self, wanted: &Wanted<'_>) -> Wants {
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
        // Evaluations within an epoch have another stage that reads, and others that parse.
        let of_evaluations = if plan.evaluate_every > 0 { 1 + threads } else { 0 };
        2 * threads + of_evaluations + OTHER_STAGES + of_rank + of_learner + of_devices + stores
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
