//! Dice: a PReLU whose smooth step follows the distribution of the values (Zhou et al., "Deep
//! Interest Network", KDD 2018).
//!
//! ```text
//! slope a (columns)                                              initially 0
//! state   mean, variance (columns)                               as of `BatchNorm`
//!
//! forward   y = p x + (1 - p) a x,  p = σ(x̂),  x̂ = (x - μ) / √(v + ε)
//! kept      p                                                    // (rows, columns)
//! backward  da = Σ dy x (1 - p),  g = dy x (1 - a) p (1 - p)
//!           dx = dy (a + (1 - a) p) + (g - Σ g / n - x̂ Σ g x̂ / n) / √(v + ε)
//! ```
//!
//! Mean μ and variance v are the same as in [`BatchNorm`]: training takes them from the block's n
//! rows, evaluation from the state.

use pulp::{Arch, Simd, WithSimd};

use super::activate::sigmoid;
use super::batch_norm::Found;
use super::{Backward, BatchNorm, Flops, Forward, GradientOut, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};
use crate::parameter::{Initial, ParameterShape};

/// Applies Dice to each column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dice {
    /// Normalization from which p is computed.
    norm: BatchNorm,
}

impl Dice {
    /// Dice over `columns` columns, with an epsilon of 1e-8 and a momentum of 0.1.
    pub fn new(columns: usize) -> Self {
        Self { norm: BatchNorm { epsilon: 1e-8, ..BatchNorm::new(columns, 1) } }
    }

    fn columns(&self) -> usize {
        self.norm.channels
    }
}

impl<T: Scalar> Layer<T> for Dice {
    fn operation(&self) -> Operation {
        let BatchNorm { epsilon, momentum, .. } = self.norm;
        Operation::Dice { columns: self.columns(), epsilon, momentum }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        Layer::<T>::output_columns(&self.norm, inputs)
    }

    fn parameters(&self) -> Vec<ParameterShape> {
        let initial = Initial::Constant(0.0);
        vec![ParameterShape { name: "slope", shape: vec![self.columns()], initial }]
    }

    fn state(&self) -> Vec<ParameterShape> {
        Layer::<T>::state(&self.norm)
    }

    fn statistics_lanes(&self) -> usize {
        Layer::<T>::statistics_lanes(&self.norm)
    }

    fn advance(&self, state: &mut [T], statistics: &[T]) {
        self.norm.advance(state, statistics);
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn kept_columns(&self) -> usize {
        self.columns()
    }

    fn scratch_lanes(&self, rows: usize) -> usize {
        Layer::<T>::scratch_lanes(&self.norm, rows) + 2 * self.columns()
    }

    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let (columns, wanted) = (self.columns() as u64, wanted[0] as u64);
        Flops { forward: 13 * columns, backward: 19 * columns + 9 * wanted }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let (input, slopes) = (pass.inputs.get(0), pass.parameters);
        let mut found = Found::new(self.norm, pass.scratch);
        found.of_purpose(input, pass.purpose);
        let Found { mean, inverse, .. } = found;
        let (output, kept) = (pass.output, pass.kept);
        Arch::new().dispatch(Apply { input, mean, inverse, slopes, kept, output });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let (input, slopes) = (pass.inputs.get(0), pass.parameters);
        let lanes = Layer::<T>::scratch_lanes(&self.norm, 0);
        let (of_norm, rest) = pass.scratch.split_at_mut(lanes);
        let mut found = Found::new(self.norm, of_norm);
        found.of_block(input);
        let Found { mean, inverse, .. } = found;
        let (d_output, kept) = (pass.d_output.as_ref(), pass.kept);
        let terms = Terms { input, d_output, kept, mean, inverse, slopes };
        let (sums, squares) = rest[..2 * self.columns()].split_at_mut(self.columns());
        Arch::new().dispatch(Sums { terms, d_slopes: pass.gradients, sums, squares });
        if let Some(out) = pass.d_inputs.get(0) {
            Arch::new().dispatch(ToInput { terms, sums, squares, out });
        }
    }
}

struct Apply<'a, T> {
    input: Matrix<'a, T>,     // (rows, columns)
    mean: &'a [T],            // (columns)
    inverse: &'a [T],         // (columns)
    slopes: &'a [T],          // (columns)
    kept: MatrixMut<'a, T>,   // (rows, columns)
    output: MatrixMut<'a, T>, // (rows, columns)
}

