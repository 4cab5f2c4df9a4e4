//! The optimizer of dense parameters: flat vectors, one step count, and disjoint parts for threads.
//!
//! ```text
//! step = optimizer.begin_step()               once per mini-batch
//! step.clip(square_sum(gradient))             if step.clips()
//! state.parts(n) ─► part 0, part 1, ...       parts of n parameters each, for any threads
//! step.apply(parameters of part, part, gradient of part)
//! ```
//!
//! State takes 4 bytes per parameter with momentum or adagrad, and 8 with adam.

use pulp::{Arch, Simd, WithSimd};

use crate::adagrad::Adagrad;
use crate::adam::AdamStep;
use crate::error::OptimError;
use crate::momentum::Momentum;
use crate::penalty::{NoPenalty, Penalty, Ridge};
use crate::regularization::Regularization;
use crate::rule::Rule;
use crate::sgd::Sgd;

/// A rule and the count of steps taken with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DenseOptimizer {
    rule: Rule,
    regularization: Regularization,
    step: u64,
}

impl DenseOptimizer {
    /// A dense optimizer with this rule, before its first step.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(rule: Rule) -> Result<Self, OptimError> {
        rule.check()?;
        Ok(Self { rule, regularization: Regularization::default(), step: 0 })
    }

    /// The same optimizer with penalties on parameters and a bound on the norm of the whole
    /// gradient.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn regularized(self, regularization: Regularization) -> Result<Self, OptimError> {
        regularization.check(self.rule.name())?;
        Ok(Self { regularization, ..self })
    }

    /// The same optimizer after `step` steps.
    #[must_use]
    pub fn at_step(self, step: u64) -> Self {
        Self { step, ..self }
    }

    /// The rule and its settings.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Penalties on parameters, and the bound on the gradient's norm.
    pub fn regularization(&self) -> Regularization {
        self.regularization
    }

    /// Number of steps begun.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Counts a step and computes its constants; any threads may apply it.
    pub fn begin_step(&mut self) -> DenseStep {
        self.step += 1;
        let kernel = match &self.rule {
            Rule::Sgd(sgd) => Kernel::Sgd(*sgd),
            Rule::Momentum(momentum) => Kernel::Momentum(*momentum),
            Rule::Adagrad(adagrad) => Kernel::Adagrad(*adagrad),
            Rule::Adam(adam) => Kernel::Adam(adam.at_step(self.step)),
        };
        let (regularization, lr) = (self.regularization, self.rule.lr());
        DenseStep { kernel, regularization, lr, scale: 1.0, arch: Arch::new() }
    }
}

/// The state of a flat vector of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseState {
    parameters: usize,
    names: &'static [&'static str],
    vectors: [Vec<f32>; 2],
}

impl DenseState {
    /// The state of `parameters` parameters, before the first step of `rule`.
    pub fn new(rule: &Rule, parameters: usize) -> Self {
        let names = rule.state_names();
        let vector = |place: usize| {
            vec![rule.initial_state(); if place < names.len() { parameters } else { 0 }]
        };
        Self { parameters, names, vectors: [vector(0), vector(1)] }
    }

    /// The vectors by name, one lane per parameter each. // (parameters)
    pub fn vectors(&self) -> impl Iterator<Item = (&'static str, &[f32])> {
        self.names.iter().zip(&self.vectors).map(|(name, vector)| (*name, vector.as_slice()))
    }

    /// The vectors by name, for restoring them. // (parameters)
    pub fn vectors_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut [f32])> {
        let vectors = self.vectors.iter_mut();
        self.names.iter().zip(vectors).map(|(name, vector)| (*name, vector.as_mut_slice()))
    }

    /// The whole state as one part.
    pub fn whole(&mut self) -> DensePart<'_> {
        let [first, second] = &mut self.vectors;
        DensePart { first, second }
    }

    /// The state in parts of `size` parameters; the last one may be smaller.
    pub fn parts(&mut self, size: usize) -> impl Iterator<Item = DensePart<'_>> {
        assert!(size > 0, "a part has at least one parameter");
        let count = self.parameters.div_ceil(size);
        let [first, second] = &mut self.vectors;
        let (mut first, mut second) = (first.chunks_mut(size), second.chunks_mut(size));
        (0..count).map(move |_| DensePart {
            first: first.next().unwrap_or_default(),
            second: second.next().unwrap_or_default(),
        })
    }
}

/// The state of a part of the parameters.
#[derive(Debug)]
pub struct DensePart<'a> {
    first: &'a mut [f32],
    second: &'a mut [f32],
}

impl<'a> DensePart<'a> {
    /// The state of the first `mid` parameters and of the rest.
    pub fn split_at(self, mid: usize) -> (DensePart<'a>, DensePart<'a>) {
        let cut = |vector: &'a mut [f32]| {
            let mid = mid.min(vector.len());
            vector.split_at_mut(mid)
        };
        let ((first, first_rest), (second, second_rest)) = (cut(self.first), cut(self.second));
        (DensePart { first, second }, DensePart { first: first_rest, second: second_rest })
    }
}

/// The arithmetic of one step.
#[derive(Clone, Copy, Debug)]
pub struct DenseStep {
    kernel: Kernel,
    regularization: Regularization,
    lr: f64,
    /// Factor of the gradient.
    scale: f32,
    arch: Arch,
}

