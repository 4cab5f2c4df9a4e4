//! RDMA-wild compared with Sync-DSGD: 15 workers and a server, MNIST, 8 examples per worker, f64.
//!
//! - **How.** Both protocols run on the virtual clock with times fitted only to Sync-DSGD
//!   (`fit.rs`), and real gradients. The speedup of RDMA-wild is then a prediction.
//! - **Bytes.** MNIST's pixels, and 2.8 GB for its random Fourier features.
//! - **Source.** Lim et al., "RDMA-wild", section 5.

mod fit;
mod optimum;
mod page;
mod paper;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use stepwell_nn::Graph;
use stepwell_sim::clock::{BoxedLearner, ClockedRun};
use stepwell_sync::{Counts, Kind, Options, Rate, Schedule};

pub use self::fit::Fit;
pub use self::optimum::Optimum;
use self::optimum::{Distance, find};
pub use self::page::{page, plots};
use self::paper::{LINES, Line, MINI_BATCH, WORKERS};
use crate::curve::{Looks, Point};
use crate::images::Images;
use crate::learner::ImageLearner;
use crate::models::Model;
use crate::{Effort, Result};

/// Width of the kernel that random Fourier features approximate.
const SIGMA: f64 = 5.0;

/// Options of the study.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// All epochs and Fourier features, or a tenth of them.
    pub effort: Effort,
    /// Uses one in this many training examples.
    pub part: usize,
    /// Seed of the order of data, features, initial values and delays.
    pub seed: u64,
}

/// Results.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Whether only a tenth was run.
    pub quick: bool,
    /// The cost model.
    pub fit: Fit,
    /// Results by model.
    pub models: Vec<ModelFigures>,
    /// Gradients that reached no model, over all runs.
    pub lost_gradients: i64,
}

/// Results for a model.
#[derive(Clone, Debug, Serialize)]
pub struct ModelFigures {
    /// Name of the model.
    pub name: &'static str,
    /// Bytes of its parameters.
    pub bytes: usize,
    /// Passes over the examples.
    pub epochs: u64,
    /// By protocol, seconds on the virtual clock.
    pub seconds: BTreeMap<&'static str, f64>,
    /// By protocol, speedup over Sync-DSGD.
    pub speedup: BTreeMap<&'static str, f64>,
    /// By protocol, speedup over the paper's single node.
    pub speedup_over_single: BTreeMap<&'static str, f64>,
    /// By protocol, share of test examples that are classified correctly at the end.
    pub accuracy: BTreeMap<&'static str, f64>,
    /// By protocol, largest age of a gradient, in updates.
    pub age_max: BTreeMap<&'static str, u64>,
    /// By protocol, a learning curve with a point per epoch.
    pub curves: BTreeMap<&'static str, Vec<Point>>,
    /// For convex models, the best parameters and the distance of each protocol from them, by
    /// epoch.
    pub optimum: Option<Optimum>,
    /// The paper's measurements.
    pub paper: PaperFigures,
}

/// The paper's measurements for a model.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PaperFigures {
    /// Seconds of Sync-DSGD.
    pub sync_seconds: f64,
    /// Seconds of RDMA-wild.
    pub wild_seconds: f64,
    /// Speedup of RDMA-wild, from these seconds.
    pub speedup: f64,
    /// Speedup of Sync-DSGD over a single node.
    pub sync_over_single: f64,
    /// Speedup of RDMA-wild over a single node.
    pub wild_over_single: f64,
    /// Test accuracy that the paper claims.
    pub accuracy: f64,
}

/// The protocols, the baseline first.
const KINDS: [Kind; 2] = [Kind::SyncDsgd, Kind::RdmaWild];

/// Runs the study on the MNIST files in a directory; calls `say` with a description of each part.
///
/// # Errors
/// Data that can't be read, or a protocol error.
pub fn run(folder: &Path, options: &StudyOptions, say: &mut dyn FnMut(&str)) -> Result<Figures> {
    let least = WORKERS * MINI_BATCH;
    let [train, test] = Images::both(folder, options.part, least, options.seed)?;
    say("fitting a model of costs to Sync-DSGD's times");
    let fit = Fit::new()?;
    let (mut models, mut counts) = (Vec::new(), Vec::new());
    for (place, line) in LINES.iter().enumerate() {
        let line = of_size(line, options);
        let data = match line.model {
            Model::LrRff => {
                say("making random Fourier features");
                let make = |images: &Images| images.fourier(line.columns, SIGMA, options.seed);
                Data { train: Arc::new(make(&train)?), test: make(&test)? }
            }
            _ => Data { train: Arc::new(train.clone()), test: test.clone() },
        };
        models.push(run_model(
            Lines { line: &line, full: &LINES[place] },
            &data,
            &fit,
            options,
            &mut counts,
            say,
        )?);
    }
    let lost_gradients = Counts::sum(counts).lost();
    Ok(Figures { quick: options.effort == Effort::Quick, fit, models, lost_gradients })
}

/// Examples of the study.
#[derive(Debug)]
struct Data {
    train: Arc<Images>,
    test: Images,
}

/// The line to run: the whole line, or a tenth of it.
fn of_size(line: &Line, options: &StudyOptions) -> Line {
    if options.effort == Effort::Full {
        return *line;
    }
    let columns = if line.model == Model::LrRff { line.columns / 10 } else { line.columns };
    // In a tenth of the epochs, the rate decays as far as in all of them.
    let (epochs, decay) = (line.epochs.div_ceil(10), libm::pow(line.decay, 10.0));
    Line { columns, epochs, decay, ..*line }
}

