//! Runs of the benchmark, and the data that all of them read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use stepwell_base::ByteCount;
use stepwell_base::stop::StopRequest;
use stepwell_data::{
    DataError, Input, PackedOptions, PackedWriter, ReadOptions, Reader, Schema, SynthOptions,
};
use stepwell_engine::Placement;
use stepwell_fabric::Network;
use stepwell_settings::{Config, ModelKind};
use stepwell_train::{
    Exchanged, Late, Machine, Report, RowsAtStart, Silence, Surroundings, memory_bytes, slab_bytes,
};

use super::options::{Options, Part};
use crate::directory::remove;
use crate::{Error, Result};

/// Slots out of core, as a percentage of the rows.
pub(super) const SHARE: u64 = 10;

/// A run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) kind: ModelKind,
    pub(super) ranks: usize,
    /// Threads per rank.
    pub(super) threads: usize,
    pub(super) out_of_core: bool,
    pub(super) network: Option<Network>,
    pub(super) late: Option<Late>,
}

impl Job {
    /// Ranks of one thread, with all rows in memory.
    pub(super) fn of_ranks(kind: ModelKind, ranks: usize) -> Self {
        Self { kind, ranks, threads: 1, out_of_core: false, network: None, late: None }
    }
}

/// Parameters that all runs share.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    place: &'a Path,
    data: PathBuf,
    /// Distinct rows of the data.
    pub(super) rows: u64,
    /// Mean number of distinct keys of a mini-batch.
    keys: f64,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Arguments(error.to_string())
}

