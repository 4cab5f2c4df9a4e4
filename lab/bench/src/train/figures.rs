//! Results of runs out of core.
//!
//! - **How.** Time, examples, rows, reads and pages are counted after the warm-up.
//! - **Reads.** Only reads of look-ups: time includes reads and writes of compaction, the counts
//!   don't.

use serde::Serialize;
use stepwell_ssd::Stats;
use stepwell_train::{Report, StageReport};

use super::options::Options;
use super::raw::Raw;
use super::store::{Made, StoreAge};
use super::watch::Mark;
use crate::machine::Machine;
use crate::measure::over;

/// Results of all runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Options of the benchmark.
    pub options: Option<Options>,
    pub(super) machine: Option<Machine>,
    /// Number of rows.
    pub rows: u64,
    /// One entry per store.
    pub stores: Vec<Made>,
    /// One entry per model, store and share.
    pub runs: Vec<Run>,
}

/// A run out of core.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// Name of the model.
    pub model: String,
    /// The store with which it started.
    pub store: Option<StoreAge>,
    /// Slots in memory, as a percentage of the rows.
    pub share: f64,
    /// Number of slots.
    pub slots: u64,
    /// Examples per second of the run with every row in memory.
    pub in_memory_examples_per_second: f64,
    /// Examples per second of this run.
    pub examples_per_second: f64,
    /// Rows read from the store per example.
    pub cold_rows_per_example: f64,
    /// Rows read per example with a cache that contains the truly most frequent rows.
    pub ideal_cold_rows_per_example: f64,
    /// Disk reads for these rows per example, of one page or of neighboring pages.
    pub reads_per_example: f64,
    /// Pages read per example.
    pub pages_read_per_example: f64,
    /// Random reads of one page per second of the raw disk, before and after this run.
    pub raw_read_iops: f64,
    /// Bytes per second of random reads of 256 KiB of the raw disk.
    pub raw_read_bytes_per_second: f64,
    /// Seconds that the raw disk needs for the reads of an example: the maximum of reads divided by
    /// `raw_read_iops`, and their bytes divided by `raw_read_bytes_per_second`.
    pub disk_seconds_per_example: f64,
    /// The minimum of the rate in memory and the inverse of `disk_seconds_per_example`.
    pub limit_examples_per_second: f64,
    /// `examples_per_second` relative to that limit.
    pub over_limit: f64,
    /// `examples_per_second` relative to the rate in memory.
    pub over_in_memory: f64,
    /// Examples per second of the plain run; this and the following are `None` without one.
    pub plain_examples_per_second: Option<f64>,
    /// `examples_per_second` relative to the plain run.
    pub rate_over_plain: Option<f64>,
    /// `reads_per_example` relative to the plain run.
    pub reads_over_plain: Option<f64>,
    /// `pages_read_per_example` relative to the plain run.
    pub pages_over_plain: Option<f64>,
    /// `disk_seconds_per_example` relative to the plain run.
    pub disk_seconds_over_plain: Option<f64>,
    /// Rows put into the store per example. This and the next two cover the whole run, including
    /// the warm-up.
    pub rows_put_per_example: f64,
    /// Rows that compaction moved per example.
    pub rows_moved_per_example: f64,
    /// Bytes written per example: rows put, rows moved, footers, manifests.
    pub bytes_written_per_example: f64,
    /// Processor microseconds of all threads per example.
    pub cpu_us_per_example: f64,
    /// The same for the run with every row in memory; 0 if that wasn't measured.
    pub in_memory_cpu_us_per_example: f64,
    /// Processor microseconds per example, by stage and for compaction, over the whole run
    /// including the warm-up. An entry `others` covers all other threads, such as compute
    /// threads.
    pub stage_cpu_us_per_example: Vec<StageCost>,
    /// Wall time divided by the maximum of processor seconds per core, seconds of the raw disk, and
    /// processor seconds of the longest single-threaded stage.
    pub wall_over_largest: f64,
    /// Name of that maximum.
    pub bound_by: String,
    /// Times of the stages over the whole run.
    pub stages: Vec<StageReport>,
}

/// Processor time of a stage.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StageCost {
    /// Name of the stage, `compact` or `others`.
    pub name: String,
    /// Processor microseconds per example.
    pub cpu_us_per_example: f64,
}

/// Totals of the part of a run that counts.
pub(super) struct Counted {
    seconds: f64,
    cpu: f64,
    examples: f64,
    refilled: f64,
    reads: f64,
    pages: f64,
    report: Report,
}

impl Counted {
    pub(super) fn between(begin: &Mark, end: &Mark, report: Report) -> Self {
        Self {
            seconds: (end.at - begin.at).as_secs_f64(),
            cpu: (end.cpu - begin.cpu).as_secs_f64(),
            examples: (end.examples - begin.examples) as f64,
            refilled: (end.refilled - begin.refilled) as f64,
            reads: (end.reads - begin.reads) as f64,
            pages: (end.pages_read - begin.pages_read) as f64,
            report,
        }
    }

    pub(super) fn rate(&self) -> f64 {
        over(self.examples, self.seconds)
    }

    /// Processor microseconds per example.
    pub(super) fn cpu_us(&self) -> f64 {
        over(self.cpu * 1e6, self.examples)
    }

    /// A total over the whole run, per example.
    fn of_whole_run(&self, total: f64) -> f64 {
        over(total, self.report.examples as f64)
    }

    /// A total over the stores and the whole run, per example.
    fn of_stores(&self, total: impl Fn(&Stats) -> f64) -> f64 {
        self.of_whole_run(self.report.tiers.disk.stores.iter().map(total).sum())
    }

