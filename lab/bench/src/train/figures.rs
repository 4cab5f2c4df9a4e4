//! The figures of runs out of core.
//!
//! - **How.** Time, examples, rows, reads and pages are those after the warm-up.
//! - **Reads.** Those of look-ups alone: what compaction reads and writes is in the time, not in
//!   them.

use serde::Serialize;
use stepwell_train::{Report, StageReport};

use super::Options;
use super::raw::Raw;
use super::store::{Made, StoreAge};
use super::watch::Mark;
use crate::machine::Machine;
use crate::measure::over;

/// Figures of all runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// What was measured.
    pub options: Option<Options>,
    pub(super) machine: Option<Machine>,
    /// Rows that existed.
    pub rows: u64,
    /// One entry for each store that was made.
    pub stores: Vec<Made>,
    /// One entry for each model, store and share.
    pub runs: Vec<Run>,
}

/// A run out of core.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// The model.
    pub model: String,
    /// The store that it began with.
    pub store: Option<StoreAge>,
    /// Percentage of the rows that memory had slots for.
    pub share: f64,
    /// Those slots.
    pub slots: u64,
    /// Rate of the run with every row in memory.
    pub in_memory_examples_per_second: f64,
    /// Rate of this run.
    pub examples_per_second: f64,
    /// Rows read from the store, an example.
    pub cold_rows_per_example: f64,
    /// Those of a cache that holds the truly most frequent rows.
    pub ideal_cold_rows_per_example: f64,
    /// Reads for them that the disk was asked for, of one page or of neighbours.
    pub reads_per_example: f64,
    /// Pages that these brought.
    pub pages_read_per_example: f64,
    /// Random reads of a page per second of the raw disk, around this run.
    pub raw_read_iops: f64,
    /// Bytes per second of its random reads of 256 KiB.
    pub raw_read_bytes_per_second: f64,
    /// Seconds that the raw disk needs for the reads of an example: the larger of reads over
    /// `raw_read_iops` and their bytes over `raw_read_bytes_per_second`.
    pub disk_seconds_per_example: f64,
    /// The smaller of the rate in memory and one over `disk_seconds_per_example`.
    pub limit_examples_per_second: f64,
    /// `examples_per_second` over that limit.
    pub over_limit: f64,
    /// `examples_per_second` over that in memory.
    pub over_in_memory: f64,
    /// Rate of the plain run; none where there was no such run, here and in what follows.
    pub plain_examples_per_second: Option<f64>,
    /// `examples_per_second` over that.
    pub rate_over_plain: Option<f64>,
    /// `reads_per_example` over those of the plain run.
    pub reads_over_plain: Option<f64>,
    /// `pages_read_per_example` over those of the plain run.
    pub pages_over_plain: Option<f64>,
    /// `disk_seconds_per_example` over those of the plain run.
    pub disk_seconds_over_plain: Option<f64>,
    /// Processor seconds of all threads an example, in microseconds.
    pub cpu_us_per_example: f64,
    /// Wall time over the largest of: processor seconds over cores, seconds of the raw disk,
    /// processor seconds of the longest stage that is one thread.
    pub wall_over_largest: f64,
    /// Which of them that was.
    pub bound_by: String,
    /// Where the stages' time went, over the whole run.
    pub stages: Vec<StageReport>,
}

/// The part of a run that counts, in figures.
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
        self.cpu_us_per_example = each(counted.cpu * 1e6);
        self.stages.clone_from(&counted.report.stages);
        self.bound(counted, disk);
    }

    fn bound(&mut self, counted: &Counted, disk: f64) {
        // Stages are timed over the whole run, the warm-up included.
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

    /// Beside the rate with every row in memory, 0 where that was not measured.
    pub(super) fn over_memory(&mut self, in_memory: f64) {
        let disk = over(1.0, self.disk_seconds_per_example);
        self.in_memory_examples_per_second = in_memory;
        self.over_in_memory = over(self.examples_per_second, in_memory);
        self.limit_examples_per_second = match (disk > 0.0, in_memory > 0.0) {
            (true, true) => disk.min(in_memory),
            // Without a read the disk is no limit.
            _ => disk.max(in_memory),
        };
        self.over_limit = over(self.examples_per_second, self.limit_examples_per_second);
    }

    /// Beside the plain run.
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
            run.over_memory(in_memory);
            (run.limit_examples_per_second, run.over_limit)
        };
        assert_eq!(run(0.01, 200.0), (100.0, 0.5));
        assert_eq!(run(0.01, 80.0), (80.0, 0.625));
        assert_eq!(run(0.01, 0.0), (100.0, 0.5));
        assert_eq!(run(0.0, 200.0), (200.0, 0.25));
        assert_eq!(run(0.0, 0.0), (0.0, 0.0));
    }
}
