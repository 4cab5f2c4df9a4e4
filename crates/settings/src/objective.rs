//! The settings of what training minimizes, and over which examples.

use stepwell_data::LabelRule;
use stepwell_nn::Loss;

use crate::check::{self, Outcome, right};
use crate::config::{ColumnConfig, ColumnType, Config, LayerConfig, LayerKind, ModelKind};
use crate::setting::{Kept, Setting, setting};
use crate::setting_types::Typed;

/// Weight of positives.
pub(crate) const CLASS_WEIGHT: Setting = setting!(
    "data.class_weight",
    data.class_weight = 1.0,
    BeyondDefault,
    "how often a positive example counts in training, beside its weight; evaluations count it once"
)
.check(|config| check::class_weight(config.data.class_weight));

/// Share of negatives.
pub(crate) const NEGATIVE_RATE: Setting = setting!(
    "data.negative_rate",
    data.negative_rate = 1.0,
    BeyondDefault,
    "share of the negative examples that are trained on, drawn by seed, epoch and place in the \
     data; evaluations and scores are corrected for it"
)
.check(|config| check::part(config.data.negative_rate, 1.0));

/// Label smoothing.
pub(crate) const LABEL_SMOOTHING: Setting = setting!(
    "train.label_smoothing",
    train.label_smoothing = 0.0,
    BeyondDefault,
    "share s of each label that training spreads over both classes: it learns y (1 - s) + s / 2"
)
.check(|config| {
    let share = config.train.label_smoothing;
    right(
        (0.0..1.0).contains(&share),
        share,
        format_args!("a share from 0 up to, not including, 1"),
    )
});

/// Exponent of the focal loss.
pub(crate) const FOCAL_GAMMA: Setting = setting!(
    "train.focal_gamma",
    train.focal_gamma = 0.0,
    BeyondDefault,
    "exponent of the focal loss that training minimizes: examples that are scored right count less \
     (0: the log loss)"
)
.check(|config| check::within(config.train.focal_gamma, 0.0..=check::FOCAL_GAMMA_MAX));

impl Config {
    /// Share of the negative examples to train on: 0 if a positive's negatives are the other
    /// examples of its mini-batch.
    pub fn negatives_kept(&self) -> f64 {
        if self.trains_on_positives() { 0.0 } else { self.data.negative_rate }
    }

    /// Whether the negatives of a positive are the other examples of its mini-batch.
    pub fn trains_on_positives(&self) -> bool {
        let softmax = |layer: &LayerConfig| layer.kind == LayerKind::InBatchSoftmax;
        match self.model.kind {
            ModelKind::TwoTower => true,
            ModelKind::Graph => self.model.layers.iter().any(softmax),
            _ => false,
        }
    }

    /// Refuses emphasis on classes if a label has none, and leaving out negatives if scores can't
    /// be corrected for it.
    pub(crate) fn check_objective(&self) -> Outcome {
        let layout = self.drafted()?.layout()?;
        let labels = layout.as_ref().map(|layout| layout.labels()).unwrap_or_default();
        self.check_emphasis(&labels)?;
        if self.negatives_kept() < 1.0 { self.check_negatives(&labels) } else { Ok(()) }
    }

    fn check_negatives(&self, labels: &[(&str, &LabelRule)]) -> Outcome {
        let is_share =
            |column: &&ColumnConfig| column.kind == ColumnType::Label && column.of.len() > 1;
        let why = match (labels, self.columns.iter().find(is_share)) {
            ([_, _, ..], _) if self.trains_on_positives() => {
                format!("there are {} labels; give one column type = label", labels.len())
            }
            ([_, _, ..], _) => format!(
                "there are {} labels, and an example is left out for all of them, so their scores \
                 cannot be corrected one by one; train a model for each",
                labels.len()
            ),
            ([(name, rule)], _) if rule.is_number => {
                format!("label {name} is a number (loss = squared_error); leave it out")
            }
            (_, Some(column)) => format!(
                "label {} is a share of impressions, and whole examples are left out; leave it out",
                column.names.join(", ")
            ),
            _ if self.data.streams > 1 => format!(
                "with data.streams = {}, mini-batches are cut before labels are known; give \
                 data.streams = 1",
                self.data.streams
            ),
            _ if self.trains_on_positives() && self.data.negative_rate < 1.0 => {
                return Err(format!(
                    "{} = {}, but {} trains on positives alone; leave it out",
                    NEGATIVE_RATE.key,
                    self.data.negative_rate,
                    self.model.kind.name()
                ));
            }
            _ => return Ok(()),
        };
        Err(match self.trains_on_positives() {
            true => format!(
                "model.kind = {}, which trains on positives alone: {why}",
                self.model.kind.name()
            ),
            false => format!("{} = {}: {why}", NEGATIVE_RATE.key, self.data.negative_rate),
        })
    }

    fn check_emphasis(&self, labels: &[(&str, &LabelRule)]) -> Outcome {
        let given = [&CLASS_WEIGHT, &LABEL_SMOOTHING, &FOCAL_GAMMA]
            .into_iter()
            .find_map(|setting| Some((setting.key, setting.kept_in(self)?)));
        let mut numbers = labels.iter().filter(|(_, rule)| rule.is_number);
        let Some((label, _)) = numbers.next() else { return Ok(()) };
        let own = self.columns.iter().zip(1..).find_map(|(column, number)| {
            let weight = column.class_weight.filter(|_| column.loss == Loss::SquaredError)?;
            Some((ColumnConfig::key(number, "class_weight"), weight.to_string()))
        });
        match own.or_else(|| given.map(|(key, value)| (key.to_owned(), value))) {
            None => Ok(()),
            Some((key, value)) => Err(format!(
                "{key} = {value}: label {label} is a number (loss = squared_error), which has no \
                 classes; leave it out{}",
                if key == CLASS_WEIGHT.key {
                    ", or give class_weight to the other labels"
                } else {
                    ""
                }
            )),
        }
    }
}
