//! The report of a run: one JSON object with every figure.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stepwell_base::budget::Budget;
use stepwell_base::stage::StageTimes;
use stepwell_data::CutColumn;
use stepwell_engine::{DeviceCount, SetAside};

use crate::metrics::{GroupMetrics, Metrics};
use crate::profile::{KernelReport, LayerReport};

/// Every figure of a run; field names are relied on by scripts.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the program.
    pub version: String,
    /// Whether the run was asked to stop before it was through.
    pub interrupted: bool,
    /// Whether all was trained and evaluated; where it was interrupted then, the digest alone is
    /// missing.
    #[serde(skip)]
    pub through: bool,
    /// Examples trained on by this process.
    pub examples: u64,
    /// Steps of the model, those before a resume included.
    pub steps: u64,
    /// Steps of the checkpoint that this process went on from: examples, progressive figures and
    /// seconds cover the steps after them.
    pub steps_before: u64,
    /// Malformed lines that were skipped, in all epochs together.
    pub skipped_lines: u64,
    /// Columns whose lists have more ids than are taken, in the first epoch of this process and its
    /// evaluation; what was packed or cached is not counted again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cut_lists: Vec<CutColumn>,
    /// Seconds from opening the data to the last example, evaluation and checkpoints included.
    pub wall_seconds: f64,
    /// Seconds after that which the digest of the model took; 0 where nobody asked for it.
    pub digest_seconds: f64,
    /// Seconds from opening the data to the last step of training.
    pub train_seconds: f64,
    /// `examples / train_seconds`.
    pub examples_per_second: f64,
    /// Figures of the model that a warm start began with, on the data that it then trained on;
    /// none where nobody asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Metrics>,
    /// Figures of the last evaluation.
    pub eval: Metrics,
    /// Ids that an evaluation by itself looked up, and those without a row, by column and table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids_by_column: Vec<ColumnIds>,
    /// AUC by group, where an evaluation was asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_group: Option<GroupReport>,
    /// Figures of every epoch's evaluation.
    pub eval_by_epoch: Vec<Metrics>,
    /// The last epoch's training examples, scored before they were trained on.
    pub progressive: Metrics,
    /// The same for every epoch.
    pub progressive_by_epoch: Vec<Metrics>,
    /// What the true probabilities reach on the evaluation part; only for the built-in stream.
    pub best_possible: Option<Metrics>,
    /// By tier.
    pub tiers: Tiers,
    /// By stage of the pipeline.
    pub stages: Vec<StageReport>,
    /// What this rank exchanged with others, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Exchanged>,
    /// By rank, where several trained: the figures above that are of one rank are those of rank 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_rank: Vec<RankReport>,
    /// What the process took of the machine's processors.
    pub processor: Processor,
    /// Seconds of processor time of the threads that compute; those of rank 0 where several ranks
    /// trained.
    pub compute_seconds: f64,
    /// By kernel of the training steps.
    pub profile: Vec<KernelReport>,
    /// By layer of the graph, in the order in which they run forwards; their seconds sum to about
    /// those of the kernels `forward` and `backward`.
    pub layers: Vec<LayerReport>,
    /// Rows of the model that exist; none where they were not counted.
    pub rows: Option<u64>,
    /// Sum modulo 2^128 of a hash of every row, hashed with the dense part; none where the run was
    /// interrupted before it was computed.
    pub model_digest: Option<String>,
    /// Instruction sets that the sums were made with; digests compare within one.
    pub kernels: String,
    /// Peak resident memory; none where the system does not tell.
    pub peak_rss_bytes: Option<u64>,
    /// Sum of the bounds.
    pub budget_bytes: u64,
    /// Each bound.
    pub budget: Vec<BoundReport>,
    /// The resolved settings by key.
    pub config: Value,
}

/// Ids of a column that were looked up in a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColumnIds {
    /// The column.
    pub column: String,
    /// The table.
    pub table: String,
    /// Ids of all examples, each as often as it occurs.
    pub ids: u64,
    /// Those without a row, which have their initial values.
    pub without_row: u64,
}

/// The figures of groups of examples.
#[derive(Clone, Debug, Serialize)]
pub struct GroupReport {
    /// The column whose values the groups are of.
    pub column: String,
    /// Their figures.
    #[serde(flatten)]
    pub metrics: GroupMetrics,
}

/// What a process took of the machine's processors.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Processor {
    /// Cores that this process may use.
    pub cores: usize,
    /// Seconds of processor time of all its threads while its pipelines ran.
    pub seconds: f64,
}

impl Processor {
    /// So many seconds, on this machine.
    pub(crate) fn of(seconds: f64) -> Self {
        Self { cores: stepwell_base::cores(), seconds }
    }
}

/// The figures of one rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankReport {
    /// What it counted of lists that are cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) cut_lists: Vec<CutColumn>,
    /// By tier.
    pub tiers: Tiers,
    /// By stage of the pipeline.
    pub stages: Vec<StageReport>,
    /// Seconds of processor time of the threads that compute.
    pub compute_seconds: f64,
    /// What it exchanged with the others.
    pub ranks: Option<Exchanged>,
    /// Sum of the bounds.
    pub budget_bytes: u64,
    /// Peak resident memory of its process, which ranks that are threads have in common.
    pub peak_rss_bytes: Option<u64>,
}

