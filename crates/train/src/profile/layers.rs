//! The graph's passes by layer.

use serde::Serialize;
use stepwell_nn::{Flops, Graph};

use super::sums::{Bound, Sum, rate};

/// A direction of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From rows to logits.
    Forward,
    /// From gradients of logits to all other gradients.
    Backward,
}

/// Work and time of a layer in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LayerReport {
    /// Name of the layer.
    pub name: String,
    /// Forward passes, including those of evaluations.
    pub forward: PassReport,
    /// Backward passes.
    pub backward: PassReport,
}

/// Work and time of a layer in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PassReport {
    /// Seconds of processor time, of all threads.
    pub seconds: f64,
    /// Floating-point operations.
    pub flops: u64,
    /// Operations per second and thread.
    pub flops_per_second: f64,
    /// The limit that bounds it; `None` if none was measured.
    pub limit: Option<Bound>,
}

impl LayerReport {
    /// The difference to `before`, an earlier report of the same layer.
    pub fn since(&self, before: &Self) -> Self {
        let pass = |now: &PassReport, before: &PassReport| {
            PassReport::new(now.seconds - before.seconds, now.flops - before.flops)
        };
        Self {
            name: self.name.clone(),
            forward: pass(&self.forward, &before.forward),
            backward: pass(&self.backward, &before.backward),
        }
    }
}

impl PassReport {
    fn new(seconds: f64, flops: u64) -> Self {
        Self { seconds, flops, flops_per_second: rate(flops, seconds), limit: None }
    }
}

/// Sums of one layer.
#[derive(Debug)]
pub(super) struct Layer {
    name: String,
    /// Work per example.
    pub(super) flops: Flops,
    pub(super) forward: Sum,
    pub(super) backward: Sum,
}

/// Empty sums for the layers of `graph`.
pub(super) fn of(graph: &Graph<f32>) -> Vec<Layer> {
    let layer = |(name, flops): (&str, Flops)| Layer {
        name: name.to_owned(),
        flops,
        forward: Sum::default(),
        backward: Sum::default(),
    };
    graph.node_names().zip(graph.node_flops()).map(layer).collect()
}

impl Layer {
    pub(super) fn report(&self) -> LayerReport {
        let pass = |sum: &Sum| PassReport::new(sum.seconds(), sum.flops());
        LayerReport {
            name: self.name.clone(),
            forward: pass(&self.forward),
            backward: pass(&self.backward),
        }
    }
}
