//! Cross layer with a full matrix (DCN-V2; Wang et al., WWW 2021).
//!
//! ```text
//! inputs  x₀, x                                     // (rows, columns) each
//! weight  (columns, columns), bias (columns)
//!
//! output  y  = x₀ ∘ (W x + b) + x
//! kept    p  = W x
//!
//! backward  dx₀ = dy ∘ (p + b)
//!           dx  = dy + Wᵀ dp     where dp = dy ∘ x₀
//!           dW  = Σ dp xᵀ,       db = Σ dp
//! ```
//!
//! In the forward pass, bias, product and sum are one pass over memory after the matrix product.
//! The product is kept: for `n` columns, that takes `n` lanes per example, while recomputing it
//! would make the backward pass half as long again (`2 n²` operations in addition to `4 n²`). The
//! bias isn't included, as that would write the product twice; adding it again is cheaper. In the
//! backward pass, `dp` overwrites `dy` while `dy` is passed on, so it needs no extra memory.

use pulp::{Arch, Simd, WithSimd};

use super::{Backward, Flops, Forward, GradientOut, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::gemm::{plain, transposed};
use crate::matrix::{Matrix, MatrixMut, Write};
use crate::parameter::{Initial, ParameterShape};

/// A cross layer over `x₀`, its first input, and `x`, its second, which may also be `x₀`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cross {
    /// Columns of each input and of the output.
    pub columns: usize,
}

impl Cross {
    fn weight_lanes(&self) -> usize {
        self.columns * self.columns
    }
}

impl<T: Scalar> Layer<T> for Cross {
    fn operation(&self) -> Operation {
        Operation::Cross { columns: self.columns }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let columns = self.columns;
        if columns == 0 {
            return Err("a cross layer has at least one column".to_owned());
        }
        if inputs == [columns, columns] {
            Ok(columns)
        } else {
            Err(format!("it takes two inputs of {columns} columns, not {inputs:?}"))
        }
    }

    fn parameters(&self) -> Vec<ParameterShape> {
        let initial = Initial::uniform_over(self.columns);
        let weight = vec![self.columns, self.columns];
        vec![
            ParameterShape { name: "weight", shape: weight, initial },
            ParameterShape { name: "bias", shape: vec![self.columns], initial },
        ]
    }

    fn weight(&self) -> Option<[usize; 2]> {
        Some([self.columns; 2])
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn kept_columns(&self) -> usize {
        self.columns
    }

    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let product = |columns: usize| 2 * (columns * self.columns) as u64;
        let elementwise = (2 * self.columns + 2 * wanted[0] + wanted[1]) as u64;
        Flops {
            forward: product(self.columns) + 3 * self.columns as u64,
            backward: product(self.columns) + product(wanted[1]) + elementwise,
        }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        let (weight, bias) = pass.parameters.split_at(self.weight_lanes());
        let weight = Matrix::packed(weight, self.columns, self.columns);
        let (base, input) = (pass.inputs.get(0), pass.inputs.get(1));
        let weight = transposed(weight).with_packed(pass.packed_weight);
        pass.gemm.multiply(pass.kept.reborrow(), Write::Overwrite, plain(input), weight);
        let product = pass.kept.as_ref();
        Arch::new().dispatch(Combine { base, product, bias, input, output: pass.output });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let (weight, bias) = pass.parameters.split_at(self.weight_lanes());
        let (d_weight, d_bias) = pass.gradients.split_at_mut(self.weight_lanes());
        let (base, input) = (pass.inputs.get(0), pass.inputs.get(1));
        if let Some(out) = pass.d_inputs.get(0) {
            let d_output = pass.d_output.as_ref();
            Arch::new().dispatch(ToBase { product: pass.kept, bias, d_output, out });
        }
        let mut to_input = pass.d_inputs.get(1);
        let gradient = pass.d_output.reborrow();
        Arch::new().dispatch(ToProduct { base, gradient, d_bias, to_input: to_input.as_mut() });
        let d_product = pass.d_output.as_ref();
        let d_weight = MatrixMut::packed(d_weight, self.columns, self.columns);
        pass.gemm.multiply(d_weight, Write::Overwrite, transposed(d_product), plain(input));
        if let Some(out) = to_input {
            let weight = Matrix::packed(weight, self.columns, self.columns);
            let wanted = plain(weight.select(0..out.gradient.columns()));
            let wanted = wanted.with_packed(pass.packed_weight);
            pass.gemm.multiply(out.gradient, Write::Accumulate, plain(d_product), wanted);
        }
    }
}

/// `y = x₀ ∘ (p + b) + x`.
struct Combine<'a, T> {
    base: Matrix<'a, T>,      // (rows, columns)
    product: Matrix<'a, T>,   // (rows, columns)
    bias: &'a [T],            // (columns)
    input: Matrix<'a, T>,     // (rows, columns)
    output: MatrixMut<'a, T>, // (rows, columns)
}

impl<T: Scalar> WithSimd for Combine<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.output.rows() {
            let sums = self.product.row(row).iter().zip(self.bias);
            let inputs = self.base.row(row).iter().zip(self.input.row(row));
            let output = self.output.row(row).iter_mut();
            output.zip(inputs).zip(sums).for_each(|((y, (x0, x)), (p, b))| {
                *y = *x0 * (*p + *b) + *x;
            });
        }
    }
}

/// `dx₀ = dy ∘ (p + b)`, for the columns that need it.
struct ToBase<'a, T> {
    product: Matrix<'a, T>,  // (rows, columns)
    bias: &'a [T],           // (columns)
    d_output: Matrix<'a, T>, // (rows, columns)
    out: GradientOut<'a, T>, // (rows, at most columns)
}

impl<T: Scalar> WithSimd for ToBase<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.d_output.rows() {
            let sums = self.product.row(row).iter().zip(self.bias);
            let terms = self.d_output.row(row).iter().zip(sums);
            let out = self.out.gradient.row(row).iter_mut().zip(terms);
            match self.out.write {
                Write::Overwrite => out.for_each(|(d, (dy, (p, b)))| *d = *dy * (*p + *b)),
                Write::Accumulate => out.for_each(|(d, (dy, (p, b)))| *d += *dy * (*p + *b)),
            }
        }
    }
}

/// Passes `dy` on to the input if needed, replaces it with `dp`, and sums that over the rows.
struct ToProduct<'a, 'b, T> {
    base: Matrix<'a, T>,                          // (rows, columns)
    gradient: MatrixMut<'a, T>,                   // (rows, columns)
    d_bias: &'a mut [T],                          // (columns)
    to_input: Option<&'a mut GradientOut<'b, T>>, // (rows, at most columns)
}

impl<T: Scalar> WithSimd for ToProduct<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        self.d_bias.fill(T::ZERO);
        for row in 0..self.gradient.rows() {
            let gradient = self.gradient.row(row);
            if let Some(out) = &mut self.to_input {
                let places = out.gradient.row(row).iter_mut().zip(&*gradient);
                match out.write {
                    Write::Overwrite => places.for_each(|(d, dy)| *d = *dy),
                    Write::Accumulate => places.for_each(|(d, dy)| *d += *dy),
                }
            }
            let sums = self.d_bias.iter_mut().zip(self.base.row(row));
            gradient.iter_mut().zip(sums).for_each(|(d, (sum, x0))| {
                *d *= *x0;
                *sum += *d;
            });
        }
    }
}
