//! RNA against the blocking sum, eager SGD and AD-PSGD, with ranks that are late.
//!
//! - **How.** Each protocol trains the same model on the virtual clock, with real gradients, until
//!   a loss is reached, and on to the same number of examples, all with the same settings.
//! - **Limit.** Where each gradient helps as much whoever waits for whom, a loss is reached sooner
//!   by as much as ranks compute more of them: the blocking sum's step over the mean time of a
//!   gradient. With delays uniform in 0 to 50 ms and n ranks that is (c + 50 n / (n + 1)) / (c +
//!   25): 1.9 where computing takes nothing, 1.3 where it takes 50 ms. [`SettingFigures::limit`] is
//!   its value for the delays that were drawn.
//! - **Source.** Yang's thesis, sections 5.5 and 5.6. Its machines' computing times are not told,
//!   so they are varied.

mod page;
mod paper;
mod response;
mod setting;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use stepwell_nn::Graph;
use stepwell_sim::clock::{BoxedLearner, ClockedRun};
use stepwell_sync::{Counts, Groups, Options, Rate};

pub use self::page::{page, plots};
pub use self::paper::PaperSpeedups;
pub use self::response::Response;
use self::setting::Entrant;
pub use self::setting::{Lateness, Setting};
use crate::curve::{Looks, Point, share};
use crate::learner::{ImageLearner, look};
use crate::models::Model;
use crate::{Images, Result};

/// Examples of a rank's mini-batch.
const MINI_BATCH: usize = 8;
/// Training and test examples that are looked at on the way.
const LOOKED_AT: usize = 2000;
/// Points of a pass over the examples.
const POINTS: u64 = 20;
/// How far a step along the mean of all ranks' gradients goes.
const RATE: f64 = 0.25;
/// Passes over the examples.
const EPOCHS: f64 = 1.5;
/// Training loss to be reached.
const TARGET: f64 = 0.3;

/// What is run.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// A tenth of the settings.
    pub quick: bool,
    /// Of the training examples one in so many are learned from.
    pub part: usize,
    /// What data's order, initial values, probes and delays follow from.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Whether it was a tenth.
    pub quick: bool,
    /// Training loss to be reached.
    pub target_loss: f64,
    /// By model, in the setting of the headline: 16 ranks, 50 ms, delays of 0 to 50 ms.
    pub models: Vec<ModelFigures>,
    /// By setting.
    pub settings: Vec<SettingFigures>,
    /// Milliseconds between sums, by number of probes.
    pub response_ms: BTreeMap<usize, Response>,
    /// Medians of these.
    pub response_ms_p50: BTreeMap<usize, f64>,
    /// Medians that the thesis measured.
    pub paper_response_ms_p50: BTreeMap<usize, f64>,
    /// Speed-ups that the thesis measured.
    pub paper: Vec<PaperSpeedups>,
    /// Gradients that neither reached a model, were dropped by a rule, nor were left at the end.
    pub lost_gradients: i64,
}

/// What came of a model in the headline's setting.
#[derive(Clone, Debug, Serialize)]
pub struct ModelFigures {
    /// Its name.
    pub name: &'static str,
    /// By protocol, how much sooner than the blocking sum the loss was reached.
    pub speedup: BTreeMap<&'static str, f64>,
    /// By protocol, share of test examples whose class is right at the end.
    pub accuracy: BTreeMap<&'static str, f64>,
}

/// What came of a setting.
#[derive(Clone, Debug, Serialize)]
pub struct SettingFigures {
    /// The model.
    pub model: &'static str,
    /// The setting.
    pub setting: Setting,
    /// How much sooner a loss can be reached by computing more gradients: see the module.
    pub limit: f64,
    /// By protocol.
    pub protocols: BTreeMap<&'static str, ProtocolFigures>,
}

/// What came of a protocol in a setting.
#[derive(Clone, Debug, Serialize)]
pub struct ProtocolFigures {
    /// Seconds of the virtual clock to the loss; none where it was not reached.
    pub seconds_to_loss: Option<f64>,
    /// Updates to the loss.
    pub updates_to_loss: Option<u64>,
    /// How much sooner than the blocking sum.
    pub speedup: Option<f64>,
    /// Seconds of an update, over the whole run.
    pub seconds_per_update: f64,
    /// Share of test examples whose class is right at the end.
    pub accuracy: f64,
    /// What became of its gradients.
    #[serde(skip)]
    pub counts: Counts,
    /// How it went.
    pub curve: Vec<Point>,
}

/// Runs the study on the MNIST files of a folder; `say` is told what is going on.
///
/// # Errors
/// Data that cannot be read, or a protocol that breaks.
pub fn run(folder: &Path, options: &StudyOptions, say: &mut dyn FnMut(&str)) -> Result<Figures> {
    let what = what_is_run(options.quick);
    let ranks = what.iter().map(|(_, setting)| setting.ranks).max().unwrap_or(1);
    let least = ranks * MINI_BATCH;
    let [train, test] = Images::both(folder, (options.part, least, options.seed))?;
    let train = Arc::new(train);
    let looked_at = train.shuffled(LOOKED_AT.min(train.count()), options.seed + 1);
    let test_part = test.shuffled(LOOKED_AT, options.seed + 1);
    let data = Data { train, looked_at, test_part, test };
    let mut settings = Vec::new();
    for (model, setting) in what {
        let (name, ranks, ms) = (model.name(), setting.ranks, setting.computing_ms);
        say(&format!("{name}: {ranks} ranks, {ms} ms, {:?}", setting.lateness));
        settings.push(run_setting(model, setting, &data, options)?);
    }
    say("response by probes");
    let response_ms = response::run(options.quick, options.seed)?;
    let all = settings.iter().flat_map(|setting| setting.protocols.values());
    let lost_gradients = Counts::sum(all.map(|protocol| protocol.counts)).lost();
    Ok(Figures {
        quick: options.quick,
        target_loss: TARGET,
        models: headline(&settings),
        settings,
        response_ms_p50: response_ms.iter().map(|(probes, at)| (*probes, at.p50)).collect(),
        response_ms,
        paper_response_ms_p50: paper::RESPONSE.into_iter().collect(),
        paper: paper::SPEEDUPS.to_vec(),
        lost_gradients,
    })
}

