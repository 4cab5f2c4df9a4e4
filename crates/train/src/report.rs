//! The report of a run: one JSON object with all figures.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stepwell_base::budget::Budget;
use stepwell_base::stage::StageTimes;
use stepwell_data::CutColumn;
use stepwell_engine::{DeviceCount, SetAside};

use crate::metrics::{Evaluation, GroupMetrics, Metrics, RecallMetrics};
use crate::profile::{KernelReport, LayerReport};
use crate::resume::Waited;

/// All figures of a run. Scripts rely on the field names.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the program.
    pub version: String,
    /// Whether the run was asked to stop before it ended.
    pub interrupted: bool,
    /// Whether training and evaluation are complete; an interruption after that loses only the
    /// digest.
    #[serde(skip)]
    pub through: bool,
    /// Examples trained on by this process.
    pub examples: u64,
    /// Steps of the model, including those before a resume.
    pub steps: u64,
    /// Step of the checkpoint that this process resumed from: examples, progressive figures and
    /// seconds cover only the steps after it.
    pub steps_before: u64,
    /// Malformed lines skipped, in all epochs together.
    pub skipped_lines: u64,
    /// Columns whose lists have more ids than the limit, in this process's first epoch and its
    /// evaluation; lists cut when they were packed or cached are not counted again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cut_lists: Vec<CutColumn>,
    /// Seconds from opening the data to the last example, including evaluation and checkpoints.
    pub wall_seconds: f64,
    /// Seconds then spent on the model's digest; 0 without one.
    pub digest_seconds: f64,
    /// Seconds from opening the data to the last step of training.
    pub train_seconds: f64,
    /// `examples / train_seconds`.
    pub examples_per_second: f64,
    /// Figures of the model that a warm start began with, on the data that it then trained on;
    /// `None` if not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Metrics>,
    /// Figures of the last evaluation.
    pub eval: Metrics,
    /// Ids that a separate evaluation looked up, and how many had no row, by column and table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids_by_column: Vec<ColumnIds>,
    /// AUC by group, if an evaluation requested it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_group: Option<GroupReport>,
    /// Recall of items among all items of the data, if an evaluation requested it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall: Option<RecallMetrics>,
    /// Figures by the values of a column, if an evaluation requested them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_value: Option<ValuesReport>,
    /// Figures of each epoch's evaluation.
    pub eval_by_epoch: Vec<Metrics>,
    /// Figures and step of each evaluation, after and within epochs.
    pub evaluations: Vec<Evaluation>,
    /// Why training ended before its data, if evaluations no longer improved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_early: Option<StoppedEarly>,
    /// Figures of the last epoch's training examples, scored before they were trained on.
    pub progressive: Metrics,
    /// Progressive figures of each epoch.
    pub progressive_by_epoch: Vec<Metrics>,
    /// Figures of the true probabilities on the evaluation part; only for the built-in stream.
    pub best_possible: Option<Metrics>,
    /// Figures of the tiers.
    pub tiers: Tiers,
    /// Times of the pipeline's stages.
    pub stages: Vec<StageReport>,
    /// Traffic of this rank, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Exchanged>,
    /// Figures of each rank, if there are several; the per-rank figures above are those of rank 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_rank: Vec<RankReport>,
    /// Use of the machine's processors.
    pub processor: Processor,
    /// Seconds of processor time of the compute threads; of rank 0 if there are several ranks.
    pub compute_seconds: f64,
    /// Times of the kernels of training steps.
    pub profile: Vec<KernelReport>,
    /// Times of the graph's layers, in forward order; they sum to about those of the kernels
    /// `forward` and `backward`.
    pub layers: Vec<LayerReport>,
    /// Number of existing rows of the model; `None` if not counted.
    pub rows: Option<u64>,
    /// Sum modulo 2^128 of a hash of every row, hashed with the dense part; `None` if the run was
    /// interrupted before it was computed.
    pub model_digest: Option<String>,
    /// Instruction sets used for sums; digests are comparable only within one.
    pub kernels: String,
    /// Peak resident memory; `None` if the system does not report it.
    pub peak_rss_bytes: Option<u64>,
    /// Sum of the memory bounds.
    pub budget_bytes: u64,
    /// Each memory bound.
    pub budget: Vec<BoundReport>,
    /// The resolved settings by key.
    pub config: Value,
}

/// The evaluations with which training ended early.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoppedEarly {
    /// Step of the last evaluation.
    pub step: u64,
    /// Step of the best evaluation.
    pub best_step: u64,
    /// Metric by which evaluations are compared.
    pub by: String,
    /// Metric of the best evaluation.
    pub value: f64,
    /// Number of evaluations after the best one.
    pub evaluations: u64,
}

