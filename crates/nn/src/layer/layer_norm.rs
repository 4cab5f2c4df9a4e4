//! Layer normalization (Ba et al. 2016) of groups of consecutive columns.
//!
//! ```text
//! input   [ group 0: columns ][ group 1: columns ] ...              // (rows, groups * columns)
//! weight  w, starts at 1; bias b, starts at 0                       // (groups * columns) each
//!
//! output  y = w ∘ z + b        where z = (x - μ) r,  r = 1 / √(σ² + ε),  ε = 1e-5
//! kept    [ μ | r ] of each group                                   // (rows, 2 * groups)
//!
//! backward  dx = r (g - mean g - z mean(g ∘ z))      where g = dy ∘ w
//!           dw = Σ dy ∘ z,  db = Σ dy
//! ```
//!
//! The mean μ and the variance σ² are those of an example's group: σ² is the mean of (x - μ)².
//! Training and evaluation are the same, and no example affects another. Means within a group are
//! sums in the order of `lane_sums`, divided by the number of columns.

use pulp::{Arch, Simd, WithSimd};

use super::lane_sums::{sum, sum_of};
use super::{Backward, Flops, Forward, GradientOut, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};
use crate::parameter::{Initial, ParameterShape};

/// Added to variances.
const EPSILON: f64 = 1e-5;

/// Normalizes each group of an example, then scales and shifts each column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerNorm {
    /// Number of groups.
    pub groups: usize,
    /// Columns of each group.
    pub columns: usize,
}

impl LayerNorm {
    /// Columns of all groups.
    fn lanes(&self) -> usize {
        self.groups * self.columns
    }
}

impl<T: Scalar> Layer<T> for LayerNorm {
    fn operation(&self) -> Operation {
        let Self { groups, columns } = *self;
        Operation::LayerNorm { groups, columns }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let Self { groups, columns } = *self;
        if groups == 0 || columns == 0 {
            return Err("a layer normalization has at least one group and column".to_owned());
        }
        if inputs == [self.lanes()] {
            Ok(self.lanes())
        } else {
            Err(format!("it takes one input of {groups} x {columns} columns, not {inputs:?}"))
        }
    }

    fn parameters(&self) -> Vec<ParameterShape> {
        let of = |name, value| {
            let initial = Initial::Constant(value);
            ParameterShape { name, shape: vec![self.groups, self.columns], initial }
        };
        vec![of("weight", 1.0), of("bias", 0.0)]
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn kept_columns(&self) -> usize {
        2 * self.groups
    }

    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let (lanes, wanted) = (self.lanes() as u64, wanted[0] as u64);
        let to_input = if wanted == 0 { 0 } else { 5 * lanes + 7 * wanted };
        Flops { forward: 8 * lanes, backward: 5 * lanes + to_input }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let (weight, bias) = pass.parameters.split_at(self.lanes());
        let (input, moments, output) = (pass.inputs.get(0), pass.kept, pass.output);
        let columns = self.columns;
        Arch::new().dispatch(Normalize { columns, input, weight, bias, moments, output });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let (columns, weight) = (self.columns, &pass.parameters[..self.lanes()]);
        let (input, moments) = (pass.inputs.get(0), pass.kept);
        let (d_weight, d_bias) = pass.gradients.split_at_mut(self.lanes());
        let d_output = pass.d_output.as_ref();
        Arch::new().dispatch(ToParameters { columns, input, moments, d_output, d_weight, d_bias });
        if let Some(out) = pass.d_inputs.get(0) {
            let gradient = pass.d_output.reborrow();
            Arch::new().dispatch(ToInput { columns, input, moments, weight, gradient, out });
        }
    }
}

/// Number of columns of a group, as a divisor.
#[inline(always)]
fn count<T: Scalar>(columns: usize) -> T {
    T::from_f64(columns as f64)
}

/// Computes the moments of each group, and the output.
struct Normalize<'a, T> {
    columns: usize,            // per group
    input: Matrix<'a, T>,      // (rows, groups * columns)
    weight: &'a [T],           // (groups * columns)
    bias: &'a [T],             // (groups * columns)
    moments: MatrixMut<'a, T>, // (rows, 2 * groups)
    output: MatrixMut<'a, T>,  // (rows, groups * columns)
}

