//! Plans the tiers of a model's tables: memory and disk of each table group, and the resulting
//! bounds.
//!
//! - **Budgets.** Memory is divided by the bytes of rows that an example is expected to touch,
//!   metadata included; tables with assigned memory get exactly that. The index is divided by ids,
//!   the page cache by bytes. Tables of a group pool their shares.

mod bounds;
mod share;

use stepwell_base::ByteCount;
use stepwell_mem::{PolicyKind, bytes_for, slots_within};
use stepwell_ssd::StoreOptions;

pub use self::bounds::Load;
use self::share::{Want, share};
use crate::group_tables::GroupTables;
use crate::harvest::{HarvestSize, rows_within};
use crate::planner::Planner;
use crate::table_spec::TableSpec;
use crate::{Error, Result};

/// Number of staging buffers of each table group.
const STAGING_BUFFERS: usize = 4;
/// Transfers in flight of one reader.
const READS_AT_ONCE: usize = 4;
/// An index this small isn't reduced further for few rows.
const INDEX_ANY: u64 = 16 << 20;

/// Resources of all tables together, named as in the settings.
#[derive(Clone, Debug, PartialEq)]
pub struct TierOptions {
    /// Bytes of the rows in memory with their index and metadata.
    pub dram: ByteCount,
    /// Bytes of the index of rows on disk.
    pub index: ByteCount,
    /// Bytes of segment files that may go through the system's page cache.
    pub page_cache: ByteCount,
    /// Bytes of rows harvested from pages read for other rows.
    pub harvest: ByteCount,
    /// Maximum bytes read around a row to harvest adjacent rows.
    pub read_unit: ByteCount,
    /// Bytes of a segment file.
    pub segment: ByteCount,
    /// Maximum space of a store after a commit, as a multiple of its live rows' space.
    pub space: f64,
    /// Policy that selects the rows to evict among those without a known next use.
    pub policy: PolicyKind,
    /// Approximate bytes of a staging buffer.
    pub staging_buffer_bytes: usize,
    /// The most bytes of a write to disk, and of the rows of a read.
    pub transfer: ByteCount,
    /// Number of mini-batches whose keys are known at once.
    pub horizon: usize,
}

impl Default for TierOptions {
    fn default() -> Self {
        let store = StoreOptions::new(0, 1);
        Self {
            dram: ByteCount(1 << 30),
            index: ByteCount(1 << 30),
            page_cache: ByteCount(store.cached_bytes),
            harvest: ByteCount(64 << 20),
            read_unit: ByteCount(8 << 10),
            segment: ByteCount(store.segment_bytes),
            space: store.space_max,
            policy: PolicyKind::default(),
            staging_buffer_bytes: 1 << 20,
            transfer: ByteCount(store.buffer_bytes),
            horizon: 0,
        }
    }
}

/// Expected load of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableLoad {
    /// Bytes of memory assigned to the table; `None` for a share.
    pub given: Option<u64>,
    /// Expected ids of an example in this table, in any unit common to all tables.
    pub expected: u64,
    /// Maximum ids of an example in this table.
    pub ids_max: u64,
    /// Maximum distinct ids that the data can request; `None` if unknown.
    pub rows_max: Option<u64>,
}

/// One table group's part of the tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupPlan {
    /// The tables.
    pub members: GroupTables,
    /// Names of the tables, for messages.
    pub names: String,
    /// Slots of the slab.
    pub slots: usize,
    /// Rows of a staging buffer.
    pub staging_buffer_rows: usize,
    /// Number of staging buffers.
    pub staging_buffers: usize,
    /// Size of the harvest.
    pub harvest: HarvestSize,
    /// Options of the store.
    pub store: StoreOptions,
    /// A table with the row parts of the group.
    pub spec: TableSpec,
    /// Maximum ids of an example in this group.
    pub ids_max: u64,
}

/// The tiers of a model's tables, as they will be built.
#[derive(Clone, Debug, PartialEq)]
pub struct TierPlan {
    /// Plans by table group.
    pub groups: Vec<GroupPlan>,
    pub(crate) options: TierOptions,
    pub(crate) loads: Vec<TableLoad>,
}

