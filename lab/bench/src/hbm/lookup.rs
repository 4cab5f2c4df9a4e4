//! Measures hash tables by load, and finding a step's rows by slot and by key.

use serde::Serialize;
use stepwell_base::random::finalize;
use stepwell_device::{Arg, Buffer};
use stepwell_kernels::{TABLE_OWN_PLACES, named};

use super::bench::{Bench, same};
use super::order::order;
use crate::Result;

const LOADS: [f64; 4] = [0.5, 0.75, 0.9, 1.0];
/// Distinct rows of a step with 4096 examples of Criteo's data.
const ROWS_OF_STEP: usize = 22_900;
/// Bytes of a table place: a key and a slot.
const PLACE_BYTES: usize = 12;
/// Most places of a table: more than an L2 cache holds.
const PLACES_MAX: usize = 1 << 24;
/// Most places of a full table: inserting the last key examines most of them, one by one.
const PLACES_FULL_MAX: usize = 1 << 17;

/// A table with one load.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableFigures {
    /// Share of places in use.
    pub load: f64,
    /// Number of places.
    pub places: u64,
    /// Number of keys.
    pub keys: u64,
    /// Keys per second inserted into an empty table until it has this load.
    pub insert_keys_per_second: f64,
    /// Existing keys per second found, in random order.
    pub get_keys_per_second: f64,
}

/// Methods of finding a row.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LookupFigures {
    /// Results by load.
    pub tables: Vec<TableFigures>,
    /// Rows of a step.
    pub step_rows: u64,
    /// Seconds until the slots of a step, sent by the host, are on the device.
    pub slots_seconds: f64,
    /// Seconds until they are found by keys that the host sends, in a table with load 0.5.
    pub table_seconds: f64,
    /// The faster method: `slots` or `table`, as in `tiers.lookup`.
    pub cheaper: &'static str,
}

/// A table on the device.
struct Table {
    places: Buffer<u64>,
    values: Buffer<u32>,
    counters: Buffer<u32>,
    /// Output of insertion: the place of each key.
    placed: Buffer<u32>,
    capacity: usize,
}

impl Table {
    fn new(bench: &Bench, capacity: usize) -> Result<Self> {
        let places = capacity + TABLE_OWN_PLACES as usize;
        let counters = bench.empty(2)?;
        bench.stream.clear(&counters, 0..2)?;
        let (keys, values) = (bench.empty(places)?, bench.empty(places)?);
        let placed = bench.empty(capacity)?;
        Ok(Self { places: keys, values, counters, placed, capacity })
    }

    fn args<'a>(&'a self, others: impl IntoIterator<Item = Arg<'a>>) -> Vec<Arg<'a>> {
        let table =
            [Arg::all(&self.places), Arg::all(&self.values), Arg::u32(self.capacity as u32)];
        table.into_iter().chain(others).collect()
    }

    fn clear(&self, bench: &Bench) -> Result<()> {
        let items = self.capacity + TABLE_OWN_PLACES as usize;
        Ok(bench.stream.launch(named("table_clear"), items, self.args([]))?)
    }

    fn insert(
        &self,
        bench: &Bench,
        keys: &Buffer<u64>,
        values: &Buffer<u32>,
        count: usize,
    ) -> Result<()> {
        let args = self.args([
            Arg::first(keys, count),
            Arg::first(values, count),
            Arg::u32(count as u32),
            Arg::first(&self.placed, count),
            Arg::all(&self.counters),
        ]);
        Ok(bench.stream.launch(named("table_insert"), count, args)?)
    }

    fn get(
        &self,
        bench: &Bench,
        keys: &Buffer<u64>,
        found: &Buffer<u32>,
        count: usize,
    ) -> Result<()> {
        let args = self.args([
            Arg::first(keys, count),
            Arg::u32(count as u32),
            Arg::first(found, count),
            Arg::all(&self.counters),
        ]);
        Ok(bench.stream.launch(named("table_get"), count, args)?)
    }
}

/// Key number `number`; all are different.
fn key(number: usize) -> u64 {
    finalize(number as u64)
}

/// Measures tables, of at most the bytes of the rows, and a step's rows.
pub(super) fn measure(bench: &Bench) -> Result<LookupFigures> {
    let places = (bench.bytes / PLACE_BYTES).min(PLACES_MAX);
    let keys: Vec<u64> = (0..places).map(key).collect();
    let values: Vec<u32> = (0..places as u32).collect();
    let (there, slots) = (bench.filled(&keys)?, bench.filled(&values)?);
    let mut figures = LookupFigures::default();
    for load in LOADS {
        let places = if load < 1.0 { places } else { places.min(PLACES_FULL_MAX) };
        let (table, count) = (Table::new(bench, places)?, (load * places as f64) as usize);
        let clear_seconds = bench.time(|| table.clear(bench))?;
        let seconds = bench.time(|| {
            table.clear(bench)?;
            table.insert(bench, &there, &slots, count)
        })?;
        // If the difference is within the clock's resolution, all of the time counts as insertion.
        let insert = if seconds > clear_seconds { seconds - clear_seconds } else { seconds };
        let asked = order(count, 7);
        let some = bench.filled(&asked.iter().map(|of| key(*of as usize)).collect::<Vec<u64>>())?;
        let found = bench.empty::<u32>(count)?;
        table.get(bench, &some, &found, count)?;
        same("table_get", &bench.contents(&found, count)?, &asked)?;
        let get = bench.time(|| table.get(bench, &some, &found, count))?;
        figures.tables.push(TableFigures {
            load,
            places: places as u64,
            keys: count as u64,
            insert_keys_per_second: count as f64 / insert,
            get_keys_per_second: count as f64 / get,
        });
    }
    step(bench, &Table::new(bench, places)?, &there, &slots, &mut figures)?;
    Ok(figures)
}

/// Finds the rows of a step with both methods.
fn step(
    bench: &Bench,
    table: &Table,
    keys: &Buffer<u64>,
    values: &Buffer<u32>,
    figures: &mut LookupFigures,
) -> Result<()> {
    let half = table.capacity / 2;
    let count = ROWS_OF_STEP.min(half);
    table.clear(bench)?;
    table.insert(bench, keys, values, half)?;
    let rows = &order(half, 9)[..count];
    let (mut slots_host, mut keys_host) =
        (bench.pinned::<u32>(count)?, bench.pinned::<u64>(count)?);
    slots_host.write(count)?.copy_from_slice(rows);
    let places = keys_host.write(count)?.iter_mut().zip(rows);
    places.for_each(|(place, row)| *place = key(*row as usize));
    let (found, asked) = (bench.empty::<u32>(count)?, bench.empty::<u64>(count)?);
    let up = || Ok(bench.stream.up(&slots_host, 0..count, &found, 0)?);
    figures.slots_seconds = bench.time(up)?;
    figures.table_seconds = bench.time(|| {
        bench.stream.up(&keys_host, 0..count, &asked, 0)?;
        table.get(bench, &asked, &found, count)
    })?;
    same("table_get", &bench.contents(&found, count)?, rows)?;
    figures.step_rows = count as u64;
    let is_cheaper = figures.table_seconds < figures.slots_seconds;
    figures.cheaper = if is_cheaper { "table" } else { "slots" };
    Ok(())
}
