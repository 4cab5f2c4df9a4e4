//! Each layer on a device: launches and products, in the order in which the layer computes.

use stepwell_nn::{Activation, NodeView, Operation};

use super::passes::{Passes, View};
use super::replica::{flag, number};
use crate::Result;

/// Lane at which a layer's bias begins, if its parameters begin at `start`.
fn bias_at(start: usize, weight: usize) -> usize {
    start + weight
}

impl Passes<'_> {
    /// `y = activation(x Wᵀ + b)`.
    pub(super) fn linear(&self, node: &NodeView<'_>) -> Result<()> {
        let Operation::Linear { inputs, outputs, bias, activation } = node.operation else {
            return Ok(());
        };
        let (input, output, start) = (self.input(node, 0), self.value(node), node.parameters.start);
        self.forwards(input, start, output)?;
        if !bias && activation == Activation::Identity {
            return Ok(());
        }
        let at = bias_at(start, inputs * outputs);
        let args = vec![
            output.arg(self.rows()),
            self.parameters(at..if bias { at + outputs } else { at }),
            number(self.rows()),
            number(outputs),
            flag(bias),
            flag(activation == Activation::Relu),
        ];
        self.launch("dense_activate", self.rows() * outputs, args)
    }

    pub(super) fn linear_back(&self, node: &NodeView<'_>) -> Result<()> {
        let Operation::Linear { inputs, outputs, bias, activation } = node.operation else {
            return Ok(());
        };
        let (gradient, start, rows) = (self.gradient(node), node.parameters.start, self.rows());
        if activation == Activation::Relu {
            let output = self.value(node).arg(rows);
            let args = vec![output, gradient.arg(rows), number(rows), number(outputs)];
            self.launch("dense_deactivate", rows * outputs, args)?;
        }
        if bias {
            self.column_sums(gradient, bias_at(start, inputs * outputs))?;
        }
        self.to_weight(gradient, self.input(node, 0), start)?;
        match self.target(node, 0)? {
            Some(target) => self.to_input(gradient, (start, inputs), target.view, target.adds),
            None => Ok(()),
        }
    }

    /// Half the difference between the square of the sum and the sum of squares.
    pub(super) fn fm(&self, node: &NodeView<'_>, (slots, dim): (usize, usize)) -> Result<()> {
        let (input, rows) = (self.input(node, 0), self.rows());
        let terms = View { buffer: &self.replica.terms, start: 0, columns: dim, stride: dim };
        let args = vec![
            input.arg(rows),
            terms.arg(rows),
            number(rows),
            number(slots),
            number(dim),
            number(input.stride),
        ];
        self.launch("dense_fm_terms", rows * dim, args)?;
        let output = self.value(node).arg(rows);
        let args = vec![terms.arg(rows), output, number(rows), number(dim)];
        self.launch("dense_fm_total", rows, args)
    }

    pub(super) fn fm_back(&self, node: &NodeView<'_>, (slots, dim): (usize, usize)) -> Result<()> {
        let Some(target) = self.target(node, 0)? else { return Ok(()) };
        let (input, rows) = (self.input(node, 0), self.rows());
        let args = vec![
            input.arg(rows),
            self.gradient(node).arg(rows),
            target.view.arg(rows),
            number(rows),
            number(slots),
            number(dim),
            number(input.stride),
            number(target.view.columns),
            number(target.view.stride),
            flag(target.adds),
        ];
        self.launch("dense_fm_backward", rows * dim, args)
    }

    /// `y = x₀ ∘ (x Wᵀ + b) + x`; keeps the product.
    pub(super) fn cross(&self, node: &NodeView<'_>) -> Result<()> {
        let (base, input, kept) = (self.input(node, 0), self.input(node, 1), self.kept(node));
        let (columns, rows, start) = (node.columns, self.rows(), node.parameters.start);
        self.forwards(input, start, kept)?;
        let at = bias_at(start, columns * columns);
        let args = vec![
            base.arg(rows),
            kept.arg(rows),
            self.parameters(at..at + columns),
            input.arg(rows),
            self.value(node).arg(rows),
            number(rows),
            number(columns),
            number(base.stride),
            number(input.stride),
        ];
        self.launch("dense_cross", rows * columns, args)
    }

    pub(super) fn cross_back(&self, node: &NodeView<'_>) -> Result<()> {
        let (base, input, kept) = (self.input(node, 0), self.input(node, 1), self.kept(node));
        let (columns, rows, start) = (node.columns, self.rows(), node.parameters.start);
        let (gradient, at) = (self.gradient(node), bias_at(start, columns * columns));
        if let Some(target) = self.target(node, 0)? {
            let wanted = target.view.columns;
            let args = vec![
                kept.arg(rows),
                self.parameters(at..at + columns),
                gradient.arg(rows),
                target.view.arg(rows),
                number(rows),
                number(columns),
                number(wanted),
                number(target.view.stride),
                flag(target.adds),
            ];
            self.launch("dense_cross_to_base", rows * wanted, args)?;
        }
        let to_input = self.target(node, 1)?;
        if let Some(target) = &to_input {
            let wanted = gradient.select(0..target.view.columns);
            self.copy(wanted, target.view, target.adds)?;
        }
        let args = vec![
            base.arg(rows),
            gradient.arg(rows),
            number(rows),
            number(columns),
            number(base.stride),
        ];
        self.launch("dense_cross_to_product", rows * columns, args)?;
        self.column_sums(gradient, at)?;
        self.to_weight(gradient, input, start)?;
        match to_input {
            Some(target) => self.to_input(gradient, (start, columns), target.view, true),
            None => Ok(()),
        }
    }

    /// The vectors of an interaction: those of the first input, and of the second, which may be
    /// empty.
    fn vectors(&self, node: &NodeView<'_>) -> [View<'_>; 2] {
        let first = self.input(node, 0);
        let none = first.select(0..0);
        [first, if node.sources.len() > 1 { self.input(node, 1) } else { none }]
    }

    /// The dot products of all pairs of vectors.
    pub(super) fn dots(&self, node: &NodeView<'_>, (vectors, dim): (usize, usize)) -> Result<()> {
        let ([first, second], rows) = (self.vectors(node), self.rows());
        let args = vec![
            first.arg(rows),
            second.arg(rows),
            self.value(node).arg(rows),
            number(rows),
            number(vectors),
            number(dim),
            number(first.columns / dim),
            number(first.stride),
            number(second.stride),
        ];
        self.launch("dense_dots", rows * node.columns, args)
    }

    pub(super) fn dots_back(
        &self,
        node: &NodeView<'_>,
        (vectors, dim): (usize, usize),
    ) -> Result<()> {
        let ([first, second], rows) = (self.vectors(node), self.rows());
        for (index, from) in [0, first.columns / dim].into_iter().enumerate() {
            if index == node.sources.len() {
                break;
            }
            let Some(target) = self.target(node, index)? else { continue };
            let wanted = target.view.columns;
            let args = vec![
                first.arg(rows),
                second.arg(rows),
                self.gradient(node).arg(rows),
                target.view.arg(rows),
                number(rows),
                number(vectors),
                number(dim),
                number(first.columns / dim),
                number(first.stride),
                number(second.stride),
                number(from),
                number(wanted),
                number(target.view.stride),
                flag(target.adds),
            ];
            self.launch("dense_dots_backward", rows * wanted, args)?;
        }
        Ok(())
    }

    /// Concatenates or adds the inputs.
    pub(super) fn together(&self, node: &NodeView<'_>) -> Result<()> {
        let (adds, mut at) = (node.operation == Operation::Add, 0);
        (0..node.sources.len()).try_for_each(|index| {
            let input = self.input(node, index);
            let output = self.value(node).select(at..at + input.columns);
            at += if adds { 0 } else { input.columns };
            self.copy(input, output, adds && index > 0)
        })
    }

    pub(super) fn together_back(&self, node: &NodeView<'_>) -> Result<()> {
        let (adds, mut at) = (node.operation == Operation::Add, 0);
        (0..node.sources.len()).try_for_each(|index| {
            let first = at;
            at += if adds { 0 } else { self.input(node, index).columns };
            let Some(target) = self.target(node, index)? else { return Ok(()) };
            let gradient = self.gradient(node).select(first..first + target.view.columns);
            self.copy(gradient, target.view, target.adds)
        })
    }
}
