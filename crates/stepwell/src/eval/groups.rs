//! `eval --group`: AUC, precision and recall among examples with the same value in a column.

use stepwell_base::stop::StopRequest;
use stepwell_train::{GroupMeter, GroupReport, Loss, Scored, labels};

use super::beside::{Beside, TextMeter, open};
use crate::failure::Failure;
use crate::score::Scoring;

pub(super) type Groups = Beside<GroupMeter>;

/// The first label is measured.
impl TextMeter for GroupMeter {
    fn add(&mut self, text: Vec<u8>, Scored { logits, labels, weights, .. }: Scored<'_>) {
        if let ([logit, ..], [label, ..]) = (logits, labels) {
            self.add(&text, *logit, *label, weights.first().copied().unwrap_or(1.0));
        }
    }
}

impl Groups {
    /// Prepares to group the examples of `scoring` by `column`, and to take the `at` best of each
    /// group.
    pub(super) fn open(
        scoring: &mut Scoring<'_>,
        (column, at): (&str, Option<u32>),
        stop: &StopRequest,
    ) -> Result<Self, Failure> {
        let names = open(scoring, "--group", column)?;
        let learned = labels(&scoring.config).map_err(|error| error.to_string())?;
        if learned.first().is_none_or(|label| label.loss() != Loss::LogLoss) {
            let why = "the label is a number, which has no AUC";
            return Err(Failure::Usage(format!("--group {column}: {why}")));
        }
        let meter = GroupMeter::default().with_precision(at);
        Self::new(scoring, (names, column), meter, stop)
    }

    /// The figures of the groups.
    pub(super) fn report(&self) -> Result<GroupReport, Failure> {
        let metrics = self.figures(GroupMeter::take)?;
        Ok(GroupReport { column: self.column.clone(), metrics })
    }
}
