//! `stepwell-lab bench ssd`: the store compared with the raw disk.
//!
//! Order of a run: three rounds of a raw sequential write and a bulk load into a new store, the
//! last of which is kept; three rounds of raw random reads and look-ups; then updates, overwriting,
//! a snapshot, reopening, refreshing a view, full segments of rows of many sizes, and the index by
//! itself. The raw file is as large as the store's files, on the same file system, and uses the
//! same queues with direct I/O.

mod growth;
mod opening;
mod raw;
mod reads;
mod rows;
mod space;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::{Stats, Store, StoreOptions};

use crate::directory::Home;
use crate::machine::Machine;
use crate::measure::{median, over};
use crate::{Error, Result};
use rows::Rows;
pub(crate) use rows::{Shuffle, scaled};

/// Most rows of a benchmark.
const ROWS_MAX: u64 = 1 << 36;

/// Options of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// A directory on the disk to measure; files created in it are removed again.
    pub directory: PathBuf,
    /// Rows in the store.
    pub rows: u64,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Keys per look-up and per put.
    pub batch: usize,
    /// Exponent of the keys' frequencies in look-ups and updates; 0 for uniform.
    pub skew: f64,
    /// Reads in flight.
    pub depth: usize,
    /// Seconds per measurement of reads.
    pub seconds: f64,
    /// Number of times to overwrite all rows at random for the space results.
    pub overwrites: u64,
    /// Number of rounds; the median counts.
    pub rounds: usize,
    /// Rows to which the index grows without a hint; 0 to skip this part.
    pub index_rows: u64,
}

/// Results of a run. Rates are medians over the rounds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Options of the benchmark.
    pub options: Option<Options>,
    machine: Option<Machine>,
    /// Random reads of one page each per second, at the same depth.
    pub raw_read_iops: f64,
    /// Processor microseconds per such read.
    pub raw_cpu_us_per_read: f64,
    /// Bytes per second of sequential writing, including the sync.
    pub raw_write_bytes_per_second: f64,
    /// Rows per second of random look-ups, four in flight.
    pub cold_rows_per_second: f64,
    /// Rows per second of random look-ups, one at a time.
    pub cold_rows_per_second_one: f64,
    /// Processor microseconds per row, four in flight.
    pub cpu_us_per_row: f64,
    /// Cold rows relative to raw reads.
    pub read_over_raw: f64,
    /// Cold rows relative to raw reads, one look-up at a time.
    pub read_over_raw_one: f64,
    /// Rows per second of look-ups of rows that were put together.
    pub grouped_rows_per_second: f64,
    /// `grouped_rows_per_second` relative to random look-ups.
    pub grouped_over_cold: f64,
    /// Rows per second of look-ups that are half one group, half random.
    pub mixed_rows_per_second: f64,
    /// `mixed_rows_per_second` relative to random look-ups.
    pub mixed_over_cold: f64,
    /// Rows per second of a bulk load, including the commit.
    pub load_rows_per_second: f64,
    /// Bytes of payload per second of a bulk load.
    pub load_bytes_per_second: f64,
    /// Bytes of payload relative to raw bytes.
    pub load_over_raw: f64,
    /// Rows per second of random updates of half of the rows, including commit and compaction.
    pub update_rows_per_second: f64,
    /// Bytes of payload of updates relative to raw bytes.
    pub update_over_raw: f64,
    /// Bytes of the index per row, after loading with a hint.
    pub index_bytes_per_key: f64,
    /// Bytes of the index per row after reopening.
    pub index_bytes_per_key_reopened: f64,
    /// Most bytes of the index per key while it grew beyond a million keys without a hint; a part
    /// being rewritten counts twice.
    pub index_bytes_per_key_growing: f64,
    /// Longest time for growing a part of the index, in milliseconds.
    pub index_rewrite_ms_longest: f64,
    /// Longest concurrent put of 1024 rows, in milliseconds, including delays by the disk and other
    /// processes.
    pub growing_put_ms_most: f64,
    /// Bytes of full segments divided by bytes of payload, minus one.
    pub format_overhead: f64,
    /// Bytes of a sealed, full segment per byte of payload: the maximum over rows of 512 to 16384
    /// bytes in steps of 512, each measured in a small separate store.
    pub row_space_worst: f64,
    /// Like `row_space_worst`, for rows of 64 bytes, which have a head of 16 bytes and 9 bytes in
    /// the list: 1.39.
    pub row_space_64: f64,
    /// Bytes of files divided by bytes of live rows, after overwriting and a commit.
    pub space_amplification: f64,
    /// Maximum of the space amplification at any time.
    pub space_amplification_most: f64,
    /// Bytes written divided by bytes of rows put, while overwriting.
    pub write_amplification: f64,
    /// Rows per second of overwriting.
    pub overwrite_rows_per_second: f64,
    /// Seconds to open the store.
    pub reopen_seconds: f64,
    /// Nanoseconds to open it, per row in its segments, with one thread.
    pub open_ns_per_row: f64,
    /// Nanoseconds to open it, per row in its segments, with two threads.
    pub open_ns_per_row_two: f64,
    /// Time of refreshing a view, after one row in a hundred was put again at random and all was
    /// committed, divided by the time of opening one then, with the store's default number of
    /// threads.
    pub refresh_over_open: f64,
    /// Milliseconds of the refresh.
    pub refresh_ms: f64,
    /// Rows of the segments that the refresh read: rows put again, and rows that merges moved.
    pub refresh_rows_read: f64,
    /// Seconds of a snapshot after few changes.
    pub snapshot_seconds: f64,
    /// Statistics of the store after the reads.
    pub stats: Option<Stats>,
}

