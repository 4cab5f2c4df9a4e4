//! Concatenates the columns of nodes, in order.

use super::add::copy;
use super::{Backward, Flops, Forward, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::matrix::Write;

/// `y = [x₀ | x₁ | …]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Concat;

impl<T: Scalar> Layer<T> for Concat {
    fn operation(&self) -> Operation {
        Operation::Concat
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        if inputs.is_empty() {
            return Err("a concatenation has at least one input".to_owned());
        }
        Ok(inputs.iter().sum())
    }

    fn reads(&self) -> Reads {
        Reads { inputs: false, output: false }
    }

    fn flops(&self, _: &[usize], _: &[usize]) -> Flops {
        Flops::default()
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        let mut start = 0;
        for index in 0..pass.inputs.count() {
            let input = pass.inputs.get(index);
            let columns = start..start + input.columns();
            start = columns.end;
            copy(input, pass.output.reborrow().select(columns), Write::Overwrite);
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let mut start = 0;
        for index in 0..pass.d_inputs.count() {
            let width = pass.inputs.columns(index);
            if let Some(out) = pass.d_inputs.get(index) {
                let columns = start..start + out.gradient.columns();
                copy(pass.d_output.as_ref().select(columns), out.gradient, out.write);
            }
            start += width;
        }
    }
}
