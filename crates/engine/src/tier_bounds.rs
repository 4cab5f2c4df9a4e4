//! Memory bounds of the tiers, by name: the engine's part of a capacity plan.

use stepwell_base::budget::Budget;
use stepwell_mem::Victim;
use stepwell_ssd::Harvest;

use crate::harvest;
use crate::planner::Planner;
use crate::pull::Puller;
use crate::request::Grouper;
use crate::staging::Staging;
use crate::tiers::{GroupPlan, Load, TierPlan};
use crate::unit::{GroupUnit, UNITS_PULLED};

impl TierPlan {
    /// Name of each group's bound on rows in memory. This memory is mapped from the system, not
    /// taken from the allocator.
    pub const ROWS_IN_MEMORY: &'static str = "rows in memory";

    /// Adds the bounds of rows in every tier and between tiers.
    pub fn add_rows(&self, load: &Load, budget: &mut Budget) {
        for group in &self.groups {
            let of = if self.groups.len() == 1 { "" } else { &format!(", '{}'", group.names) };
            let (slots, row) = (group.slots, group.spec.row_bytes());
            let bytes = self.options.slab_bytes(slots as u64, group.spec.row_lanes());
            let all = if self.holds_all(group) { ", all that the data needs" } else { "" };
            let why = format!("tiers.dram: {slots} slots of {row} bytes{of}{all}");
            budget.add(Self::ROWS_IN_MEMORY, bytes, why);
        }
        for group in &self.groups {
            let name = format!("'{}'", group.names);
            match load.unchanged {
                true => group.store.add_bounds_unchanged(1, &name, budget),
                false => group.store.add_bounds(1, &name, budget),
            }
        }
        self.add_moves(load, budget);
    }

    fn add_moves(&self, load: &Load, budget: &mut Budget) {
        if !load.unchanged {
            let staging = self.groups.iter().map(|group| {
                Staging::bytes_max(
                    group.spec.row_lanes(),
                    group.staging_buffer_rows,
                    group.staging_buffers,
                )
            });
            let buffers: usize = self.groups.iter().map(|group| group.staging_buffers).sum();
            budget.add("rows going down", staging.sum(), format!("{buffers} staging buffers"));
        }
        let unit = self.unit_rows(load);
        let units = (UNITS_PULLED as u64).min(load.lookahead + 1);
        let pulling = self.groups.iter().map(|group| {
            Puller::bytes_max(group.spec.row_bytes(), self.options.transfer.0, unit * units)
        });
        let why = format!("read buffers, lists of {units} units");
        budget.add("rows coming up", pulling.sum(), why);
        let harvest = self.groups.iter().map(|group| {
            let (rows, spec) = (group.harvest.rows, &group.spec);
            let lists = if rows > 0 { Harvest::bytes_max(spec.row_bytes()) } else { 0 };
            harvest::bytes_max(rows, spec.row_lanes(), self.options.horizon + 2) + lists
        });
        let rows: usize = self.groups.iter().map(|group| group.harvest.rows).sum();
        let why = format!("tiers.harvest: {rows} rows, and lists of wanted rows");
        budget.add("rows harvested", harvest.sum(), why);
        let units = load.lookahead + 1;
        // A checkpoint lists every dirty row once.
        let slots: usize = self.groups.iter().map(|group| group.slots).sum();
        let marks = if load.saves { slots } else { 0 };
        let moving = units * GroupUnit::bytes_max(unit) + (marks * size_of::<Victim>()) as u64;
        budget.add("rows to move", moving, format!("lists of {units} units, of a checkpoint"));
    }

    /// Maximum number of distinct rows of a full batch.
    fn unit_rows(&self, load: &Load) -> u64 {
        let slots: usize = self.groups.iter().map(|group| group.slots).sum();
        (load.batch * self.ids_max()).min(slots as u64)
    }

    /// Adds the bounds of planning.
    pub fn add_planning(&self, load: &Load, budget: &mut Budget) {
        let horizon = self.options.horizon;
        let unit = self.unit_rows(load);
        let planner = |group: &GroupPlan| {
            let keys = load.mini_batch * group.ids_max;
            Planner::bytes_max(group.slots as u64, keys, horizon as u64, unit)
        };
        let planners: u64 = self.groups.iter().map(planner).sum();
        let bytes = planners + Grouper::bytes_max(load.mini_batch * self.ids_max());
        budget.add("planning", bytes, format!("{horizon} mini-batches known ahead"));
    }
}
