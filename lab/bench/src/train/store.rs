//! The store that contains all rows before a run.
//!
//! - **Why.** Performance depends on the history of the store: loaded rows are in random order,
//!   while rows written by training are next to those that became cold at the same time.
//! - **How.** Each store is written once, and every run starts with links to its segments. All
//!   versions of a row equal its initial value, so a run trains the same model from either store.
//!   The thread that puts rows also compacts, so that the same options make the same files.
//! - **Bounds.** [`super::aged`].

use std::fmt::{Display, Formatter};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use stepwell_disk::FileDisk;
use stepwell_engine::TableSpec;
use stepwell_settings::{Config, TierConfig};
use stepwell_ssd::{Compaction, Store, StoreOptions};

use super::aged::{Past, SHARE};
use super::stream::Ids;
use crate::measure::{Stopwatch, over};
use crate::ssd::Shuffle;
use crate::{Error, Result};

/// Rows per put.
const BATCH: usize = 4096;

/// History of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreAge {
    /// As left by long training.
    Aged,
    /// Loaded once, in random order.
    Loaded,
}

impl StoreAge {
    const ALL: [Self; 2] = [Self::Aged, Self::Loaded];

    /// Name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aged => "aged",
            Self::Loaded => "loaded",
        }
    }
}

impl Display for StoreAge {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StoreAge {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|age| age.name() == name);
        found.ok_or_else(|| "give aged, loaded or both".to_owned())
    }
}

/// Properties of a store.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Made {
    /// History of the store.
    pub store: Option<StoreAge>,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Number of rows.
    pub rows: u64,
    /// Rows put, including earlier versions.
    pub writes: u64,
    /// Examples since the load, in the past of an aged store.
    pub past_examples: f64,
    /// Share of the rows in memory in that past.
    pub past_share: f64,
    /// Stale versions as a share of all versions in its segments.
    pub dead_share: f64,
    /// Bytes of its files divided by bytes of its rows.
    pub space_amplification: f64,
    /// Number of segments.
    pub segments: u64,
    /// Merges of segments while it was made.
    pub compactions: u64,
    /// Seconds for making it.
    pub seconds: f64,
}

/// The only table of a run of `config`.
pub(super) fn table(config: &Config) -> Result<TableSpec> {
    let tables = stepwell_train::tables(config).map_err(|e| Error::Arguments(e.to_string()))?;
    let table = tables.into_iter().next();
    table.ok_or_else(|| Error::Arguments("a model without a table".to_owned()))
}

/// Puts the rows of all ids in a new store in `directory`.
pub(super) fn make(age: StoreAge, ids: &Ids, config: &Config, directory: &Path) -> Result<Made> {
    let watch = Stopwatch::start();
    let table = table(config)?;
    let options = StoreOptions {
        segment_bytes: config.tiers.segment.unwrap_or(TierConfig::SEGMENT).0,
        index_bytes_max: config.tiers.index.unwrap_or(TierConfig::INDEX).0,
        space_max: config.tiers.space,
        cached_bytes: 0,
        compaction: Compaction::Inline,
        ..StoreOptions::new(table.id.0, table.row_bytes())
    };
    let store = Store::create(Arc::new(FileDisk::open(directory)?), options)?;
    let order = Shuffle::new(ids.count(), 1);
    put(&store, &table, ids, &mut (0..ids.count()).map(|place| order.at(place)))?;
    let mut made = Made { store: Some(age), row_bytes: table.row_bytes(), ..Made::default() };
    if age == StoreAge::Aged {
        let past = Past::new(ids);
        (made.past_examples, made.past_share) = (past.loaded, SHARE);
        put(&store, &table, ids, &mut past.writes(ids))?;
    }
    made.page_bytes = store.commit()?.page_bytes;
    let stats = store.stats();
    made.rows = stats.rows_live;
    made.writes = stats.rows_put;
    made.dead_share = over(stats.rows_stale as f64, (stats.rows_live + stats.rows_stale) as f64);
    made.space_amplification = stats.space_amplification;
    made.segments = stats.segments;
    made.compactions = stats.compactions;
    made.seconds = watch.seconds();
    Ok(made)
}

/// Puts rows by number, in this order.
fn put(
    store: &Store,
    table: &TableSpec,
    ids: &Ids,
    mut numbers: &mut dyn Iterator<Item = u64>,
) -> Result<()> {
    let lanes = table.row_lanes();
    let mut rows = vec![0.0f32; BATCH * lanes];
    let mut keys = Vec::with_capacity(BATCH);
    loop {
        keys.clear();
        keys.extend((&mut numbers).take(BATCH).map(|number| ids.key_of(number)));
        if keys.is_empty() {
            return Ok(());
        }
        for (key, row) in keys.iter().zip(rows.chunks_exact_mut(lanes)) {
            table.initial_row(*key, row);
        }
        let used = vec![0; keys.len()];
        store.put_many(&keys, &used, bytemuck::cast_slice(&rows[..keys.len() * lanes]))?;
    }
}

#[cfg(test)]
mod tests {
    use stepwell_disk::Disk;

    use super::*;

    fn store_of(age: StoreAge, ids: &Ids, config: &Config, directory: &Path) -> (Made, Store) {
        std::fs::create_dir(directory).unwrap();
        let made = make(age, ids, config, directory).unwrap();
        let table = table(config).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(directory).unwrap());
        let options = StoreOptions::new(table.id.0, table.row_bytes());
        (made, Store::open(disk, options).unwrap())
    }

    #[test]
    fn both_hold_the_same_rows_and_the_aged_one_older_versions_too() {
        let home = tempfile::tempdir().unwrap();
        let (ids, mut config) = (Ids::new(60_000, false, 1.05), Config::default());
        config.tiers.segment = Some(stepwell_base::ByteCount(1 << 20));
        let table = table(&config).unwrap();
        let numbers: Vec<u64> = (0..ids.count()).step_by(7).collect();
        let keys: Vec<_> = numbers.iter().map(|number| ids.key_of(*number)).collect();
        let mut expected = vec![0.0f32; keys.len() * table.row_lanes()];
        for (key, row) in keys.iter().zip(expected.chunks_exact_mut(table.row_lanes())) {
            table.initial_row(*key, row);
        }
        for age in StoreAge::ALL {
            let (made, store) = store_of(age, &ids, &config, &home.path().join(age.name()));
            assert_eq!(made.rows, ids.count(), "{age}");
            assert_eq!(made.dead_share > 0.1, age == StoreAge::Aged, "{made:?}");
            assert_eq!(made.compactions > 0, age == StoreAge::Aged, "{made:?}");
            let mut found = vec![0.0f32; expected.len()];
            let mut hits = vec![false; keys.len()];
            store.get_many(&keys, bytemuck::cast_slice_mut(&mut found), &mut hits).unwrap();
            assert!(hits.iter().all(|hit| *hit));
            assert_eq!(found, expected, "{age}");
        }
    }

    #[test]
    fn names_are_read_back() {
        assert!(StoreAge::ALL.iter().all(|age| age.name().parse() == Ok(*age)));
        assert!("old".parse::<StoreAge>().is_err());
    }
}
