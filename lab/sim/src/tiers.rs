//! Groups a job's tables by slab and store, assigns rows to groups, and computes the space they
//! need.

use std::collections::BTreeSet;

use stepwell_base::{ByteCount, Key, Namespace};
use stepwell_data::Schema;
use stepwell_engine::{Admission, GroupTables, Planner, TableSpec};
use stepwell_mem::bytes_for;
use stepwell_settings::{Config, PlaceKind, TableConfig};

use crate::finding::Finding;
use crate::ids::DENSE;
use crate::job::{Examples, Job};

/// Most times that the total is raised by half until each group has enough.
const SHARES_MAX: usize = 20;

/// The tables of a job.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    specs: Vec<TableSpec>,
    /// Tables that share a slab and a store.
    pub groups: Vec<GroupTables>,
    /// All keys of the data before salting; empty for a single table.
    keys: BTreeSet<Key>,
}

/// Space that one table group needs.
#[derive(Clone, Debug)]
pub struct Room {
    /// Names of its tables.
    pub tables: Vec<String>,
    /// Lanes per row.
    pub row_lanes: usize,
    /// Most distinct rows of a mini-batch.
    pub rows_of_mini_batch: u64,
    /// Distinct rows of the whole job.
    pub rows_of_job: u64,
    /// Slot limit if none of its rows may leave memory: the number of rows, or too few.
    pub whole: Option<u64>,
}

impl Tables {
    /// The tables of `job`.
    ///
    /// # Errors
    /// The model is invalid.
    pub fn of(job: &Job) -> Result<Self, Finding> {
        let failed = |why: String| Finding::Failed(why);
        let specs = stepwell_train::tables(&job.config).map_err(|error| failed(error.to_string()));
        let mut specs = specs?;
        let places: Vec<PlaceKind> =
            specs.iter().map(|spec| settings_of(&job.config, &spec.name).place).collect();
        let groups = GroupTables::of(&mut specs, |table| places[table] == PlaceKind::Memory);
        let keys = match specs.len() {
            1 => BTreeSet::new(),
            _ => job.files.iter().flat_map(keys_of).collect(),
        };
        Ok(Self { specs, groups: groups.map_err(failed)?, keys })
    }

    /// The group of the row with `key`; `None` if it belongs to no table.
    pub(crate) fn group_of(&self, key: Key) -> Option<usize> {
        if self.specs.len() < 2 {
            return Some(0);
        }
        let is_of = |spec: &TableSpec| self.keys.contains(&key.salted(spec.salt()));
        let table = self.specs.iter().position(is_of)?;
        self.groups.iter().position(|group| group.tables.contains(&table))
    }

    /// Whether every trained key gets a row immediately.
    pub fn admit_all(&self) -> bool {
        let admits = |spec: &TableSpec| spec.life.map(|life| life.admission);
        self.specs.iter().all(|spec| matches!(admits(spec), None | Some(Admission::AtOnce)))
    }

    /// Whether one table delays admission and another, which doesn't, has expiry.
    pub(crate) fn admit_and_expire(&self) -> bool {
        let mut lives = self.specs.iter().filter_map(|spec| spec.life);
        let admits = lives.clone().any(|life| life.admission != Admission::AtOnce);
        admits && lives.any(|life| life.admission == Admission::AtOnce && life.expire_after > 0)
    }

    /// Space that the groups of `job` need, given the most rows of a mini-batch and all rows.
    pub(crate) fn rooms(&self, job: &Job, most: &[usize], all: &[BTreeSet<Key>]) -> Vec<Room> {
        let room = |(number, group): (usize, &GroupTables)| {
            // A table with only empty bags also has a slot.
            let of = |counts: Option<usize>| counts.unwrap_or(0).max(1) as u64;
            let rows_of_mini_batch = of(most.get(number).copied());
            let rows_of_job = of(all.get(number).map(BTreeSet::len));
            let name = |table: &usize| self.specs[*table].name.clone();
            let tables: Vec<String> = group.tables.iter().map(name).collect();
            let whole = group.whole.then(|| match &job.tight {
                Some(tight) if tight.table == tables[0] => {
                    let part = (rows_of_job as f64 * tight.part) as u64;
                    part.max(rows_of_mini_batch)
                }
                _ => rows_of_job,
            });
            let row_lanes = self.specs[group.tables[0]].row_lanes();
            Room { tables, row_lanes, rows_of_mini_batch, rows_of_job, whole }
        };
        self.groups.iter().enumerate().map(room).collect()
    }
}