#[derive(Debug)]
struct Data {
    train: Arc<Images>,
    looked_at: Images,
    test_part: Images,
    test: Images,
}

/// The headline's setting.
const HEADLINE: Setting = Setting { ranks: 16, computing_ms: 50.0, lateness: Lateness::Delays };

fn what_is_run(quick: bool) -> Vec<(Model, Setting)> {
    let model = Model::Fcnn(32);
    let mixed = Setting { lateness: Lateness::Mixed, ..HEADLINE };
    if quick {
        return [HEADLINE, mixed].map(|setting| (model, setting)).to_vec();
    }
    let with = |lateness| Setting { lateness, ..HEADLINE };
    let times = [1.0, 5.0, 15.0, 50.0, 150.0, 500.0];
    let mut all: Vec<Setting> =
        times.map(|computing_ms| Setting { computing_ms, ..HEADLINE }).to_vec();
    all.extend(times.map(|computing_ms| Setting { computing_ms, ..mixed }));
    all.extend([4, 8, 32].map(|ranks| Setting { ranks, ..HEADLINE }));
    all.extend([Lateness::None, Lateness::HeavyTail, Lateness::Straggler].map(with));
    all.into_iter().map(|setting| (model, setting)).collect()
}

fn run_setting(
    model: Model,
    setting: Setting,
    data: &Data,
    options: &StudyOptions,
) -> Result<SettingFigures> {
    let graph = Arc::new(model.graph::<f32>(data.train.columns)?);
    let mut protocols = BTreeMap::new();
    for entrant in Entrant::of(setting.lateness) {
        let one = run_one(entrant, setting, &graph, data, options)?;
        protocols.insert(entrant.name, one);
    }
    let baseline = protocols.get("bsp").and_then(|of: &ProtocolFigures| of.seconds_to_loss);
    for of in protocols.values_mut() {
        of.speedup = baseline.zip(of.seconds_to_loss).map(|(bsp, own)| bsp / own);
    }
    let limit = setting.limit(options.seed);
    Ok(SettingFigures { model: model.name(), setting, limit, protocols })
}

fn run_one(
    entrant: Entrant,
    setting: Setting,
    graph: &Arc<Graph<f32>>,
    data: &Data,
    options: &StudyOptions,
) -> Result<ProtocolFigures> {
    let ranks = setting.ranks;
    let parts = ImageLearner::<f32>::parts(&data.train, ranks);
    let per_epoch = (ranks * (parts[0].len() / MINI_BATCH)) as u64;
    // Sums that few take part in are more: the run ends by its gradients.
    let mut protocol = Options::new(u64::MAX, Rate::constant(RATE));
    protocol.seed = options.seed;
    protocol.groups = if entrant.grouped { setting.halves() } else { Groups::One };
    let learner = |part| -> BoxedLearner<f32> {
        Box::new(ImageLearner::new(graph, &data.train, part, MINI_BATCH))
    };
    let learners = parts.into_iter().map(learner).collect();
    let begin = graph.initial_parameters(options.seed);
    let times = setting.times(options.seed);
    let mut run = ClockedRun::new((entrant.kind, &protocol), &begin, learners, times)?;
    let looks = Looks { graph, train: &data.looked_at, test: &data.test_part, per_epoch };
    let every = (per_epoch / POINTS).max(1);
    let (curve, counts) = looks.follow(&mut run, every, |point, _| point.epoch >= EPOCHS)?;
    let reached = curve.iter().find(|point| point.train_loss <= TARGET);
    let last = curve.last().cloned().unwrap_or_default();
    Ok(ProtocolFigures {
        seconds_to_loss: reached.map(|point| point.seconds),
        updates_to_loss: reached.map(|point| point.updates),
        speedup: None,
        seconds_per_update: last.seconds / last.updates.max(1) as f64,
        accuracy: share(look(graph, &data.test, &run.model())),
        counts,
        curve,
    })
}

/// The figures of each model in the headline's setting.
fn headline(settings: &[SettingFigures]) -> Vec<ModelFigures> {
    let of = settings.iter().filter(|of| of.setting == HEADLINE);
    let figures = |of: &SettingFigures| {
        let speedup = of.protocols.iter().filter(|(name, _)| **name != "bsp");
        ModelFigures {
            name: of.model,
            speedup: speedup.filter_map(|(name, of)| Some((*name, of.speedup?))).collect(),
            accuracy: of.protocols.iter().map(|(name, of)| (*name, of.accuracy)).collect(),
        }
    };
    of.map(figures).collect()
}