impl TierPlan {
    /// Divides `options` among `tables`, which are in `groups`.
    ///
    /// # Errors
    /// If memory holds no row of a group, more memory was assigned to tables than exists, or a
    /// store's options are invalid.
    pub fn new(
        tables: &[TableSpec],
        groups: &[GroupTables],
        loads: &[TableLoad],
        options: TierOptions,
    ) -> Result<Self> {
        let slot = |table: &TableSpec| Planner::slot_bytes(options.policy, table.row_lanes());
        let given = |(table, load): (&TableSpec, &TableLoad)| Want {
            given: load.given,
            touched: load.expected * slot(table),
        };
        let memory: Vec<Want> = tables.iter().zip(loads).map(given).collect();
        let by_bytes: Vec<Want> = memory.iter().map(|want| Want { given: None, ..*want }).collect();
        let by_ids: Vec<Want> =
            loads.iter().map(|load| Want { given: None, touched: load.expected }).collect();
        let shares = |total: ByteCount, wants: &[Want]| {
            share(total.0, wants).map_err(|given| {
                let (given, dram) = (ByteCount(given), options.dram);
                Error::Settings(format!(
                    "the tables were given {given} of memory together, and tiers.dram is {dram}: \
                     raise it, or lower tables.NAME.dram"
                ))
            })
        };
        let memory = shares(options.dram, &memory)?;
        let (index, cached) =
            (shares(options.index, &by_ids)?, shares(options.page_cache, &by_bytes)?);
        // Nothing is loaded from disk for a table that stays in memory whole.
        let mut from_disk = by_bytes.clone();
        let whole = groups.iter().filter(|group| group.whole).flat_map(|group| &group.tables);
        whole.for_each(|table| from_disk[*table].touched = 0);
        let harvest = shares(options.harvest, &from_disk)?;
        let mut plan = Self { groups: Vec::new(), options, loads: loads.to_vec() };
        for members in groups {
            let sum = |of: &[u64]| members.tables.iter().map(|table| of[*table]).sum();
            let budget = GroupBudget {
                memory: sum(&memory),
                index: sum(&index),
                page_cache: sum(&cached),
                harvest: sum(&harvest),
            };
            plan.groups.push(plan.group(tables, members, budget, groups.len())?);
        }
        plan.check_index_shares()?;
        plan.check_stores()?;
        Ok(plan)
    }

    /// Rejects invalid store options; if several stores need more space, reports the one that needs
    /// most.
    fn check_stores(&self) -> Result<()> {
        let mut stores: Vec<&StoreOptions> = self.groups.iter().map(|group| &group.store).collect();
        stores.iter().try_for_each(|store| store.check_shape())?;
        stores.sort_by(|a, b| b.space_least().total_cmp(&a.space_least()));
        Ok(stores.iter().try_for_each(|store| store.check())?)
    }

    /// Rejects an index that suffices for one store but not for several.
    fn check_index_shares(&self) -> Result<()> {
        if self.groups.len() == 1 {
            return Ok(());
        }
        for group in &self.groups {
            let (has, needed) = (group.store.index_bytes_max, StoreOptions::INDEX_BYTES_MIN);
            if has < needed {
                let (index, names) = (self.options.index, &group.names);
                let whole = self.whole_index(group, needed);
                return Err(Error::Settings(format!(
                    "tiers.index = {index}, of which table '{names}' has {}, is too small for any \
                     of its rows: raise tiers.index to {whole} or more",
                    ByteCount(has)
                )));
            }
        }
        Ok(())
    }

    /// Number of mini-batches whose keys are known at once.
    pub(crate) fn horizon(&self) -> usize {
        self.options.horizon
    }

    /// Policy that selects the rows to evict among those without a known next use.
    pub(crate) fn policy(&self) -> PolicyKind {
        self.options.policy
    }

