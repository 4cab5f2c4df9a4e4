//! The contents of a page, as the events of a run change them.

use serde_json::Value;
use stepwell_settings::{self as settings, Config};
use stepwell_train::{Metrics, StageReport};

use super::history::History;
use crate::curves::sample::Sample;
use crate::curves::sink::{Event, Moment};
use crate::figures_text;

/// Most points of a line.
pub(super) const POINTS_MAX: usize = 512;

/// An evaluation, and the number of examples before it.
#[derive(Clone, Debug)]
pub(super) struct Evaluated {
    pub(super) examples: u64,
    pub(super) metrics: Metrics,
    pub(super) best: Option<Metrics>,
}

/// State of the run.
#[derive(Clone, Debug, Default)]
pub(super) enum State {
    #[default]
    Running,
    Ended,
    Interrupted,
    Failed(String),
}

/// The contents of a page.
pub(super) struct Shown {
    pub(super) title: String,
    pub(super) state: State,
    pub(super) seconds: f64,
    pub(super) step: u64,
    pub(super) samples: History<Sample>,
    pub(super) evaluations: History<Evaluated>,
    /// Step and path of the last checkpoint.
    pub(super) saved: Option<(u64, String)>,
    pub(super) checkpoints: u64,
    pub(super) budget: Vec<(String, u64)>,
    /// From the report; empty before the end.
    pub(super) stages: Vec<StageReport>,
    pub(super) figures: Vec<(&'static str, String)>,
    pub(super) settings: Value,
}

impl Shown {
    /// The page of a run that has not begun.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            title: title(config),
            state: State::default(),
            seconds: 0.0,
            step: 0,
            samples: History::new(POINTS_MAX),
            evaluations: History::new(POINTS_MAX),
            saved: None,
            checkpoints: 0,
            budget: Vec::new(),
            stages: Vec::new(),
            figures: Vec::new(),
            settings: settings::to_json(&config.with_rates()),
        }
    }

    /// Adds an event.
    pub(super) fn take(&mut self, at: Moment, event: &Event<'_>) {
        (self.seconds, self.step) = (at.seconds, at.step);
        match event {
            Event::Planned(budget) => {
                let bounds = budget.bounds().iter();
                self.budget = bounds.map(|bound| (bound.name.clone(), bound.bytes)).collect();
            }
            Event::Training { now, .. } => self.samples.add((*now).clone()),
            Event::Epoch(_) => {}
            Event::Evaluation { metrics, best } => {
                let (metrics, best) = ((*metrics).clone(), best.cloned());
                self.evaluations.add(Evaluated { examples: at.examples, metrics, best });
            }
            Event::Saved(path) => {
                self.checkpoints += 1;
                self.saved = Some((at.step, path.display().to_string()));
            }
            Event::Ended(Ok(report)) => {
                self.state = if report.interrupted { State::Interrupted } else { State::Ended };
                self.stages.clone_from(&report.stages);
                self.figures = figures_text::figures(report);
            }
            Event::Ended(Err(why)) => self.state = State::Failed((*why).to_owned()),
        }
    }
}

fn title(config: &Config) -> String {
    let kind = settings::find("model.kind").map(|setting| setting.get(config)).unwrap_or_default();
    let data = match config.data.paths.as_slice() {
        [] => "the built-in stream".to_owned(),
        paths => paths.join(", "),
    };
    format!("{}, dim {}, on {data}", kind.as_str().unwrap_or_default(), config.model.dim)
}