    /// Processor microseconds per example by stage. `others` is the processor time after the
    /// warm-up that neither a stage nor compaction accounts for.
    fn stage_costs(&self) -> Vec<StageCost> {
        let cost = |name: &str, cpu_us_per_example| StageCost {
            name: name.to_owned(),
            cpu_us_per_example,
        };
        let each =
            |stage: &StageReport| cost(&stage.name, self.of_whole_run(stage.cpu_seconds * 1e6));
        let mut costs: Vec<StageCost> = self.report.stages.iter().map(each).collect();
        costs.push(cost("compact", self.of_stores(|store| store.compaction_cpu_seconds * 1e6)));
        let known: f64 = costs.iter().map(|cost| cost.cpu_us_per_example).sum();
        let others = self.cpu_us() - known;
        // A warm-up that costs more than the rest leaves none.
        if others > 0.0 {
            costs.push(cost("others", others));
        }
        costs
    }

    /// Seconds that the raw disk needs for the reads.
    fn disk_seconds(&self, raw: &Raw, page_bytes: u64) -> f64 {
        raw.seconds(self.reads, self.pages * page_bytes as f64)
    }
}

impl Run {
    pub(super) fn new(model: &str, store: StoreAge, share: f64, slots: u64) -> Self {
        Self { model: model.to_owned(), store: Some(store), share, slots, ..Self::default() }
    }

    pub(super) fn fill(&mut self, counted: &Counted, raw: &Raw, page_bytes: u64) {
        let each = |count: f64| over(count, counted.examples);
        self.examples_per_second = counted.rate();
        self.cold_rows_per_example = each(counted.refilled);
        self.reads_per_example = each(counted.reads);
        self.pages_read_per_example = each(counted.pages);
        self.raw_read_iops = raw.iops;
        self.raw_read_bytes_per_second = raw.bytes_per_second;
        let disk = counted.disk_seconds(raw, page_bytes);
        self.disk_seconds_per_example = each(disk);
        self.rows_put_per_example = counted.of_stores(|store| store.rows_put as f64);
        self.rows_moved_per_example = counted.of_stores(|store| store.rows_moved as f64);
        self.bytes_written_per_example = counted.of_stores(|store| store.bytes_written as f64);
        self.cpu_us_per_example = counted.cpu_us();
        self.stages.clone_from(&counted.report.stages);
        self.stage_cpu_us_per_example = counted.stage_costs();
        self.bound(counted, disk);
    }

    fn bound(&mut self, counted: &Counted, disk: f64) {
        // Stages are timed over the whole run, including the warm-up.
        let share = over(counted.seconds, counted.report.train_seconds);
        let single = self.stages.iter().filter(|stage| !["parse", "train"].contains(&&*stage.name));
        let longest = single.max_by(|a, b| a.cpu_seconds.total_cmp(&b.cpu_seconds));
        let cores = stepwell_base::cores();
        let mut bounds =
            vec![("processor".to_owned(), counted.cpu / cores as f64), ("disk".to_owned(), disk)];
        bounds.extend(
            longest.map(|stage| (format!("stage {}", stage.name), stage.cpu_seconds * share)),
        );
        if let Some((name, seconds)) = bounds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
            self.wall_over_largest = over(counted.seconds, seconds);
            self.bound_by = name;
        }
    }

    /// Compares with the run with every row in memory, if that was measured.
    pub(super) fn over_memory(&mut self, in_memory: Option<&Counted>) {
        self.in_memory_cpu_us_per_example = in_memory.map_or(0.0, Counted::cpu_us);
        self.over_memory_rate(in_memory.map_or(0.0, Counted::rate));
    }

    /// Compares with the rate with every row in memory; 0 if that wasn't measured.
    fn over_memory_rate(&mut self, in_memory: f64) {
        let disk = over(1.0, self.disk_seconds_per_example);
        self.in_memory_examples_per_second = in_memory;
        self.over_in_memory = over(self.examples_per_second, in_memory);
        self.limit_examples_per_second = match (disk > 0.0, in_memory > 0.0) {
            (true, true) => disk.min(in_memory),
            // Without reads, the disk is no limit.
            _ => disk.max(in_memory),
        };
        self.over_limit = over(self.examples_per_second, self.limit_examples_per_second);
    }

    /// Compares with the plain run.
    pub(super) fn over_plain(&mut self, plain: &Counted, raw: &Raw, page_bytes: u64) {
        let each = |count: f64| over(count, plain.examples);
        let disk = each(plain.disk_seconds(raw, page_bytes));
        self.plain_examples_per_second = Some(plain.rate());
        self.rate_over_plain = Some(over(self.examples_per_second, plain.rate()));
        self.reads_over_plain = Some(over(self.reads_per_example, each(plain.reads)));
        self.pages_over_plain = Some(over(self.pages_read_per_example, each(plain.pages)));
        self.disk_seconds_over_plain = Some(over(self.disk_seconds_per_example, disk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_memory_and_disk_is_the_limit() {
        let run = |disk_seconds_per_example, in_memory| {
            let mut run = Run {
                examples_per_second: 50.0,
                disk_seconds_per_example,
                ..Run::new("lr", StoreAge::Aged, 10.0, 100)
            };
            run.over_memory_rate(in_memory);
            (run.limit_examples_per_second, run.over_limit)
        };
        assert_eq!(run(0.01, 200.0), (100.0, 0.5));
        assert_eq!(run(0.01, 80.0), (80.0, 0.625));
        assert_eq!(run(0.01, 0.0), (100.0, 0.5));
        assert_eq!(run(0.0, 200.0), (200.0, 0.25));
        assert_eq!(run(0.0, 0.0), (0.0, 0.0));
    }
}