impl<T: Scalar> WithSimd for Apply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.input.rows() {
            let x = self.input.row(row);
            let columns = self.mean.iter().zip(self.inverse).zip(x);
            let steps = self.kept.row(row).iter_mut().zip(columns);
            steps.for_each(|(p, ((mean, inverse), x))| *p = sigmoid((*x - *mean) * *inverse));
            let terms = x.iter().zip(self.slopes).zip(self.kept.row(row));
            let outputs = self.output.row(row).iter_mut().zip(terms);
            outputs.for_each(|(y, ((x, a), p))| *y = *x * factor(*a, *p));
        }
    }
}

/// Factor of a value: a + (1 - a) p.
#[inline(always)]
fn factor<T: Scalar>(slope: T, p: T) -> T {
    slope + (T::ONE - slope) * p
}

/// Inputs of the backward pass.
#[derive(Clone, Copy)]
struct Terms<'a, T> {
    input: Matrix<'a, T>,    // (rows, columns)
    d_output: Matrix<'a, T>, // (rows, columns)
    kept: Matrix<'a, T>,     // (rows, columns)
    mean: &'a [T],           // (columns)
    inverse: &'a [T],        // (columns)
    slopes: &'a [T],         // (columns)
}

/// Terms of a single value's gradient.
struct Value<T> {
    x: T,
    dy: T,
    p: T,
    /// Normalized value.
    normal: T,
    /// Gradient of the normalized value.
    d_normal: T,
}

impl<T: Scalar> Terms<'_, T> {
    #[inline(always)]
    fn row(&self, row: usize) -> impl Iterator<Item = Value<T>> {
        let values = self.input.row(row).iter().zip(self.d_output.row(row));
        let columns = self.mean.iter().zip(self.inverse).zip(self.slopes);
        let all = values.zip(self.kept.row(row)).zip(columns);
        all.map(|(((x, dy), p), ((mean, inverse), a))| {
            let (x, dy, p) = (*x, *dy, *p);
            let d_normal = dy * x * (T::ONE - *a) * (p * (T::ONE - p));
            Value { x, dy, p, normal: (x - *mean) * *inverse, d_normal }
        })
    }
}

/// Computes the gradient of the slopes, Σ g and Σ g x̂.
struct Sums<'a, T> {
    terms: Terms<'a, T>,
    d_slopes: &'a mut [T], // (columns)
    sums: &'a mut [T],     // (columns)
    squares: &'a mut [T],  // (columns)
}

impl<T: Scalar> WithSimd for Sums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { terms, d_slopes, sums, squares } = self;
        [&mut *d_slopes, &mut *sums, &mut *squares].into_iter().for_each(|of| of.fill(T::ZERO));
        for row in 0..terms.input.rows() {
            let columns = d_slopes.iter_mut().zip(&mut *sums).zip(&mut *squares);
            for (((d_slope, sum), square), of) in columns.zip(terms.row(row)) {
                *d_slope += of.dy * of.x * (T::ONE - of.p);
                *sum += of.d_normal;
                *square += of.d_normal * of.normal;
            }
        }
    }
}

/// Computes the gradient of the input columns that need one.
struct ToInput<'a, T> {
    terms: Terms<'a, T>,
    sums: &'a [T],           // (columns)
    squares: &'a [T],        // (columns)
    out: GradientOut<'a, T>, // (rows, at most columns)
}

impl<T: Scalar> WithSimd for ToInput<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let terms = self.terms;
        let count = T::from_f64(terms.input.rows() as f64);
        for row in 0..terms.input.rows() {
            let columns = self.sums.iter().zip(self.squares).zip(terms.inverse).zip(terms.slopes);
            let all = terms.row(row).zip(columns).map(|(of, (((sum, square), inverse), a))| {
                let centered = of.d_normal - *sum / count - of.normal * (*square / count);
                of.dy * factor(*a, of.p) + *inverse * centered
            });
            let lanes = self.out.gradient.row(row).iter_mut().zip(all);
            match self.out.write {
                Write::Overwrite => lanes.for_each(|(d, value)| *d = value),
                Write::Accumulate => lanes.for_each(|(d, value)| *d += value),
            }
        }
    }
}
