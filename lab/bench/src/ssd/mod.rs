//! `stepwell-lab bench ssd`: the store compared with the raw disk.
//!
//! Order of a run: three rounds of a raw sequential write and a bulk load into a new store, the
//! last of which is kept; three rounds of raw random reads and look-ups; then updates, overwriting,
//! a snapshot, reopening, refreshing a view, full segments of rows of many sizes, and the index by
//! itself. The raw file is as large as the store's files, on the same file system, and uses the
//! same queues with direct I/O.

mod bench;
mod figures;
mod growth;
mod opening;
mod options;
mod raw;
mod reads;
mod rows;
mod space;
mod writes;

use stepwell_disk::Disk;
use stepwell_ssd::Store;

use self::bench::Bench;
pub use self::figures::Figures;
pub use self::options::Options;
pub(crate) use self::rows::{Shuffle, scaled};
use crate::directory::Home;
use crate::machine::Machine;
use crate::measure::{median, over};
use crate::{Error, Result};

/// Most rows of a benchmark.
const ROWS_MAX: u64 = 1 << 36;

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

impl Bench<'_> {
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
