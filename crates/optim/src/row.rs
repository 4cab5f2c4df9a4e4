//! The optimizer of embedding rows, with its state next to the weights in the row.
//!
//! ```text
//! sgd               (no state)
//! adagrad           [ sum: width ]
//! row_wise_adagrad  [ sum: 1 for the embedding, 1 for the wide weight ]
//! adam              [ exp_avg: width ][ exp_avg_sq: width ][ step: u32 bits in one lane ]
//! ```
//!
//! Adam counts the steps of each row separately: a row first seen late in training gets the bias
//! correction of a first step.

use pulp::{Arch, Simd, WithSimd};

use stepwell_base::random::Stream;

use crate::adagrad::Adagrad;
use crate::decay::Decay;
use crate::error::OptimError;
use crate::penalty::{NoPenalty, Penalty, Ridge};
use crate::row_rule::{Lanes, RowRule};
use crate::rule::Rule;
use crate::storage::Storage;

/// Optimizer of a table's rows.
#[derive(Clone, Copy, Debug)]
pub struct RowOptimizer {
    rule: RowRule,
    decay: Decay,
    arch: Arch,
}

impl PartialEq for RowOptimizer {
    fn eq(&self, other: &Self) -> bool {
        (self.rule, self.decay) == (other.rule, other.decay)
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
        Ok(Self { rule, decay: Decay::default(), arch: Arch::new() })
    }

    /// The same optimizer with penalties on weights.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn with_decay(self, decay: Decay) -> Result<Self, OptimError> {
        decay.check(self.rule.name())?;
        Ok(Self { decay, ..self })
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

    /// The penalties on weights.
    pub fn decay(&self) -> Decay {
        self.decay
    }

    /// The settings of rule and decay by name; a decay of 0 has none.
    pub fn settings(&self) -> Vec<(&'static str, f64)> {
        self.rule.settings().into_iter().chain(self.decay.settings()).collect()
    }

    /// Number of lanes of state for a row with these weights.
    pub fn state_lanes(&self, weights: Lanes) -> usize {
        let vector = self.rule.vector_lanes(weights).count();
        self.rule.state_names().len() * vector + usize::from(self.rule.counts_steps())
    }

    /// Writes the state of a row that was never updated.
    pub fn init_state(&self, state: &mut [f32]) {
        state.fill(self.rule.initial_state());
    }

    /// Updates one row, with the widest vectors of this processor.
    #[inline]
    pub fn update(&self, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        self.arch.dispatch(Update { optimizer: self, weights, state, gradient });
    }

    /// [`RowOptimizer::update`] for callers that are compiled for wide vectors themselves, as
    /// within `pulp::Arch::dispatch`: a loop over rows has no call per row. The bits are the same.
    #[inline(always)]
    pub fn update_inline(&self, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        if self.decay.is_none() {
            update(&self.rule, weights, state, gradient, NoPenalty);
        } else {
            // Not inlined, so that loops without it stay as fast.
            self.arch.dispatch(Update { optimizer: self, weights, state, gradient });
        }
    }

    /// [`RowOptimizer::update_inline`] of stored weights: read, updated and rounded in one pass.
    #[inline(always)]
    pub fn update_stored(&self, stored: Stored<'_>, state: &mut [f32], gradient: &[f32]) {
        let Stored { storage, lanes, random, room } = stored;
        storage.view(lanes, room.len()).copy_to(room);
        self.update_inline(room, state, gradient);
        storage.encode(room, lanes, random);
    }
}

/// Stored weights of a row, and what updating them needs.
#[derive(Debug)]
pub struct Stored<'a> {
    /// Format of the weights.
    pub storage: Storage,
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
        let Self { optimizer: RowOptimizer { rule, decay, .. }, weights, state, gradient } = self;
        if decay.is_none() {
            return update(rule, weights, state, gradient, NoPenalty);
        }
        decay.shrink(weights, rule.lr());
        update(rule, weights, state, gradient, Ridge(decay.l2 as f32));
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
        RowRule::PerLane(Rule::Sgd(sgd)) => {
            assert!(state.is_empty(), "gradient descent keeps no state");
            sgd.apply(weights, gradient, penalty);
        }
        RowRule::PerLane(Rule::Adagrad(adagrad)) => {
            assert_eq!(state.len(), width, "one state lane per weight");
            adagrad.apply(weights, state, gradient, penalty);
        }
        RowRule::PerLane(Rule::Adam(adam)) => {
            assert_eq!(state.len(), 2 * width + 1, "two state lanes per weight and the step");
            let (means, rest) = state.split_at_mut(width);
            let (squares, counter) = rest.split_at_mut(width);
            let step = counter[0].to_bits().saturating_add(1);
            counter[0] = f32::from_bits(step);
            adam.at_step(u64::from(step)).apply(weights, means, squares, gradient, penalty);
        }
        RowRule::RowWiseAdagrad(adagrad) => {
            row_wise(adagrad, weights, state, gradient, penalty);
        }
    }
}

/// Row-wise Adagrad of the embedding and of the wide weight, which have a sum each.
#[inline(always)]
fn row_wise(
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
