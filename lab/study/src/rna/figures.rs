//! Results of the study: means over seeds, with their spread.

use std::collections::BTreeMap;

use serde::Serialize;
use stepwell_sync::Counts;

use super::paper::PaperSpeedups;
use super::response::Response;
use super::run::{Case, Outcome, Run};
use super::setting::Setting;
use crate::costs::Costs;
use crate::curve::Point;

/// A value over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub most: f64,
}

impl Spread {
    /// Spread of one value per seed; `None` if any is missing.
    fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
        let fold = |begin, choose: fn(f64, f64) -> f64| values.iter().copied().fold(begin, choose);
        (!values.is_empty()).then(|| Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            least: fold(f64::INFINITY, f64::min),
            most: fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// Results.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Whether only a tenth was run.
    pub quick: bool,
    /// One in this many training examples was used.
    pub part: usize,
    /// Costs of messages and arithmetic.
    pub costs: Costs,
    /// Seeds over which results are averaged.
    pub seeds: Vec<u64>,
    /// Results by model, in the headline's setting: 16 ranks, 5 ms, delays of 0 to 50 ms.
    pub models: Vec<ModelFigures>,
    /// Results by setting.
    pub settings: Vec<SettingFigures>,
    /// Milliseconds between sums, by number of probes.
    pub response_ms: BTreeMap<usize, Response>,
    /// Medians of `response_ms`.
    pub response_ms_p50: BTreeMap<usize, f64>,
    /// Medians from the thesis.
    pub paper_response_ms_p50: BTreeMap<usize, f64>,
    /// Speedups from the thesis.
    pub paper: Vec<PaperSpeedups>,
    /// Gradients that neither reached a model, nor were dropped by a rule, nor were left at the
    /// end.
    pub lost_gradients: i64,
}

/// Results for a model in the headline's setting.
#[derive(Clone, Debug, Serialize)]
pub struct ModelFigures {
    /// Name of the model.
    pub name: &'static str,
    /// By protocol, mean speedup over the blocking sum to the target loss.
    pub speedup: BTreeMap<&'static str, f64>,
    /// By protocol, mean share of test examples that are classified correctly at the end.
    pub accuracy: BTreeMap<&'static str, f64>,
    /// By protocol, spread of `speedup` over seeds.
    pub speedup_spread: BTreeMap<&'static str, Spread>,
    /// By protocol, spread of `accuracy` over seeds.
    pub accuracy_spread: BTreeMap<&'static str, Spread>,
}

/// Results for a setting.
#[derive(Clone, Debug, Serialize)]
pub struct SettingFigures {
    /// Name of the model.
    pub model: &'static str,
    /// Learning rate along the mean of all ranks' gradients.
    pub rate: f64,
    /// Target training loss.
    pub target_loss: f64,
    /// The setting.
    pub setting: Setting,
    /// Largest speedup to a loss from computing more gradients: see the module.
    pub limit: f64,
    /// Results by protocol.
    pub protocols: BTreeMap<&'static str, ProtocolFigures>,
}

/// Results for a protocol in a setting.
#[derive(Clone, Debug, Serialize)]
pub struct ProtocolFigures {
    /// Seconds on the virtual clock to the loss; `None` if any seed didn't reach it.
    pub seconds_to_loss: Option<Spread>,
    /// Passes over the examples to the loss.
    pub epochs_to_loss: Option<Spread>,
    /// Speedup over the blocking sum with the same seed.
    pub speedup: Option<Spread>,
    /// Seconds per update, over the whole run.
    pub seconds_per_update: f64,
    /// Gradients per update.
    pub gradients_per_update: f64,
    /// Most updates missing from a gradient.
    pub age_max: u64,
    /// Dropped gradients, over all seeds.
    pub dropped: u64,
    /// Share of test examples that are classified correctly at the end.
    pub accuracy: Option<Spread>,
    /// Counts of gradients, over all seeds.
    #[serde(skip)]
    pub counts: Counts,
    /// Learning curve of the first seed.
    pub curve: Vec<Point>,
}

impl SettingFigures {
    /// Results of a case, from one outcome per seed.
    pub(super) fn new(case: &Case, outcomes: &[Outcome]) -> Self {
        let entrants = outcomes.first().map_or(0, |outcome| outcome.runs.len());
        let of = |entrant: usize| -> Vec<&Run> {
            outcomes.iter().map(|outcome| &outcome.runs[entrant].1).collect()
        };
        let named = |entrant: usize| {
            let name = outcomes[0].runs[entrant].0.name;
            (name, ProtocolFigures::new(&of(entrant), &of(0)))
        };
        let limits = outcomes.iter().map(|outcome| outcome.limit).sum::<f64>();
        Self {
            model: case.task.model.name(),
            rate: case.task.rate,
            target_loss: case.task.target,
            setting: case.setting,
            limit: limits / outcomes.len() as f64,
            protocols: (0..entrants).map(named).collect(),
        }
    }
}

impl ProtocolFigures {
    /// Results from one run per seed, compared with the baseline's.
    fn new(runs: &[&Run], baseline: &[&Run]) -> Self {
        let seconds = |run: &Run| run.reached.map(|at| at.seconds);
        let speedup = |(run, bsp): (&&Run, &&Run)| Some(seconds(bsp)? / seconds(run)?);
        let counts = Counts::sum(runs.iter().map(|run| run.counts));
        let updates = runs.iter().map(|run| run.counts.updates).sum::<u64>().max(1) as f64;
        let took = runs.iter().filter_map(|run| run.curve.last()).map(|last| last.seconds);
        Self {
            seconds_to_loss: Spread::of(runs.iter().map(|run| seconds(run))),
            epochs_to_loss: Spread::of(runs.iter().map(|run| run.reached.map(|at| at.epoch))),
            speedup: Spread::of(runs.iter().zip(baseline).map(speedup)),
            seconds_per_update: took.sum::<f64>() / updates,
            gradients_per_update: counts.used as f64 / updates,
            age_max: counts.age_max,
            dropped: counts.dropped,
            accuracy: Spread::of(runs.iter().map(|run| Some(run.accuracy))),
            counts,
            curve: runs.first().map(|run| run.curve.clone()).unwrap_or_default(),
        }
    }
}

impl ModelFigures {
    /// The model's results in this setting.
    pub(super) fn new(of: &SettingFigures) -> Self {
        let late = of.protocols.iter().filter(|(name, _)| **name != "bsp");
        let speedups = late.filter_map(|(name, of)| Some((*name, of.speedup?)));
        let accuracies = of.protocols.iter().filter_map(|(name, of)| Some((*name, of.accuracy?)));
        let mean = |(name, spread): (&'static str, Spread)| (name, spread.mean);
        Self {
            name: of.model,
            speedup: speedups.clone().map(mean).collect(),
            accuracy: accuracies.clone().map(mean).collect(),
            speedup_spread: speedups.collect(),
            accuracy_spread: accuracies.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_all_seeds_or_none() {
        let spread = Spread::of([Some(1.5), Some(1.0), Some(2.0)]);
        assert_eq!(spread, Some(Spread { mean: 1.5, least: 1.0, most: 2.0 }));
        assert_eq!(Spread::of([Some(1.0), None]), None);
        assert_eq!(Spread::of([]), None);
    }
}
