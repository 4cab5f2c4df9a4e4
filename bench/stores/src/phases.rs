//! One engine through all phases: load, cold reads, update.
//!
//! - **How.** Load and update write a shuffle of the rows in batches of 8192, and make them durable
//!   at the same moments for every engine; their clock stops when the engine has settled. Reads
//!   draw batches of uniform keys, in each of the engine's ways: threads, batches of each in
//!   flight. Each way is warmed up for a time that does not count. The page cache is dropped before
//!   each phase and each way.
//! - **Invariants.** Every row read has the right length and first word; after the update, samples
//!   of updated and of other rows are read back too. A wrong row ends the run.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::engine::{Engine, Queries, Store, Way};
use crate::meter::{self, Meter, Spent};
use crate::options::Options;
use crate::scratch::Scratch;
use crate::withhold::{self, Withheld};
use crate::workload::{self, Batch, Key, Stream, WRITE_BATCH_ROWS};
use crate::{Result, progress};

const LOAD_SEED: u64 = 1;
const UPDATE_SEED: u64 = 2;
const WARM_UP_SEED: u64 = 3;
const READ_SEED: u64 = 4;

/// All that was measured of one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) engine: Engine,
    pub(crate) setting: String,
    pub(crate) load: Written,
    /// A reading for each of the engine's ways.
    pub(crate) cold: Vec<Looked>,
    pub(crate) update: Option<Written>,
    pub(crate) notes: Vec<String>,
}

impl Figures {
    /// The reading of the engine's best way.
    pub(crate) fn best(&self) -> Option<&Looked> {
        let by_rate =
            |a: &&Looked, b: &&Looked| a.cost.rows_per_second.total_cmp(&b.cost.rows_per_second);
        self.cold.iter().max_by(by_rate)
    }
}

/// What rows cost in a phase.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    pub(crate) rows_per_second: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) cpu_us_per_row: f64,
    pub(crate) bytes_read_per_row: f64,
    pub(crate) bytes_written_per_row: f64,
    /// Of the process, the workload's own included.
    pub(crate) memory_peak_bytes: u64,
}

impl Cost {
    fn of(rows: u64, spent: &Spent) -> Self {
        let count = rows as f64;
        Self {
            rows,
            seconds: spent.seconds,
            rows_per_second: count / spent.seconds,
            cpu_seconds: spent.cpu_seconds,
            cpu_us_per_row: spent.cpu_seconds * 1e6 / count,
            bytes_read_per_row: spent.read_bytes as f64 / count,
            bytes_written_per_row: spent.write_bytes as f64 / count,
            memory_peak_bytes: spent.memory_peak_bytes,
        }
    }
}

/// A phase of writing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) cost: Cost,
    /// Bytes written over bytes of the rows written and their keys.
    pub(crate) write_amplification: f64,
    /// Bytes on the disk over bytes of all rows and their keys.
    pub(crate) space_amplification: f64,
}

/// Reading in one way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Looked {
    pub(crate) way: Way,
    pub(crate) cost: Cost,
}

/// Takes `engine` through all phases, in a directory that is gone afterwards.
pub(crate) fn measure(engine: Engine, options: &Options) -> Result<Figures> {
    let scratch = Scratch::make(&options.dir, engine.name())?;
    let store = engine.open(scratch.path(), &options.setup())?;
    let mut bench = Bench { store, engine, options, scratch: &scratch, notes: Vec::new() };
    let load = bench.write(&workload::shuffled(options.rows, LOAD_SEED), 0, "load")?;
    let ways = engine.ways().iter();
    let cold = ways.map(|way| bench.read(*way)).collect::<Result<Vec<_>>>()?;
    let update = if options.no_update { None } else { Some(bench.update()?) };
    let mut notes = bench.notes;
    notes.sort();
    notes.dedup();
    Ok(Figures { engine, setting: engine.setting().to_owned(), load, cold, update, notes })
}

/// An engine on its way through the phases. The store is closed before its directory goes.
struct Bench<'a> {
    store: Box<dyn Store>,
    engine: Engine,
    options: &'a Options,
    scratch: &'a Scratch,
    notes: Vec<String>,
}

