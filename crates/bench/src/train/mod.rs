//! `stepwell bench train`: training out of core, against memory and the raw disk.
//!
//! All rows lie in the store before a run begins. For each model, a run with every row in memory
//! is followed by runs with slots for a part of the rows. The limit of such a run is the smaller
//! of two rates: that of the run in memory, and that at which the raw disk could read the pages
//! which the run reads. The raw disk is measured before and after each run, on the store's own
//! files.

mod check;
mod ideal;
mod store;
mod stream;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use stepwell_base::ByteCount;
use stepwell_base::stop::StopRequest;
use stepwell_disk::FileDisk;
use stepwell_engine::Placement;
use stepwell_settings::{Config, ModelKind, TierConfig};
use stepwell_train::{Report, RowsAtStart, StageReport, Surroundings, slab_bytes};

pub(crate) use self::stream::Ids;
use self::watch::{Mark, Window};
use crate::home::{Home, make, remove};
use crate::machine::Machine;
use crate::measure::{names, over};
use crate::{Error, Result};

/// What is measured.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// A directory on the disk in question; what is made in it is removed again.
    pub directory: PathBuf,
    /// Rows of the store, about.
    pub rows: u64,
    /// Exponent of the ids' frequencies.
    pub skew: f64,
    /// Whether all slots have as many ids; else as in `criteo_tb_80k`.
    pub equal: bool,
    /// Examples that are not counted.
    pub warmup: u64,
    /// Examples that are.
    pub examples: u64,
    /// Models.
    #[serde(serialize_with = "names")]
    pub models: Vec<ModelKind>,
    /// Percentages of the rows that memory has slots for.
    pub shares: Vec<f64>,
    /// Whether the run in memory is left out.
    pub only_out_of_core: bool,
    /// Everything else: threads, mini-batch, lookahead and so on.
    #[serde(skip)]
    pub config: Config,
}

/// Figures of all runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// What was measured.
    pub options: Option<Options>,
    machine: Option<Machine>,
    /// Rows that existed.
    pub rows: u64,
    /// One entry for each model and share.
    pub runs: Vec<Run>,
}

/// A run out of core.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// The model.
    pub model: String,
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
    /// Pages read for them.
    pub pages_read_per_example: f64,
    /// Random reads of a page per second of the raw disk, around this run.
    pub raw_read_iops: f64,
    /// The smaller of the rate in memory and `raw_read_iops / pages_read_per_example`.
    pub limit_examples_per_second: f64,
    /// `examples_per_second` over that limit.
    pub over_limit: f64,
    /// `examples_per_second` over that in memory.
    pub over_in_memory: f64,
    /// Processor seconds of all threads an example, in microseconds.
    pub cpu_us_per_example: f64,
    /// Wall time over the largest of: processor seconds over cores, page reads over
    /// `raw_read_iops`, processor seconds of the longest stage that is one thread.
    pub wall_over_largest: f64,
    /// Which of them that was.
    pub bound_by: String,
    /// Where the stages' time went, over the whole run.
    pub stages: Vec<StageReport>,
}

/// The part of a run that counts, in figures.
struct Counted {
    seconds: f64,
    cpu: f64,
    examples: f64,
    refilled: f64,
    pages: f64,
    report: Report,
}

impl Counted {
    fn rate(&self) -> f64 {
        over(self.examples, self.seconds)
    }
}

