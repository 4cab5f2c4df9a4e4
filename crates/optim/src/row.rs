//! The optimizer of embedding rows, with its state next to the weights in the row.
//!
//! ```text
//! sgd               (no state)
//! cf_sgd            [ step: u32 bits in one lane ]
//! momentum          [ velocity: width ]
//! adagrad           [ sum: width ]
//! row_wise_adagrad  [ sum: 1 for the embedding, 1 for the wide weight ]
//! adam              [ exp_avg: width ][ exp_avg_sq: width ][ step: u32 bits in one lane ]
//! row_wise_adam     [ exp_avg: width ][ exp_avg_sq: as row_wise_adagrad ][ step: as adam ]
//! ftrl              [ sum: width ][ linear: width ]
//! frozen            (no state, and no updates)
//! ```
//!
//! Adam and CF-SGD count the steps of each row separately: a row first seen late in training gets
//! the bias correction, or the rate, of a first step.

use pulp::{Arch, Simd, WithSimd};

use stepwell_base::random::Stream;

use crate::adagrad::Adagrad;
use crate::adam::{Adam, AdamStep};
use crate::cf_sgd;
use crate::error::OptimError;
use crate::penalty::{NoPenalty, Penalty};
use crate::regularization::Regularization;
use crate::row_rule::{Lanes, RowRule};
use crate::rule::Rule;
use crate::storage::Storage;

/// Optimizer of a table's rows.
#[derive(Clone, Copy, Debug)]
pub struct RowOptimizer {
    rule: RowRule,
    regularization: Regularization,
    arch: Arch,
}

impl PartialEq for RowOptimizer {
    fn eq(&self, other: &Self) -> bool {
        (self.rule, self.regularization) == (other.rule, other.regularization)
    }
}

impl RowOptimizer {
    /// A row optimizer with this rule.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(rule: impl Into<RowRule>) -> Result<Self, OptimError> {
        let rule = rule.into();
        rule.check()?;
        Ok(Self { rule, regularization: Regularization::default(), arch: Arch::new() })
    }

    /// The same optimizer with penalties on weights and bounds. Frozen rows have none.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn regularized(self, regularization: Regularization) -> Result<Self, OptimError> {
        regularization.check(self.rule.name())?;
        Ok(match self.rule {
            RowRule::Frozen => self,
            _ => Self { regularization, ..self },
        })
    }

    /// The same optimizer with learning rate `lr`. A schedule may lower it to 0: then updates
    /// change only a row's state.
    ///
    /// # Errors
    /// If the rate is outside its range.
    pub fn with_lr(&self, lr: f64) -> Result<Self, OptimError> {
        let rule = self.rule.with_lr(lr);
        if lr != 0.0 {
            rule.check()?;
        }
        Ok(Self { rule, ..*self })
    }

    /// The learning rate.
    pub fn lr(&self) -> f64 {
        self.rule.lr()
    }

    /// The rule and its settings.
    pub fn rule(&self) -> &RowRule {
        &self.rule
    }

    /// Penalties on weights, and bounds.
    pub fn regularization(&self) -> Regularization {
        self.regularization
    }

    /// The settings of rule and regularization by name; the latter only where they aren't 0.
    pub fn settings(&self) -> Vec<(&'static str, f64)> {
        self.rule.settings().into_iter().chain(self.regularization.settings()).collect()
    }

    /// Number of lanes of state for a row with these weights.
    pub fn state_lanes(&self, weights: Lanes) -> usize {
        let vectors: usize = self.rule.state().map(|vector| vector.lanes(weights).count()).sum();
        vectors + usize::from(self.rule.counts_steps())
    }

    /// Writes the state of a row that was never updated.
    pub fn init_state(&self, state: &mut [f32]) {
        self.rule.init_state(state);
    }

    /// Updates one row, with the widest vectors of this processor. A bound of its embedding's norm
    /// follows with [`RowOptimizer::bound`].
    pub fn update(&self, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        self.arch.dispatch(Update { optimizer: self, weights, state, gradient });
    }

    /// [`RowOptimizer::update`] for callers that are compiled for wide vectors themselves, as
    /// within `pulp::Arch::dispatch`: a loop over rows has no call per row. The bits are the same.
    #[inline(always)]
    pub fn update_inline(&self, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        let width = weights.len();
        assert_eq!(gradient.len(), width, "one gradient lane per weight");
        match &self.rule {
            RowRule::Frozen => {}
            RowRule::PerLane(rule) if self.regularization.is_plain() => {
                update_lanes(rule, weights, state, gradient, NoPenalty);
            }
            RowRule::RowWiseAdagrad(adagrad) if self.regularization.is_plain() => {
                row_wise_adagrad(adagrad, weights, state, gradient, NoPenalty);
            }
            // Not inlined: less code for every loop over rows.
            _ => self.update(weights, state, gradient),
        }
    }

    /// Scales the embedding of an updated row down to the greatest norm, if there is one.
    #[inline(always)]
    pub fn bound(&self, embedding: &mut [f32]) {
        self.regularization.bound(embedding);
    }

    /// [`RowOptimizer::update_inline`] and [`RowOptimizer::bound`] of stored weights: read, updated
    /// and rounded in one pass.
    #[inline(always)]
    pub fn update_stored(&self, stored: Stored<'_>, state: &mut [f32], gradient: &[f32]) {
        let Stored { storage, dim, lanes, random, room } = stored;
        storage.view(lanes, room.len()).copy_to(room);
        self.update_inline(room, state, gradient);
        self.bound(&mut room[..dim]);
        storage.encode(room, lanes, random);
    }
}

