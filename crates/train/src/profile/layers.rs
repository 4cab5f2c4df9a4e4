//! The graph's passes by layer.

use serde::Serialize;
use stepwell_nn::{Flops, Graph, NodeId, PassObserver};

use super::Bound;
use super::{Profile, Sum, rate};

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
    flops: Flops,
    forward: Sum,
    backward: Sum,
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

/// Times one pass over a block, layer by layer, on the thread that runs it.
#[derive(Debug)]
pub(crate) struct Laps<'a> {
    profile: &'a Profile,
    pass: Direction,
    examples: u64,
    /// End of the previous layer.
    since: f64,
}

impl Profile {
    /// Times a pass that begins now, over a block of `examples` examples.
    pub(crate) fn laps(&self, pass: Direction, examples: usize) -> Laps<'_> {
        let since = self.clock.thread_seconds();
        Laps { profile: self, pass, examples: examples as u64, since }
    }
}

impl PassObserver for Laps<'_> {
    fn passed(&mut self, node: NodeId) {
        let now = self.profile.clock.thread_seconds();
        let layer = &self.profile.layers[node.0];
        let (sum, flops) = match self.pass {
            Direction::Forward => (&layer.forward, layer.flops.forward),
            Direction::Backward => (&layer.backward, layer.flops.backward),
        };
        sum.time(self.since, now);
        sum.count(self.examples * flops, 0);
        self.since = now;
    }
}
