//! The choice between the optimizers.

use crate::{Adagrad, Adam, OptimError, Sgd};

/// One of the optimizers with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Gradient descent.
    Sgd(Sgd),
    /// Adagrad.
    Adagrad(Adagrad),
    /// Adam.
    Adam(Adam),
}

impl Rule {
    /// Gradient descent at rate `lr`.
    pub fn sgd(lr: f64) -> Self {
        Self::Sgd(Sgd { lr })
    }

    /// Adagrad at rate `lr`, the rest as is usual.
    pub fn adagrad(lr: f64) -> Self {
        Self::Adagrad(Adagrad::new(lr))
    }

    /// Adam at rate `lr`, the rest as is usual.
    pub fn adam(lr: f64) -> Self {
        Self::Adam(Adam::new(lr))
    }

    /// Name in configurations and checkpoints.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sgd(_) => Sgd::NAME,
            Self::Adagrad(_) => Adagrad::NAME,
            Self::Adam(_) => Adam::NAME,
        }
    }

    /// Refuses settings outside the ranges in which the rule is defined.
    ///
    /// # Errors
    /// The first such setting.
    pub fn check(&self) -> Result<(), OptimError> {
        match self {
            Self::Sgd(sgd) => sgd.check(),
            Self::Adagrad(adagrad) => adagrad.check(),
            Self::Adam(adam) => adam.check(),
        }
    }

    /// Names of the state's vectors, one lane of each per weight.
    pub fn state_names(&self) -> &'static [&'static str] {
        match self {
            Self::Sgd(_) => &[],
            Self::Adagrad(_) => &["sum"],
            Self::Adam(_) => &["exp_avg", "exp_avg_sq"],
        }
    }

    /// The value at which all state begins.
    pub(crate) fn initial_state(&self) -> f32 {
        match self {
            Self::Adagrad(adagrad) => adagrad.initial as f32,
            Self::Sgd(_) | Self::Adam(_) => 0.0,
        }
    }
}
