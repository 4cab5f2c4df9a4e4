//! Product of two nodes, lane by lane; one of them may be a factor for each example.
//!
//! ```text
//! inputs    a, b         // (rows, columns) each, or one of them (rows, 1): a gate
//! output    y  = a ∘ b                                       // (rows, columns)
//! backward  da = dy ∘ b,  db = dy ∘ a                        for inputs of all columns
//!           dg = dy·x                                        for a gate g on x
//! ```
//!
//! The dot product runs over the lanes in the order of `lane_sums`.

use pulp::{Arch, Simd, WithSimd};

use super::lane_sums::dot;
use super::{Backward, Flops, Forward, GradientOut, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::matrix::{Matrix, Write};

/// `y = a ∘ b`, lane by lane; an input of one column multiplies all columns of the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Multiply;

impl<T: Scalar> Layer<T> for Multiply {
    fn operation(&self) -> Operation {
        Operation::Multiply
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        match *inputs {
            [0, _] | [_, 0] => Err("a product has at least one column".to_owned()),
            [a, b] if a == b || a == 1 || b == 1 => Ok(a.max(b)),
            [_, _] => Err(format!(
                "its inputs have {inputs:?} columns; a product needs equal ones, or one column"
            )),
            _ => Err(format!("a product takes two inputs, not {}", inputs.len())),
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn flops(&self, inputs: &[usize], wanted: &[usize]) -> Flops {
        let columns = inputs.iter().copied().max().unwrap_or(0);
        let of = |(input, wanted): (&usize, &usize)| {
            let is_gate = *input < columns;
            if is_gate { 2 * columns * *wanted } else { *wanted }
        };
        let backward = inputs.iter().zip(wanted).map(of).sum::<usize>() as u64;
        Flops { forward: columns as u64, backward }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let (a, b, output) = (pass.inputs.get(0), pass.inputs.get(1), pass.output);
        let (wide, other) = if a.columns() < b.columns() { (b, a) } else { (a, b) };
        multiply(wide, other, GradientOut { gradient: output, write: Write::Overwrite });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let d_output = pass.d_output.as_ref();
        for index in 0..2 {
            let (own, other) = (pass.inputs.columns(index), pass.inputs.get(1 - index));
            let Some(out) = pass.d_inputs.get(index) else { continue };
            if own < d_output.columns() {
                Arch::new().dispatch(Dots { left: d_output, right: other, out });
            } else {
                multiply(d_output, other, out);
            }
        }
    }
}

/// Writes the first columns of `left ∘ right`, where `right` may have one column.
pub(super) fn multiply<T: Scalar>(
    left: Matrix<'_, T>,
    right: Matrix<'_, T>,
    out: GradientOut<'_, T>,
) {
    Arch::new().dispatch(Products { left, right, out });
}

struct Products<'a, T> {
    left: Matrix<'a, T>,     // (rows, columns)
    right: Matrix<'a, T>,    // (rows, columns or 1)
    out: GradientOut<'a, T>, // (rows, at most columns)
}

impl<T: Scalar> WithSimd for Products<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.left.rows() {
            let (left, right) = (self.left.row(row), self.right.row(row));
            let out = self.out.gradient.row(row).iter_mut().zip(left);
            match (self.out.write, right) {
                (Write::Overwrite, [g]) => out.for_each(|(to, a)| *to = *a * *g),
                (Write::Accumulate, [g]) => out.for_each(|(to, a)| *to += *a * *g),
                (Write::Overwrite, _) => out.zip(right).for_each(|((to, a), b)| *to = *a * *b),
                (Write::Accumulate, _) => out.zip(right).for_each(|((to, a), b)| *to += *a * *b),
            }
        }
    }
}

/// The dot product of each row.
struct Dots<'a, T> {
    left: Matrix<'a, T>,     // (rows, columns)
    right: Matrix<'a, T>,    // (rows, columns)
    out: GradientOut<'a, T>, // (rows, 1)
}

impl<T: Scalar> WithSimd for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.left.rows() {
            let product = dot(self.left.row(row), self.right.row(row));
            let lanes = self.out.gradient.row(row).iter_mut();
            match self.out.write {
                Write::Overwrite => lanes.for_each(|to| *to = product),
                Write::Accumulate => lanes.for_each(|to| *to += product),
            }
        }
    }
}
