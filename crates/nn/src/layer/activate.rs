//! A function of each value, as a layer of its own.
//!
//! ```text
//! forward   y  = f(x)
//! backward  dx = f'(x) dy
//!           da = Σ x dy over examples with x ≤ 0                    for learnt slopes a (columns)
//!
//!           f(x)                                f'(x)
//! ReLU      max(0, x)                           1 if y > 0, else 0
//! sigmoid   σ(x) = 1 / (1 + e⁻ˣ)                y (1 - y)
//! tanh      tanh x                              1 - y²
//! GELU      x / 2 (1 + t)                       (1 + t) / 2 + x / 2 (1 - t²) √(2 / π) (1 + 3 c x²)
//!           where t = tanh(√(2 / π) (x + c x³)),  c = 0.044715
//! SiLU      x σ(x)                              s + x s (1 - s)   where s = σ(x)
//! PReLU     x if x > 0, else a x                1 if x > 0, else a;   a starts at 1/4
//! ```
//!
//! Functions with exponentials are computed in f64 and rounded once; so are their derivatives, from
//! the values that the layer reads: the output of sigmoid and tanh, the input of GELU and SiLU.
//! Exponentials are those of `exponential`. Sums over examples run in example order.

use pulp::{Arch, Simd, WithSimd};

use super::linear::{pass_through, relu};
use super::{Backward, Flops, Forward, Function, GradientOut, Layer, Operation, Reads};
use crate::exponential;
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};
use crate::parameter::{Initial, ParameterShape};

/// √(2 / π).
const SCALE: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
/// Share of the cube in the argument of GELU's tangent.
const CUBE: f64 = 0.044_715;

/// Applies a function to each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activate {
    /// Function of each value.
    pub function: Function,
    /// Columns of the input and the output.
    pub columns: usize,
}

impl Activate {
    /// Operations per value, of the function and of its gradient. An exponential or a tangent
    /// counts as one.
    fn work(&self) -> [u64; 2] {
        match self.function {
            Function::Relu => [1, 1],
            Function::Sigmoid => [3, 3],
            Function::Tanh => [1, 3],
            Function::Gelu => [8, 16],
            Function::Silu => [4, 8],
            Function::Prelu => [1, 1],
        }
    }
}

impl<T: Scalar> Layer<T> for Activate {
    fn operation(&self) -> Operation {
        let Self { function, columns } = *self;
        Operation::Activate { function, columns }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        if self.columns == 0 {
            return Err("an activation has at least one column".to_owned());
        }
        if inputs != [self.columns] {
            return Err(format!("it takes one input of {} columns, not {inputs:?}", self.columns));
        }
        Ok(self.columns)
    }

    fn parameters(&self) -> Vec<ParameterShape> {
        if self.function != Function::Prelu {
            return Vec::new();
        }
        let initial = Initial::Constant(0.25);
        vec![ParameterShape { name: "slope", shape: vec![self.columns], initial }]
    }

    fn reads(&self) -> Reads {
        let output = matches!(self.function, Function::Relu | Function::Sigmoid | Function::Tanh);
        Reads { inputs: !output, output }
    }

    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let [forward, backward] = self.work();
        let slopes = if self.function == Function::Prelu { 2 * self.columns as u64 } else { 0 };
        Flops {
            forward: forward * self.columns as u64,
            backward: backward * wanted[0] as u64 + slopes,
        }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let (function, slopes) = (self.function, pass.parameters);
        let (input, output) = (pass.inputs.get(0), pass.output);
        Arch::new().dispatch(Apply { function, input, slopes, output });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let (function, slopes) = (self.function, pass.parameters);
        let values = if Layer::<T>::reads(self).output { pass.output } else { pass.inputs.get(0) };
        let d_output = pass.d_output.as_ref();
        if function == Function::Prelu {
            Arch::new().dispatch(ToSlopes { input: values, d_output, d_slopes: pass.gradients });
        }
        if let Some(out) = pass.d_inputs.get(0) {
            Arch::new().dispatch(ToInput { function, values, slopes, d_output, out });
        }
    }
}

/// GELU's tangent.
#[inline(always)]
fn gelu_tangent(x: f64) -> f64 {
    exponential::tanh(SCALE * (x + CUBE * (x * x * x)))
}

/// A function in f64.
#[inline(always)]
fn rounded<T: Scalar>(value: T, of: impl Fn(f64) -> f64) -> T {
    T::from_f64(of(value.to_f64()))
}

/// Logistic function.
#[inline(always)]
pub(super) fn sigmoid<T: Scalar>(x: T) -> T {
    rounded(x, exponential::sigmoid)
}

/// Hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh<T: Scalar>(x: T) -> T {
    rounded(x, exponential::tanh)
}

#[inline(always)]
fn gelu<T: Scalar>(x: T) -> T {
    rounded(x, |x| 0.5 * x * (1.0 + gelu_tangent(x)))
}

#[inline(always)]
fn silu<T: Scalar>(x: T) -> T {
    rounded(x, |x| x * exponential::sigmoid(x))
}

#[inline(always)]
fn prelu<T: Scalar>(x: T, slope: T) -> T {
    if x > T::ZERO { x } else { slope * x }
}

