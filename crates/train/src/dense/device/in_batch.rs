//! The softmax within a block on a device: scores of each user with all items of the block.

use std::ops::Range;

use stepwell_device::{Arg, Layout, Shape};
use stepwell_nn::NodeView;

use super::block_layers::Softmax;
use super::passes::{Alike, Passes, View};
use super::replica::{Replica, number};
use crate::{Error, Result};

/// Number of rows that the processor adds to the gradients of items at a time.
const TILE: usize = 64;

impl Replica {
    /// Adds the counts of items, which are in the first of the sums, to the state of `node`.
    pub(super) fn add_counts(&self, node: &NodeView<'_>) -> Result<()> {
        let (lanes, statistics) = (node.state.clone(), self.statistics_of(node));
        let count = lanes.len();
        if count == 0 {
            return Ok(());
        }
        let (state, more) =
            (Arg::part(&self.graph_state, lanes), Arg::part(&self.sums, statistics));
        self.launch("dense_add_counts", count, vec![state, more, number(count)])
    }
}

impl Passes<'_> {
    /// Layout of the scores, by block.
    fn scores(&self) -> Layout {
        let slot_rows = self.sizes.slot_rows;
        Layout { batch_stride: slot_rows * slot_rows, ..Layout::rows(slot_rows) }
    }

    /// First lane of the scores of block `block` from row `row` on.
    fn scores_at(&self, block: usize, row: usize) -> usize {
        (block * self.sizes.slot_rows + row) * self.sizes.slot_rows
    }

    fn all_scores(&self) -> Arg<'_> {
        Arg::first(&self.replica.scores, self.rows() * self.sizes.slot_rows)
    }

    /// `z = s - ln Σ exp s` over the block's other items; in evaluations `z = s`.
    pub(super) fn in_batch(&self, node: &NodeView<'_>, softmax: Softmax) -> Result<()> {
        let [users, items] = [0, 1].map(|index| self.input(node, index));
        let (rows, output) = (self.rows(), self.value(node));
        if !self.trains {
            let mut args = vec![users.arg(rows), items.arg(rows), output.arg(rows)];
            args.extend([rows, softmax.dim, users.stride, items.stride].map(number));
            args.push(softmax.factor());
            return self.launch("dense_pair_scores", rows, args);
        }
        self.number_items(node, items)?;
        self.alike().try_for_each(|Alike { first, count, rows }| {
            let shape = Shape { batches: count, rows, columns: rows, depth: softmax.dim };
            let right = Layout { transposed: true, ..self.by_block(items) };
            let product = self.product(shape, [self.by_block(users), right, self.scores()], false);
            let [left, right] = [users, items].map(|of| self.block_at(of, first));
            let into = (&self.replica.scores, self.scores_at(first, 0));
            Ok::<(), Error>(self.replica.stream.product(&product, left, right, into)?)
        })?;
        let kept = self.kept(node).arg(rows);
        let mut args = vec![self.all_scores(), self.rows_of(), kept, output.arg(rows)];
        args.extend([rows, self.sizes.slot_rows].map(number));
        args.push(softmax.factor());
        self.launch("dense_in_batch", rows, args)
    }

    /// Numbers the items of each block, and finds their corrections if they have bins.
    fn number_items(&self, node: &NodeView<'_>, items: View<'_>) -> Result<()> {
        let (rows, kept, slot_rows) = (self.rows(), self.kept(node), self.sizes.slot_rows);
        let mut args = vec![items.arg(rows), self.rows_of(), kept.arg(rows)];
        args.extend([rows, slot_rows, items.columns, items.stride].map(number));
        self.launch("dense_number_items", rows, args)?;
        if node.sources.len() < 3 {
            return Ok(());
        }
        let bins = self.input(node, 2);
        let counts = Arg::part(&self.replica.graph_state, node.state.clone());
        let args = vec![bins.arg(rows), counts, kept.arg(rows), number(rows), number(bins.stride)];
        self.launch("dense_item_corrections", rows, args)?;
        let lanes = self.replica.statistics_of(node);
        for block in 0..self.blocks() {
            let Range { start, end } = lanes.clone();
            let at = block * self.sizes.apart();
            self.replica.stream.clear(&self.replica.gradients, at + start..at + end)?;
        }
        let mut args = vec![bins.arg(rows), self.rows_of(), self.of_blocks(lanes)];
        args.extend([rows, slot_rows, bins.stride].map(number));
        args.push(self.apart());
        self.launch("dense_count_items", rows, args)
    }

    pub(super) fn in_batch_back(&self, node: &NodeView<'_>, softmax: Softmax) -> Result<()> {
        let [users, items] = [0, 1].map(|index| self.input(node, index));
        let (rows, gradient) = (self.rows(), self.gradient(node));
        let kept = self.kept(node).arg(rows);
        let mut args = vec![self.all_scores(), self.rows_of(), kept, gradient.arg(rows)];
        args.extend([rows, self.sizes.slot_rows].map(number));
        args.push(softmax.factor());
        self.launch("dense_in_batch_backward", rows, args)?;
        let stream = &self.replica.stream;
        if let Some(target) = self.target(node, 0)? {
            self.alike().try_for_each(|Alike { first, count, rows }| {
                let columns = target.view.columns;
                let shape = Shape { batches: count, rows, columns, depth: rows };
                let layouts = [self.scores(), self.by_block(items), self.by_block(target.view)];
                let product = self.product(shape, layouts, target.adds);
                let left = (&self.replica.scores, self.scores_at(first, 0));
                let [right, into] = [items, target.view].map(|of| self.block_at(of, first));
                Ok::<(), Error>(stream.product(&product, left, right, into)?)
            })?;
        }
        let d_items = self.terms(softmax.dim);
        self.alike().try_for_each(|alike| self.add_to_items(alike, users, d_items))?;
        if let Some(target) = self.target(node, 1)? {
            let wanted = d_items.select(0..target.view.columns);
            self.copy(wanted, target.view, target.adds)?;
        }
        if node.sources.len() < 3 {
            return Ok(());
        }
        // A bin has no gradient.
        match self.target(node, 2)? {
            Some(target) if !target.adds => self.clear_view(target.view),
            _ => Ok(()),
        }
    }

    /// Computes the gradients of items, adding as many rows at a time as the processor does.
    fn add_to_items(
        &self,
        Alike { first, count, rows }: Alike,
        users: View<'_>,
        d_items: View<'_>,
    ) -> Result<()> {
        (0..rows).step_by(TILE).try_for_each(|start| {
            let depth = TILE.min(rows - start);
            let shape = Shape { batches: count, rows, columns: d_items.columns, depth };
            let left = Layout { transposed: true, ..self.scores() };
            let layouts = [left, self.by_block(users), self.by_block(d_items)];
            let product = self.product(shape, layouts, start > 0);
            let left = (&self.replica.scores, self.scores_at(first, start));
            let (buffer, at) = self.block_at(users, first);
            let right = (buffer, at + start * users.stride);
            let into = self.block_at(d_items, first);
            Ok(self.replica.stream.product(&product, left, right, into)?)
        })
    }
}
