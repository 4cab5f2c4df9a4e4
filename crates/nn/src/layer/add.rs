//! Sum of nodes of equal shape, added in the order in which they are listed.

use pulp::{Arch, Simd, WithSimd};

use super::{Backward, Flops, Forward, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};

/// `y = x₀ + x₁ + …`, lane by lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Add;

impl<T: Scalar> Layer<T> for Add {
    fn operation(&self) -> Operation {
        Operation::Add
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        match inputs {
            [] => Err("a sum has at least one input".to_owned()),
            [first, rest @ ..] if rest.iter().all(|columns| columns == first) => Ok(*first),
            _ => Err(format!("its inputs have {inputs:?} columns; a sum needs equal ones")),
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: false, output: false }
    }

    fn flops(&self, inputs: &[usize], wanted: &[usize]) -> Flops {
        let forward = inputs.iter().skip(1).sum::<usize>() as u64;
        Flops { forward, backward: wanted.iter().sum::<usize>() as u64 }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        for index in 0..pass.inputs.count() {
            let write = if index == 0 { Write::Overwrite } else { Write::Accumulate };
            copy(pass.inputs.get(index), pass.output.reborrow(), write);
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        for index in 0..pass.d_inputs.count() {
            if let Some(out) = pass.d_inputs.get(index) {
                let d_output = pass.d_output.as_ref().select(0..out.gradient.columns());
                copy(d_output, out.gradient, out.write);
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
