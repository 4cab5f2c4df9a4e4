//! Numbers of rows and bytes that a load needs at most.

use stepwell_base::ByteCount;

use super::{GroupPlan, TierPlan};
use crate::table_spec::TableSpec;
use crate::{Error, Result};

/// Load on the tiers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Examples of a mini-batch.
    pub mini_batch: u64,
    /// Examples of a batch that is planned at once.
    pub batch: u64,
    /// Batches whose rows are held ahead of the one that trains.
    pub lookahead: u64,
    /// Latest training steps that row reads don't see.
    pub staleness: u64,
    /// Bytes of the sketch that counts occurrences, by table.
    pub sketch_bytes: Vec<u64>,
    /// Whether checkpoints are written.
    pub saves: bool,
    /// Whether rows are only read because nothing is trained.
    pub unchanged: bool,
    /// Examples of an epoch, if counted.
    pub examples: Option<u64>,
}

impl Load {
    /// Maximum number of examples of a mini-batch.
    fn examples_of_mini_batch(&self) -> u64 {
        self.examples.unwrap_or(u64::MAX).min(self.mini_batch)
    }
}

impl TierPlan {
    /// Maximum number of ids of an example.
    pub fn ids_max(&self) -> u64 {
        self.groups.iter().map(|group| group.ids_max).sum()
    }

    /// Maximum number of distinct rows of a mini-batch, by table: at most the slots of its group.
    pub(crate) fn rows_max(&self, load: &Load) -> Vec<usize> {
        let ids = self.loads.iter().map(|load| load.ids_max).enumerate();
        let rows = ids.map(|(table, ids)| {
            let group = self.groups.iter().find(|group| group.members.tables.contains(&table));
            let slots = group.map_or(0, |group| group.slots as u64);
            ids.saturating_mul(load.mini_batch).min(slots) as usize
        });
        rows.collect()
    }

    /// Maximum number of occurrences of a mini-batch, by table.
    pub(crate) fn occurrences_max(&self, load: &Load) -> Vec<usize> {
        let ids = self.loads.iter().map(|of_table| of_table.ids_max);
        ids.map(|ids| ids.saturating_mul(load.mini_batch) as usize).collect()
    }

    /// Describes each table group with fewer slots than a mini-batch may need (the data decides
    /// whether one does), and the setting that would rule this out.
    pub fn tight(&self, tables: &[TableSpec], load: &Load) -> Vec<String> {
        let examples = load.examples_of_mini_batch();
        let of_group = |group: &GroupPlan| {
            let rows = examples.saturating_mul(group.ids_max);
            // If a table stays in memory whole, every existing row has a slot.
            if group.members.whole || rows <= group.slots as u64 {
                return None;
            }
            let GroupPlan { names, slots, ids_max, members, .. } = group;
            let bytes = self.options.slab_bytes(rows, group.spec.row_lanes());
            let (setting, bytes) = match members.given {
                true => (format!("tables.{names}.dram"), bytes),
                false => ("tiers.dram".to_owned(), self.whole(bytes, tables, members)),
            };
            Some(format!(
                "memory has {slots} rows of table '{names}', but a mini-batch of {examples} \
                 examples with {ids_max} ids each may need up to {rows}; the run ends if one does \
                 not fit: {setting} = {bytes} is always enough, and a smaller data.mini_batch \
                 needs less"
            ))
        };
        self.groups.iter().filter_map(of_group).collect()
    }

    /// Bytes of memory that hold any mini-batch, including memory assigned to tables.
    pub fn dram_least(&self, tables: &[TableSpec], load: &Load) -> u64 {
        let given: u64 = self.loads.iter().filter_map(|load| load.given).sum();
        let shared = |group: &&GroupPlan| !group.members.whole && !group.members.given;
        let least = self.groups.iter().filter(shared).map(|group| {
            let rows = load.examples_of_mini_batch().saturating_mul(group.ids_max).max(1);
            let bytes = self.options.slab_bytes(rows, group.spec.row_lanes());
            self.whole(bytes, tables, &group.members)
        });
        least.max().unwrap_or(0).max(given)
    }

    /// Bytes of an index that holds, for each table group, `times` as many rows as memory has
    /// slots, plus the rows that the group has `before` the run.
    pub fn index_for(&self, times: u64, before: &[u64]) -> u64 {
        let of_group = |(number, group): (usize, &GroupPlan)| {
            let before = before.get(number).copied().unwrap_or(0);
            let rows = (group.slots as u64).saturating_mul(times).saturating_add(before);
            self.whole_index(group, group.store.index_bytes_for(rows))
        };
        self.groups.iter().enumerate().map(of_group).max().unwrap_or(0)
    }

    /// Bytes of an index for `rows` rows of all groups, divided among groups like the index.
    pub fn index_for_all(&self, rows: u64) -> u64 {
        let of_group = |group: &GroupPlan| {
            let of_all = u128::from(rows) * u128::from(group.store.index_bytes_max);
            let rows = of_all.div_ceil(u128::from(self.options.index.0.max(1)));
            let rows = u64::try_from(rows).unwrap_or(u64::MAX);
            self.whole_index(group, group.store.index_bytes_for(rows))
        };
        self.groups.iter().map(of_group).max().unwrap_or(0)
    }

    /// Bytes of the index of all table groups if the share of `group` is `bytes`.
    pub(super) fn whole_index(&self, group: &GroupPlan, bytes: u64) -> u64 {
        let (index, has) = (self.options.index.0, group.store.index_bytes_max);
        let whole = (u128::from(index) * u128::from(bytes)).div_ceil(u128::from(has.max(1)));
        u64::try_from(whole).unwrap_or(u64::MAX).max(bytes)
    }

    /// Rejects an index too small for the rows in memory, since a checkpoint puts all of them into
    /// the store; otherwise this would fail only when a checkpoint is written.
    ///
    /// # Errors
    /// Names the table and the fix.
    pub fn check_index(&self, load: &Load) -> Result<()> {
        if !load.saves {
            return Ok(());
        }
        for group in &self.groups {
            let ids = load.examples.map_or(u64::MAX, |count| count.saturating_mul(group.ids_max));
            let rows = ids.min(group.slots as u64);
            let needed = group.store.index_bytes_for(rows);
            let has = group.store.index_bytes_max;
            if has < needed {
                let index = self.options.index;
                return Err(Error::Settings(format!(
                    "tiers.index = {index} is too small for a checkpoint of table '{}': {rows} \
                     rows in memory take up to {}; raise tiers.index to {} or more, or lower \
                     tiers.dram",
                    group.names,
                    ByteCount(needed),
                    self.whole_index(group, needed)
                )));
            }
        }
        Ok(())
    }
}