/// Derivative of the sigmoid at output `y`.
#[inline(always)]
fn sigmoid_slope<T: Scalar>(y: T) -> T {
    rounded(y, |y| y * (1.0 - y))
}

/// Derivative of the tangent at output `y`.
#[inline(always)]
fn tanh_slope<T: Scalar>(y: T) -> T {
    rounded(y, |y| 1.0 - y * y)
}

/// Derivative of GELU at input `x`.
#[inline(always)]
fn gelu_slope<T: Scalar>(x: T) -> T {
    rounded(x, |x| {
        let t = gelu_tangent(x);
        let of_tangent = (1.0 - t * t) * (SCALE * (1.0 + 3.0 * CUBE * (x * x)));
        0.5 * (1.0 + t) + 0.5 * x * of_tangent
    })
}

/// Derivative of SiLU at input `x`.
#[inline(always)]
fn silu_slope<T: Scalar>(x: T) -> T {
    rounded(x, |x| {
        let s = exponential::sigmoid(x);
        s + x * (s * (1.0 - s))
    })
}

struct Apply<'a, T> {
    function: Function,
    input: Matrix<'a, T>,     // (rows, columns)
    slopes: &'a [T],          // (columns) or empty
    output: MatrixMut<'a, T>, // (rows, columns)
}

impl<T: Scalar> WithSimd for Apply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.output.rows() {
            let lanes = self.output.row(row).iter_mut().zip(self.input.row(row));
            match self.function {
                Function::Relu => lanes.for_each(|(y, x)| *y = relu(*x)),
                Function::Sigmoid => lanes.for_each(|(y, x)| *y = sigmoid(*x)),
                Function::Tanh => lanes.for_each(|(y, x)| *y = tanh(*x)),
                Function::Gelu => lanes.for_each(|(y, x)| *y = gelu(*x)),
                Function::Silu => lanes.for_each(|(y, x)| *y = silu(*x)),
                Function::Prelu => {
                    lanes.zip(self.slopes).for_each(|((y, x), a)| *y = prelu(*x, *a));
                }
            }
        }
    }
}

/// `dx = f'(x) dy`, for the columns that need it.
struct ToInput<'a, T> {
    function: Function,
    values: Matrix<'a, T>, // output or input, as the function reads // (rows, columns)
    slopes: &'a [T],       // (columns) or empty
    d_output: Matrix<'a, T>, // (rows, columns)
    out: GradientOut<'a, T>, // (rows, at most columns)
}

impl<T: Scalar> ToInput<'_, T> {
    /// Writes `of(dy, value)` to every lane.
    #[inline(always)]
    fn each(&mut self, row: usize, of: impl Fn(T, T) -> T) {
        let terms = self.d_output.row(row).iter().zip(self.values.row(row));
        let lanes = self.out.gradient.row(row).iter_mut().zip(terms);
        match self.out.write {
            Write::Overwrite => lanes.for_each(|(d, (dy, value))| *d = of(*dy, *value)),
            Write::Accumulate => lanes.for_each(|(d, (dy, value))| *d += of(*dy, *value)),
        }
    }

    /// Writes `of(dy, x, slope)` to every lane.
    #[inline(always)]
    fn each_with_slope(&mut self, row: usize, of: impl Fn(T, T, T) -> T) {
        let terms = self.d_output.row(row).iter().zip(self.values.row(row)).zip(self.slopes);
        let lanes = self.out.gradient.row(row).iter_mut().zip(terms);
        match self.out.write {
            Write::Overwrite => lanes.for_each(|(d, ((dy, x), a))| *d = of(*dy, *x, *a)),
            Write::Accumulate => lanes.for_each(|(d, ((dy, x), a))| *d += of(*dy, *x, *a)),
        }
    }
}

impl<T: Scalar> WithSimd for ToInput<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.d_output.rows() {
            match self.function {
                Function::Relu => self.each(row, pass_through),
                Function::Sigmoid => self.each(row, |dy, y| dy * sigmoid_slope(y)),
                Function::Tanh => self.each(row, |dy, y| dy * tanh_slope(y)),
                Function::Gelu => self.each(row, |dy, x| dy * gelu_slope(x)),
                Function::Silu => self.each(row, |dy, x| dy * silu_slope(x)),
                Function::Prelu => {
                    self.each_with_slope(row, |dy, x, a| if x > T::ZERO { dy } else { a * dy });
                }
            }
        }
    }
}

/// `da = Σ x dy` over examples with `x ≤ 0`.
struct ToSlopes<'a, T> {
    input: Matrix<'a, T>,    // (rows, columns)
    d_output: Matrix<'a, T>, // (rows, columns)
    d_slopes: &'a mut [T],   // (columns)
}

impl<T: Scalar> WithSimd for ToSlopes<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.d_slopes.fill(T::ZERO);
        for row in 0..self.d_output.rows() {
            let terms = self.input.row(row).iter().zip(self.d_output.row(row));
            let sums = self.d_slopes.iter_mut().zip(terms);
            sums.for_each(|(sum, (x, dy))| *sum += if *x > T::ZERO { T::ZERO } else { *x * *dy });
        }
    }
}