impl Room {
    /// Bytes of `slots` slots, including all metadata.
    fn bytes(&self, slots: u64, config: &Config) -> u64 {
        let ring = ((config.pipeline.horizon + 1) * config.mini_batches_per_batch() + 2) as u64;
        bytes_for(config.tiers.policy, slots, self.row_lanes, Planner::bytes_for, ring)
    }
}

/// Gives each group of `rooms` this many slots.
pub(crate) fn give(config: &mut Config, rooms: &[Room], slots: &[u64]) {
    let bytes: Vec<u64> =
        rooms.iter().zip(slots).map(|(room, slots)| room.bytes(*slots, config)).collect();
    config.tiers.dram = Some(ByteCount(bytes.iter().sum()));
    if config.features.is_empty() {
        return;
    }
    for (room, bytes) in rooms.iter().zip(bytes) {
        give_group(config, room, bytes);
    }
}

/// Gives each group of `rooms` at least this many slots: groups that stay in memory get a separate
/// size, the others share `tiers.dram`.
pub(crate) fn share_out(config: &mut Config, rooms: &[Room], slots: &[u64]) {
    let (mut given, mut shared) = (0, 0);
    for (room, slots) in rooms.iter().zip(slots) {
        let bytes = room.bytes(*slots, config);
        if room.whole.is_some() {
            give_group(config, room, bytes);
            given += bytes;
        } else {
            let of_group = |table: &&mut TableConfig| room.tables.contains(&table.name);
            config.tables.iter_mut().filter(of_group).for_each(|table| table.dram = None);
            shared += bytes;
        }
    }
    for _ in 0..SHARES_MAX {
        config.tiers.dram = Some(ByteCount(given + shared));
        if let Ok(plan) = stepwell_train::plan(config, &stepwell_train::Expected::default())
            && plan.tiers.groups.iter().zip(slots).all(|(has, wants)| has.slots as u64 >= *wants)
        {
            return;
        }
        shared += shared / 2;
    }
}

/// Gives the tables of a group `bytes` bytes together.
fn give_group(config: &mut Config, room: &Room, bytes: u64) {
    let count = room.tables.len() as u64;
    for (number, name) in (0..).zip(&room.tables) {
        let rest = u64::from(number < bytes % count);
        let dram = Some(ByteCount(bytes / count + rest));
        match config.tables.iter_mut().find(|table| table.name == *name) {
            Some(table) => table.dram = dram,
            None => {
                let name = name.clone();
                config.tables.push(TableConfig { name, dram, ..TableConfig::default() });
            }
        }
    }
}

/// Settings of the table `name`.
fn settings_of(config: &Config, name: &str) -> TableConfig {
    config.tables.iter().find(|table| table.name == name).cloned().unwrap_or_default()
}

/// All keys of a file, before salting.
fn keys_of(examples: &Examples) -> Vec<Key> {
    let of_line = |line: &str| {
        let ids: Vec<&str> = line.split('\t').skip(1 + DENSE).collect();
        let namespaces = (1..=Schema::CRITEO.id_columns).map(Namespace::of_column);
        let key = |(id, column): (&str, Namespace)| column.key_of(id.as_bytes());
        ids.into_iter().zip(namespaces).map(key).collect::<Vec<Key>>()
    };
    match examples {
        Examples::Lines(text) => text.lines().flat_map(of_line).collect(),
        Examples::Bags(chunk) => chunk.keys.clone(),
    }
}