/// A line of the paper, whole and as run.
#[derive(Clone, Copy, Debug)]
struct Lines<'a> {
    /// The line to run.
    line: &'a Line,
    /// The whole line.
    full: &'a Line,
}

fn run_model(
    lines: Lines<'_>,
    data: &Data,
    fit: &Fit,
    options: &StudyOptions,
    counts: &mut Vec<Counts>,
    say: &mut dyn FnMut(&str),
) -> Result<ModelFigures> {
    let Lines { line, full } = lines;
    let graph = Arc::new(line.model.graph::<f64>(line.columns)?);
    let mut figures = empty(line, full, graph.parameter_count() * size_of::<f64>());
    let convex = !matches!(line.model, Model::Fcnn(_));
    let mut passed: Vec<(&'static str, Vec<Vec<f64>>)> = Vec::new();
    for kind in KINDS {
        say(&format!("{}: {kind}, {} epochs", line.model.name(), line.epochs));
        let name = kind.name();
        let mut models = Vec::new();
        let (points, own) = run_one(kind, lines, &graph, data, fit, options, |run| {
            if convex {
                models.push(run.model());
            }
        })?;
        passed.push((name, models));
        figures.age_max.insert(name, own.age_max);
        if let Some(last) = points.last() {
            // The fitted times are for the paper's epochs and examples.
            let examples = paper::EXAMPLES as f64 / data.train.count() as f64;
            let scale = full.epochs as f64 / line.epochs as f64 * examples;
            figures.seconds.insert(name, last.seconds * scale);
            figures.accuracy.insert(name, last.test_accuracy);
        }
        figures.curves.insert(name, points);
        counts.push(own);
    }
    if let Some(begin) = passed[0].1.last() {
        say(&format!("{}: searching for the best parameters", line.model.name()));
        let gradients = if options.effort == Effort::Quick { 40 } else { 200 };
        let mut optimum = find(&graph, &data.train, begin, gradients);
        for (name, models) in &passed {
            let distance = |model: &Vec<f64>| optimum.distance(&graph, &data.train, model);
            let distances = models.iter().map(distance).collect();
            optimum.by_epoch.insert(name, distances);
        }
        figures.optimum = Some(optimum);
    }
    compare(&mut figures, full);
    Ok(figures)
}

fn empty(line: &Line, full: &Line, bytes: usize) -> ModelFigures {
    ModelFigures {
        name: line.model.name(),
        bytes,
        epochs: line.epochs,
        seconds: BTreeMap::new(),
        speedup: BTreeMap::new(),
        speedup_over_single: BTreeMap::new(),
        accuracy: BTreeMap::new(),
        age_max: BTreeMap::new(),
        curves: BTreeMap::new(),
        optimum: None,
        paper: PaperFigures {
            sync_seconds: full.sync_seconds,
            wild_seconds: full.wild_seconds,
            speedup: full.sync_seconds / full.wild_seconds,
            sync_over_single: full.sync_speedup,
            wild_over_single: full.wild_speedup,
            accuracy: full.accuracy,
        },
    }
}

fn compare(figures: &mut ModelFigures, full: &Line) {
    let baseline = figures.seconds[Kind::SyncDsgd.name()];
    let single = full.sync_seconds * full.sync_speedup;
    for (name, seconds) in &figures.seconds {
        figures.speedup.insert(name, baseline / seconds);
        figures.speedup_over_single.insert(name, single / seconds);
    }
    figures.speedup.remove(Kind::SyncDsgd.name());
}

/// Runs one protocol with one model; calls `at` at each point of the curve.
fn run_one(
    kind: Kind,
    Lines { line, full }: Lines<'_>,
    graph: &Arc<Graph<f64>>,
    data: &Data,
    fit: &Fit,
    options: &StudyOptions,
    mut at: impl FnMut(&ClockedRun<f64>),
) -> Result<(Vec<Point>, Counts)> {
    let parts = ImageLearner::<f64>::parts(&data.train, WORKERS);
    let per_epoch = (parts[0].len() / MINI_BATCH) as u64;
    let schedule = Schedule::Exponential { factor: line.decay, every: per_epoch };
    let rate = Rate { base: line.rate, schedule };
    let protocol = Options { seed: options.seed, ..Options::new(line.epochs * per_epoch, rate) };
    // The server's learner is never used.
    let of = |rank: usize| parts[rank.saturating_sub(1)].clone();
    let learner = |rank| -> BoxedLearner<f64> {
        Box::new(ImageLearner::new(graph, &data.train, of(rank), MINI_BATCH))
    };
    let learners = (0..=WORKERS).map(learner).collect();
    let begin = graph.initial_parameters(options.seed);
    // A smaller model takes as long as the full one.
    let mut times = fit.times(full, options.seed);
    let smaller = graph.parameter_count() as f64 / full.lanes as f64;
    times.arithmetic *= smaller;
    times.network.bytes_per_second *= smaller;
    let mut run = ClockedRun::new(kind, &protocol, &begin, learners, times)?;
    let every = WORKERS as u64 * per_epoch;
    let looks = Looks { graph, train: &data.train, test: &data.test, per_epoch: every };
    at(&run);
    looks.follow(&mut run, every, |_, run| {
        at(run);
        false
    })
}
