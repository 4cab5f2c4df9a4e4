//! Cross layers, normalization within an example, functions, products, mixtures and dropout on a
//! device.
//!
//! Sums over the examples of a block need each example's terms, which replace the gradient of the
//! layer's output once nothing else reads it.

use stepwell_device::Arg;
use stepwell_nn::{Function, NodeView};

use super::passes::{Passes, Target, View};
use super::replica::{flag, number};
use crate::Result;

/// Number of a function for the kernels.
fn number_of(function: Function) -> usize {
    match function {
        Function::Relu => 0,
        Function::Sigmoid => 1,
        Function::Tanh => 2,
        Function::Gelu => 3,
        Function::Silu => 4,
        Function::Prelu => 5,
    }
}

impl Passes<'_> {
    /// Intermediate results of `columns` lanes per example.
    pub(super) fn terms(&self, columns: usize) -> View<'_> {
        View { buffer: &self.replica.terms, start: 0, columns, stride: columns }
    }

    /// `to = left ∘ right`, or adds it; `right` may have one column.
    fn multiply(&self, left: View<'_>, right: View<'_>, to: &Target<'_>) -> Result<()> {
        let (rows, columns) = (self.rows(), to.view.columns);
        let args = vec![
            left.arg(rows),
            right.arg(rows),
            to.view.arg(rows),
            number(rows),
            number(columns),
            number(left.stride),
            number(right.stride),
            number(right.columns),
            number(to.view.stride),
            flag(to.adds),
        ];
        self.launch("dense_multiply", rows * columns, args)
    }

    /// The dot product of each row of `left` and `right`.
    fn row_dots(&self, left: View<'_>, right: View<'_>, to: &Target<'_>) -> Result<()> {
        let rows = self.rows();
        let args = vec![
            left.arg(rows),
            right.arg(rows),
            to.view.arg(rows),
            number(rows),
            number(left.columns),
            number(left.stride),
            number(right.stride),
            number(to.view.stride),
            flag(to.adds),
        ];
        self.launch("dense_row_dots", rows, args)
    }

    /// `y = x₀ s + b + x`, and keeps `s = x·w`.
    pub(super) fn cross_vector(&self, node: &NodeView<'_>) -> Result<()> {
        let (base, input, kept) = (self.input(node, 0), self.input(node, 1), self.kept(node));
        let (columns, rows, start) = (node.columns, self.rows(), node.parameters.start);
        // A stride of 0: every example has the same weight.
        let weight = View { buffer: self.parameters, start, columns, stride: 0 };
        self.row_dots(input, weight, &Target { view: kept, adds: false })?;
        let args = vec![
            base.arg(rows),
            kept.arg(rows),
            self.parameters(start + columns..start + 2 * columns),
            input.arg(rows),
            self.value(node).arg(rows),
            number(rows),
            number(columns),
            number(base.stride),
            number(input.stride),
        ];
        self.launch("dense_cross_vector", rows * columns, args)
    }

    pub(super) fn cross_vector_back(&self, node: &NodeView<'_>) -> Result<()> {
        let (base, input, kept) = (self.input(node, 0), self.input(node, 1), self.kept(node));
        let (columns, rows, start) = (node.columns, self.rows(), node.parameters.start);
        let (gradient, d_dots) = (self.gradient(node), self.terms(1));
        self.column_sums(gradient, start + columns)?;
        self.row_dots(gradient, base, &Target { view: d_dots, adds: false })?;
        if let Some(target) = self.target(node, 0)? {
            self.multiply(gradient, kept, &target)?;
        }
        if let Some(target) = self.target(node, 1)? {
            let wanted = target.view.columns;
            let args = vec![
                gradient.arg(rows),
                self.parameters(start..start + columns),
                d_dots.arg(rows),
                target.view.arg(rows),
                number(rows),
                number(columns),
                number(wanted),
                number(target.view.stride),
                flag(target.adds),
            ];
            self.launch("dense_cross_vector_to_input", rows * wanted, args)?;
        }
        self.multiply(input, d_dots, &Target { view: gradient, adds: false })?;
        self.column_sums(gradient, start)
    }

    /// `y = w ∘ (x - μ) r + b` for each group; keeps the moments μ and r.
    pub(super) fn norm(
        &self,
        node: &NodeView<'_>,
        (groups, columns): (usize, usize),
    ) -> Result<()> {
        let (input, kept, rows) = (self.input(node, 0), self.kept(node), self.rows());
        let (start, lanes) = (node.parameters.start, node.columns);
        let shape = || [rows, groups, columns, input.stride].map(number);
        let mut args = vec![input.arg(rows), kept.arg(rows)];
        args.extend(shape());
        self.launch("dense_norm_moments", rows * groups, args)?;
        let mut args = vec![
            input.arg(rows),
            kept.arg(rows),
            self.parameters(start..start + lanes),
            self.parameters(start + lanes..start + 2 * lanes),
            self.value(node).arg(rows),
        ];
        args.extend(shape());
        self.launch("dense_norm", rows * lanes, args)
    }

    pub(super) fn norm_back(
        &self,
        node: &NodeView<'_>,
        (groups, columns): (usize, usize),
    ) -> Result<()> {
        let (input, kept, rows) = (self.input(node, 0), self.kept(node), self.rows());
        let (start, lanes) = (node.parameters.start, node.columns);
        let (gradient, slopes) = (self.gradient(node), self.terms(2 * groups));
        let shape = || [rows, groups, columns, input.stride].map(number);
        self.column_sums(gradient, start + lanes)?;
        if let Some(target) = self.target(node, 0)? {
            let of_input = || {
                let weight = self.parameters(start..start + lanes);
                vec![input.arg(rows), kept.arg(rows), weight, gradient.arg(rows), slopes.arg(rows)]
            };
            let mut args = of_input();
            args.extend(shape());
            self.launch("dense_norm_slopes", rows * groups, args)?;
            let wanted = target.view.columns;
            let mut args = of_input();
            args.push(target.view.arg(rows));
            args.extend(shape());
            args.extend([wanted, target.view.stride].map(number));
            args.push(flag(target.adds));
            self.launch("dense_norm_to_input", rows * wanted, args)?;
        }
        let mut args = vec![input.arg(rows), kept.arg(rows), gradient.arg(rows)];
        args.extend(shape());
        self.launch("dense_norm_to_weight", rows * lanes, args)?;
        self.column_sums(gradient, start)
    }

    /// `y = f(x)`.
    pub(super) fn function(&self, node: &NodeView<'_>, function: Function) -> Result<()> {
        let (input, rows, columns) = (self.input(node, 0), self.rows(), node.columns);
        let mut args = vec![
            input.arg(rows),
            self.parameters(node.parameters.clone()),
            self.value(node).arg(rows),
        ];
        args.extend([number_of(function), rows, columns, input.stride].map(number));
        self.launch("dense_function", rows * columns, args)
    }

    pub(super) fn function_back(&self, node: &NodeView<'_>, function: Function) -> Result<()> {
        let (rows, columns, gradient) = (self.rows(), node.columns, self.gradient(node));
        let from_output = matches!(function, Function::Relu | Function::Sigmoid | Function::Tanh);
        let values = if from_output { self.value(node) } else { self.input(node, 0) };
        if let Some(target) = self.target(node, 0)? {
            let wanted = target.view.columns;
            let mut args = vec![
                values.arg(rows),
                self.parameters(node.parameters.clone()),
                gradient.arg(rows),
                target.view.arg(rows),
            ];
            args.extend([number_of(function), rows, columns, values.stride].map(number));
            args.extend([wanted, target.view.stride].map(number));
            args.push(flag(target.adds));
            self.launch("dense_function_to_input", rows * wanted, args)?;
        }
        if function != Function::Prelu {
            return Ok(());
        }
        let mut args = vec![values.arg(rows), gradient.arg(rows)];
        args.extend([rows, columns, values.stride].map(number));
        self.launch("dense_function_to_slopes", rows * columns, args)?;
        self.column_sums(gradient, node.parameters.start)
    }

    /// The product of two inputs, one of which may have one column.
    pub(super) fn product_of(&self, node: &NodeView<'_>) -> Result<()> {
        let (a, b) = (self.input(node, 0), self.input(node, 1));
        let (wide, other) = if a.columns < b.columns { (b, a) } else { (a, b) };
        self.multiply(wide, other, &Target { view: self.value(node), adds: false })
    }

    pub(super) fn product_of_back(&self, node: &NodeView<'_>) -> Result<()> {
        let gradient = self.gradient(node);
        for index in 0..2 {
            let (own, other) = (self.input(node, index), self.input(node, 1 - index));
            let Some(target) = self.target(node, index)? else { continue };
            if own.columns < gradient.columns {
                self.row_dots(gradient, other, &target)?;
            } else {
                self.multiply(gradient, other, &target)?;
            }
        }
        Ok(())
    }

    /// The experts' outputs, each times its share; keeps the shares, the softmax of the gate.
    pub(super) fn mixture(&self, node: &NodeView<'_>, experts: usize) -> Result<()> {
        let (gate, kept, rows) = (self.input(node, 0), self.kept(node), self.rows());
        let mut args = vec![gate.arg(rows), kept.arg(rows)];
        args.extend([rows, experts, gate.stride].map(number));
        self.launch("dense_softmax", rows, args)?;
        (0..experts).try_for_each(|expert| {
            let (input, share) = (self.input(node, 1 + expert), kept.select(expert..expert + 1));
            let target = Target { view: self.value(node), adds: expert > 0 };
            self.multiply(input, share, &target)
        })
    }

    pub(super) fn mixture_back(&self, node: &NodeView<'_>, experts: usize) -> Result<()> {
        let (gradient, kept, rows) = (self.gradient(node), self.kept(node), self.rows());
        let d_softmax = self.terms(experts);
        if let Some(target) = self.target(node, 0)? {
            for expert in 0..experts {
                let to = Target { view: d_softmax.select(expert..expert + 1), adds: false };
                self.row_dots(gradient, self.input(node, 1 + expert), &to)?;
            }
            let mut args = vec![kept.arg(rows), d_softmax.arg(rows), target.view.arg(rows)];
            let wanted = target.view.columns;
            args.extend([rows, experts, wanted, target.view.stride].map(number));
            args.push(flag(target.adds));
            self.launch("dense_softmax_backward", rows, args)?;
        }
        (0..experts).try_for_each(|expert| match self.target(node, 1 + expert)? {
            Some(target) => self.multiply(gradient, kept.select(expert..expert + 1), &target),
            None => Ok(()),
        })
    }

    /// In training, drops lanes at random, and keeps the factors.
    pub(super) fn dropout(&self, node: &NodeView<'_>, rate: f64) -> Result<()> {
        let (input, output, rows) = (self.input(node, 0), self.value(node), self.rows());
        if !self.trains {
            return self.copy(input, output, false);
        }
        let (first, apart) = (self.dropping_before(node), self.sizes.dropping);
        let end = rows.checked_sub(1).map_or(first, |last| first + last * apart + 1);
        let args = vec![
            input.arg(rows),
            Arg::part(&self.replica.streams.device, first..end),
            output.arg(rows),
            self.kept(node).arg(rows),
            number(rows),
            number(node.columns),
            number(input.stride),
            number(apart),
            // Random numbers have 53 bits. The product is exact, so a number is below it if and
            // only if it is below the next integer.
            Arg::u64((rate * (1u64 << 53) as f64).ceil() as u64),
            Arg::f32((1.0 / (1.0 - rate)) as f32),
        ];
        self.launch("dense_dropout", rows * node.columns, args)
    }

    pub(super) fn dropout_back(&self, node: &NodeView<'_>) -> Result<()> {
        match self.target(node, 0)? {
            Some(target) => self.multiply(self.gradient(node), self.kept(node), &target),
            None => Ok(()),
        }
    }

    /// `y = x / |x|`; keeps 1 / |x|.
    pub(super) fn unit_length(&self, node: &NodeView<'_>) -> Result<()> {
        let (input, kept, rows) = (self.input(node, 0), self.kept(node), self.rows());
        self.row_dots(input, input, &Target { view: kept, adds: false })?;
        self.launch("dense_unit_factors", rows, vec![kept.arg(rows), number(rows)])?;
        self.multiply(input, kept, &Target { view: self.value(node), adds: false })
    }

    pub(super) fn unit_length_back(&self, node: &NodeView<'_>) -> Result<()> {
        let Some(target) = self.target(node, 0)? else { return Ok(()) };
        let (output, gradient, rows) = (self.value(node), self.gradient(node), self.rows());
        let (along, wanted) = (self.terms(1), target.view.columns);
        self.row_dots(output, gradient, &Target { view: along, adds: false })?;
        let mut args = vec![output.arg(rows), self.kept(node).arg(rows), gradient.arg(rows)];
        args.extend([along.arg(rows), target.view.arg(rows)]);
        args.extend([rows, node.columns, wanted, target.view.stride].map(number));
        args.push(flag(target.adds));
        self.launch("dense_unit_to_input", rows * wanted, args)
    }
}
