//! The optimizer of embedding rows, with its state next to the weights in the row.
//!
//! ```text
//! sgd       (no state)
//! adagrad   [ sum: width ]
//! adam      [ exp_avg: width ][ exp_avg_sq: width ][ step: u32 bits in one lane ]
//! ```
//!
//! Adam counts the steps of each row separately: a row first seen late in training gets the bias
//! correction of a first step.

use pulp::{Arch, Simd, WithSimd};

use stepwell_base::random::Stream;

use crate::error::OptimError;
use crate::rule::Rule;
use crate::storage::Storage;

/// Optimizer of a table's rows.
#[derive(Clone, Copy, Debug)]
pub struct RowOptimizer {
    rule: Rule,
    arch: Arch,
}

impl PartialEq for RowOptimizer {
    fn eq(&self, other: &Self) -> bool {
        self.rule == other.rule
    }
}

impl RowOptimizer {
    /// A row optimizer with this rule.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(rule: Rule) -> Result<Self, OptimError> {
        rule.check()?;
        Ok(Self { rule, arch: Arch::new() })
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
        match self.rule {
            Rule::Sgd(sgd) => sgd.lr,
            Rule::Adagrad(adagrad) => adagrad.lr,
            Rule::Adam(adam) => adam.lr,
        }
    }

    /// The rule and its settings.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Number of lanes of state for a row of `width` weights.
    pub fn state_lanes(&self, width: usize) -> usize {
        let counter = usize::from(self.rule.counts_steps());
        self.rule.state_names().len() * width + counter
    }

    /// Writes the state of a row that was never updated.
    pub fn init_state(&self, state: &mut [f32]) {
        state.fill(self.rule.initial_state());
    }

    /// Updates one row, with the widest vectors of this processor.
    #[inline]
    pub fn update(&self, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        self.arch.dispatch(Update { rule: &self.rule, weights, state, gradient });
    }

    /// [`RowOptimizer::update`] for callers that are compiled for wide vectors themselves, as
    /// within `pulp::Arch::dispatch`: a loop over rows has no call per row. The bits are the same.
    #[inline(always)]
    pub fn update_inline(&self, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        update(&self.rule, weights, state, gradient);
    }

    /// [`RowOptimizer::update_inline`] of stored weights: read, updated and rounded in one pass.
    #[inline(always)]
    pub fn update_stored(&self, stored: Stored<'_>, state: &mut [f32], gradient: &[f32]) {
        let Stored { storage, lanes, random, room } = stored;
        storage.view(lanes, room.len()).copy_to(room);
        update(&self.rule, room, state, gradient);
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
    rule: &'a Rule,
    weights: &'a mut [f32],
    state: &'a mut [f32],
    gradient: &'a [f32],
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        update(self.rule, self.weights, self.state, self.gradient);
    }
}

#[inline(always)]
fn update(rule: &Rule, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
    let width = weights.len();
    assert_eq!(gradient.len(), width, "one gradient lane per weight");
    match rule {
        Rule::Sgd(sgd) => {
            assert!(state.is_empty(), "gradient descent keeps no state");
            sgd.apply(weights, gradient);
        }
        Rule::Adagrad(adagrad) => {
            assert_eq!(state.len(), width, "one state lane per weight");
            adagrad.apply(weights, state, gradient);
        }
        Rule::Adam(adam) => {
            assert_eq!(state.len(), 2 * width + 1, "two state lanes per weight and the step");
            let (means, rest) = state.split_at_mut(width);
            let (squares, counter) = rest.split_at_mut(width);
            let step = counter[0].to_bits().saturating_add(1);
            counter[0] = f32::from_bits(step);
            adam.at_step(u64::from(step)).apply(weights, means, squares, gradient);
        }
    }
}
