//! Time of a pass, layer by layer.

use stepwell_nn::{NodeId, PassObserver};

use super::Profile;
use super::layers::Direction;

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