impl StoppedEarly {
    /// Describes `waited`.
    pub(crate) fn of(waited: Waited) -> Self {
        let Waited { evaluated, best, by, value, evaluations, .. } = waited;
        Self { step: evaluated, best_step: best, by: by.name().to_owned(), value, evaluations }
    }

    /// One line for the user.
    pub(crate) fn note(&self) -> String {
        let Self { step, best_step, by, value, evaluations } = self;
        let plural = if *evaluations == 1 { "" } else { "s" };
        format!(
            "training ended early after step {step}: {evaluations} evaluation{plural} no better \
             than that of step {best_step} ({by} {value:.5}); raise train.patience to train longer"
        )
    }
}

/// Ids of a column that were looked up in a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColumnIds {
    /// The column.
    pub column: String,
    /// The table.
    pub table: String,
    /// Ids of all examples, counting every occurrence.
    pub ids: u64,
    /// Ids without a row, which have their initial values.
    pub without_row: u64,
}

/// Figures of groups of examples.
#[derive(Clone, Debug, Serialize)]
pub struct GroupReport {
    /// The column whose values define the groups.
    pub column: String,
    /// Figures of the groups.
    #[serde(flatten)]
    pub metrics: GroupMetrics,
}

/// Figures of examples by the values of a column.
#[derive(Clone, Debug, Serialize)]
pub struct ValuesReport {
    /// The column.
    pub column: String,
    /// The most frequent values, in order of their numbers of examples.
    pub values: Vec<ValueMetrics>,
    /// All others.
    pub others: OtherValues,
}

/// Figures of the examples with one value.
#[derive(Clone, Debug, Serialize)]
pub struct ValueMetrics {
    /// Text of the value; empty if it is missing.
    pub value: String,
    /// Figures.
    #[serde(flatten)]
    pub metrics: Metrics,
}

/// Values that have no figures of their own.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct OtherValues {
    /// Number of values.
    pub values: u64,
    /// Number of their examples.
    pub examples: u64,
}

/// A process's use of the machine's processors.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Processor {
    /// Cores that this process may use.
    pub cores: usize,
    /// Seconds of processor time of all its threads while its pipelines ran.
    pub seconds: f64,
}

impl Processor {
    /// `seconds` of processor time on this machine.
    pub(crate) fn of(seconds: f64) -> Self {
        Self { cores: stepwell_base::cores(), seconds }
    }
}

/// Figures of one rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankReport {
    /// Columns with lists that were cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) cut_lists: Vec<CutColumn>,
    /// Figures of the tiers.
    pub tiers: Tiers,
    /// Times of the stages.
    pub stages: Vec<StageReport>,
    /// Seconds of processor time of the compute threads.
    pub compute_seconds: f64,
    /// Traffic with the other ranks.
    pub ranks: Option<Exchanged>,
    /// Sum of the memory bounds.
    pub budget_bytes: u64,
    /// Peak resident memory of its process, which ranks that are threads share.
    pub peak_rss_bytes: Option<u64>,
}

impl RankReport {
    /// Takes a rank's figures from its own report.
    pub(crate) fn of(report: &Report) -> Self {
        Self {
            cut_lists: report.cut_lists.clone(),
            tiers: report.tiers.clone(),
            stages: report.stages.clone(),
            compute_seconds: report.compute_seconds,
            ranks: report.ranks,
            budget_bytes: report.budget_bytes,
            peak_rss_bytes: report.peak_rss_bytes,
        }
    }
}

/// Traffic of a rank with others, including evaluations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exchanged {
    /// Messages sent to other ranks.
    pub messages_sent: u64,
    /// Bytes of these messages, without network overhead.
    pub bytes_sent: u64,
    /// Keys requested from others: the distinct keys of its part of each mini-batch.
    pub keys_asked: u64,
    /// Weights of the requested rows.
    pub weights_asked: u64,
    /// Rows borrowed from others, counted once per loan; 0 if `ranks.exchange` is `owner`.
    pub rows_borrowed: u64,
    /// Rows sent to others before the step that needed them.
    #[serde(default)]
    pub rows_early: u64,
    /// Parameters of the dense part, which every rank has.
    pub dense_parameters: u64,
    /// How far ranks were out of step; `None` if they are in step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<OutOfStepReport>,
}

/// Figures of ranks that are out of step; see `sync.dense` and `sync.rows`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutOfStepReport {
    /// The most earlier steps whose updates were missing from this rank's own rows at a read.
    pub staleness_max: u64,
    /// Mean number of such missing steps over reads.
    pub staleness_mean: f64,
    /// Dense gradients computed by this rank.
    pub gradients: u64,
    /// Gradients dropped because they were too old.
    pub dropped: u64,
    /// Dense updates that this rank made or took part in.
    pub updates: u64,
    /// The largest age, in updates, of a used gradient; with tables, the most steps missing from
    /// the parameters that a gradient was computed with.
    pub age_max: u64,
    /// Whether another run with the same settings yields a different model.
    #[serde(default)]
    pub depends_on_time: bool,
}