impl<T: Scalar> WithSimd for Normalize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let columns = self.columns;
        let count = count::<T>(columns);
        for row in 0..self.input.rows() {
            let groups = self.input.row(row).chunks_exact(columns);
            let weights = self.weight.chunks_exact(columns).zip(self.bias.chunks_exact(columns));
            let moments = self.moments.row(row).chunks_exact_mut(2);
            let output = self.output.row(row).chunks_exact_mut(columns).zip(moments);
            for (((output, moments), x), (weight, bias)) in output.zip(groups).zip(weights) {
                let mean = sum(x) / count;
                let variance = sum_of(x, x, |x, _| (x - mean) * (x - mean)) / count;
                let inverse = T::from_f64(1.0 / (variance.to_f64() + EPSILON).sqrt());
                moments.copy_from_slice(&[mean, inverse]);
                let lanes = output.iter_mut().zip(x).zip(weight.iter().zip(bias));
                lanes.for_each(|((y, x), (w, b))| *y = *w * ((*x - mean) * inverse) + *b);
            }
        }
    }
}

/// `dw = Σ dy ∘ z` and `db = Σ dy`.
struct ToParameters<'a, T> {
    columns: usize,          // per group
    input: Matrix<'a, T>,    // (rows, groups * columns)
    moments: Matrix<'a, T>,  // (rows, 2 * groups)
    d_output: Matrix<'a, T>, // (rows, groups * columns)
    d_weight: &'a mut [T],   // (groups * columns)
    d_bias: &'a mut [T],     // (groups * columns)
}

impl<T: Scalar> WithSimd for ToParameters<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let columns = self.columns;
        self.d_weight.fill(T::ZERO);
        self.d_bias.fill(T::ZERO);
        for row in 0..self.input.rows() {
            let d_output = self.d_output.row(row);
            self.d_bias.iter_mut().zip(d_output).for_each(|(sum, dy)| *sum += *dy);
            let groups = self.input.row(row).chunks_exact(columns);
            let groups = groups.zip(d_output.chunks_exact(columns));
            let sums = self.d_weight.chunks_exact_mut(columns);
            let sums = sums.zip(self.moments.row(row).chunks_exact(2));
            for ((sums, moments), (x, dy)) in sums.zip(groups) {
                let (mean, inverse) = (moments[0], moments[1]);
                let lanes = sums.iter_mut().zip(x.iter().zip(dy));
                lanes.for_each(|(sum, (x, dy))| *sum += *dy * ((*x - mean) * inverse));
            }
        }
    }
}

/// Turns `dy` into `g`, and computes `dx = r (g - mean g - z mean(g ∘ z))` for the columns that
/// need it.
struct ToInput<'a, T> {
    columns: usize,             // per group
    input: Matrix<'a, T>,       // (rows, groups * columns)
    moments: Matrix<'a, T>,     // (rows, 2 * groups)
    weight: &'a [T],            // (groups * columns)
    gradient: MatrixMut<'a, T>, // (rows, groups * columns)
    out: GradientOut<'a, T>,    // (rows, at most groups * columns)
}

impl<T: Scalar> WithSimd for ToInput<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let columns = self.columns;
        let count = count::<T>(columns);
        for row in 0..self.input.rows() {
            let gradient = self.gradient.row(row);
            gradient.iter_mut().zip(self.weight).for_each(|(d, w)| *d *= *w);
            let groups = self.input.row(row).chunks_exact(columns);
            let groups = groups.zip(gradient.chunks_exact(columns));
            let out = self.out.gradient.row(row).chunks_mut(columns);
            let out = out.zip(self.moments.row(row).chunks_exact(2));
            for ((out, moments), (x, g)) in out.zip(groups) {
                let (mean, inverse) = (moments[0], moments[1]);
                let offset = sum(g) / count;
                let slope = sum_of(x, g, |x, g| g * (x - mean)) * inverse / count;
                let of = |x: T, g: T| inverse * (g - offset - (x - mean) * inverse * slope);
                let terms = out.iter_mut().zip(x.iter().zip(g));
                match self.out.write {
                    Write::Overwrite => terms.for_each(|(d, (x, g))| *d = of(*x, *g)),
                    Write::Accumulate => terms.for_each(|(d, (x, g))| *d += of(*x, *g)),
                }
            }
        }
    }
}
