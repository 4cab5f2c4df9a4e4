//! The choice of a row optimizer.

use crate::adagrad::Adagrad;
use crate::adam::Adam;
use crate::error::{OptimError, check_positive};
use crate::ftrl::Ftrl;
use crate::rule::Rule;
use crate::sgd::Sgd;
use crate::{cf_sgd, row_wise_adagrad, row_wise_adam};

/// A row optimizer with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowRule {
    /// One that dense parameters may have, too.
    PerLane(Rule),
    /// FTRL-Proximal.
    Ftrl(Ftrl),
    /// Gradient descent with a rate that falls with the number of a row's updates.
    CfSgd(Sgd),
    /// Row-wise Adagrad, with the settings of Adagrad.
    RowWiseAdagrad(Adagrad),
    /// Row-wise Adam, with the settings of Adam.
    RowWiseAdam(Adam),
    /// No update: rows keep their values and have no state.
    Frozen,
}

const FROZEN: &str = "frozen";

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

/// A vector of a row's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateVector {
    /// Its name in checkpoints.
    pub name: &'static str,
    /// Whether it has one lane for the embedding, rather than one per weight.
    is_row_wise: bool,
}

impl StateVector {
    /// Its lanes in a row with these weights.
    pub fn lanes(self, weights: Lanes) -> Lanes {
        if self.is_row_wise { Lanes { dim: weights.dim.min(1), ..weights } } else { weights }
    }
}

impl RowRule {
    /// The learning rate.
    pub fn lr(&self) -> f64 {
        match self {
            Self::PerLane(rule) => rule.lr(),
            Self::Ftrl(rule) => rule.lr,
            Self::CfSgd(rule) => rule.lr,
            Self::RowWiseAdagrad(rule) => rule.lr,
            Self::RowWiseAdam(rule) => rule.lr,
            Self::Frozen => 0.0,
        }
    }

    /// The same rule with learning rate `lr`.
    pub(crate) fn with_lr(self, lr: f64) -> Self {
        match self {
            Self::PerLane(rule) => Self::PerLane(rule.with_lr(lr)),
            Self::Ftrl(rule) => Self::Ftrl(Ftrl { lr, ..rule }),
            Self::CfSgd(_) => Self::CfSgd(Sgd { lr }),
            Self::RowWiseAdagrad(rule) => Self::RowWiseAdagrad(Adagrad { lr, ..rule }),
            Self::RowWiseAdam(rule) => Self::RowWiseAdam(Adam { lr, ..rule }),
            Self::Frozen => Self::Frozen,
        }
    }