/// The measured store, and the raw file.
pub(crate) struct Bench<'a> {
    options: &'a Options,
    disk: Arc<FileDisk>,
    rows: Rows,
}

/// Runs the benchmark; calls `say` with a description of each part, and `keep` with the results so
/// far after it.
///
/// # Errors
/// A disk error, a directory in use by another benchmark, or a wrong row.
pub fn run(
    options: &Options,
    say: &mut dyn FnMut(&str),
    keep: &mut dyn FnMut(&Figures),
) -> Result<Figures> {
    check(options)?;
    let home = Home::take(&options.directory.join("stepwell-bench-ssd"))?;
    Bench::new(options, home.path())?.run(say, keep)
}

fn check(options: &Options) -> Result<()> {
    let fail = |why: String| Err(Error::Arguments(why));
    let (rows, batch) = (options.rows, options.batch);
    if batch == 0 {
        return fail("--batch 0: give at least 1".to_owned());
    }
    if rows < batch as u64 {
        return fail(format!(
            "--rows {rows}: give at least {batch}, the keys of a look-up (--batch)"
        ));
    }
    if !(0.0..=10.0).contains(&options.skew) {
        return fail(format!("skew {} is not supported: give 0 to 10", options.skew));
    }
    if !(0.0..=3600.0).contains(&options.seconds) {
        return fail(format!("{} seconds are not supported: give 0 to 3600", options.seconds));
    }
    if options.rows > ROWS_MAX || options.index_rows > ROWS_MAX || options.overwrites > 1000 {
        return fail(format!("give at most {ROWS_MAX} rows and 1000 overwrites"));
    }
    if (1..growth::ROWS_FIRST).contains(&options.index_rows) {
        let least = growth::ROWS_FIRST;
        return fail(format!("--index-rows {}: give 0, or {least} or more", options.index_rows));
    }
    if options.depth == 0 || options.depth > 4096 || options.row_bytes > 1 << 20 {
        return fail("give a depth of 1 to 4096, and row-bytes of at most 1 MiB".to_owned());
    }
    if options.row_bytes < 16 {
        return fail(format!("rows of {} bytes: give at least 16", options.row_bytes));
    }
    if !(1..=1000).contains(&options.rounds) {
        return fail(format!("{} rounds: give 1 to 1000", options.rounds));
    }
    Ok(())
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options, home: &Path) -> Result<Self> {
        let disk = Arc::new(FileDisk::open(home)?);
        let rows = Rows::new(options.rows, options.row_bytes, options.skew);
        Ok(Self { options, disk, rows })
    }

    fn store_options(&self) -> StoreOptions {
        StoreOptions {
            rows_hint: self.options.rows,
            index_bytes_max: u64::MAX,
            read_depth: self.options.depth,
            ..StoreOptions::new(0, self.options.row_bytes)
        }
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Disk>> {
        Ok(self.disk.create_directory(&self.disk.path().join(name))?)
    }

    fn run(
        &mut self,
        say: &mut dyn FnMut(&str),
        keep: &mut dyn FnMut(&Figures),
    ) -> Result<Figures> {
        let mut figures = Figures {
            options: Some(self.options.clone()),
            machine: Some(Machine::here(self.disk.engine())),
            ..Figures::default()
        };
        let store = self.loads(&mut figures, say)?;
        keep(&figures);
        self.reads(&store, &mut figures, say)?;
        figures.stats = Some(store.stats());
        keep(&figures);
        let raw = self.disk.open_direct(raw::NAME)?.path().to_owned();
        // From here on, the store may use the raw file's space.
        let _ = std::fs::remove_file(raw);
        let store = self.ends(store, &mut figures, say)?;
        keep(&figures);
        self.updates(&store, &mut figures, say)?;
        keep(&figures);
        self.overwrites(&store, &mut figures, say)?;
        drop(store);
        keep(&figures);
        self.row_space(&mut figures, say)?;
        keep(&figures);
        self.growth(&mut figures, say)?;
        Ok(figures)
    }

    fn loads(&mut self, figures: &mut Figures, say: &mut dyn FnMut(&str)) -> Result<Store> {
        let (mut raw, mut ours, mut last) = (Vec::new(), Vec::new(), None);
        for round in 0..self.options.rounds {
            say(&format!("raw write and bulk load, round {}", round + 1));
            raw.push(self.raw_write()?);
            if let Some((store, name)) = last.take() {
                drop::<Store>(store);
                let path: String = name;
                let _ = std::fs::remove_dir_all(self.disk.path().join(path));
            }
            let name = format!("store-{round}");
            let (store, rows_per_second) = self.load(self.subdirectory(&name)?)?;
            ours.push(rows_per_second);
            last = Some((store, name));
        }
        let none = || Error::Arguments("0 rounds".to_owned());
        let (store, _) = last.ok_or_else(none)?;
        figures.raw_write_bytes_per_second = median(raw);
        figures.load_rows_per_second = median(ours);
        let bytes = figures.load_rows_per_second * self.options.row_bytes as f64;
        figures.load_bytes_per_second = bytes;
        figures.load_over_raw = over(bytes, figures.raw_write_bytes_per_second);
        let stats = store.stats();
        figures.index_bytes_per_key = over(stats.index_bytes as f64, stats.rows_live as f64);
        let payload = stats.rows_live as f64 * self.options.row_bytes as f64;
        figures.format_overhead = over(stats.bytes_files as f64, payload) - 1.0;
        Ok(store)
    }

    fn reads(
        &mut self,
        store: &Store,
        figures: &mut Figures,
        say: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let mut rates: [Vec<f64>; 7] = Default::default();
        for round in 0..self.options.rounds {
            say(&format!("raw reads and look-ups, round {}", round + 1));
            let raw = self.raw_reads(round as u64)?;
            let cold = self.look_up(store, reads::Mix::Random, 4)?;
            let one = self.look_up(store, reads::Mix::Random, 1)?;
            let grouped = self.look_up(store, reads::Mix::Grouped, 4)?;
            let mixed = self.look_up(store, reads::Mix::Half, 4)?;
            let figures = [raw.0, cold.0, one.0, grouped.0, mixed.0, cold.1, raw.1];
            rates.iter_mut().zip(figures).for_each(|(rates, rate)| rates.push(rate));
        }
        let [raw, cold, one, grouped, mixed, cpu, raw_cpu] = rates.map(median);
        figures.raw_read_iops = raw;
        figures.cold_rows_per_second = cold;
        figures.cold_rows_per_second_one = one;
        figures.cpu_us_per_row = cpu;
        figures.raw_cpu_us_per_read = raw_cpu;
        figures.grouped_rows_per_second = grouped;
        figures.mixed_rows_per_second = mixed;
        figures.read_over_raw = over(cold, raw);
        figures.read_over_raw_one = over(one, raw);
        figures.grouped_over_cold = over(grouped, cold);
        figures.mixed_over_cold = over(mixed, cold);
        Ok(())
    }
}
