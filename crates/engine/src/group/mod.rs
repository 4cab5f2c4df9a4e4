//! Table groups: tables whose rows have the same parts, their common slab and store, and the rows
//! between these.

mod index;
mod index_share;
mod traffic;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_base::rules::Rules;
use stepwell_base::slab::Slab;
use stepwell_base::stop::StopRequest;
use stepwell_base::{Key, SlotIndex};
use stepwell_mem::Cache;
use stepwell_ssd::{Error as StoreError, Store};

pub(crate) use self::index::index_of_all;
use self::index_share::IndexShare;
pub use self::index_share::IndexWatch;
pub use self::traffic::{Traffic, TrafficCount};
use crate::device_tier::DeviceTier;
use crate::device_tier::visited::Visited;
use crate::digest::ModelDigest;
use crate::group_tables::GroupTables;
use crate::harvest::{self, HarvestSize, Outlook};
use crate::planner::Planner;
use crate::staging::{StagedRows, Staging};
use crate::table_spec::TableSpec;
use crate::{Error, Result};

/// Number of rows loaded from the store at once.
const ROWS_AT_ONCE: usize = 4096;

/// Tables of a group, with their common slab, store and staging.
#[derive(Debug)]
pub struct Group {
    /// The tables, and their numbers in the model.
    tables: Vec<TableSpec>,
    members: GroupTables,
    /// Rows in memory.
    pub slab: Slab,
    /// Rows on disk.
    pub store: Arc<Store>,
    /// Rows being written to the store.
    pub staging: Staging,
    /// Counts of rows that moved.
    pub traffic: Traffic,
    /// The rules in force.
    pub rules: Rules,
    /// Size of the harvest and the keys wanted from it; `None` if nothing is harvested.
    pub(crate) outlook: Option<(HarvestSize, Arc<Outlook>)>,
    /// The group's share of the index of all groups' stores.
    pub(crate) index: IndexShare,
    /// The devices above the slab, and by table where rows from there visit; `None` without
    /// devices.
    devices: Option<(Arc<DeviceTier>, Vec<Visited>)>,
    steps: AtomicU64,
}