    fn group(
        &self,
        tables: &[TableSpec],
        members: &GroupTables,
        GroupBudget { memory, index, page_cache, harvest }: GroupBudget,
        groups: usize,
    ) -> Result<GroupPlan> {
        let spec = &tables[members.tables[0]];
        let names = members.tables.iter().map(|table| tables[*table].name.as_str());
        let names = names.collect::<Vec<&str>>().join("', '");
        let slots = self.options.slots_within(memory, spec.row_lanes());
        let slots = self.rows_known(members).map_or(slots, |rows| slots.min(rows as usize));
        if slots == 0 {
            let dram = self.options.dram;
            let given = self.loads[members.tables[0]].given.filter(|_| members.tables.len() == 1);
            let has = match (given, groups) {
                (Some(given), _) => format!("tables.{names}.dram = {}", ByteCount(given)),
                (None, 1) => format!("tiers.dram = {dram}"),
                (None, _) => {
                    format!("tiers.dram = {dram}, of which it has {},", ByteCount(memory))
                }
            };
            let least = self.options.slab_bytes(1, spec.row_lanes());
            let least = if given.is_some() { least } else { self.whole(least, tables, members) };
            return Err(Error::Settings(format!(
                "{has} cannot hold even one row of table '{names}': raise it to {least} bytes or \
                 more"
            )));
        }
        let options = &self.options;
        Ok(GroupPlan {
            members: GroupTables {
                given: members.tables.iter().all(|table| self.loads[*table].given.is_some()),
                ..members.clone()
            },
            names,
            slots,
            staging_buffer_rows: (options.staging_buffer_bytes / spec.row_bytes())
                .clamp(1, (slots / STAGING_BUFFERS).max(1)),
            staging_buffers: STAGING_BUFFERS,
            harvest: HarvestSize {
                rows: rows_within(harvest, spec.row_lanes()),
                unit_bytes: options.read_unit.0 as usize,
            },
            store: StoreOptions {
                segment_bytes: options.segment.0,
                buffer_bytes: options.transfer.0,
                read_bytes: READS_AT_ONCE * options.transfer.0 as usize,
                index_bytes_max: index,
                cached_bytes: page_cache,
                space_max: options.space,
                ..StoreOptions::new(spec.id.0, spec.row_bytes())
            },
            spec: spec.clone(),
            ids_max: members.tables.iter().map(|table| self.loads[*table].ids_max).sum(),
        })
    }

    /// Shrinks the index of each table group to what its rows can ever need, if their number is
    /// known. Only for stores without rows.
    pub fn hold_known(&mut self) {
        for number in 0..self.groups.len() {
            if let Some(rows) = self.rows_known(&self.groups[number].members) {
                let store = &mut self.groups[number].store;
                let most = store.index_bytes_for(rows).saturating_mul(2).max(INDEX_ANY);
                store.index_bytes_max = store.index_bytes_max.min(most);
            }
        }
    }

    /// Whether memory has a slot for every row that `group` can be asked for.
    pub(crate) fn holds_all(&self, group: &GroupPlan) -> bool {
        self.rows_known(&group.members).is_some_and(|rows| rows <= group.slots as u64)
    }

    /// Memory and index of all tables together.
    pub fn options(&self) -> &TierOptions {
        &self.options
    }

    /// Maximum distinct ids that can be requested of `members`, if known. It is unknown for tables
    /// that stay in memory whole, because they also hold rows that nobody requests.
    fn rows_known(&self, members: &GroupTables) -> Option<u64> {
        if members.whole {
            return None;
        }
        let of_tables = members.tables.iter().map(|table| self.loads[*table].rows_max);
        of_tables.sum::<Option<u64>>().map(|rows| rows.max(1))
    }

    /// Bytes of memory of all tables together if `members` get `bytes` of it.
    fn whole(&self, bytes: u64, tables: &[TableSpec], members: &GroupTables) -> u64 {
        let touched = |table: usize| {
            let slot = Planner::slot_bytes(self.options.policy, tables[table].row_lanes());
            let load = &self.loads[table];
            u128::from(load.given.map_or(load.expected * slot, |_| 0))
        };
        let given = |table: usize| self.loads[table].given.unwrap_or(0);
        let own: u128 = members.tables.iter().map(|table| touched(*table)).sum();
        let of_own: u64 = members.tables.iter().map(|table| given(*table)).sum();
        let all: u128 = (0..tables.len()).map(touched).sum();
        let of_all: u64 = (0..tables.len()).map(given).sum();
        // Each share is rounded down.
        let bytes = bytes.saturating_sub(of_own) + members.tables.len() as u64;
        let rest = (u128::from(bytes) * all).div_ceil(own.max(1));
        of_all.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX))
    }
}

/// Bytes of one table group, out of those for all tables.
#[derive(Clone, Copy, Debug)]
struct GroupBudget {
    memory: u64,
    index: u64,
    page_cache: u64,
    harvest: u64,
}

impl TierOptions {
    /// Number of mini-batches distinguished as a row's next use.
    fn ring(&self) -> u64 {
        self.horizon as u64 + 2
    }

    /// Number of slots that fit into `bytes`, with rows of `row_lanes` lanes.
    fn slots_within(&self, bytes: u64, row_lanes: usize) -> usize {
        slots_within(self.policy, bytes, row_lanes, Planner::bytes_for, self.ring()) as usize
    }

    /// Bytes of `slots` slots with rows of `row_lanes` lanes, index and metadata included.
    pub fn slab_bytes(&self, slots: u64, row_lanes: usize) -> u64 {
        bytes_for(self.policy, slots, row_lanes, Planner::bytes_for, self.ring())
    }
}