impl<'a> Bench<'a> {
    /// Writes the data, unless it is given, and counts its rows.
    pub(super) fn new(
        options: &'a Options,
        place: &'a Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        let data = match &options.data {
            Some(data) => data.clone(),
            None => {
                say(&format!("writing {} examples", options.examples));
                let data = place.join("examples.packed");
                write(options, &data).map_err(failed)?;
                data
            }
        };
        let mut bench = Self { options, place, data, rows: 0, keys: 0.0 };
        say("counting rows");
        // Uses the model that is cheapest to train; rows without a slot are written to disk.
        let config = bench.config(&Job::of_ranks(ModelKind::Lr, 1));
        let report = bench.run(&config, None, None, true)?;
        bench.rows = report.rows.unwrap_or(0);
        let planned = report.tiers.host.hits + report.tiers.host.misses;
        bench.keys = planned as f64 / report.steps.max(1) as f64;
        bench.check()?;
        Ok(bench)
    }

    /// Returns an error for data that can't be measured.
    fn check(&self) -> Result<()> {
        // A mini-batch needs all its rows in memory at once, and others may have slightly more.
        let (slots, needed) = (self.rows * SHARE / 100, (self.keys * 1.05).ceil());
        let is_in_core = !self.options.parts.contains(&Part::OutOfCore);
        if is_in_core || slots as f64 >= needed {
            return Ok(());
        }
        Err(Error::Arguments(format!(
            "{SHARE} % of {} rows are fewer than the {needed} of a mini-batch: give more --rows \
             and --examples, a smaller data.mini_batch (--set), or --parts without out_of_core",
            self.rows
        )))
    }

    /// Settings of `job`, except for memory.
    fn config(&self, job: &Job) -> Config {
        let mut config = self.options.config.clone();
        config.model.kind = job.kind;
        (config.ranks.count, config.threads) = (job.ranks, job.threads);
        config.data.paths = vec![self.data.display().to_string()];
        config.data.eval_fraction = 0.0;
        config.tiers.ssd = Some(self.place.join("run"));
        config
    }

    /// Runs `job`.
    ///
    /// # Errors
    /// The errors of the run; rows that should stay in memory were evicted.
    pub(super) fn train(&self, job: &Job) -> Result<Report> {
        self.train_with(job, |_| ())
    }

    /// Like [`Self::train`], with changed settings.
    ///
    /// # Errors
    /// The errors of [`Bench::train`].
    pub(super) fn train_with(&self, job: &Job, change: impl FnOnce(&mut Config)) -> Result<Report> {
        let mut config = self.config(job);
        change(&mut config);
        let tables = stepwell_train::tables(&config).map_err(failed)?;
        let [table] = &tables[..] else {
            return Err(failed("models with several tables are not supported"));
        };
        let slots = self.slots(job);
        let dram = slab_bytes(&config, table, slots);
        config.tiers.dram = Some(ByteCount(dram));
        let all = dram.saturating_mul(job.ranks as u64);
        if let Some(memory) = memory_bytes().filter(|memory| all > *memory) {
            let (all, memory) = (ByteCount(all), ByteCount(memory));
            return Err(Error::Arguments(format!(
                "{} rows take {all} of memory, but this machine has {memory}: give fewer --rows",
                self.rows
            )));
        }
        let report = self.run(&config, job.network, job.late, false)?;
        let left: u64 = tiers(&report).map(|tiers| tiers.host.evictions).sum();
        if left > 0 && !job.out_of_core {
            return Err(failed(format!("{left} rows did not fit in memory: this is a bug")));
        }
        Ok(report)
    }

    /// Slots per rank. Owners have nearly equal parts of the rows, and all rows must fit.
    fn slots(&self, job: &Job) -> u64 {
        let (rows, ranks) = (self.rows, job.ranks as u64);
        if job.out_of_core {
            return (rows * SHARE / 100).div_ceil(ranks);
        }
        // A fiftieth is many times the imbalance of a hash with this many keys.
        rows.div_ceil(ranks) + rows / 50 + self.keys as u64 + 1024
    }

    fn run(
        &self,
        config: &Config,
        network: Option<Network>,
        late: Option<Late>,
        digest: bool,
    ) -> Result<Report> {
        config.check().map_err(Error::Arguments)?;
        let around = Surroundings {
            observer: Arc::new(Silence),
            machine: Machine { network, late, ..Machine::default() },
            stop: StopRequest::new(),
            placement: Placement::Fresh,
            from: None,
            rows: RowsAtStart::default(),
            repaired_rows: false,
            digest,
            settings: Value::Null,
            on_plan: Arc::new(|_| {}),
            on_note: Arc::new(|_| {}),
            on_warning: Arc::new(|_| {}),
        };
        let report = stepwell_train::train(config, &around);
        remove(&self.place.join("run"))?;
        report.map_err(failed)
    }
}

/// Tiers of all ranks.
fn tiers(report: &Report) -> impl Iterator<Item = &stepwell_train::Tiers> {
    let alone = report.by_rank.is_empty().then_some(&report.tiers);
    report.by_rank.iter().map(|rank| &rank.tiers).chain(alone)
}

/// Traffic of each rank, if there are several.
pub(super) fn exchanged(report: &Report) -> Vec<Exchanged> {
    report.by_rank.iter().filter_map(|rank| rank.ranks).collect()
}

/// Writes the built-in stream to a packed file.
fn write(options: &Options, path: &Path) -> std::result::Result<(), DataError> {
    let sample = SynthOptions { vocab_scale: 1.0, ..SynthOptions::default() }.vocabularies();
    let stream = SynthOptions {
        examples: options.examples,
        vocab_scale: options.rows as f64 / sample.iter().sum::<u64>() as f64,
        zipf: options.skew,
        ..SynthOptions::default()
    };
    let schema = Schema::CRITEO;
    let mut reader = Reader::open(Input::synth(&stream)?, &ReadOptions::new(schema))?;
    let mut writer = PackedWriter::new(path, &PackedOptions::new(schema))?;
    let mut chunk = reader.chunk();
    while reader.next_chunk(&mut chunk)? {
        writer.add(&chunk)?;
    }
    writer.finish()?;
    Ok(())
}