/// Stored weights of a row, and what updating them needs.
#[derive(Debug)]
pub struct Stored<'a> {
    /// Format of the weights.
    pub storage: Storage,
    /// Lanes of the embedding, which come first.
    pub dim: usize,
    /// The weights. // (lanes of the storage)
    pub lanes: &'a mut [f32],
    /// Random stream for rounding.
    pub random: Stream,
    /// Buffer for the weights in f32. // (weights)
    pub room: &'a mut [f32],
}

struct Update<'a> {
    optimizer: &'a RowOptimizer,
    weights: &'a mut [f32],
    state: &'a mut [f32],
    gradient: &'a [f32],
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { optimizer: RowOptimizer { rule, regularization, .. }, .. } = self;
        let Self { weights, state, gradient, .. } = self;
        if regularization.is_plain() {
            return update(rule, weights, state, gradient, NoPenalty);
        }
        regularization.shrink(weights, rule.lr());
        update(rule, weights, state, gradient, regularization.penalty(gradient));
    }
}

#[inline(always)]
fn update(
    rule: &RowRule,
    weights: &mut [f32],
    state: &mut [f32],
    gradient: &[f32],
    penalty: impl Penalty,
) {
    let width = weights.len();
    assert_eq!(gradient.len(), width, "one gradient lane per weight");
    match rule {
        RowRule::PerLane(rule) => update_lanes(rule, weights, state, gradient, penalty),
        RowRule::Ftrl(ftrl) => {
            assert_eq!(state.len(), 2 * width, "two state lanes per weight");
            let (squares, linear) = state.split_at_mut(width);
            ftrl.apply(weights, squares, linear, gradient, penalty);
        }
        RowRule::CfSgd(sgd) => cf_sgd::apply(sgd, weights, &mut state[0], gradient, penalty),
        RowRule::RowWiseAdagrad(adagrad) => {
            row_wise_adagrad(adagrad, weights, state, gradient, penalty);
        }
        RowRule::RowWiseAdam(adam) => {
            let (means, rest) = state.split_at_mut(width);
            let (squares, counter) = rest.split_at_mut(rest.len() - 1);
            let step = next_step(adam, counter);
            row_wise_adam(&step, weights, [means, squares], gradient, penalty);
        }
        RowRule::Frozen => {}
    }
}

#[inline(always)]
fn update_lanes(
    rule: &Rule,
    weights: &mut [f32],
    state: &mut [f32],
    gradient: &[f32],
    penalty: impl Penalty,
) {
    let width = weights.len();
    match rule {
        Rule::Sgd(sgd) => {
            assert!(state.is_empty(), "gradient descent keeps no state");
            sgd.apply(weights, gradient, penalty);
        }
        Rule::Momentum(momentum) => {
            assert_eq!(state.len(), width, "one state lane per weight");
            momentum.apply(weights, state, gradient, penalty);
        }
        Rule::Adagrad(adagrad) => {
            assert_eq!(state.len(), width, "one state lane per weight");
            adagrad.apply(weights, state, gradient, penalty);
        }
        Rule::Adam(adam) => {
            assert_eq!(state.len(), 2 * width + 1, "two state lanes per weight and the step");
            let (means, rest) = state.split_at_mut(width);
            let (squares, counter) = rest.split_at_mut(width);
            let step = next_step(adam, counter);
            step.apply(weights, means, squares, gradient, penalty);
        }
    }
}

/// Counts a row's step and returns its constants.
#[inline(always)]
fn next_step(adam: &Adam, counter: &mut [f32]) -> AdamStep {
    let step = counter[0].to_bits().saturating_add(1);
    counter[0] = f32::from_bits(step);
    adam.at_step(u64::from(step))
}

/// Row-wise Adagrad of the embedding and of the wide weight, which have a sum each.
#[inline(always)]
fn row_wise_adagrad(
    adagrad: &Adagrad,
    weights: &mut [f32],
    sums: &mut [f32],
    gradient: &[f32],
    penalty: impl Penalty,
) {
    match sums {
        [] => assert!(weights.is_empty(), "a sum for the weights"),
        [all] => adagrad.apply_row_wise(weights, all, gradient, penalty),
        [of_embedding, of_wide] => {
            let dim = weights.len() - 1;
            let (embedding, wide) = weights.split_at_mut(dim);
            adagrad.apply_row_wise(embedding, of_embedding, &gradient[..dim], penalty);
            adagrad.apply_row_wise(wide, of_wide, &gradient[dim..], penalty);
        }
        _ => panic!("at most a sum for the embedding and one for the wide weight"),
    }
}

/// Row-wise Adam of the embedding and of the wide weight, which have a mean of squares each.
#[inline(always)]
fn row_wise_adam(
    step: &AdamStep,
    weights: &mut [f32],
    [means, squares]: [&mut [f32]; 2],
    gradient: &[f32],
    penalty: impl Penalty,
) {
    match squares {
        [] => assert!(weights.is_empty(), "a mean of squares for the weights"),
        [all] => step.apply_row_wise(weights, means, all, gradient, penalty),
        [of_embedding, of_wide] => {
            let dim = weights.len() - 1;
            let (embedding, wide) = weights.split_at_mut(dim);
            let (mean, wide_mean) = means.split_at_mut(dim);
            step.apply_row_wise(embedding, mean, of_embedding, &gradient[..dim], penalty);
            step.apply_row_wise(wide, wide_mean, of_wide, &gradient[dim..], penalty);
        }
        _ => panic!("at most one for the embedding and one for the wide weight"),
    }
}
