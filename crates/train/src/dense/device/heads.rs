//! Multi-head attention to sequences on a device.

use stepwell_device::Arg;
use stepwell_nn::NodeView;

use super::block_layers::Heads;
use super::passes::{Passes, View};
use super::replica::{flag, number};
use crate::Result;

impl Passes<'_> {
    /// For each head the mean of the vectors, weighted by a softmax; keeps the weights.
    pub(super) fn heads(&self, node: &NodeView<'_>, of: Heads) -> Result<()> {
        let Heads { heads, dim, steps_max } = of;
        let [queries, vectors, lengths] = [0, 1, 2].map(|index| self.input(node, index));
        let rows = self.rows();
        let mut args = vec![queries.arg(rows), vectors.arg(rows), lengths.arg(rows)];
        args.extend([self.kept(node).arg(rows), self.value(node).arg(rows)]);
        args.extend([rows, heads, dim, steps_max].map(number));
        args.extend([queries.stride, vectors.stride, lengths.stride].map(number));
        args.push(Arg::f32(of.scale()));
        self.launch("dense_heads", rows * heads, args)
    }

    pub(super) fn heads_back(&self, node: &NodeView<'_>, of: Heads) -> Result<()> {
        let Heads { heads, dim, steps_max } = of;
        let [queries, vectors, lengths] = [0, 1, 2].map(|index| self.input(node, index));
        let (rows, kept, gradient) = (self.rows(), self.kept(node), self.gradient(node));
        let d_scores = self.terms(heads * steps_max);
        let start = self.sizes.rows() * d_scores.columns;
        let d_queries = View { start, ..self.terms(heads * dim) };
        let mut args = vec![vectors.arg(rows), lengths.arg(rows), kept.arg(rows)];
        args.extend([gradient, d_scores, d_queries].map(|view| view.arg(rows)));
        args.extend([rows, heads, dim, steps_max].map(number));
        args.extend([vectors.stride, lengths.stride].map(number));
        args.push(Arg::f32(of.scale()));
        self.launch("dense_heads_backward", rows * heads, args)?;
        if let Some(target) = self.target(node, 0)? {
            let wanted = d_queries.select(0..target.view.columns);
            self.copy(wanted, target.view, target.adds)?;
        }
        if let Some(target) = self.target(node, 1)? {
            let mut args = vec![queries.arg(rows), lengths.arg(rows), kept.arg(rows)];
            args.extend([d_scores, gradient, target.view].map(|view| view.arg(rows)));
            args.extend([rows, heads, dim, steps_max].map(number));
            args.extend([queries.stride, lengths.stride].map(number));
            args.extend([target.view.columns, target.view.stride].map(number));
            args.push(flag(target.adds));
            self.launch("dense_heads_to_vectors", rows * target.view.columns, args)?;
        }
        match self.target(node, 2)? {
            Some(target) if !target.adds => self.clear_view(target.view),
            _ => Ok(()),
        }
    }
}
