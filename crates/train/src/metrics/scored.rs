//! Scored examples, the input of every metric.

/// Scored examples, as far as their scores are known here.
#[derive(Clone, Copy, Debug)]
pub struct Scored<'a> {
    /// Logits; empty on a rank that doesn't compute them. // (examples, labels)
    pub logits: &'a [f32],
    /// Labels. // (examples, labels)
    pub labels: &'a [f32],
    /// Weight of each example; empty if all are 1. // (examples) or (0)
    pub weights: &'a [f32],
    /// Outputs of the layers that [`Observer::layers`](crate::Observer::layers) names, side by
    /// side; empty in training. // (examples, columns) or (0)
    pub layers: &'a [f32],
}
