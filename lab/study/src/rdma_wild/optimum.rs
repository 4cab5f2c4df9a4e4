//! Finds the best parameters of a convex model with full gradients, and the distance of other
//! parameters from them.
//!
//! Nesterov's method with restarts when the loss rises, and a step size that is halved when it was
//! too long. Source: O'Donoghue, Candès, "Adaptive restart for accelerated gradient schemes"
//! (2015).

use std::collections::BTreeMap;

use serde::Serialize;
use stepwell_nn::Graph;

use crate::images::Images;
use crate::learner::full_gradient;

/// Initial step size: too long for all models here, so that it is halved.
const STEP: f64 = 8.0;

/// The best parameters found.
#[derive(Clone, Debug, Serialize)]
pub struct Optimum {
    /// Mean loss of the training examples there.
    pub loss: f64,
    /// Norm of the gradient there; 0 at the true optimum.
    pub gradient_norm: f64,
    /// Number of full gradients computed.
    pub gradients: usize,
    /// By protocol, the distance at each epoch.
    pub by_epoch: BTreeMap<&'static str, Vec<Distance>>,
    #[serde(skip)]
    parameters: Vec<f64>,
}

/// Distance of parameters from the best.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Distance {
    /// Norm of the difference.
    pub distance: f64,
    /// Norm of the gradient of the mean loss.
    pub gradient_norm: f64,
    /// Mean loss beyond the best.
    pub loss_gap: f64,
}

impl Optimum {
    pub(super) fn distance(
        &self,
        graph: &Graph<f64>,
        images: &Images,
        parameters: &[f64],
    ) -> Distance {
        let mut gradient = vec![0.0; parameters.len()];
        let sums = full_gradient(graph, images, parameters, &mut gradient);
        let difference = parameters.iter().zip(&self.parameters).map(|(a, b)| a - b);
        Distance {
            distance: norm(difference),
            gradient_norm: norm(gradient.into_iter()),
            loss_gap: sums.loss / sums.examples as f64 - self.loss,
        }
    }
}

/// Starts at `begin`, which should be close, and uses `gradients` full gradients.
pub(super) fn find(
    graph: &Graph<f64>,
    images: &Images,
    begin: &[f64],
    gradients: usize,
) -> Optimum {
    let (mut at, mut before, mut ahead) = (begin.to_vec(), begin.to_vec(), begin.to_vec());
    let mut gradient = vec![0.0; begin.len()];
    let (mut step, mut momentum, mut last) = (STEP, 1.0f64, f64::INFINITY);
    let mut best = Optimum {
        loss: f64::INFINITY,
        gradient_norm: f64::INFINITY,
        gradients,
        by_epoch: BTreeMap::new(),
        parameters: at.clone(),
    };
    for _ in 0..gradients {
        let sums = full_gradient(graph, images, &ahead, &mut gradient);
        let loss = sums.loss / sums.examples as f64;
        if loss < best.loss {
            let gradient_norm = norm(gradient.iter().copied());
            best = Optimum { loss, gradient_norm, parameters: ahead.clone(), ..best };
        }
        if loss.is_nan() || loss > last * (1.0 + 1e-9) {
            // The step was too long, or momentum overshot: continue from the best, with a shorter
            // step.
            (step, momentum, last) = (step * 0.5, 1.0, f64::INFINITY);
            at.copy_from_slice(&best.parameters);
            ahead.copy_from_slice(&at);
            continue;
        }
        last = loss;
        std::mem::swap(&mut at, &mut before);
        let lanes = at.iter_mut().zip(&ahead).zip(&gradient);
        lanes.for_each(|((at, ahead), gradient)| *at = ahead - step * gradient);
        let next = (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt()) / 2.0;
        let share = (momentum - 1.0) / next;
        momentum = next;
        let lanes = ahead.iter_mut().zip(&at).zip(&before);
        lanes.for_each(|((ahead, at), before)| *ahead = at + share * (at - before));
    }
    best
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}
