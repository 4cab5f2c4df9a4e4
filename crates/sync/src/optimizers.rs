//! Optimizers of the dense part: an interface, and gradient descent with momentum, weight decay and
//! a schedule of rates, for f32 and f64.
//!
//! ```text
//! v = momentum v + (g + weight_decay w)      without momentum v is g + weight_decay w itself
//! w = w - rate(round) share v
//! ```
//!
//! A round is a gradient of every rank. A protocol that updates more often, for fewer gradients,
//! passes the fractional number of rounds that the run has seen, so that a rate falls after equally
//! many examples under every protocol. It also passes the part of a round that an update is
//! ([`Share`]): optimizers that adapt to the length of gradients would step as far along a part of
//! them as along all.

use std::fmt::Debug;

use crate::number::Number;

/// How a sum of gradients counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Factor that makes the sum a mean.
    pub mean: f64,
    /// Part of a round that the gradients make up; the rate of a round is multiplied by it (the
    /// thesis' "linear scaling rule", section 5.3).
    pub of_round: f64,
}

impl Share {
    /// A sum of `gradients` gradients, with `ranks` to a round.
    pub fn of(gradients: u64, ranks: usize) -> Self {
        let gradients = gradients as f64;
        Self { mean: 1.0 / gradients, of_round: gradients / ranks as f64 }
    }

    /// A whole round: a sum over `ranks` ranks.
    pub fn whole(ranks: usize) -> Self {
        Self { mean: 1.0 / ranks as f64, of_round: 1.0 }
    }
}

/// The rule by which parameters move, and its state.
pub trait Optimizer<T>: Debug + Send {
    /// Moves `parameters` along `gradient`, a sum described by `share`, after `rounds` rounds of
    /// the run.
    fn apply(&mut self, parameters: &mut [T], gradient: &[T], share: Share, rounds: f64);
}

/// How the learning rate changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Not at all.
    Constant,
    /// By `factor`, every `every` rounds.
    Exponential {
        /// Factor of the rate.
        factor: f64,
        /// Number of rounds.
        every: u64,
    },
    /// Linearly from zero over `rounds` rounds.
    WarmUp {
        /// Number of rounds.
        rounds: u64,
    },
    /// At given, ascending rounds, by given factors, which multiply.
    Steps(Vec<(u64, f64)>),
}

impl Schedule {
    /// Factor of the rate after `rounds` rounds.
    pub fn factor(&self, rounds: f64) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Exponential { factor, every } => {
                power(*factor, (rounds / *every as f64).floor() as u64)
            }
            Self::WarmUp { rounds: all } => ((rounds + 1.0) / *all as f64).min(1.0),
            Self::Steps(steps) => {
                let over = steps.iter().filter(|(at, _)| *at as f64 <= rounds);
                over.fold(1.0, |product, (_, factor)| product * factor)
            }
        }
    }
}

/// Raises to a power by squaring, since `powi` may differ between machines.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut square, mut rest, mut product) = (base, exponent, 1.0);
    while rest > 0 {
        if rest & 1 == 1 {
            product *= square;
        }
        square *= square;
        rest >>= 1;
    }
    product
}

/// Length of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Initial rate.
    pub base: f64,
    /// Change of the rate.
    pub schedule: Schedule,
}

impl Rate {
    /// A constant rate.
    pub fn constant(base: f64) -> Self {
        Self { base, schedule: Schedule::Constant }
    }

    /// The rate after `rounds` rounds.
    pub fn at(&self, rounds: f64) -> f64 {
        self.base * self.schedule.factor(rounds)
    }
}

/// Gradient descent, and its velocity.
#[derive(Clone, Debug)]
pub struct Descent<T> {
    rate: Rate,
    momentum: T,
    weight_decay: T,
    /// Empty without momentum.
    velocity: Vec<T>,
}

impl<T: Number> Descent<T> {
    /// The rule for `lanes` parameters, before its first step.
    pub fn new(rate: Rate, momentum: f64, weight_decay: f64, lanes: usize) -> Self {
        let velocity = vec![T::ZERO; if momentum == 0.0 { 0 } else { lanes }];
        let [momentum, weight_decay] = [momentum, weight_decay].map(T::from_f64);
        Self { rate, momentum, weight_decay, velocity }
    }
}

impl<T: Number> Optimizer<T> for Descent<T> {
    fn apply(&mut self, parameters: &mut [T], gradient: &[T], share: Share, rounds: f64) {
        assert_eq!(parameters.len(), gradient.len(), "the gradient matches the parameters");
        let rate = T::from_f64(self.rate.at(rounds) * (share.mean * share.of_round));
        let (momentum, decay) = (self.momentum, self.weight_decay);
        if self.velocity.is_empty() && decay == T::ZERO {
            return parameters.iter_mut().zip(gradient).for_each(|(w, g)| *w -= rate * *g);
        }
        if self.velocity.is_empty() {
            let pairs = parameters.iter_mut().zip(gradient);
            return pairs.for_each(|(w, g)| *w -= rate * (*g + decay * *w));
        }
        for ((w, g), v) in parameters.iter_mut().zip(gradient).zip(&mut self.velocity) {
            *v = momentum * *v + (*g + decay * *w);
            *w -= rate * *v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_by_hand() {
        let rate = |schedule, rounds| Rate { base: 2.0, schedule }.at(rounds);
        assert_eq!(rate(Schedule::Constant, 9.0), 2.0);
        let halves = Schedule::Exponential { factor: 0.5, every: 10 };
        assert_eq!(
            [0.0, 9.9, 10.0, 35.0].map(|at| rate(halves.clone(), at)),
            [2.0, 2.0, 1.0, 0.25]
        );
        let up = Schedule::WarmUp { rounds: 4 };
        assert_eq!([0.0, 1.0, 3.0, 7.0].map(|at| rate(up.clone(), at)), [0.5, 1.0, 2.0, 2.0]);
        let steps = Schedule::Steps(vec![(30, 0.1), (60, 0.1)]);
        let at = [0.0, 30.0, 59.0, 60.0].map(|at| rate(steps.clone(), at));
        assert_eq!(at, [2.0, 2.0 * 0.1, 2.0 * 0.1, 2.0 * (0.1 * 0.1)]);
    }

    #[test]
    fn steps_by_hand() {
        let mut plain = Descent::<f64>::new(Rate::constant(0.5), 0.0, 0.0, 2);
        let mut w = [1.0, 2.0];
        plain.apply(&mut w, &[2.0, -4.0], Share::whole(2), 0.0);
        assert_eq!(w, [0.5, 3.0]);
        let mut decayed = Descent::<f64>::new(Rate::constant(0.5), 0.0, 0.25, 2);
        decayed.apply(&mut w, &[0.0, 0.0], Share::whole(1), 0.0);
        assert_eq!(w, [0.5 - 0.0625, 3.0 - 0.375]);
        let mut heavy = Descent::<f32>::new(Rate::constant(1.0), 0.5, 0.0, 1);
        let mut w = [0.0f32];
        (0..3).for_each(|_| heavy.apply(&mut w, &[1.0], Share::of(1, 1), 0.0));
        assert_eq!(w, [-(1.0 + 1.5 + 1.75)]);
    }
}
