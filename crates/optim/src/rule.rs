//! The choice of an optimizer.

use crate::adagrad::Adagrad;
use crate::adam::Adam;
use crate::error::OptimError;
use crate::momentum::Momentum;
use crate::sgd::Sgd;

/// An optimizer with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Gradient descent.
    Sgd(Sgd),
    /// Gradient descent with momentum.
    Momentum(Momentum),
    /// Adagrad.
    Adagrad(Adagrad),
    /// Adam.
    Adam(Adam),
}

impl Rule {
    /// Gradient descent with learning rate `lr`.
    pub fn sgd(lr: f64) -> Self {
        Self::Sgd(Sgd { lr })
    }

    /// Adagrad with learning rate `lr` and the usual other settings.
    pub fn adagrad(lr: f64) -> Self {
        Self::Adagrad(Adagrad::new(lr))
    }

    /// Adam with learning rate `lr` and the usual other settings.
    pub fn adam(lr: f64) -> Self {
        Self::Adam(Adam::new(lr))
    }

    /// The learning rate.
    pub(crate) fn lr(&self) -> f64 {
        match self {
            Self::Sgd(sgd) => sgd.lr,
            Self::Momentum(momentum) => momentum.lr,
            Self::Adagrad(adagrad) => adagrad.lr,
            Self::Adam(adam) => adam.lr,
        }
    }

    /// The same rule with learning rate `lr`.
    pub(crate) fn with_lr(self, lr: f64) -> Self {
        match self {
            Self::Sgd(_) => Self::Sgd(Sgd { lr }),
            Self::Momentum(momentum) => Self::Momentum(Momentum { lr, ..momentum }),
            Self::Adagrad(adagrad) => Self::Adagrad(Adagrad { lr, ..adagrad }),
            Self::Adam(adam) => Self::Adam(Adam { lr, ..adam }),
        }
    }

    /// Name in configurations and checkpoints.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sgd(_) => Sgd::NAME,
            Self::Momentum(_) => Momentum::NAME,
            Self::Adagrad(_) => Adagrad::NAME,
            Self::Adam(_) => Adam::NAME,
        }
    }

    /// The settings by name.
    pub fn settings(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Self::Sgd(Sgd { lr }) => vec![("lr", lr)],
            Self::Momentum(Momentum { lr, momentum }) => vec![("lr", lr), ("momentum", momentum)],
            Self::Adagrad(adagrad) => adagrad.settings(),
            Self::Adam(adam) => adam.settings(),
        }
    }

    /// The rule `name` with the settings from `of`, named as in [`Rule::settings`]; `None` if there
    /// is no such rule, or the first error of `of`.
    pub fn of_settings<E>(
        name: &str,
        of: impl Fn(&'static str) -> Result<f64, E>,
    ) -> Option<Result<Self, E>> {
        let sgd = || Ok(Self::Sgd(Sgd { lr: of("lr")? }));
        let momentum = || {
            let (lr, momentum) = (of("lr")?, of("momentum")?);
            Ok(Self::Momentum(Momentum { lr, momentum }))
        };
        match name {
            Sgd::NAME => Some(sgd()),
            Momentum::NAME => Some(momentum()),
            Adagrad::NAME => Some(Adagrad::of_settings(of).map(Self::Adagrad)),
            Adam::NAME => Some(Adam::of_settings(of).map(Self::Adam)),
            _ => None,
        }
    }

    /// Rejects settings outside the ranges in which the rule is defined.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<(), OptimError> {
        match self {
            Self::Sgd(sgd) => sgd.check(),
            Self::Momentum(momentum) => momentum.check(),
            Self::Adagrad(adagrad) => adagrad.check(Adagrad::NAME),
            Self::Adam(adam) => adam.check(Adam::NAME),
        }
    }

    /// Names of the state's vectors, which have a lane per weight.
    pub fn state_names(&self) -> &'static [&'static str] {
        match self {
            Self::Sgd(_) => &[],
            Self::Momentum(_) => &["velocity"],
            Self::Adagrad(_) => &["sum"],
            Self::Adam(_) => &["exp_avg", "exp_avg_sq"],
        }
    }

    /// Whether a row has one more lane, for its own step count.
    pub fn counts_steps(&self) -> bool {
        matches!(self, Self::Adam(_))
    }

    /// Initial value of all state.
    pub(crate) fn initial_state(&self) -> f32 {
        match self {
            Self::Adagrad(adagrad) => adagrad.initial as f32,
            Self::Sgd(_) | Self::Momentum(_) | Self::Adam(_) => 0.0,
        }
    }
}
