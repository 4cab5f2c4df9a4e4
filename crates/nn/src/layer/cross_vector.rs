//! Cross layer with a vector (DCN; Wang et al., ADKDD 2017).
//!
//! ```text
//! inputs  x₀, x                                     // (rows, columns) each
//! weight  w (columns), bias b (columns)
//!
//! output  y = x₀ s + b + x        where s = x·w
//! kept    s                                         // (rows, 1)
//!
//! backward  dx₀ = dy s
//!           dx  = dy + w ds       where ds = dy·x₀
//!           dw  = Σ x ds,         db = Σ dy
//! ```
//!
//! Unlike in [`Cross`](super::Cross), all columns of an example share one factor, so the layer is a
//! few passes over memory, and its products are never rounded to bf16. Dot products run over the
//! lanes in the order of `lane_sums`.

use pulp::{Arch, Simd, WithSimd};

use super::lane_sums::dot;
use super::{Backward, Flops, Forward, GradientOut, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};
use crate::parameter::{Initial, ParameterShape};

/// A cross layer over `x₀`, its first input, and `x`, its second, which may also be `x₀`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossVector {
    /// Columns of each input and of the output.
    pub columns: usize,
}

impl<T: Scalar> Layer<T> for CrossVector {
    fn operation(&self) -> Operation {
        Operation::CrossVector { columns: self.columns }
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
        let of = |name| ParameterShape { name, shape: vec![self.columns], initial };
        vec![of("weight"), of("bias")]
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn kept_columns(&self) -> usize {
        1
    }

    fn scratch_lanes(&self, rows: usize) -> usize {
        rows
    }

    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let columns = self.columns as u64;
        let to_inputs = (wanted[0] + 2 * wanted[1]) as u64;
        Flops { forward: 5 * columns, backward: 5 * columns + to_inputs }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let (weight, bias) = pass.parameters.split_at(self.columns);
        let (base, input) = (pass.inputs.get(0), pass.inputs.get(1));
        let (dots, output) = (pass.kept, pass.output);
        Arch::new().dispatch(Combine { base, input, weight, bias, dots, output });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let weight = &pass.parameters[..self.columns];
        let (base, input) = (pass.inputs.get(0), pass.inputs.get(1));
        let (d_weight, d_bias) = pass.gradients.split_at_mut(self.columns);
        let (d_output, d_dots) = (pass.d_output.as_ref(), pass.scratch);
        let d_dots = &mut d_dots[..d_output.rows()];
        let to_parameters =
            ToParameters { base, input, d_output, d_dots: &mut *d_dots, d_weight, d_bias };
        Arch::new().dispatch(to_parameters);
        if let Some(out) = pass.d_inputs.get(0) {
            Arch::new().dispatch(ToBase { dots: pass.kept, d_output, out });
        }
        if let Some(out) = pass.d_inputs.get(1) {
            Arch::new().dispatch(ToInput { weight, d_dots, d_output, out });
        }
    }
}

/// `s = x·w` and `y = x₀ s + b + x`.
struct Combine<'a, T> {
    base: Matrix<'a, T>,      // (rows, columns)
    input: Matrix<'a, T>,     // (rows, columns)
    weight: &'a [T],          // (columns)
    bias: &'a [T],            // (columns)
    dots: MatrixMut<'a, T>,   // (rows, 1)
    output: MatrixMut<'a, T>, // (rows, columns)
}

impl<T: Scalar> WithSimd for Combine<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.output.rows() {
            let input = self.input.row(row);
            let s = dot(input, self.weight);
            self.dots.row(row)[0] = s;
            let terms = self.base.row(row).iter().zip(input.iter().zip(self.bias));
            let output = self.output.row(row).iter_mut();
            output.zip(terms).for_each(|(y, (x0, (x, b)))| *y = *x0 * s + *b + *x);
        }
    }
}

/// `ds = dy·x₀`, `dw = Σ x ds` and `db = Σ dy`.
struct ToParameters<'a, T> {
    base: Matrix<'a, T>,     // (rows, columns)
    input: Matrix<'a, T>,    // (rows, columns)
    d_output: Matrix<'a, T>, // (rows, columns)
    d_dots: &'a mut [T],     // (rows)
    d_weight: &'a mut [T],   // (columns)
    d_bias: &'a mut [T],     // (columns)
}

impl<T: Scalar> WithSimd for ToParameters<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.d_weight.fill(T::ZERO);
        self.d_bias.fill(T::ZERO);
        for (row, d_dot) in self.d_dots.iter_mut().enumerate() {
            let d_output = self.d_output.row(row);
            let ds = dot(d_output, self.base.row(row));
            *d_dot = ds;
            let lanes = self.d_weight.iter_mut().zip(self.input.row(row));
            lanes.for_each(|(sum, x)| *sum += *x * ds);
            self.d_bias.iter_mut().zip(d_output).for_each(|(sum, dy)| *sum += *dy);
        }
    }
}

/// `dx₀ = dy s`, for the columns that need it.
struct ToBase<'a, T> {
    dots: Matrix<'a, T>,     // (rows, 1)
    d_output: Matrix<'a, T>, // (rows, columns)
    out: GradientOut<'a, T>, // (rows, at most columns)
}

impl<T: Scalar> WithSimd for ToBase<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.d_output.rows() {
            let s = self.dots.row(row)[0];
            let out = self.out.gradient.row(row).iter_mut().zip(self.d_output.row(row));
            match self.out.write {
                Write::Overwrite => out.for_each(|(d, dy)| *d = *dy * s),
                Write::Accumulate => out.for_each(|(d, dy)| *d += *dy * s),
            }
        }
    }
}

/// `dx = dy + w ds`, for the columns that need it.
struct ToInput<'a, T> {
    weight: &'a [T],         // (columns)
    d_dots: &'a [T],         // (rows)
    d_output: Matrix<'a, T>, // (rows, columns)
    out: GradientOut<'a, T>, // (rows, at most columns)
}

impl<T: Scalar> WithSimd for ToInput<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for (row, ds) in self.d_dots.iter().enumerate() {
            let terms = self.d_output.row(row).iter().zip(self.weight);
            let out = self.out.gradient.row(row).iter_mut().zip(terms);
            match self.out.write {
                Write::Overwrite => out.for_each(|(d, (dy, w))| *d = *dy + *w * *ds),
                Write::Accumulate => out.for_each(|(d, (dy, w))| *d += *dy + *w * *ds),
            }
        }
    }
}