#[derive(Clone, Copy, Debug)]
enum Kernel {
    Sgd(Sgd),
    Momentum(Momentum),
    Adagrad(Adagrad),
    Adam(AdamStep),
}

/// Constants of one step's arithmetic; 0 if the rule doesn't use them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepNumbers {
    /// Adam: weight of a gradient in the mean.
    pub gain1: f32,
    /// Adam: decay of the mean of squares; momentum: part of the velocity that remains.
    pub beta2: f32,
    /// Adam: weight of a squared gradient in the mean of squares.
    pub gain2: f32,
    /// Learning rate; for Adagrad and Adam with sign and corrections, so that it is added.
    pub rate: f32,
    /// Adam: divisor of the root of the mean of squares.
    pub correction2_root: f32,
    /// Adagrad, Adam: added to the root.
    pub eps: f32,
    /// Whether there are penalties.
    pub is_regularized: bool,
    /// Factor of the parameter that is added to its gradient.
    pub l2: f32,
    /// Factor of the parameter before the update.
    pub keep: f32,
}

impl DenseStep {
    /// The same step, with the learning rate multiplied by `rate`.
    #[must_use]
    pub fn times(mut self, rate: f64) -> Self {
        match &mut self.kernel {
            Kernel::Sgd(sgd) => sgd.lr *= rate,
            Kernel::Momentum(momentum) => momentum.lr *= rate,
            Kernel::Adagrad(adagrad) => adagrad.lr *= rate,
            Kernel::Adam(adam) => adam.scale_rate(rate),
        }
        self.lr *= rate;
        self
    }

    /// Whether [`DenseStep::clip`] needs the gradient before the step is applied.
    pub fn clips(&self) -> bool {
        self.regularization.clip_norm > 0.0
    }

    /// Bounds the norm of the whole gradient, whose squares have this sum.
    pub fn clip(&mut self, square_sum: f64) {
        let (norm, bound) = (square_sum.sqrt(), self.regularization.clip_norm);
        if bound > 0.0 && norm > bound {
            self.scale = (bound / norm) as f32;
        }
    }

    /// Constants of the step, for computing it elsewhere.
    pub fn numbers(&self) -> StepNumbers {
        let of_kernel = match &self.kernel {
            Kernel::Sgd(sgd) => StepNumbers { rate: sgd.lr as f32, ..StepNumbers::default() },
            Kernel::Momentum(Momentum { lr, momentum }) => {
                let (rate, beta2) = (*lr as f32, *momentum as f32);
                StepNumbers { rate, beta2, ..StepNumbers::default() }
            }
            Kernel::Adagrad(Adagrad { lr, eps, .. }) => {
                StepNumbers { rate: -*lr as f32, eps: *eps as f32, ..StepNumbers::default() }
            }
            Kernel::Adam(adam) => {
                let AdamStep { gain1, beta2, gain2, rate, correction2_root, eps } = *adam;
                let other = StepNumbers::default();
                StepNumbers { gain1, beta2, gain2, rate, correction2_root, eps, ..other }
            }
        };
        let (l2, keep) = (self.regularization.l2 as f32, self.regularization.keep(self.lr));
        StepNumbers { is_regularized: self.is_regularized(), l2, keep, ..of_kernel }
    }

    fn is_regularized(&self) -> bool {
        let Regularization { l2, weight_decay, .. } = self.regularization;
        l2 != 0.0 || weight_decay != 0.0 || self.scale != 1.0
    }

    /// Updates `parameters`, whose state is `part`; the division into parts doesn't affect the
    /// bits.
    pub fn apply(&self, parameters: &mut [f32], part: DensePart<'_>, gradient: &[f32]) {
        let update = Update { step: self, parameters, part, gradient };
        self.arch.dispatch(update);
    }
}

struct Update<'a> {
    step: &'a DenseStep,
    parameters: &'a mut [f32],
    part: DensePart<'a>,
    gradient: &'a [f32],
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { step, parameters, part, gradient } = self;
        let count = parameters.len();
        let vectors = match step.kernel {
            Kernel::Sgd(_) => [0, 0],
            Kernel::Momentum(_) | Kernel::Adagrad(_) => [count, 0],
            Kernel::Adam(_) => [count, count],
        };
        assert_eq!(gradient.len(), count, "one gradient lane per parameter");
        assert_eq!([part.first.len(), part.second.len()], vectors, "state of these parameters");
        if !step.is_regularized() {
            return update(&step.kernel, parameters, part, gradient, NoPenalty);
        }
        step.regularization.shrink(parameters, step.lr);
        let penalty = Ridge { scale: step.scale, l2: step.regularization.l2 as f32 };
        update(&step.kernel, parameters, part, gradient, penalty);
    }
}

#[inline(always)]
fn update(
    kernel: &Kernel,
    parameters: &mut [f32],
    part: DensePart<'_>,
    gradient: &[f32],
    penalty: impl Penalty,
) {
    match kernel {
        Kernel::Sgd(sgd) => sgd.apply(parameters, gradient, penalty),
        Kernel::Momentum(momentum) => momentum.apply(parameters, part.first, gradient, penalty),
        Kernel::Adagrad(adagrad) => adagrad.apply(parameters, part.first, gradient, penalty),
        Kernel::Adam(adam) => adam.apply(parameters, part.first, part.second, gradient, penalty),
    }
}
