//! Scored examples with their texts of a column.

use std::sync::{Mutex, PoisonError};

use stepwell_base::stop::StopRequest;
use stepwell_train::{Observer, Scored, labels};

use crate::failure::Failure;
use crate::score::Scoring;
use crate::score_texts::Names;

/// Measures examples by a text of each.
pub(super) trait TextMeter: Send {
    /// Adds one example.
    fn add(&mut self, text: Vec<u8>, scored: Scored<'_>);
}

/// Passes examples to a meter as they are scored, with their texts of a column.
pub(super) struct Beside<M> {
    pub(super) column: String,
    /// Number of labels of each example.
    labels: usize,
    /// Stops the evaluation if the data cannot be read.
    stop: StopRequest,
    state: Mutex<State<M>>,
}

struct State<M> {
    names: Names,
    meter: M,
    failed: Option<String>,
}

/// Opens the texts of `column`, which `flag` names, of the data that is scored.
pub(super) fn open(
    scoring: &mut Scoring<'_>,
    flag: &'static str,
    column: &str,
) -> Result<Names, Failure> {
    let wrong = |why: &str| Failure::Usage(format!("{flag} {column}: {why}"));
    if scoring.config.data.eval_paths.is_empty() {
        return Err(wrong("its values are read from the data: name it with --data"));
    }
    if scoring.chose("data.skip_max") {
        return Err(wrong("every line must be an example: leave out data.skip_max"));
    }
    scoring.config.data.skip_max = 0;
    Names::open(&scoring.config, flag, &[column.to_owned()])
}

impl<M: TextMeter> Beside<M> {
    /// Prepares to measure the examples of `scoring` with `meter`; `stop` is made if the data
    /// cannot be read.
    pub(super) fn new(
        scoring: &Scoring<'_>,
        (names, column): (Names, &str),
        meter: M,
        stop: &StopRequest,
    ) -> Result<Self, Failure> {
        let labels = labels(&scoring.config).map_err(|error| error.to_string())?.len();
        let state = Mutex::new(State { names, meter, failed: None });
        Ok(Self { column: column.to_owned(), labels, stop: stop.clone(), state })
    }

    /// The figures that `take` takes from the meter.
    pub(super) fn figures<T>(&self, take: impl FnOnce(&mut M) -> T) -> Result<T, Failure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed.take().map_or(Ok(()), |why| Err(Failure::from(why)))?;
        Ok(take(&mut state.meter))
    }
}

impl<M: TextMeter> State<M> {
    fn add(&mut self, scored: Scored<'_>, each: usize) -> Result<(), String> {
        let Scored { logits, labels, weights, .. } = scored;
        let of_examples = logits.chunks_exact(each).zip(labels.chunks_exact(each));
        for (number, (logits, labels)) in of_examples.enumerate() {
            let text = self.names.next()?.pop().unwrap_or_default();
            let weights = weights.get(number..=number).unwrap_or_default();
            self.meter.add(text, Scored { logits, labels, weights, layers: &[] });
        }
        Ok(())
    }
}

impl<M: TextMeter> Observer for Beside<M> {
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
