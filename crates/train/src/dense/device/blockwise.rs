//! Layers on a device that look at all examples of a block: normalization over it, and Dice.
//!
//! A block's moments, and the sums of its backward pass, are in the replica's `moments`. Its
//! statistics follow its gradients and are summed over blocks with them; then they move the state.

use std::ops::Range;

use stepwell_device::Arg;
use stepwell_nn::NodeView;

use super::block_layers::{Norm, moment_lanes, norm_of};
use super::passes::Passes;
use super::replica::{Replica, flag, number};
use crate::Result;

impl Replica {
    /// Moves the state of `node` by its statistics, which are in the first of the sums.
    pub(super) fn advance(&self, node: &NodeView<'_>) -> Result<()> {
        let Some(Norm { columns, momentum, .. }) = norm_of(node) else {
            return self.add_counts(node);
        };
        let args = vec![
            Arg::part(&self.graph_state, node.state.clone()),
            Arg::part(&self.sums, self.statistics_of(node)),
            number(columns),
            Arg::f32(momentum as f32),
        ];
        self.launch("dense_batch_norm_advance", 2 * columns, args)
    }
}

impl Passes<'_> {
    /// `lanes` lanes for each block of the moments of `node`, after its first `from`.
    fn moments(&self, node: &NodeView<'_>, (from, lanes): (usize, usize)) -> Arg<'_> {
        let before = self.nodes().take_while(|other| other.name != node.name);
        let slots = self.sizes.slots;
        let first = (moment_lanes(before) + from) * slots;
        Arg::part(&self.replica.moments, first..first + lanes * self.blocks())
    }

    /// Gradients of all blocks, from the first of `lanes` in the first block to the last of them in
    /// the last block.
    pub(super) fn of_blocks(&self, lanes: Range<usize>) -> Arg<'_> {
        let end = (self.blocks() - 1) * self.sizes.apart() + lanes.end;
        Arg::part(&self.replica.gradients, lanes.start..end)
    }

    pub(super) fn rows_of(&self) -> Arg<'_> {
        Arg::first(&self.replica.rows_of.device, self.blocks())
    }

    pub(super) fn apart(&self) -> Arg<'static> {
        Arg::u64(self.sizes.apart() as u64)
    }

    /// Computes the moments by which `node` normalizes.
    fn find_moments(&self, node: &NodeView<'_>, norm: Norm) -> Result<()> {
        let Norm { columns, epsilon, .. } = norm;
        let (blocks, moments) = (self.blocks(), self.moments(node, (0, 2 * columns)));
        if !self.trains {
            let state = Arg::part(&self.replica.graph_state, node.state.clone());
            let args = vec![state, moments, number(blocks), number(columns), Arg::f64(epsilon)];
            return self.launch("dense_batch_moments_of_state", blocks * columns, args);
        }
        let input = self.input(node, 0);
        let mut args = vec![input.arg(self.rows()), self.rows_of(), moments];
        args.push(self.of_blocks(self.replica.statistics_of(node)));
        args.extend([blocks, self.sizes.slot_rows, columns, input.stride].map(number));
        args.extend([self.apart(), Arg::f64(epsilon)]);
        self.launch("dense_batch_moments", blocks * columns, args)
    }

    /// `y = γ (x - μ) / √(v + ε) + β`, with mean and variance of a block.
    pub(super) fn batch_norm(&self, node: &NodeView<'_>) -> Result<()> {
        let Some(norm) = norm_of(node).filter(|_| self.blocks() > 0) else { return Ok(()) };
        self.find_moments(node, norm)?;
        let (columns, start) = (norm.columns, node.parameters.start);
        let (input, rows) = (self.input(node, 0), self.rows());
        let mut args = vec![
            input.arg(rows),
            self.moments(node, (0, 2 * columns)),
            self.parameters(start..start + columns),
            self.parameters(start + columns..start + 2 * columns),
            self.value(node).arg(rows),
        ];
        args.extend([rows, self.sizes.slot_rows, columns, input.stride].map(number));
        self.launch("dense_batch_norm", rows * columns, args)
    }

    pub(super) fn batch_norm_back(&self, node: &NodeView<'_>) -> Result<()> {
        let Some(norm) = norm_of(node).filter(|_| self.blocks() > 0) else { return Ok(()) };
        let (columns, start, blocks) = (norm.columns, node.parameters.start, self.blocks());
        let (input, rows, gradient) = (self.input(node, 0), self.rows(), self.gradient(node));
        let moments = || self.moments(node, (0, 2 * columns));
        let gradients = || self.of_blocks(start..start + 2 * columns);
        let mut args = vec![input.arg(rows), moments(), gradient.arg(rows), self.rows_of()];
        args.push(gradients());
        args.extend([blocks, self.sizes.slot_rows, columns, input.stride].map(number));
        args.push(self.apart());
        self.launch("dense_batch_norm_sums", blocks * columns, args)?;
        let Some(target) = self.target(node, 0)? else { return Ok(()) };
        let wanted = target.view.columns;
        let scale = self.parameters(start..start + columns);
        let mut args = vec![input.arg(rows), moments(), scale, gradient.arg(rows), gradients()];
        args.extend([self.rows_of(), target.view.arg(rows)]);
        args.extend([rows, self.sizes.slot_rows, columns, input.stride].map(number));
        args.push(self.apart());
        args.extend([number(wanted), number(target.view.stride), flag(target.adds)]);
        self.launch("dense_batch_norm_to_input", rows * wanted, args)
    }

    /// `y = x (a + (1 - a) p)`; keeps p, the logistic function of the normalized value.
    pub(super) fn dice(&self, node: &NodeView<'_>) -> Result<()> {
        let Some(norm) = norm_of(node).filter(|_| self.blocks() > 0) else { return Ok(()) };
        self.find_moments(node, norm)?;
        let (input, rows, columns) = (self.input(node, 0), self.rows(), norm.columns);
        let mut args = vec![
            input.arg(rows),
            self.moments(node, (0, 2 * columns)),
            self.parameters(node.parameters.clone()),
            self.value(node).arg(rows),
            self.kept(node).arg(rows),
        ];
        args.extend([rows, self.sizes.slot_rows, columns, input.stride].map(number));
        self.launch("dense_dice", rows * columns, args)
    }

    pub(super) fn dice_back(&self, node: &NodeView<'_>) -> Result<()> {
        let Some(norm) = norm_of(node).filter(|_| self.blocks() > 0) else { return Ok(()) };
        let (columns, blocks) = (norm.columns, self.blocks());
        let (input, rows, gradient) = (self.input(node, 0), self.rows(), self.gradient(node));
        let sums = || self.moments(node, (2 * columns, 2 * columns));
        let of_input = || {
            vec![
                input.arg(rows),
                self.moments(node, (0, 2 * columns)),
                self.parameters(node.parameters.clone()),
                self.kept(node).arg(rows),
                gradient.arg(rows),
            ]
        };
        let mut args = of_input();
        args.extend([self.rows_of(), self.of_blocks(node.parameters.clone()), sums()]);
        args.extend([blocks, self.sizes.slot_rows, columns, input.stride].map(number));
        args.push(self.apart());
        self.launch("dense_dice_sums", blocks * columns, args)?;
        let Some(target) = self.target(node, 0)? else { return Ok(()) };
        let wanted = target.view.columns;
        let mut args = of_input();
        args.extend([sums(), self.rows_of(), target.view.arg(rows)]);
        args.extend([rows, self.sizes.slot_rows, columns, input.stride].map(number));
        args.extend([number(wanted), number(target.view.stride), flag(target.adds)]);
        self.launch("dense_dice_to_input", rows * wanted, args)
    }
}