    /// Name in configurations and checkpoints.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PerLane(rule) => rule.name(),
            Self::Ftrl(_) => Ftrl::NAME,
            Self::CfSgd(_) => cf_sgd::NAME,
            Self::RowWiseAdagrad(_) => row_wise_adagrad::NAME,
            Self::RowWiseAdam(_) => row_wise_adam::NAME,
            Self::Frozen => FROZEN,
        }
    }

    /// The settings by name.
    pub fn settings(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Self::PerLane(rule) => rule.settings(),
            Self::Ftrl(Ftrl { lr, beta, l1, initial }) => {
                vec![("lr", lr), ("beta", beta), ("l1", l1), ("initial", initial)]
            }
            Self::CfSgd(Sgd { lr }) => vec![("lr", lr)],
            Self::RowWiseAdagrad(rule) => rule.settings(),
            Self::RowWiseAdam(rule) => rule.settings(),
            Self::Frozen => Vec::new(),
        }
    }

    /// The rule `name` with the settings from `of`, named as in [`RowRule::settings`]; `None` if
    /// there is no such rule, or the first error of `of`.
    pub fn of_settings<E>(
        name: &str,
        of: impl Fn(&'static str) -> Result<f64, E>,
    ) -> Option<Result<Self, E>> {
        let ftrl = || {
            let (lr, beta) = (of("lr")?, of("beta")?);
            Ok(Self::Ftrl(Ftrl { lr, beta, l1: of("l1")?, initial: of("initial")? }))
        };
        match name {
            Ftrl::NAME => Some(ftrl()),
            cf_sgd::NAME => Some(of("lr").map(|lr| Self::CfSgd(Sgd { lr }))),
            row_wise_adagrad::NAME => Some(Adagrad::of_settings(of).map(Self::RowWiseAdagrad)),
            row_wise_adam::NAME => Some(Adam::of_settings(of).map(Self::RowWiseAdam)),
            FROZEN => Some(Ok(Self::Frozen)),
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
            Self::Ftrl(rule) => rule.check(),
            Self::CfSgd(rule) => check_positive(cf_sgd::NAME, "lr", rule.lr),
            Self::RowWiseAdagrad(rule) => rule.check(row_wise_adagrad::NAME),
            Self::RowWiseAdam(rule) => rule.check(row_wise_adam::NAME),
            Self::Frozen => Ok(()),
        }
    }

    /// The vectors of a row's state, in order.
    pub fn state(&self) -> impl Iterator<Item = StateVector> + use<> {
        let (names, row_wise): (&'static [&'static str], usize) = match self {
            Self::PerLane(rule) => (rule.state_names(), 0),
            Self::Ftrl(_) => (&["sum", "linear"], 0),
            Self::RowWiseAdagrad(_) => (&["sum"], 1),
            Self::RowWiseAdam(_) => (&["exp_avg", "exp_avg_sq"], 1),
            Self::CfSgd(_) | Self::Frozen => (&[], 0),
        };
        let per_weight = names.len() - row_wise;
        let vectors = names.iter().enumerate();
        vectors.map(move |(at, name)| StateVector { name, is_row_wise: at >= per_weight })
    }

    /// Whether a row has one more lane, for its own step count.
    pub fn counts_steps(&self) -> bool {
        match self {
            Self::PerLane(rule) => rule.counts_steps(),
            Self::CfSgd(_) | Self::RowWiseAdam(_) => true,
            Self::Ftrl(_) | Self::RowWiseAdagrad(_) | Self::Frozen => false,
        }
    }

    /// Writes the state of a row that was never updated.
    pub(crate) fn init_state(&self, state: &mut [f32]) {
        match self {
            Self::PerLane(rule) => state.fill(rule.initial_state()),
            Self::Ftrl(rule) => {
                let (squares, linear) = state.split_at_mut(state.len() / 2);
                squares.fill(rule.initial as f32);
                linear.fill(0.0);
            }
            Self::RowWiseAdagrad(rule) => state.fill(rule.initial as f32),
            Self::CfSgd(_) | Self::RowWiseAdam(_) | Self::Frozen => state.fill(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use crate::{Lanes, Regularization, RowOptimizer, RowRule, Storage, Stored};

    fn bits(lanes: &[f32]) -> Vec<u32> {
        lanes.iter().map(|lane| lane.to_bits()).collect()
    }

    /// Not even the sign of a zero changes, whatever the gradient and the storage.
    #[test]
    fn frozen_rows_keep_their_bits() {
        let of = Regularization { l2: 0.5, weight_decay: 0.5, clip_norm: 1.0, max_norm: 1e-3 };
        let frozen = RowOptimizer::new(RowRule::Frozen).unwrap();
        let optimizer = frozen.regularized(of).unwrap().with_lr(0.5).unwrap();
        assert_eq!((optimizer, optimizer.state_lanes(Lanes { dim: 4, wide: 0 })), (frozen, 0));
        assert!(optimizer.settings().is_empty());
        let weights = [-0.0, 1.0, f32::MIN_POSITIVE, -3.5];
        let gradient = [1.0, f32::INFINITY, -1.0, f32::NAN];
        for storage in Storage::ALL {
            let (mut lanes, mut room) = (vec![0.0; storage.lanes(4)], vec![0.0; 4]);
            storage.encode(&weights, &mut lanes, Stream::from_state(0));
            let before = bits(&lanes);
            let random = Stream::from_state(7);
            let stored = Stored { storage, dim: 4, lanes: &mut lanes, random, room: &mut room };
            optimizer.update_stored(stored, &mut [], &gradient);
            assert_eq!(bits(&lanes), before, "{storage:?}");
        }
        let mut row = weights;
        optimizer.update(&mut row, &mut [], &gradient);
        optimizer.update_inline(&mut row, &mut [], &gradient);
        optimizer.bound(&mut row);
        assert_eq!(bits(&row), bits(&weights));
    }
}
