//! One table group: tables whose rows are of the same parts, the slab and the store that they
//! share, and the rows between them.

mod index;
mod traffic;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_base::rules::Rules;
use stepwell_base::slab::Slab;
use stepwell_base::stop::StopRequest;
use stepwell_base::{Key, SlotIndex};
use stepwell_mem::Cache;
use stepwell_ssd::{Error as StoreError, Store};

use self::index::IndexShare;
pub(crate) use self::index::index_of_all;
pub use self::index::{IndexFull, IndexWatch};
pub use self::traffic::{Traffic, TrafficCount};
use crate::device::Visited;
use crate::harvest::{self, HarvestSize, Outlook};
use crate::staging::{StagedRows, Staging};
use crate::{DeviceTier, Error, ModelDigest, Planner, Result, TableSpec};

/// Rows of the store that are brought up at once.
const ROWS_AT_ONCE: usize = 4096;

/// Which tables of a model lie in one slab and one store, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTables {
    /// Their numbers among the tables of the model, ascending.
    pub tables: Vec<usize>,
    /// Whether no row that exists ever leaves memory.
    pub whole: bool,
    /// Whether all of its tables were given memory of their own.
    pub given: bool,
}

/// Most tables of a model.
pub const TABLES_MAX: usize = u16::MAX as usize;

impl GroupTables {
    /// Puts `tables` that may share a store into one group, but for those that are to stay `whole`
    /// in memory, which have one each; those that share learn of it. Groups are in the order of
    /// their first tables.
    ///
    /// # Errors
    /// Names two tables that cannot be told apart.
    ///
    /// # Panics
    /// When there are more than [`TABLES_MAX`] tables.
    pub fn of(
        tables: &mut [TableSpec],
        whole: impl Fn(usize) -> bool,
    ) -> std::result::Result<Vec<Self>, String> {
        assert!(tables.len() <= TABLES_MAX, "{} tables", tables.len());
        let mut groups: Vec<Self> = Vec::new();
        for (number, table) in tables.iter().enumerate() {
            if let Some(same) = tables[..number].iter().find(|other| other.tag() == table.tag()) {
                let (a, b) = (&same.name, &table.name);
                return Err(format!(
                    "tables '{a}' and '{b}' have the same tag: rename one of them"
                ));
            }
            let whole = whole(number);
            let shares =
                |of: &&mut Self| !whole && !of.whole && tables[of.tables[0]].may_share(table);
            match groups.iter_mut().find(shares) {
                Some(group) => group.tables.push(number),
                None => groups.push(Self { tables: vec![number], whole, given: false }),
            }
        }
        for group in groups.iter().filter(|group| group.tables.len() > 1) {
            group.tables.iter().for_each(|number| tables[*number].shared = true);
        }
        Ok(groups)
    }

    /// The group of a table that has it alone.
    pub fn alone(table: usize) -> Self {
        Self { tables: vec![table], whole: false, given: false }
    }
}

/// The shared parts of a table group.
#[derive(Debug)]
pub struct Group {
    /// Its tables, and which of the model's they are.
    tables: Vec<TableSpec>,
    members: GroupTables,
    /// Rows in memory.
    pub slab: Slab,
    /// Rows on disk.
    pub store: Arc<Store>,
    /// Rows on their way down.
    pub staging: Staging,
    /// What moved.
    pub traffic: Traffic,
    /// The rules that hold.
    pub rules: Rules,
    /// Rows that may come up before anybody asks for them, and which are wanted: none where that is
    /// not done.
    pub(crate) outlook: Option<(HarvestSize, Arc<Outlook>)>,
    /// Its part of the index of all groups' stores.
    pub(crate) index: IndexShare,
    /// The devices above its slab, where there are any, and where rows lie that visit from there,
    /// by table.
    devices: Option<(Arc<DeviceTier>, Vec<Visited>)>,
    steps: AtomicU64,
}

impl Group {
    /// The group of one table, with an empty slab of `slots` rows over `store`.
    ///
    /// # Errors
    /// When the memory cannot be mapped.
    pub fn new(spec: TableSpec, slots: usize, store: Arc<Store>, staging: Staging) -> Result<Self> {
        Self::of((&[spec], GroupTables::alone(0)), slots, store, staging)
    }