impl RankReport {
    /// Those of a rank's own report.
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

/// What a rank exchanged with others, evaluations included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exchanged {
    /// Messages that it sent to others.
    pub messages_sent: u64,
    /// Bytes of them; what a network adds is not among them.
    pub bytes_sent: u64,
    /// Keys that it asked others for: the distinct ones of its part of each mini-batch.
    pub keys_asked: u64,
    /// Weights of their rows.
    pub weights_asked: u64,
    /// Rows that others lent to it, each for a part of a batch; none where `ranks.exchange` is
    /// `owner`.
    pub rows_borrowed: u64,
    /// Rows that it sent to others before the step that needed them.
    #[serde(default)]
    pub rows_early: u64,
    /// Parameters of the dense part, which every rank has.
    pub dense_parameters: u64,
    /// How far ranks were out of step; none where they are in step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<ApartReport>,
}

/// What ranks that are out of step found: see `sync.dense` and `sync.rows`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApartReport {
    /// The most steps before a read that were not in the rows which this rank owns.
    pub staleness_max: u64,
    /// Their mean over reads.
    pub staleness_mean: f64,
    /// Gradients of the dense part that this rank gave.
    pub gradients: u64,
    /// Those of them that were dropped, since they were too old.
    pub dropped: u64,
    /// Updates of the dense part that this rank made or took part in.
    pub updates: u64,
    /// The largest age, in updates, of a gradient that was used; of tables, the most steps whose
    /// updates they lacked that one was computed with.
    pub age_max: u64,
    /// Whether another run with the same settings gives another model.
    #[serde(default)]
    pub depends_on_time: bool,
}

/// By tier.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tiers {
    /// The slots on devices, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceReport>,
    /// The slab in memory.
    pub host: HostTier,
    /// The store.
    pub disk: DiskTier,
}

/// The slots on the devices of a rank, all together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Their names; those of rank 0.
    pub names: Vec<String>,
    /// Rows that fit on all of them.
    pub slots: u64,
    /// Bytes that were taken of all of them, for rows and what moves them.
    pub bytes: u64,
    /// What they did.
    #[serde(flatten)]
    pub count: DeviceCount,
}

/// The slab in memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostTier {
    /// Rows that fit.
    pub slots: u64,
    /// Bytes of slab, index and metadata.
    pub bytes: u64,
    /// Most rows that lay in it at once.
    pub rows_peak: u64,
    /// Their bytes.
    pub bytes_peak: u64,
    /// Distinct keys per planned batch that were in the slab.
    pub hits: u64,
    /// Those that were not.
    pub misses: u64,
    /// Units in flight, in the mean, as each was planned: the one that trains and those ahead.
    pub window: f64,
    /// Rows that left their slot.
    pub evictions: u64,
    /// Misses that were served from rows on their way down.
    pub forwarded: u64,
    /// Misses that were read from the store.
    pub refilled: u64,
    /// Misses that began with their initial value.
    pub initialized: u64,
    /// Uses that the policy was told of: distinct keys of each trained mini-batch.
    pub uses: u64,
    /// Bytes of rows that came up.
    pub bytes_filled: u64,
    /// Bytes of rows that went down.
    pub bytes_evicted: u64,
}

/// The store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DiskTier {
    /// Rows that the index points at.
    pub rows_live: u64,
    /// Older versions of rows.
    pub rows_stale: u64,
    /// Bytes of segment files.
    pub bytes: u64,
    /// Most of these bytes after any write.
    pub bytes_peak: u64,
    /// Bytes of index.
    pub index_bytes: u64,
    /// Segment files at the end.
    pub segments: u64,
    /// Dirty rows that were written.
    pub rows_written: u64,
    /// Bytes read, compaction included.
    pub bytes_read: u64,
    /// Bytes written: rows, footers, manifests, compaction.
    pub bytes_written: u64,
    /// Merges of segments.
    pub compactions: u64,
    /// Keys looked up.
    pub lookups: u64,
    /// Reads for them, of a page or more.
    pub reads: u64,
    /// Those over the examples that were trained.
    pub reads_per_example: f64,
    /// Pages that these brought.
    pub pages_read: u64,
    /// Rows that came up from pages that were read for others.
    pub harvested: u64,
    /// Those of them that were needed then: they are counted as refilled, too.
    pub harvest_used: u64,
    /// Those that found no room to wait in, or gave it to others.
    pub harvest_dropped: u64,
    /// Files of the stores that are open at the end.
    pub files_open: u64,
    /// The most that were open at once.
    pub files_open_peak: u64,
    /// How many may be; beyond it those alone that are wanted while all of them are in use.
    pub files_open_max: u64,
    /// What lies beside the stores since others took their place.
    pub set_aside: Vec<SetAside>,
    /// What each table group's store says of itself.
    pub stores: Vec<stepwell_ssd::Stats>,
}

/// Where a stage's time went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageReport {
    /// Name of the stage.
    pub name: String,
    /// Seconds of work.
    pub busy_seconds: f64,
    /// Seconds of waiting for others.
    pub wait_seconds: f64,
    /// Seconds of processor time of the stage's own threads.
    pub cpu_seconds: f64,
}

/// One bound on memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BoundReport {
    /// What is bounded.
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

/// Peak resident memory of this process, as Linux counts it.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
