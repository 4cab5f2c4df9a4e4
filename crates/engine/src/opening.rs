//! Opens tiers according to a plan: slabs, stores and planners.

use std::path::Path;
use std::sync::Arc;

use stepwell_base::ByteCount;
use stepwell_base::rules::{Rule, Rules};
use stepwell_disk::Disk;
use stepwell_ssd::{Error as StoreError, KEY_SHARDS, KeyShardSet, Store, StoreOptions, Verify};

use crate::checkpoint::{Checkpoint, OLDER};
use crate::device_tier::DeviceTier;
use crate::group::{Group, index_of_all};
use crate::planner::Planner;
use crate::staging::Staging;
use crate::table_spec::TableSpec;
use crate::tiers::{GroupPlan, TierPlan};
use crate::{Error, Result};

/// Initial rows of a store.
#[derive(Clone, Copy, Debug)]
pub enum Begin<'a> {
    /// No rows.
    Empty,
    /// The rows of a snapshot.
    Snapshot(&'a Path),
    /// The rows of table group `.1` in a checkpoint.
    Checkpoint(&'a Checkpoint, usize),
}

/// Fix for partially damaged rows.
const REPAIR: &str = "`stepwell store repair` salvages the rest, which --repaired accepts";

/// The store of table group `number` in a checkpoint. Pages of linked segments are checked when
/// they are read, so that a run starts without reading the whole table.
fn restore(
    disk: Arc<dyn Disk>,
    checkpoint: &Checkpoint,
    number: usize,
    options: StoreOptions,
) -> Result<Store> {
    let wrong = |why| Error::Checkpoint { path: checkpoint.path.clone(), why };
    let rows: Vec<&Path> =
        checkpoint.rows_of_group(number).iter().map(|rows| &*rows.path).collect();
    let store = match rows[..] {
        [] => return Err(wrong(format!("has no rows of table group {number}"))),
        [rows] if options.key_shards == KeyShardSet::ALL => {
            Store::restore(disk, rows, Verify::Listed, options)
        }
        // Written by any number of ranks; each takes its own key shards.
        _ => Store::restore_shards(vec![disk], &rows, Verify::Listed, options),
    };
    store.map_err(|error| {
        let said = format!("its rows cannot be restored ({error})");
        match error {
            StoreError::Disk(_) if !error.is_damage() => wrong(said),
            StoreError::Disk(_)
            | StoreError::Damaged { .. }
            | StoreError::Missing { .. }
            | StoreError::Lost { .. } => {
                let (path, why) =
                    (checkpoint.path.clone(), format!("{said}; {REPAIR}, or {OLDER}"));
                Error::Damaged { path, why }
            }
            other => Error::Store(other),
        }
    })
}

impl TierPlan {
    /// Rejects a checkpoint whose tables are grouped into stores differently from this plan.
    ///
    /// # Errors
    /// Names a table in a different store, and the fix.
    pub fn check_groups(&self, tables: &[TableSpec], checkpoint: &Checkpoint) -> Result<()> {
        // A checkpoint that was never written lists no tables, and has this plan's stores.
        if checkpoint.tables() == 0 {
            return Ok(());
        }
        for (number, group) in self.groups.iter().enumerate() {
            for table in &group.members.tables {
                let there = checkpoint.rows_of(*table)?[0].group;
                if there != number {
                    let (name, path) = (&tables[*table].name, checkpoint.path.clone());
                    let why = format!(
                        "the rows of table '{name}' are in store {there} of the checkpoint, but in \
                         store {number} of this run: keep tables.NAME.place of all tables as it was"
                    );
                    return Err(Error::Checkpoint { path, why });
                }
            }
        }
        Ok(())
    }

    /// Sizes the index of each table group for exactly its rows in `checkpoint`, as nothing is
    /// trained. Rows of several ranks go into one store.
    pub fn hold(&mut self, checkpoint: &Checkpoint) {
        for (number, group) in self.groups.iter_mut().enumerate() {
            if let Some(stores) = checkpoint.manifests_of_group(number) {
                group.store.index_bytes_max = group.store.index_bytes_of(&stores);
            }
        }
        self.options.index = ByteCount(self.groups.iter().map(|of| of.store.index_bytes_max).sum());
    }

    /// Opens table group `number` of a model's `tables`: an empty slab over a store on `disk`,
    /// whose options `machine` adapts, below `devices` if given.
    ///
    /// # Errors
    /// If the memory cannot be mapped, or the store cannot be created.
    pub fn open(
        &self,
        number: usize,
        tables: &[TableSpec],
        (disk, begin): (Arc<dyn Disk>, Begin<'_>),
        machine: impl FnOnce(StoreOptions) -> StoreOptions,
        (rules, devices): (Rules, Option<&Arc<DeviceTier>>),
    ) -> Result<Arc<Group>> {
        let plan = &self.groups[number];
        let options = machine(plan.store.clone());
        // With several ranks, each has its own key shards.
        let ranks = (KEY_SHARDS as u64).div_ceil(options.key_shards.len().max(1) as u64);
        let whole = if self.groups.len() > 1 { self.options.index.0 } else { 0 };
        let store = match begin {
            Begin::Empty => Store::create(disk, options)?,
            Begin::Snapshot(path) => Store::restore(disk, path, Verify::Everything, options)?,
            Begin::Checkpoint(checkpoint, there) => restore(disk, checkpoint, there, options)
                .map_err(|error| match error {
                    Error::Store(error) => {
                        let stores = checkpoint.manifests_of_group(there).unwrap_or_default();
                        let rows = stores.iter().map(|store| store.rows).sum::<u64>() / ranks;
                        let bytes_for = |rows| plan.store.index_bytes_for(rows);
                        index_of_all(error, &plan.names, whole, rows, bytes_for)
                    }
                    other => other,
                })?,
        };
        let staging =
            Staging::new(plan.spec.row_lanes(), plan.staging_buffer_rows, plan.staging_buffers);
        let (members, store) = (plan.members.clone(), Arc::new(store));
        let group = Group::of(tables, members, plan.slots, store, staging)?;
        let mut group = group.harvesting(plan.harvest);
        (group.rules, group.index.of_all) = (rules, whole);
        if let Some(devices) = devices {
            group = group.below(devices)?;
        }
        Ok(Arc::new(group))
    }

    /// Returns a planner for each table group.
    pub fn planners(&self, rules: Rules) -> Vec<Planner> {
        let options = &self.options;
        let keeps = rules.hold(Rule::KeepWhole);
        let planner = |group: &GroupPlan| {
            let planner = Planner::new(group.slots, options.horizon, options.policy);
            let planner = planner.with_rules(rules);
            if group.members.whole && keeps { planner.whole() } else { planner }
        };
        self.groups.iter().map(planner).collect()
    }
}
