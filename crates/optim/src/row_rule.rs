//! The choice of a row optimizer.

use crate::adagrad::Adagrad;
use crate::error::OptimError;
use crate::row_wise_adagrad;
use crate::rule::Rule;

/// A row optimizer with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowRule {
    /// Each weight has its own state.
    PerLane(Rule),
    /// Row-wise Adagrad, with the settings of Adagrad.
    RowWiseAdagrad(Adagrad),
}

impl From<Rule> for RowRule {
    fn from(rule: Rule) -> Self {
        Self::PerLane(rule)
    }
}

/// Numbers of lanes of a vector that belongs to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Lanes of the embedding.
    pub dim: usize,
    /// Lanes of first-order weights, 0 or 1.
    pub wide: usize,
}

impl Lanes {
    /// Number of all lanes.
    pub fn count(self) -> usize {
        self.dim + self.wide
    }
}

impl RowRule {
    /// The learning rate.
    pub fn lr(&self) -> f64 {
        match self {
            Self::PerLane(rule) => rule.lr(),
            Self::RowWiseAdagrad(rule) => rule.lr,
        }
    }

    /// The same rule with learning rate `lr`.
    pub(crate) fn with_lr(self, lr: f64) -> Self {
        match self {
            Self::PerLane(rule) => Self::PerLane(rule.with_lr(lr)),
            Self::RowWiseAdagrad(rule) => Self::RowWiseAdagrad(Adagrad { lr, ..rule }),
        }
    }

    /// Name in configurations and checkpoints.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PerLane(rule) => rule.name(),
            Self::RowWiseAdagrad(_) => row_wise_adagrad::NAME,
        }
    }

    /// The settings by name.
    pub fn settings(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Self::PerLane(rule) => rule.settings(),
            Self::RowWiseAdagrad(Adagrad { lr, eps, initial }) => {
                vec![("lr", lr), ("eps", eps), ("initial", initial)]
            }
        }
    }

    /// The rule `name` with the settings from `of`, named as in [`RowRule::settings`]; `None` if
    /// there is no such rule, or the first error of `of`.
    pub fn of_settings<E>(
        name: &str,
        of: impl Fn(&'static str) -> Result<f64, E>,
    ) -> Option<Result<Self, E>> {
        let row_wise = || {
            let (lr, eps, initial) = (of("lr")?, of("eps")?, of("initial")?);
            Ok(Self::RowWiseAdagrad(Adagrad { lr, eps, initial }))
        };
        match name {
            row_wise_adagrad::NAME => Some(row_wise()),
            _ => Rule::of_settings(name, of).map(|rule| rule.map(Self::PerLane)),
        }
    }

    /// Rejects settings outside the ranges in which the rule is defined.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<(), OptimError> {
        match self {
            Self::PerLane(rule) => rule.check(),
            Self::RowWiseAdagrad(rule) => rule.check(row_wise_adagrad::NAME),
        }
    }

    /// Names of the state's vectors.
    pub fn state_names(&self) -> &'static [&'static str] {
        match self {
            Self::PerLane(rule) => rule.state_names(),
            Self::RowWiseAdagrad(_) => &["sum"],
        }
    }

    /// Lanes of each vector of the state of a row with these weights.
    pub fn vector_lanes(&self, weights: Lanes) -> Lanes {
        match self {
            Self::PerLane(_) => weights,
            Self::RowWiseAdagrad(_) => Lanes { dim: weights.dim.min(1), wide: weights.wide },
        }
    }

    /// Whether a row has one more lane, for its own step count.
    pub fn counts_steps(&self) -> bool {
        matches!(self, Self::PerLane(rule) if rule.counts_steps())
    }

    /// Initial value of all state.
    pub(crate) fn initial_state(&self) -> f32 {
        match self {
            Self::PerLane(rule) => rule.initial_state(),
            Self::RowWiseAdagrad(rule) => rule.initial as f32,
        }
    }
}
