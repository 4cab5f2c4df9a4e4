//! Scales the vector of each example to length 1.
//!
//! ```text
//! output    y = r x,  r = 1 / √(x·x + ε),  ε = 1e-12              // (rows, columns)
//! kept      r                                                     // (rows, 1)
//! backward  dx = r (dy - (y·dy) y)
//! ```
//!
//! A vector of zeros stays zero. Dot products run over the lanes in the order of `lane_sums`.

use pulp::{Arch, Simd, WithSimd};

use super::lane_sums::dot;
use super::{Backward, Flops, Forward, GradientOut, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};

/// Added to squared lengths.
const EPSILON: f64 = 1e-12;

/// Divides each example's vector by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitLength {
    /// Columns of the input and the output.
    pub columns: usize,
}

impl<T: Scalar> Layer<T> for UnitLength {
    fn operation(&self) -> Operation {
        Operation::UnitLength { columns: self.columns }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let columns = self.columns;
        if columns == 0 {
            return Err("a vector has at least one column".to_owned());
        }
        if inputs != [columns] {
            return Err(format!("it takes one input of {columns} columns, not {inputs:?}"));
        }
        Ok(columns)
    }

    fn reads(&self) -> Reads {
        Reads { inputs: false, output: true }
    }

    fn kept_columns(&self) -> usize {
        1
    }

    fn flops(&self, inputs: &[usize], wanted: &[usize]) -> Flops {
        let (columns, wanted) = (inputs[0] as u64, wanted[0] as u64);
        let backward = if wanted > 0 { 2 * columns + 3 * wanted } else { 0 };
        Flops { forward: 3 * columns + 3, backward }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let input = pass.inputs.get(0);
        Arch::new().dispatch(Scale { input, output: pass.output, factors: pass.kept });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let (output, factors, d_output) = (pass.output, pass.kept, pass.d_output.as_ref());
        if let Some(out) = pass.d_inputs.get(0) {
            Arch::new().dispatch(Project { output, factors, d_output, out });
        }
    }
}

struct Scale<'a, T> {
    input: Matrix<'a, T>,      // (rows, columns)
    output: MatrixMut<'a, T>,  // (rows, columns)
    factors: MatrixMut<'a, T>, // (rows, 1)
}

impl<T: Scalar> WithSimd for Scale<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.input.rows() {
            let x = self.input.row(row);
            let factor = T::from_f64(1.0 / (dot(x, x).to_f64() + EPSILON).sqrt());
            self.factors.row(row)[0] = factor;
            self.output.row(row).iter_mut().zip(x).for_each(|(y, x)| *y = factor * *x);
        }
    }
}

/// `dx = r (dy - (y·dy) y)`, for the columns that need it.
struct Project<'a, T> {
    output: Matrix<'a, T>,   // (rows, columns)
    factors: Matrix<'a, T>,  // (rows, 1)
    d_output: Matrix<'a, T>, // (rows, columns)
    out: GradientOut<'a, T>, // (rows, at most columns)
}

impl<T: Scalar> WithSimd for Project<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.output.rows() {
            let (y, dy, r) = (self.output.row(row), self.d_output.row(row), self.factors.row(row));
            let (along, r) = (dot(y, dy), r[0]);
            let lanes = self.out.gradient.row(row).iter_mut().zip(y.iter().zip(dy));
            match self.out.write {
                Write::Overwrite => lanes.for_each(|(d, (y, dy))| *d = r * (*dy - along * *y)),
                Write::Accumulate => lanes.for_each(|(d, (y, dy))| *d += r * (*dy - along * *y)),
            }
        }
    }
}
