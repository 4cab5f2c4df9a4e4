//! `eval --group`: the AUC among examples with the same value in a column.

use std::sync::{Mutex, PoisonError};

use stepwell_base::stop::StopRequest;
use stepwell_train::{GroupMeter, GroupReport, Loss, Observer, Report, Scored, labels};

use crate::failure::Failure;
use crate::score::Scoring;
use crate::score_texts::Names;

/// Measures groups as their examples are scored.
pub(super) struct Groups {
    column: String,
    /// Number of labels per example; the first is measured.
    labels: usize,
    /// Stops the evaluation if the data cannot be read.
    stop: StopRequest,
    state: Mutex<State>,
}

struct State {
    names: Names,
    meter: GroupMeter,
    failed: Option<String>,
}

impl Groups {
    /// Prepares to group the examples of `scoring` by `column`.
    pub(super) fn open(scoring: &mut Scoring<'_>, column: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| Failure::Usage(format!("--group {column}: {why}"));
        if scoring.config.data.eval_paths.is_empty() {
            return Err(wrong("its values are read from the data: name it with --data"));
        }
        if scoring.chose("data.skip_max") {
            return Err(wrong("every line must be an example: leave out data.skip_max"));
        }
        scoring.config.data.skip_max = 0;
        let learned = labels(&scoring.config).map_err(|error| error.to_string())?;
        if learned.first().is_none_or(|label| label.loss != Loss::LogLoss) {
            return Err(wrong("the label is a number, which has no AUC"));
        }
        let names = Names::open(&scoring.config, "--group", &[column.to_owned()])?;
        let state = State { names, meter: GroupMeter::default(), failed: None };
        Ok(Self {
            column: column.to_owned(),
            labels: learned.len(),
            stop: StopRequest::new(),
            state: Mutex::new(state),
        })
    }

    /// Sets the request that is made if the data cannot be read.
    pub(super) fn stopped_by(self, stop: &StopRequest) -> Self {
        Self { stop: stop.clone(), ..self }
    }

    /// Adds the figures of the groups to the outcome of an evaluation.
    pub(super) fn report(&self, outcome: Result<Report, Failure>) -> Result<Report, Failure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = state.failed.take() {
            return Err(why.into());
        }
        let by_group = GroupReport { column: self.column.clone(), metrics: state.meter.take() };
        outcome.map(|report| Report { by_group: Some(by_group), ..report })
    }
}

impl State {
    fn add(&mut self, scored: Scored<'_>, labels: usize) -> Result<(), String> {
        let Scored { logits, labels: of, weights } = scored;
        let firsts = logits.iter().step_by(labels).zip(of.iter().step_by(labels));
        for (number, (logit, label)) in firsts.enumerate() {
            let group = self.names.next()?.pop().unwrap_or_default();
            let weight = weights.get(number).copied().unwrap_or(1.0);
            self.meter.add(&group, *logit, *label, weight);
        }
        Ok(())
    }
}

impl Observer for Groups {
    fn scored(&self, scored: Scored<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed.is_none()
            && let Err(why) = state.add(scored, self.labels)
        {
            state.failed = Some(why);
            self.stop.make();
        }
    }
}
