//! The labels of a model, and the loss of each.

use stepwell_data::{LabelRule, Labels};
use stepwell_nn::{Loss, Objective};
use stepwell_settings::Config;

use crate::{Error, Result};

/// A label that is learned.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// The name of its column.
    pub name: String,
    /// What training minimizes.
    pub objective: Objective,
}

impl Label {
    /// The loss that is evaluated.
    pub fn loss(&self) -> Loss {
        self.objective.loss
    }
}

/// The labels that a model of `config` learns, in the order of their logits, including those
/// missing from data that is only scored.
///
/// # Errors
/// Columns from which no examples can be made.
pub fn labels(config: &Config) -> Result<Vec<Label>> {
    let layout = config.labelled_layout().map_err(Error::Config)?;
    let of = |(name, loss): (&str, Loss)| Label {
        name: name.to_owned(),
        objective: Objective {
            loss,
            positive_weight: config.class_weight_of(name),
            smoothing: config.train.label_smoothing,
            focal_gamma: config.train.focal_gamma,
        },
    };
    let loss = |rule: &LabelRule| if rule.is_number { Loss::SquaredError } else { Loss::LogLoss };
    Ok(match layout {
        None => vec![of(("label", Loss::LogLoss))],
        Some(layout) => {
            layout.labels().into_iter().map(|(name, rule)| of((name, loss(rule)))).collect()
        }
    })
}

/// Lanes of 32 bits for an example's logits, labels and weight.
pub(crate) fn lanes(labels: Labels) -> usize {
    2 * labels.count + usize::from(labels.weighted)
}