impl Group {
    /// The group of one table, with an empty slab of `slots` rows over `store`.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub fn new(spec: TableSpec, slots: usize, store: Arc<Store>, staging: Staging) -> Result<Self> {
        Self::of(&[spec], GroupTables::alone(0), slots, store, staging)
    }

    /// The group of the tables among a model's `tables` that `members` lists, with an empty slab of
    /// `slots` rows over `store`.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    ///
    /// # Panics
    /// If their rows have different parts, or rows of different tables can't be distinguished.
    pub fn of(
        tables: &[TableSpec],
        members: GroupTables,
        slots: usize,
        store: Arc<Store>,
        staging: Staging,
    ) -> Result<Self> {
        let tables: Vec<_> = members.tables.iter().map(|number| tables[*number].clone()).collect();
        let spec = &tables[0];
        for other in &tables[1..] {
            assert!(spec.may_share(other) && spec.shared && other.shared, "tables of a group");
        }
        let bytes = (slots * spec.row_bytes()) as u64;
        let slab =
            Slab::new(slots, spec.row_lanes()).map_err(|source| Error::Slab { bytes, source })?;
        let (traffic, rules) = (Traffic::default(), Rules::default());
        let (outlook, index, steps) = (None, IndexShare::default(), AtomicU64::new(0));
        Ok(Self {
            tables,
            members,
            slab,
            store,
            staging,
            traffic,
            rules,
            outlook,
            index,
            devices: None,
            steps,
        })
    }

    /// Puts the group below `devices`.
    ///
    /// # Errors
    /// If memory for visiting rows cannot be mapped.
    pub fn below(self, devices: &Arc<DeviceTier>) -> Result<Self> {
        let visited = self.members().iter().map(|table| Visited::new(&devices.plan, *table));
        let visited = visited.collect::<Result<Vec<Visited>>>()?;
        Ok(Self { devices: Some((Arc::clone(devices), visited)), ..self })
    }

    /// The devices above the slab, if any.
    pub fn devices(&self) -> Option<&Arc<DeviceTier>> {
        self.devices.as_ref().map(|(devices, _)| devices)
    }

    /// Where rows of table `table` of the model are while they visit.
    ///
    /// # Panics
    /// If there are no devices, or the table is not in this group.
    pub(crate) fn visited(&self, table: usize) -> &Visited {
        let place = self.members().iter().position(|member| *member == table);
        match (&self.devices, place) {
            (Some((_, visited)), Some(place)) => &visited[place],
            _ => panic!("rows of table {table} do not visit group '{}'", self.names()),
        }
    }

    /// Enables harvesting, bounded by `size`.
    pub fn harvesting(self, size: HarvestSize) -> Self {
        let outlook = (size.rows > 0).then(|| (size, Arc::new(harvest::outlook_for(size))));
        Self { outlook, ..self }
    }

    /// The first table; its row parts and expiry hold for all of the group's tables.
    pub fn spec(&self) -> &TableSpec {
        &self.tables[0]
    }

    /// The tables.
    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// The numbers of the tables among the model's, in the same order.
    pub fn members(&self) -> &[usize] {
        &self.members.tables
    }

    /// Whether existing rows never leave memory.
    pub fn is_whole(&self) -> bool {
        self.members.whole
    }

    /// The settings that determine the memory of the group's rows, for messages.
    pub(crate) fn memory_settings(&self) -> String {
        if !self.members.given {
            return "tiers.dram".to_owned();
        }
        let own = self.tables.iter().map(|table| format!("tables.{}.dram", table.name));
        own.collect::<Vec<String>>().join(" + ")
    }

    /// Whether the group's tables were assigned memory of their own.
    pub(crate) fn is_given(&self) -> bool {
        self.members.given
    }

    /// Names of the tables, for messages.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.tables.iter().map(|table| table.name.as_str()).collect();
        names.join("', '")
    }

    /// The table of `row`.
    ///
    /// # Panics
    /// If the row belongs to no table of this group.
    pub fn table_of(&self, row: &[f32]) -> &TableSpec {
        let of = self.tables.iter().find(|table| table.owns(row));
        of.unwrap_or_else(|| panic!("a row of tables '{}' has the tag of no table", self.names()))
    }

    /// Sets the number of steps that the model has made.
    ///
    /// # Panics
    /// If histories of rows can't count that many; callers stop training before that.
    pub fn set_steps(&self, steps: u64) {
        let (most, names) = (self.spec().steps_max(), self.names());
        assert!(steps <= most, "table '{names}' was trained to step {steps}, beyond step {most}");
        self.steps.store(steps, Ordering::Relaxed);
    }

    /// Puts a buffer of staged rows into the store and forgets the staged copy.
    ///
    /// # Errors
    /// If the store cannot be written; the rows then stay staged.
    pub fn write_back(&self, buffer: Arc<StagedRows>) -> Result<()> {
        self.expire()?;
        self.put(&buffer)?;
        self.traffic.wrote_back(buffer.keys.len() as u64);
        self.staging.landed(buffer);
        self.traffic.on_disk(self.store.bytes_files());
        Ok(())
    }

    /// Lets look-ups miss rows that have expired; they can't become valid again.
    pub(crate) fn expire(&self) -> Result<()> {
        let life = self.spec().life.filter(|life| life.expire_after > 0);
        life.map_or(Ok(()), |life| {
            Ok(self.store.expire_before(life.first_kept(self.steps.load(Ordering::Relaxed)))?)
        })
    }

    /// Loads rows from the store before any mini-batch, in the store's order, until all slots of
    /// `planner` are used; then it stops reading.
    ///
    /// # Errors
    /// If the store cannot be read, a key finds no room in the index, a `stop` is requested, or
    /// rows that must stay in memory find no slot.
    pub fn preload(&self, planner: &mut Planner, stop: &StopRequest) -> Result<()> {
        let rows = self.store.stats().rows_live as usize;
        if self.is_whole() && rows > planner.slots() {
            return Err(Error::NotWhole { table: self.names(), slots: planner.slots(), rows });
        }
        let mut scan = self.store.scan()?;
        let mut failed = None;
        loop {
            // Rows without a slot are not read.
            let rows_max = planner.slots_unused().min(ROWS_AT_ONCE);
            let visit = &mut |key, _used, row: &[u8]| {
                go_on(stop)?;
                match planner.adopt(key) {
                    Ok(Some(slot)) => {
                        let slots = [slot];
                        let mut held = self.slab.hold(&slots);
                        bytemuck::cast_slice_mut(held.rows_mut().row(0)).copy_from_slice(row);
                    }
                    Ok(None) => {}
                    Err(error) => failed = Some(error),
                }
                Ok(())
            };
            if rows_max == 0 || scan.visit(rows_max, visit)? == 0 {
                return Ok(());
            }
            if let Some(error) = failed.take() {
                return Err(error);
            }
        }
    }

    /// Marks rows in `slots` that have expired, in addition to those marked as missing.
    pub(crate) fn add_expired(&self, table: usize, slots: &[SlotIndex], rows: &mut [bool]) {
        let member = self.members().iter().position(|member| *member == table);
        let Some(spec) = member.map(|member| &self.tables()[member]) else { return };
        if spec.life.is_some() {
            let (held, steps) = (self.slab.hold(slots), self.steps.load(Ordering::Relaxed));
            for (at, row) in rows.iter_mut().enumerate() {
                *row |= !spec.exists(held.row(at), steps);
            }
        }
    }

    /// Adds every existing row to `digest`: rows in the slab from there, all others from the store.
    /// Nothing may be in flight.
    ///
    /// # Errors
    /// If the store cannot be read, or `go_on` returns an error.
    pub fn digest(
        &self,
        cache: &Cache,
        digest: &mut ModelDigest,
        go_on: &mut dyn FnMut() -> stepwell_ssd::Result<()>,
    ) -> Result<()> {
        assert!(self.staging.is_idle(), "a digest is taken when nothing is in flight");
        for row in cache.existing() {
            go_on()?;
            let slots = [row.slot];
            let held = self.slab.hold(&slots);
            self.digest_row(row.key, held.row(0), digest);
        }
        let mut lanes = vec![0.0; self.spec().row_lanes()];
        self.store.scan_live(&mut |key, _used, row| {
            go_on()?;
            if cache.find_existing(key).is_none() {
                bytemuck::cast_slice_mut(&mut lanes).copy_from_slice(row);
                self.digest_row(key, &lanes, digest);
            }
            Ok(())
        })?;
        Ok(())
    }

    fn digest_row(&self, key: Key, row: &[f32], digest: &mut ModelDigest) {
        let table = self.table_of(row);
        if table.exists(row, self.steps.load(Ordering::Relaxed)) {
            let model = &row[..table.model_lanes()];
            digest.add_row(table.id, key, bytemuck::cast_slice(model));
        }
    }
}

/// The devices above `groups`: they are above all groups or above none.
pub(crate) fn devices_above(groups: &[Arc<Group>]) -> Option<&Arc<DeviceTier>> {
    groups.first().and_then(|group| group.devices())
}

/// The group of table `table` of a model, and its number.
///
/// # Panics
/// If the table is in no group.
pub(crate) fn group_of(groups: &[Arc<Group>], table: usize) -> (usize, &Arc<Group>) {
    let mut groups = groups.iter().enumerate();
    let of = groups.find(|(_, group)| group.members().contains(&table));
    of.unwrap_or_else(|| panic!("table {table} is in no group"))
}

/// The rules in force, the same in every table group.
pub fn rules_of(groups: &[Arc<Group>]) -> Rules {
    groups.first().map(|group| group.rules).unwrap_or_default()
}

/// The last step that the row histories of all table groups can count.
pub fn last_step_of(groups: &[Arc<Group>]) -> Option<u64> {
    groups.iter().map(|group| group.spec().steps_max()).min()
}

/// Ends a visit of rows if a stop was requested.
fn go_on(stop: &StopRequest) -> stepwell_ssd::Result<()> {
    if stop.is_made() { Err(StoreError::Stopped) } else { Ok(()) }
}
