//! What rows need of examples with several labels: one gradient of the first order, and one label.

/// Gradients of the first order, and labels that tell which examples are clicks.
#[derive(Debug, Default)]
pub(super) struct OfExamples {
    d_first_order: Vec<f32>, // (examples), or none where there is one label
    labels: Vec<f32>,        // (examples), likewise
}

impl OfExamples {
    /// Takes them from gradients and labels of so many for each example: the sum of its gradients,
    /// and the first of its labels.
    pub(super) fn set(&mut self, d_logits: &[f32], labels: &[f32], each: usize) {
        self.d_first_order.clear();
        self.labels.clear();
        if each > 1 {
            self.d_first_order.extend(d_logits.chunks_exact(each).map(|of| of.iter().sum::<f32>()));
            self.labels.extend(labels.iter().step_by(each));
        }
    }

    /// Both, where `d_logits` and `labels` are those that they were taken from.
    pub(super) fn of<'a>(
        &'a self,
        d_logits: &'a [f32],
        labels: &'a [f32],
    ) -> (&'a [f32], &'a [f32]) {
        match self.labels.is_empty() {
            true => (d_logits, labels),
            false => (&self.d_first_order, &self.labels),
        }
    }
}
