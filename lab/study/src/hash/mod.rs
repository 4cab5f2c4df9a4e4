//! Hashed ids: a small network over hashed ids compared with logistic regression and with the
//! network over all ids.
//!
//! ```text
//! Criteo lines ─► ids of all columns ─┬─────────────────────► logistic regression, network
//!                                     ├─► OP+OSRP, k bins ──► network
//!                                     └─► modulo 2 k ───────► network
//! ```
//!
//! - **How.** An example is the set of the ids of all its columns. A dense feature x becomes an id
//!   too, that of the interval of ln(1 + x)², so that the input is sparse and binary as in the
//!   paper. The network sums the embeddings of the ids, and has two hidden layers over the sum. It
//!   trains in one pass on the first four fifths of the file, in order, and is tested on the last
//!   fifth. Its settings are the best ones over all ids, and the same for all hashes. Results are
//!   means over seeds of initial values and hashes.
//! - **What k is.** k counts bins of [`OneSignHash`], so there are 2 k outputs, and as many of the
//!   modulo. The paper doesn't say whether k counts bins or outputs.
//! - **Weights.** A model's non-zero weights are counted per id or output, as for logistic
//!   regression: a row of the first layer with any weight that isn't 0 counts once.
//! - **Bounds.** All examples are in memory, 316 bytes each, plus 164 per model that trains at the
//!   same time, and all rows, 128 bytes each.
//! - **Source.** Zhao et al., "Distributed hierarchical GPU parameter server for massive scale deep
//!   learning ads systems", MLSys 2020, section 2.

mod findings;
mod inputs;
mod learner;
mod page;
mod paper;

use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use stepwell_data::OneSignHash;

pub use self::findings::{Findings, Spread};
use self::inputs::{Examples, IDS, Method};
use self::learner::{MINI_BATCH, Network, Outcome};
pub use self::page::{page, plots};
pub use self::paper::PaperRow;
use crate::{Effort, Result};

/// Logarithms of all numbers of bins.
const LOG2_BINS: std::ops::RangeInclusive<u32> = 8..=20;
/// Logarithms of the numbers of bins of a quick run.
const LOG2_BINS_QUICK: [u32; 4] = [8, 11, 14, 17];
/// A quick run uses one in this many training examples.
const QUICK_PART: usize = 4;

/// Options of the study.
#[derive(Clone, Copy, Debug)]
pub struct StudyOptions {
    /// How much of it is run.
    pub effort: Effort,
    /// Uses one in this many training examples.
    pub part: usize,
    /// First seed, for initial values and hashes.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: usize,
}

/// Results.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The data.
    pub data: String,
    /// Whether it was a quick run.
    pub quick: bool,
    /// One in this many training examples was used.
    pub part: usize,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Training examples.
    pub train_examples: usize,
    /// Test examples.
    pub test_examples: usize,
    /// Test examples that are clicks.
    pub test_clicks: usize,
    /// Ids of an example.
    pub ids_per_example: usize,
    /// Distinct ids of the training examples.
    pub distinct_ids: usize,
    /// Mean test AUC of logistic regression.
    pub auc_lr: f64,
    /// Mean test AUC of the network over all ids.
    pub auc_dnn: f64,
    /// All models: first those over all ids.
    pub rows: Vec<Row>,
    /// What the rows say.
    pub findings: Findings,
    /// The paper's table.
    pub paper: Vec<PaperRow>,
}

/// Results of a model; means over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// `lr`, `dnn` or `hash_dnn`.
    pub model: &'static str,
    /// Bins k of OP+OSRP; `None` for models over all ids.
    pub bins: Option<u64>,
    /// Ids, or outputs of OP+OSRP, with a weight that isn't 0 in the first layer.
    pub nonzero_weights: u64,
    /// Mean number of an example's ids or outputs.
    pub ids_per_example: f64,
    /// Test AUC.
    pub auc: f64,
    /// Test AUC with each seed.
    pub aucs: Vec<f64>,
    /// Mean log loss of the test examples.
    pub log_loss: f64,
    /// Results with ids modulo 2 k.
    #[serde(flatten)]
    pub modulo: Option<Modulo>,
}

/// Results of the same network with ids modulo 2 k instead; means over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Modulo {
    /// Test AUC.
    pub auc_modulo: f64,
    /// Test AUC with each seed.
    pub aucs_modulo: Vec<f64>,
    /// Mean log loss of the test examples.
    pub log_loss_modulo: f64,
    /// Outputs with a weight that isn't 0 in the first layer.
    pub nonzero_weights_modulo: u64,
    /// Mean number of an example's outputs.
    pub ids_per_example_modulo: f64,
}

