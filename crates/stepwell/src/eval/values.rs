//! `eval --by`: the figures of the examples of each of a column's most frequent values.
//!
//! The column is read twice: before the evaluation to count its values, then beside it. Bounds: a
//! million different values, and for each measured one 1 MiB of scores, or 16 MiB of bins beyond
//! 256 Ki examples.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use stepwell_base::stop::StopRequest;
use stepwell_train::{Label, Meter, OtherValues, Scored, ValueMetrics, ValuesReport, labels};

use super::beside::{Beside, TextMeter, open};
use crate::failure::Failure;
use crate::score::Scoring;
use crate::score_texts::Names;

/// Most different values of a column.
const VALUES_MAX: usize = 1 << 20;
/// Most scores of a value for an exact AUC.
const EXACT_MAX: usize = 256 << 10;

/// Meters of the most frequent values.
pub(super) struct ValueMeters {
    labels: Arc<[Label]>,
    /// Place of each value in `of`.
    places: HashMap<Vec<u8>, usize>,
    /// The most frequent first; a meter is made with the first example.
    of: Vec<(Vec<u8>, Option<Meter>)>,
    others: OtherValues,
}

pub(super) type Values = Beside<ValueMeters>;

impl TextMeter for ValueMeters {
    fn add(&mut self, text: Vec<u8>, scored: Scored<'_>) {
        let Some(place) = self.places.get(&text) else {
            self.others.examples += 1;
            return;
        };
        let (labels, weighted) = (&self.labels, !scored.weights.is_empty());
        let meter = &mut self.of[*place].1;
        meter.get_or_insert_with(|| Meter::new(labels, weighted, EXACT_MAX)).add_each(scored);
    }
}

impl ValueMeters {
    /// Meters of the `top` most frequent values that `names` has; of equally frequent ones, those
    /// that sort first.
    fn of(mut names: Names, labels: Arc<[Label]>, top: usize) -> Result<Self, String> {
        let mut counts = HashMap::<Vec<u8>, u64>::new();
        while let Some(mut texts) = names.next_or_end()? {
            *counts.entry(texts.pop().unwrap_or_default()).or_default() += 1;
            if counts.len() > VALUES_MAX {
                return Err(format!(
                    "--by {}: more than {VALUES_MAX} different values; name a column with fewer",
                    names.columns.join(", ")
                ));
            }
        }
        let mut all: Vec<(Vec<u8>, u64)> = counts.into_iter().collect();
        all.sort_unstable_by(|one, other| {
            (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0))
        });
        let others = OtherValues { values: all.len().saturating_sub(top) as u64, examples: 0 };
        all.truncate(top);
        let places = all.iter().enumerate().map(|(place, (text, _))| (text.clone(), place));
        let places = places.collect();
        Ok(Self {
            labels,
            places,
            of: all.into_iter().map(|(text, _)| (text, None)).collect(),
            others,
        })
    }

    fn take(&mut self) -> (Vec<ValueMetrics>, OtherValues) {
        let metrics = |(text, meter): (Vec<u8>, Option<Meter>)| {
            let value = String::from_utf8_lossy(&text).into_owned();
            Some(ValueMetrics { value, metrics: meter?.take() })
        };
        let of = std::mem::take(&mut self.of).into_iter().filter_map(metrics).collect();
        (of, self.others)
    }
}

impl Values {
    /// Counts the values of `column`, and prepares to measure the `top` most frequent ones.
    pub(super) fn open(
        scoring: &mut Scoring<'_>,
        (column, top): (&str, u32),
        stop: &StopRequest,
    ) -> Result<Self, Failure> {
        let learned = labels(&scoring.config).map_err(|error| error.to_string())?;
        let counted = open(scoring, "--by", column)?;
        let meters = ValueMeters::of(counted, learned.into(), top as usize)?;
        let names = open(scoring, "--by", column)?;
        Self::new(scoring, (names, column), meters, stop)
    }

    /// The figures of the values.
    pub(super) fn report(&self) -> Result<ValuesReport, Failure> {
        let (values, others) = self.figures(ValueMeters::take)?;
        Ok(ValuesReport { column: self.column.clone(), values, others })
    }
}