impl Bench<'_> {
    fn begin(&mut self, phase: &str) {
        progress(&format!("{}: {phase}", self.engine.name()));
        self.notes.extend(withhold::drop_page_cache().err());
    }

    fn write(&mut self, order: &[u32], generation: u64, phase: &str) -> Result<Written> {
        self.begin(&format!("{phase} of {} rows", order.len()));
        let mut batch = Batch::new(self.options.row_bytes());
        let meter = Meter::start()?;
        for rows in order.chunks(self.options.commit_rows as usize) {
            for numbers in rows.chunks(WRITE_BATCH_ROWS) {
                batch.draw(numbers, generation);
                self.store.put(&batch)?;
            }
            self.store.commit()?;
        }
        self.store.settle()?;
        let spent = meter.stop()?;
        let space = meter::settled_bytes(self.scratch.path())?;
        Ok(self.written(order.len() as u64, &spent, space))
    }

    fn written(&self, rows: u64, spent: &Spent, space_bytes: u64) -> Written {
        let payload = self.options.payload_bytes(rows);
        let all = self.options.payload_bytes(u64::from(self.options.rows));
        Written {
            cost: Cost::of(rows, spent),
            write_amplification: spent.write_bytes as f64 / payload as f64,
            space_amplification: space_bytes as f64 / all as f64,
        }
    }

    /// Writes half of the rows anew, in another random order, and looks whether they are.
    fn update(&mut self) -> Result<Written> {
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

    fn look_up(&self, keys: &[Key], generation: u64) -> Result<()> {
        let (row_bytes, mut wrong) = (self.options.row_bytes(), None);
        self.store.get(keys, &mut |position, row| {
            let key = &keys[position];
            if !workload::is_row(key, generation, row, row_bytes) {
                wrong = Some(*key);
            }
        })?;
        wrong.map_or(Ok(()), |key| Err(wrong_row(self.engine, &key)))
    }

    fn read(&mut self, way: Way) -> Result<Looked> {
        let Way { threads, in_flight } = way;
        self.begin(&format!(
            "cold reads, {threads} threads, {in_flight} batches of each in flight"
        ));
        // A quarter of the memory: what the engine does not have for itself.
        let bytes = self.options.setup().memory_bytes / 4;
        let withheld = self.engine.reads_through_page_cache();
        let withheld = withheld.then(|| Withheld::begin(self.scratch.path(), bytes));
        self.notes.extend(withheld.as_ref().map(Withheld::note));
        if self.options.warm_up > 0 {
            self.read_for(self.options.warm_up, WARM_UP_SEED, way)?;
        }
        let meter = Meter::start()?;
        let rows = self.read_for(self.options.seconds, READ_SEED, way)?;
        Ok(Looked { way, cost: Cost::of(rows, &meter.stop()?) })
    }

    /// Reads batch after batch in all threads; returns the count of rows read.
    fn read_for(&self, seconds: u32, seed: u64, way: Way) -> Result<u64> {
        let until = Instant::now() + Duration::from_secs(u64::from(seconds));
        let (store, options, engine) = (&*self.store, self.options, self.engine);
        let read = |thread: usize| {
            let seed = seed + ((way.threads as u64) << 48) + ((way.in_flight as u64) << 40);
            let stream = Stream::new(seed + ((thread as u64) << 8));
            let mut reading = Reading { stream, options, until, asked: 0, rows: 0, wrong: None };
            store.answer(&mut reading, way.in_flight)?;
            reading.wrong.map_or(Ok(reading.rows), |key| Err(wrong_row(engine, &key)))
        };
        std::thread::scope(|scope| {
            let readers: Vec<_> =
                (0..way.threads).map(|thread| scope.spawn(move || read(thread))).collect();
            let join = |reader: std::thread::ScopedJoinHandle<'_, Result<u64>>| {
                reader.join().unwrap_or_else(|_| Err("a reading thread panicked".to_owned()))
            };
            readers.into_iter().map(join).sum::<Result<u64>>()
        })
    }
}

fn wrong_row(engine: Engine, key: &Key) -> String {
    format!("{} gave a wrong row for key {:016x}", engine.name(), u64::from_be_bytes(*key))
}

/// Batches of uniform keys for a time, one at least, and a look at the rows found.
struct Reading<'a> {
    stream: Stream,
    options: &'a Options,
    until: Instant,
    asked: u64,
    rows: u64,
    wrong: Option<Key>,
}

impl Queries for Reading<'_> {
    fn next(&mut self, keys: &mut Vec<Key>) -> bool {
        if self.asked > 0 && (self.wrong.is_some() || Instant::now() >= self.until) {
            return false;
        }
        self.asked += 1;
        let (stream, rows) = (&mut self.stream, u64::from(self.options.rows));
        keys.clear();
        keys.extend((0..self.options.batch).map(|_| workload::key(stream.below(rows))));
        true
    }

    fn found(&mut self, key: &Key, row: &[u8]) {
        if !workload::is_row(key, 0, row, self.options.row_bytes()) {
            self.wrong = Some(*key);
        }
    }

    fn answered(&mut self, rows: usize) {
        self.rows += rows as u64;
    }
}