    /// The group of those of a model's `tables` that `members` names, with an empty slab of `slots`
    /// rows over `store`.
    ///
    /// # Errors
    /// When the memory cannot be mapped.
    ///
    /// # Panics
    /// When their rows are of different parts, or one could not tell them apart.
    pub fn of(
        (tables, members): (&[TableSpec], GroupTables),
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

    /// The same below `devices`.
    ///
    /// # Errors
    /// When memory for rows that visit cannot be mapped.
    pub fn below(self, devices: &Arc<DeviceTier>) -> Result<Self> {
        let visited = self.members().iter().map(|table| Visited::new(&devices.plan, *table));
        let visited = visited.collect::<Result<Vec<Visited>>>()?;
        Ok(Self { devices: Some((Arc::clone(devices), visited)), ..self })
    }

    /// The devices above its slab.
    pub fn devices(&self) -> Option<&Arc<DeviceTier>> {
        self.devices.as_ref().map(|(devices, _)| devices)
    }

    /// Where rows of table `table` of the model lie while they visit.
    ///
    /// # Panics
    /// When there are no devices, or it is no table of this group.
    pub(crate) fn visited(&self, table: usize) -> &Visited {
        let place = self.members().iter().position(|member| *member == table);
        match (&self.devices, place) {
            (Some((_, visited)), Some(place)) => &visited[place],
            _ => panic!("rows of table {table} do not visit group '{}'", self.names()),
        }
    }

    /// The same, of which up to `size` come up beside others before anybody asks for them.
    pub fn harvesting(self, size: HarvestSize) -> Self {
        let outlook = (size.rows > 0).then(|| (size, Arc::new(harvest::outlook_for(size))));
        Self { outlook, ..self }
    }

    /// The first of its tables: the parts of a row and how it expires are those of all of them.
    pub fn spec(&self) -> &TableSpec {
        &self.tables[0]
    }

    /// Its tables.
    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// The numbers of its tables among those of the model, in the same order.
    pub fn members(&self) -> &[usize] {
        &self.members.tables
    }

    /// Whether no row that exists ever leaves memory.
    pub fn is_whole(&self) -> bool {
        self.members.whole
    }

    /// The settings that say how much memory its rows have, for messages.
    pub(crate) fn memory_settings(&self) -> String {
        if !self.members.given {
            return "tiers.dram".to_owned();
        }
        let own = self.tables.iter().map(|table| format!("tables.{}.dram", table.name));
        own.collect::<Vec<String>>().join(" + ")
    }

    /// Whether its tables were given memory of their own.
    pub(crate) fn is_given(&self) -> bool {
        self.members.given
    }

    /// Names of its tables, for messages.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.tables.iter().map(|table| table.name.as_str()).collect();
        names.join("', '")
    }

    /// The table that `row` is of.
    ///
    /// # Panics
    /// When it is of none: then it is no row of this group.
    pub fn table_of(&self, row: &[f32]) -> &TableSpec {
        let of = self.tables.iter().find(|table| table.owns(row));
        of.unwrap_or_else(|| panic!("a row of tables '{}' has the tag of none", self.names()))
    }

    /// The model has made `steps` steps.
    ///
    /// # Panics
    /// When these are more than the histories of the rows count: whoever trains ends before that.
    pub fn set_steps(&self, steps: u64) {
        let (most, names) = (self.spec().steps_max(), self.names());
        assert!(steps <= most, "table '{names}' was trained to step {steps}, beyond step {most}");
        self.steps.store(steps, Ordering::Relaxed);
    }

    /// Puts a staged chunk into the store and forgets the staged copy.
    ///
    /// # Errors
    /// When the store cannot be written; the chunk stays staged then.
    pub fn write_back(&self, chunk: Arc<StagedRows>) -> Result<()> {
        self.expire()?;
        self.put(&chunk)?;
        self.traffic.wrote_back(chunk.keys.len() as u64);
        self.staging.landed(chunk);
        self.traffic.on_disk(self.store.bytes_files());
        Ok(())
    }

    /// Lets a look-up miss rows that do not exist now: they never will again.
    pub(crate) fn expire(&self) -> Result<()> {
        let life = self.spec().life.filter(|life| life.expire_after > 0);
        life.map_or(Ok(()), |life| {
            Ok(self.store.expire_before(life.first_kept(self.steps.load(Ordering::Relaxed)))?)
        })
    }

    /// Brings rows of the store up before any mini-batch, in the store's order, until `planner`'s
    /// slots are full; then it stops reading.
    ///
    /// # Errors
    /// When the store cannot be read, a key finds no room in the index, somebody asks to `stop`, or
    /// rows find no slot that are to stay in memory.
    pub fn preload(&self, planner: &mut Planner, stop: &StopRequest) -> Result<()> {
        let rows = self.store.stats().rows_live as usize;
        if self.is_whole() && rows > planner.slots() {
            return Err(Error::NotWhole { table: self.names(), slots: planner.slots(), rows });
        }
        let mut scan = self.store.scan()?;
        let mut failed = None;
        loop {
            // Nothing is read for a row that finds no slot.
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

    /// Adds rows in `slots` that have expired to those that do not exist.
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

    /// Adds every row that exists after the model's steps to `digest`: those in the slab as they
    /// are there, all others from the store. Nothing may be in flight.
    ///
    /// # Errors
    /// When the store cannot be read, or somebody asks to `stop`.
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

/// The devices above `groups`: above all of them, or above none.
pub(crate) fn devices_above(groups: &[Arc<Group>]) -> Option<&Arc<DeviceTier>> {
    groups.first().and_then(|group| group.devices())
}

/// The group of table `table` of a model, and its number.
///
/// # Panics
/// When it is in none.
pub(crate) fn group_of(groups: &[Arc<Group>], table: usize) -> (usize, &Arc<Group>) {
    let mut groups = groups.iter().enumerate();
    let of = groups.find(|(_, group)| group.members().contains(&table));
    of.unwrap_or_else(|| panic!("table {table} is in no group"))
}

/// Ends a visit of rows once somebody asked to stop.
fn go_on(stop: &StopRequest) -> stepwell_ssd::Result<()> {
    if stop.is_made() { Err(StoreError::Stopped) } else { Ok(()) }
}