/// Figures of the tiers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tiers {
    /// The slots on devices, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceReport>,
    /// The slab in memory.
    pub host: HostTier,
    /// The store.
    pub disk: DiskTier,
}

/// The slots on all devices of a rank together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Names of the devices of rank 0.
    pub names: Vec<String>,
    /// Rows that fit on all devices together.
    pub slots: u64,
    /// Bytes allocated on all devices, for rows and for moving them.
    pub bytes: u64,
    /// Counts of row movements and uses.
    #[serde(flatten)]
    pub count: DeviceCount,
}

/// The slab in memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostTier {
    /// Capacity in rows.
    pub slots: u64,
    /// Bytes of slab, index and metadata.
    pub bytes: u64,
    /// The most rows in the slab at once.
    pub rows_peak: u64,
    /// Bytes of these rows.
    pub bytes_peak: u64,
    /// Distinct keys of planned batches that were in the slab.
    pub hits: u64,
    /// Distinct keys of planned batches that were not in the slab.
    pub misses: u64,
    /// Mean number of units in flight when a unit is planned: the one in training and those ahead.
    pub window: f64,
    /// Rows that left their slot.
    pub evictions: u64,
    /// Misses served from rows in staging.
    pub forwarded: u64,
    /// Misses read from the store.
    pub refilled: u64,
    /// Misses that started with their initial value.
    pub initialized: u64,
    /// Uses recorded by the policy: distinct keys of each trained mini-batch.
    pub uses: u64,
    /// Bytes of rows filled into slots.
    pub bytes_filled: u64,
    /// Bytes of evicted rows.
    pub bytes_evicted: u64,
}

/// The store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DiskTier {
    /// Rows that the index points at.
    pub rows_live: u64,
    /// Stale versions of rows.
    pub rows_stale: u64,
    /// Bytes of segment files.
    pub bytes: u64,
    /// Peak of `bytes`, taken after each write.
    pub bytes_peak: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Segment files at the end.
    pub segments: u64,
    /// Dirty rows written.
    pub rows_written: u64,
    /// Bytes read, including compaction.
    pub bytes_read: u64,
    /// Bytes written: rows, footers, manifests, compaction.
    pub bytes_written: u64,
    /// Merges of segments.
    pub compactions: u64,
    /// Keys looked up.
    pub lookups: u64,
    /// Disk reads for look-ups, each of one page or more.
    pub reads: u64,
    /// `reads` per trained example.
    pub reads_per_example: f64,
    /// Pages that `reads` returned.
    pub pages_read: u64,
    /// Rows harvested from pages that were read for others.
    pub harvested: u64,
    /// Harvested rows that were used; they also count as refilled.
    pub harvest_used: u64,
    /// Harvested rows dropped for lack of room.
    pub harvest_dropped: u64,
    /// Open files of the stores at the end.
    pub files_open: u64,
    /// The most files open at once.
    pub files_open_peak: u64,
    /// Limit of open files; exceeded only by files needed while all others are in use.
    pub files_open_max: u64,
    /// Old stores that were set aside next to the current ones.
    pub set_aside: Vec<SetAside>,
    /// Statistics of each table group's store.
    pub stores: Vec<stepwell_ssd::Stats>,
}

/// Where a stage's time went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageReport {
    /// Name of the stage.
    pub name: String,
    /// Seconds of work.
    pub busy_seconds: f64,
    /// Seconds of waiting for other stages.
    pub wait_seconds: f64,
    /// Seconds of processor time of the stage's own threads.
    pub cpu_seconds: f64,
}

/// A memory bound.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BoundReport {
    /// Name of the bound.
    pub name: String,
    /// The most bytes.
    pub bytes: u64,
}

impl From<&StageTimes> for StageReport {
    fn from(times: &StageTimes) -> Self {
        Self {
            name: times.name.to_owned(),
            busy_seconds: times.busy_seconds,
            wait_seconds: times.wait_seconds,
            cpu_seconds: times.cpu_seconds,
        }
    }
}

/// The bounds as the report lists them.
pub(crate) fn bounds(budget: &Budget) -> Vec<BoundReport> {
    budget
        .bounds()
        .iter()
        .map(|bound| BoundReport { name: bound.name.clone(), bytes: bound.bytes })
        .collect()
}

/// Peak resident memory of this process; `None` if the system does not report it.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