/// Measures; `say` is told what is going on.
///
/// # Errors
/// When the arguments cannot be, or a run fails.
pub fn run(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Figures> {
    check::check(options)?;
    let ids = Ids::new(options.rows, options.equal, options.skew);
    let mut figures = Figures {
        options: Some(options.clone()),
        machine: None,
        rows: ids.count(),
        runs: Vec::new(),
    };
    let home = Home::take(&options.directory.join("stepwell-bench-train"))?;
    let disk = FileDisk::open(home.path())?;
    figures.machine = Some(Machine::here(disk.engine()));
    measure(options, &ids, home.path(), say, &mut figures)?;
    Ok(figures)
}

fn measure(
    options: &Options,
    ids: &Ids,
    place: &Path,
    say: &mut dyn FnMut(&str),
    figures: &mut Figures,
) -> Result<()> {
    let data = place.join("examples");
    say(&format!("writing {} examples", options.warmup + options.examples));
    ids.write(options.warmup + options.examples, &data)?;
    let mut loaded = None;
    for kind in &options.models {
        let (mut config, name) = (config(options, *kind, &data)?, kind.name());
        let shape = store::table(&config)?.row_bytes();
        let rows = place.join("rows");
        if loaded != Some(shape) {
            say(&format!("putting {} rows of {shape} bytes into the store", ids.count()));
            remove(&rows)?;
            make(&rows)?;
            store::load(ids, &config, &rows)?;
            loaded = Some(shape);
        }
        let in_memory = if options.only_out_of_core {
            0.0
        } else {
            say(&format!("{name}: every row in memory"));
            config.tiers.dram = dram_for(&config, ids.count())?;
            train(options, &config, place, &rows, true)?.rate()
        };
        for share in &options.shares {
            let slots = (ids.count() as f64 * share / 100.0).round() as u64;
            config.tiers.dram = dram_for(&config, slots)?;
            let before = store::raw_read_iops(&rows, slots)?;
            say(&format!("{name}: {slots} slots"));
            let counted = train(options, &config, place, &rows, false)?;
            let raw = 0.5 * (before + store::raw_read_iops(&rows, slots + 1)?);
            let mut run = Run { model: name.to_owned(), share: *share, slots, ..Run::default() };
            let mini_batch = config.data.mini_batch as u64;
            run.ideal_cold_rows_per_example = ideal::cold_rows_per_example(ids, slots, mini_batch);
            fill(&mut run, &counted, in_memory, raw);
            figures.runs.push(run);
        }
    }
    Ok(())
}

fn config(options: &Options, kind: ModelKind, data: &Path) -> Result<Config> {
    let mut config = options.config.clone();
    config.model.kind = kind;
    config.data.paths = vec![data.display().to_string()];
    config.data.eval_fraction = 0.0;
    config.data.eval_paths = Vec::new();
    config.data.epochs = 1;
    config.checkpoint.dir = None;
    if config.life.life().is_some() {
        let why = "rows that come and go are not measured here: of rows.* give rows.storage alone";
        return Err(Error::Arguments(why.to_owned()));
    }
    config.tiers.page_cache = ByteCount(0);
    config.tiers.ssd = None;
    Ok(config)
}

/// Bytes of memory with exactly `slots` slots.
fn dram_for(config: &Config, slots: u64) -> Result<ByteCount> {
    Ok(ByteCount(slab_bytes(config, &store::table(config)?, slots)))
}

fn train(
    options: &Options,
    config: &Config,
    place: &Path,
    rows: &Path,
    in_memory: bool,
) -> Result<Counted> {
    let scratch = place.join("run");
    let config = Config {
        tiers: TierConfig { ssd: Some(scratch.clone()), ..config.tiers.clone() },
        ..config.clone()
    };
    let window = Arc::new(Window::after(options.warmup));
    let around = Surroundings {
        observer: Arc::clone(&window) as Arc<_>,
        machine: stepwell_train::Machine::default(),
        stop: StopRequest::new(),
        placement: Placement::Fresh,
        rows: RowsAtStart { from: vec![rows.to_owned()], in_memory },
        repaired_rows: false,
        digest: false,
        settings: Value::Null,
        on_plan: Box::new(|_| {}),
        on_note: Box::new(|_| {}),
    };
    let report = stepwell_train::train(&config, &around);
    remove(&scratch)?;
    let report = report.map_err(|error| Error::Arguments(error.to_string()))?;
    let few = || Error::Arguments("more examples are needed than the warm-up has".to_owned());
    let (begin, end) = window.marks().ok_or_else(few)?;
    Ok(counted(begin, end, report))
}

fn counted(begin: Mark, end: Mark, report: Report) -> Counted {
    Counted {
        seconds: (end.at - begin.at).as_secs_f64(),
        cpu: (end.cpu - begin.cpu).as_secs_f64(),
        examples: (end.examples - begin.examples) as f64,
        refilled: (end.refilled - begin.refilled) as f64,
        pages: (end.pages_read - begin.pages_read) as f64,
        report,
    }
}

fn fill(run: &mut Run, counted: &Counted, in_memory: f64, raw: f64) {
    run.in_memory_examples_per_second = in_memory;
    run.examples_per_second = counted.rate();
    run.cold_rows_per_example = over(counted.refilled, counted.examples);
    run.pages_read_per_example = over(counted.pages, counted.examples);
    run.raw_read_iops = raw;
    let disk = over(raw, run.pages_read_per_example);
    run.limit_examples_per_second = if in_memory > 0.0 { disk.min(in_memory) } else { disk };
    run.over_limit = over(run.examples_per_second, run.limit_examples_per_second);
    run.over_in_memory = over(run.examples_per_second, in_memory);
    run.cpu_us_per_example = over(counted.cpu * 1e6, counted.examples);
    let stages = &counted.report.stages;
    run.stages = stages.clone();
    // Stages are timed over the whole run, the warm-up included.
    let share = over(counted.seconds, counted.report.train_seconds);
    let single = stages.iter().filter(|stage| !["parse", "train"].contains(&&*stage.name));
    let longest = single.max_by(|a, b| a.cpu_seconds.total_cmp(&b.cpu_seconds));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut bounds = vec![
        ("processor".to_owned(), counted.cpu / cores as f64),
        ("disk".to_owned(), over(counted.pages, raw)),
    ];
    bounds
        .extend(longest.map(|stage| (format!("stage {}", stage.name), stage.cpu_seconds * share)));
    if let Some((name, seconds)) = bounds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        run.wall_over_largest = over(counted.seconds, seconds);
        run.bound_by = name;
    }
}
