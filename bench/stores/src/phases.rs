//! One engine through all phases: load, cold reads, update.
//!
//! How       Load and update write a shuffle of the rows in batches of 8192; their clock stops when
//!           the engine has settled. Reads draw uniform keys and go on for a time, first by one
//!           thread, then by two. The page cache is dropped before each phase.
//! Invariants  Every row read has the right length and first word; after the update, samples of
//!           updated and of other rows are read back too. A wrong row ends the run.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::engine::{Engine, Store};
use crate::meter::{self, Meter, Spent};
use crate::options::Options;
use crate::scratch::Scratch;
use crate::withhold::{self, Withheld};
use crate::workload::{self, Batch, Key, Stream, WRITE_BATCH_ROWS};
use crate::{Result, progress};

/// Threads of the phases of reading.
const READ_THREADS: [u32; 2] = [1, 2];

const LOAD_SEED: u64 = 1;
const UPDATE_SEED: u64 = 2;
const READ_SEED: u64 = 3;

/// All that was measured of one engine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) engine: Engine,
    pub(crate) setting: &'static str,
    pub(crate) load: Written,
    pub(crate) cold: Vec<Looked>,
    pub(crate) update: Option<Written>,
    pub(crate) notes: Vec<String>,
}

/// A phase of writing.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Written {
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    pub(crate) rows_per_second: f64,
    pub(crate) cpu_us_per_row: f64,
    pub(crate) bytes_written: u64,
    /// Bytes written over bytes of the rows written and their keys.
    pub(crate) write_amplification: f64,
    /// Bytes on the disk over bytes of all rows and their keys.
    pub(crate) space_amplification: f64,
}

/// A phase of reading.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Looked {
    pub(crate) threads: u32,
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    pub(crate) rows_per_second: f64,
    pub(crate) cpu_us_per_row: f64,
    pub(crate) bytes_read_per_row: f64,
}

/// Takes `engine` through all phases, in a directory that is gone afterwards.
pub(crate) fn measure(engine: Engine, options: &Options) -> Result<Figures> {
    let scratch = Scratch::make(&options.dir, engine.name())?;
    let bench = Bench { store: engine.open(scratch.path())?, engine, options, scratch: &scratch };
    let mut notes = Vec::new();
    drop_page_cache(&mut notes);
    let load = bench.write(&workload::shuffled(options.rows, LOAD_SEED), 0, "load")?;
    let mut cold = Vec::new();
    for threads in READ_THREADS {
        drop_page_cache(&mut notes);
        cold.push(bench.read(threads, &mut notes)?);
    }
    drop_page_cache(&mut notes);
    let update = if options.no_update { None } else { Some(bench.update()?) };
    notes.sort();
    notes.dedup();
    Ok(Figures { engine, setting: engine.setting(), load, cold, update, notes })
}

fn drop_page_cache(notes: &mut Vec<String>) {
    notes.extend(withhold::drop_page_cache().err());
}

/// An engine on its way through the phases. The store is closed before its directory goes.
struct Bench<'a> {
    store: Box<dyn Store>,
    engine: Engine,
    options: &'a Options,
    scratch: &'a Scratch,
}

impl Bench<'_> {
    fn write(&self, order: &[u32], generation: u64, phase: &str) -> Result<Written> {
        progress(&format!("{}: {phase} of {} rows", self.engine.name(), order.len()));
        let mut batch = Batch::new(self.options.row_bytes());
        let meter = Meter::start()?;
        for numbers in order.chunks(WRITE_BATCH_ROWS) {
            batch.draw(numbers, generation);
            self.store.put(&batch)?;
        }
        self.store.settle()?;
        let spent = meter.stop()?;
        let space = meter::settled_bytes(self.scratch.path())?;
        Ok(self.written(order.len() as u64, spent, space))
    }

    fn written(&self, rows: u64, spent: Spent, space_bytes: u64) -> Written {
        let (payload, all) = (
            self.options.payload_bytes(rows),
            self.options.payload_bytes(u64::from(self.options.rows)),
        );
        Written {
            rows,
            seconds: spent.seconds,
            rows_per_second: rows as f64 / spent.seconds,
            cpu_us_per_row: spent.cpu_seconds * 1e6 / rows as f64,
            bytes_written: spent.write_bytes,
            write_amplification: spent.write_bytes as f64 / payload as f64,
            space_amplification: space_bytes as f64 / all as f64,
        }
    }

    /// Writes half of the rows anew, in another random order, and looks whether they are.
    fn update(&self) -> Result<Written> {
        const SAMPLE_ROWS: usize = 1000;
        let order = workload::shuffled(self.options.rows, UPDATE_SEED);
        let (updated, others) = order.split_at(order.len().div_ceil(2));
        let written = self.write(updated, 1, "update")?;
        for (numbers, generation) in [(updated, 1), (others, 0)] {
            let numbers = numbers.iter().take(SAMPLE_ROWS);
            let keys: Vec<Key> = numbers.map(|n| workload::key(u64::from(*n))).collect();
            self.look_up(&keys, generation)?;
        }
        Ok(written)
    }

    fn read(&self, threads: u32, notes: &mut Vec<String>) -> Result<Looked> {
        progress(&format!("{}: cold reads, threads: {threads}", self.engine.name()));
        let withheld = self.engine.reads_through_page_cache();
        let withheld = withheld.then(|| Withheld::begin(self.scratch.path()));
        notes.extend(withheld.as_ref().map(Withheld::note));
        let meter = Meter::start()?;
        let until = Instant::now() + Duration::from_secs(u64::from(self.options.seconds));
        let rows = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..threads)
                .map(|reader| scope.spawn(move || self.read_until(until, threads, reader)))
                .collect();
            let join = |reader: std::thread::ScopedJoinHandle<'_, Result<u64>>| {
                reader.join().unwrap_or_else(|_| Err("a reading thread panicked".to_owned()))
            };
            readers.into_iter().map(join).sum::<Result<u64>>()
        })?;
        let spent = meter.stop()?;
        Ok(Looked {
            threads,
            rows,
            seconds: spent.seconds,
            rows_per_second: rows as f64 / spent.seconds,
            cpu_us_per_row: spent.cpu_seconds * 1e6 / rows as f64,
            bytes_read_per_row: spent.read_bytes as f64 / rows as f64,
        })
    }

    /// Reads batch after batch; returns the count of rows read. At least one batch is.
    fn read_until(&self, until: Instant, threads: u32, reader: u32) -> Result<u64> {
        let mut stream = Stream::new(READ_SEED + (u64::from(threads) << 32) + u64::from(reader));
        let mut keys = vec![Key::default(); self.options.batch as usize];
        let mut rows = 0;
        loop {
            keys.fill_with(|| workload::key(stream.below(u64::from(self.options.rows))));
            self.look_up(&keys, 0)?;
            rows += keys.len() as u64;
            if Instant::now() >= until {
                return Ok(rows);
            }
        }
    }

    fn look_up(&self, keys: &[Key], generation: u64) -> Result<()> {
        let (row_bytes, mut wrong) = (self.options.row_bytes(), None);
        self.store.get(keys, &mut |position, row| {
            let key = &keys[position];
            if !workload::is_row(key, generation, row, row_bytes) {
                wrong = Some(u64::from_be_bytes(*key));
            }
        })?;
        let name = self.engine.name();
        wrong.map_or(Ok(()), |key| Err(format!("{name} gave a wrong row for key {key:016x}")))
    }
}
