//! The labels of a model, and the loss of each.

use stepwell_data::Labels;
use stepwell_nn::Loss;
use stepwell_settings::Config;

use crate::{Error, Result};

/// A label that is learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The name of its column.
    pub name: String,
    /// The loss to minimize.
    pub loss: Loss,
}

/// The labels that a model of `config` learns, in the order of their logits, including those
/// missing from data that is only scored.
///
/// # Errors
/// Columns from which no examples can be made.
pub fn labels(config: &Config) -> Result<Vec<Label>> {
    let layout = config.labelled_layout().map_err(Error::Config)?;
    let of = |(name, rule): (&str, &stepwell_data::LabelRule)| Label {
        name: name.to_owned(),
        loss: if rule.is_number { Loss::SquaredError } else { Loss::LogLoss },
    };
    Ok(match layout {
        None => vec![Label { name: "label".to_owned(), loss: Loss::LogLoss }],
        Some(layout) => layout.labels().into_iter().map(of).collect(),
    })
}

/// Lanes of 32 bits for an example's logits, labels and weight.
pub(crate) fn lanes(labels: Labels) -> usize {
    2 * labels.count + usize::from(labels.weighted)
}