/// A model and its input.
#[derive(Clone, Debug)]
enum Job {
    Lr,
    Dnn,
    Sign(u64),
    Modulo(u64),
}

/// Result of a job with one seed.
#[derive(Clone, Copy, Debug)]
struct Ended {
    outcome: Outcome,
    ids_per_example: f64,
    distinct: usize,
}

/// Runs the study on a file of Criteo's lines; calls `say` with a description of each part.
///
/// # Errors
/// Data that can't be read.
pub fn run(file: &Path, options: &StudyOptions, say: &mut dyn FnMut(&str)) -> Result<Figures> {
    let quick = options.effort == Effort::Quick;
    let part = options.part * if quick { QUICK_PART } else { 1 };
    let examples = Examples::read(file, part, MINI_BATCH)?;
    let networks = [Network::lr()?, Network::dnn()?];
    let log2_bins = if quick { LOG2_BINS_QUICK.to_vec() } else { LOG2_BINS.collect() };
    let hashed = || log2_bins.iter().map(|log2| 1 << log2);
    let jobs: Vec<Job> = [Job::Lr, Job::Dnn]
        .into_iter()
        .chain(hashed().flat_map(|bins| [Job::Sign(bins), Job::Modulo(bins)]))
        .collect();
    let seeds = (0..options.seeds.max(1)).map(|number| options.seed.wrapping_add(number as u64));
    let seeds: Vec<u64> = seeds.collect();
    // Of each job, the results with all seeds.
    let mut ended: Vec<Vec<Ended>> = vec![Vec::new(); jobs.len()];
    for seed in &seeds {
        say(&format!("seed {seed}: {} models over {} examples", jobs.len(), examples.train));
        let of_jobs = jobs.par_iter().map(|job| run_one(job, &examples, &networks, *seed));
        let of_jobs = of_jobs.collect::<Result<Vec<Ended>>>()?;
        ended.iter_mut().zip(of_jobs).for_each(|(all, one)| all.push(one));
    }
    let [lr, dnn] = [("lr", &ended[0]), ("dnn", &ended[1])].map(|(name, of)| row(name, None, of));
    let of_bins = hashed().zip(ended[2..].chunks_exact(2));
    let hashed = of_bins.map(|(bins, of)| {
        let modulo = Some(modulo(&of[1]));
        Row { modulo, ..row("hash_dnn", Some(bins), &of[0]) }
    });
    let hashed: Vec<Row> = hashed.collect();
    Ok(Figures {
        data: file.display().to_string(),
        quick,
        part,
        seeds,
        train_examples: examples.train,
        test_examples: examples.count() - examples.train,
        test_clicks: examples.test_clicks(),
        ids_per_example: IDS,
        distinct_ids: ended[0][0].distinct,
        auc_lr: lr.auc,
        auc_dnn: dnn.auc,
        findings: Findings::of(&lr, &hashed, &examples),
        rows: [vec![lr, dnn], hashed].concat(),
        paper: paper::TABLE_2.to_vec(),
    })
}

fn run_one(job: &Job, examples: &Examples, networks: &[Network; 2], seed: u64) -> Result<Ended> {
    let method = match job {
        Job::Lr | Job::Dnn => Method::All,
        Job::Sign(bins) => Method::Sign(OneSignHash::new(*bins, seed)?),
        Job::Modulo(bins) => Method::Modulo { outputs: 2 * bins, seed },
    };
    let rows = examples.rows(&method);
    let network = if matches!(job, Job::Lr) { &networks[0] } else { &networks[1] };
    let outcome = learner::run(network, examples, &rows, seed);
    Ok(Ended { outcome, ids_per_example: rows.mean(), distinct: rows.trained })
}

fn mean(of: &[Ended], value: impl Fn(&Ended) -> f64) -> f64 {
    of.iter().map(value).sum::<f64>() / of.len() as f64
}

fn row(model: &'static str, bins: Option<u64>, of: &[Ended]) -> Row {
    Row {
        model,
        bins,
        nonzero_weights: mean(of, |ended| ended.outcome.nonzero as f64).round() as u64,
        ids_per_example: mean(of, |ended| ended.ids_per_example),
        auc: mean(of, |ended| ended.outcome.auc),
        aucs: of.iter().map(|ended| ended.outcome.auc).collect(),
        log_loss: mean(of, |ended| ended.outcome.log_loss),
        modulo: None,
    }
}

fn modulo(of: &[Ended]) -> Modulo {
    let row = row("hash_dnn", None, of);
    Modulo {
        auc_modulo: row.auc,
        aucs_modulo: row.aucs,
        log_loss_modulo: row.log_loss,
        nonzero_weights_modulo: row.nonzero_weights,
        ids_per_example_modulo: row.ids_per_example,
    }
}
