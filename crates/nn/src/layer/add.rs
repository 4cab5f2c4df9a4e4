//! The sum of nodes of equal shape, added in the order in which they are named; one of a single
//! column is added to each column of the others.

use pulp::{Arch, Simd, WithSimd};

use super::{Backward, Flops, Forward, Layer, Reads, Write};
use crate::{Matrix, MatrixMut, Scalar};

/// `y = x₀ + x₁ + …`, lane by lane; an input of one column is added to each of the output's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Add;

impl<T: Scalar> Layer<T> for Add {
    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        match inputs {
            [] => Err("a sum has at least one input".to_owned()),
            inputs => {
                let most = inputs.iter().copied().max().unwrap_or(0);
                match inputs.iter().all(|columns| [1, most].contains(columns)) {
                    true => Ok(most),
                    false => Err(format!(
                        "its inputs have {inputs:?} columns; a sum needs equal ones, or single ones"
                    )),
                }
            }
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: false, output: false }
    }

    fn is_sum(&self) -> bool {
        true
    }

    fn flops(&self, inputs: &[usize], wanted: &[usize]) -> Flops {
        let columns = inputs.iter().copied().max().unwrap_or(0);
        let forward = (inputs.len().saturating_sub(1) * columns) as u64;
        let of = |wanted: &usize| if *wanted == 0 { 0 } else { columns };
        Flops { forward, backward: wanted.iter().map(of).sum::<usize>() as u64 }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        for index in 0..pass.inputs.count() {
            let write = if index == 0 { Write::Overwrite } else { Write::Accumulate };
            let (input, output) = (pass.inputs.get(index), pass.output.reborrow());
            match input.columns() == output.columns() {
                true => copy(input, output, write),
                false => spread(input, output, write),
            }
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        for index in 0..pass.d_inputs.count() {
            let is_spread = pass.inputs.columns(index) < pass.d_output.columns();
            if let Some(out) = pass.d_inputs.get(index) {
                if is_spread {
                    gather(pass.d_output.as_ref(), out.gradient, out.write);
                    continue;
                }
                let d_output = pass.d_output.as_ref().select(0..out.gradient.columns());
                copy(d_output, out.gradient, out.write);
            }
        }
    }
}

/// Writes the one column of `from` to each of `to`.
fn spread<T: Scalar>(from: Matrix<'_, T>, mut to: MatrixMut<'_, T>, write: Write) {
    for row in 0..to.rows() {
        let value = from.row(row)[0];
        match write {
            Write::Overwrite => to.row(row).fill(value),
            Write::Accumulate => to.row(row).iter_mut().for_each(|lane| *lane += value),
        }
    }
}

/// Writes the sum of the columns of `from`, from the first on, to the one of `to`.
fn gather<T: Scalar>(from: Matrix<'_, T>, mut to: MatrixMut<'_, T>, write: Write) {
    for row in 0..to.rows() {
        let mut sum = T::ZERO;
        from.row(row).iter().for_each(|lane| sum += *lane);
        // Nothing where nobody wants the gradient of that column.
        for lane in to.row(row) {
            match write {
                Write::Overwrite => *lane = sum,
                Write::Accumulate => *lane += sum,
            }
        }
    }
}

/// Writes `from` to `to`, which has the same shape.
pub(super) fn copy<T: Scalar>(from: Matrix<'_, T>, to: MatrixMut<'_, T>, write: Write) {
    Arch::new().dispatch(Copy { from, to, write });
}

struct Copy<'a, T> {
    from: Matrix<'a, T>,
    to: MatrixMut<'a, T>,
    write: Write,
}

impl<T: Scalar> WithSimd for Copy<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.to.rows() {
            let (from, to) = (self.from.row(row), self.to.row(row));
            match self.write {
                Write::Overwrite => to.copy_from_slice(from),
                Write::Accumulate => to.iter_mut().zip(from).for_each(|(t, f)| *t += *f),
            }
        }
    }
}
