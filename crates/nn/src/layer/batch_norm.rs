//! Scales channels to mean 0 and variance 1 over a block (Ioffe and Szegedy, ICML 2015).
//!
//! ```text
//! input   [ channel 0: places ][ channel 1: places ] ...         // (rows, channels * places)
//! scale γ, shift β (channels)                                    initially 1 and 0
//! state   mean, variance (channels)                              initially 0 and 1
//!
//! training    μ = Σ x / n,  v = Σ (x - μ)² / n      over the n = rows * places values of a channel
//!             y = γ r (x - μ) + β,  r = 1 / √(v + ε)
//! evaluation  the same with μ and v of the state
//! backward    dβ = Σ dy,  dγ = Σ dy x̂,  x̂ = r (x - μ)
//!             dx = γ r (dy - dβ / n - x̂ dγ / n)
//! ```
//!
//! Here an example's values depend on the other examples of its block, which is a fixed part of a
//! mini-batch and the unit of summation. So the model depends on the number of blocks, but not on
//! threads and ranks. Small blocks have noisy statistics.
//!
//! The statistics of a block, which are added over blocks and then update the state, are
//!
//! ```text
//! statistics  [ n | n - 1 | Σ x | Σ (x - μ)² ]                   // 2 + 2 * channels
//! state       mean     += momentum (Σ x / n              - mean)
//!             variance += momentum (Σ (x - μ)² / (n - 1) - variance)
//! ```
//!
//! Deviations are relative to each block's own mean, as in training; over blocks, this gives the
//! pooled variance. If no block has two values of a channel, its variance is unchanged.
//!
//! Sums run over places in the order of `channels`, then over examples in order. The backward pass
//! recomputes mean and deviations from the input, with the same bits.

use pulp::{Arch, Simd, WithSimd};

use super::lane_sums::sum_of;
use super::{Backward, Flops, Forward, GradientOut, Layer, Operation, Purpose, Reads};
use crate::gemm::Scalar;
use crate::matrix::{Matrix, Write};
use crate::parameter::{Initial, ParameterShape};

/// Normalizes channels over a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    /// Number of channels (columns, or planes of an image); each has separate statistics.
    pub channels: usize,
    /// Values per channel: 1 for a column, or the size of a plane.
    pub places: usize,
    /// Added to variances.
    pub epsilon: f64,
    /// Weight of a step in the state, from 0 to 1.
    pub momentum: f64,
}

impl BatchNorm {
    /// A normalization with an epsilon of 1e-5 and a momentum of 0.1.
    pub fn new(channels: usize, places: usize) -> Self {
        Self { channels, places, epsilon: 1e-5, momentum: 0.1 }
    }

    fn columns(&self) -> usize {
        self.channels * self.places
    }

    /// 1 / √(variance + ε).
    fn inverse<T: Scalar>(&self, variance: T) -> T {
        T::from_f64(1.0 / (variance.to_f64() + self.epsilon).sqrt())
    }
}

impl<T: Scalar> Layer<T> for BatchNorm {
    fn operation(&self) -> Operation {
        let Self { channels, places, epsilon, momentum } = *self;
        Operation::BatchNorm { channels, places, epsilon, momentum }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let Self { channels, places, epsilon, momentum } = *self;
        if channels == 0 || places == 0 {
            return Err("a normalization has at least one channel and place".to_owned());
        }
        if !(epsilon.is_finite() && epsilon > 0.0) {
            return Err(format!("an epsilon of {epsilon}: give a number above 0"));
        }
        if !(0.0..=1.0).contains(&momentum) {
            return Err(format!("a momentum of {momentum}: give a number from 0 to 1"));
        }
        if inputs != [self.columns()] {
            return Err(format!(
                "it takes one input of {channels} x {places} columns, not {inputs:?}"
            ));
        }
        Ok(self.columns())
    }

    fn parameters(&self) -> Vec<ParameterShape> {
        vec![constant(self.channels, "scale", 1.0), constant(self.channels, "shift", 0.0)]
    }

    fn state(&self) -> Vec<ParameterShape> {
        vec![constant(self.channels, "mean", 0.0), constant(self.channels, "variance", 1.0)]
    }

    fn statistics_lanes(&self) -> usize {
        2 + 2 * self.channels
    }

    fn advance(&self, state: &mut [T], statistics: &[T]) {
        let (mean, variance) = state.split_at_mut(self.channels);
        let (counts, sums) = statistics.split_at(2);
        let (values, deviations) = sums.split_at(self.channels);
        let momentum = T::from_f64(self.momentum);
        for ((state, sums), count) in
            [(mean, values), (variance, deviations)].into_iter().zip(counts)
        {
            if *count > T::ZERO {
                let lanes = state.iter_mut().zip(sums);
                lanes.for_each(|(lane, sum)| *lane += momentum * (*sum / *count - *lane));
            }
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn scratch_lanes(&self, _rows: usize) -> usize {
        3 * self.channels
    }

    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let (columns, wanted) = (self.columns() as u64, wanted[0] as u64);
        Flops { forward: 7 * columns, backward: 9 * columns + 6 * wanted }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        let (input, channels) = (pass.inputs.get(0), self.channels);
        let (scale, shift) = pass.parameters.split_at(channels);
        let mut found = Found::new(*self, pass.scratch);
        found.of_purpose(input, pass.purpose);
        for row in 0..input.rows() {
            let planes = input.row(row).chunks_exact(self.places);
            let output = pass.output.row(row).chunks_exact_mut(self.places).zip(planes);
            for (channel, (output, plane)) in output.enumerate() {
                let (mean, factor) = (found.mean[channel], scale[channel] * found.inverse[channel]);
                let shift = shift[channel];
                let lanes = output.iter_mut().zip(plane);
                lanes.for_each(|(y, x)| *y = factor * (*x - mean) + shift);
            }
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let (input, layer) = (pass.inputs.get(0), *self);
        let mut found = Found::new(*self, pass.scratch);
        found.of_block(input);
        let Found { mean, inverse, .. } = found;
        let (d_scale, d_shift) = pass.gradients.split_at_mut(self.channels);
        let d_output = pass.d_output.as_ref();
        let sums = Sums { layer, input, d_output, mean, inverse, d_scale, d_shift };
        Arch::new().dispatch(sums);
        if let Some(out) = pass.d_inputs.get(0) {
            let scale = &pass.parameters[..self.channels];
            let gradients = [&*d_scale, &*d_shift];
            let to = Distribute { layer, input, d_output, mean, inverse, scale, gradients, out };
            Arch::new().dispatch(to);
        }
    }
}

fn constant(channels: usize, name: &'static str, value: f64) -> ParameterShape {
    ParameterShape { name, shape: vec![channels], initial: Initial::Constant(value) }
}

/// Mean and variance of the channels of a block.
pub(super) struct Found<'a, T> {
    layer: BatchNorm,
    pub(super) mean: &'a mut [T],
    /// 1 / √(variance + ε).
    pub(super) inverse: &'a mut [T],
    /// Sums of squared deviations.
    squares: &'a mut [T],
}

impl<'a, T: Scalar> Found<'a, T> {
    pub(super) fn new(layer: BatchNorm, scratch: &'a mut [T]) -> Self {
        let (mean, rest) = scratch.split_at_mut(layer.channels);
        let (inverse, rest) = rest.split_at_mut(layer.channels);
        Self { layer, mean, inverse, squares: &mut rest[..layer.channels] }
    }

    /// Computes the mean and variance that normalize `input` in a forward pass, and reports
    /// statistics.
    pub(super) fn of_purpose(&mut self, input: Matrix<'_, T>, purpose: Purpose<'_, T>) {
        match purpose {
            Purpose::Training(training) => {
                self.of_block(input);
                if let Some(statistics) = training.statistics {
                    self.report(input.rows(), statistics);
                }
            }
            Purpose::Evaluation { state } => {
                let (mean, variance) = state.split_at(self.layer.channels);
                self.mean.copy_from_slice(mean);
                let lanes = self.inverse.iter_mut().zip(variance);
                lanes.for_each(|(inverse, variance)| *inverse = self.layer.inverse(*variance));
            }
        }
    }

    /// Computes all of them.
    pub(super) fn of_block(&mut self, input: Matrix<'_, T>) {
        let layer = self.layer;
        // An empty block has sums of 0.
        let count = T::from_f64((input.rows() * layer.places).max(1) as f64);
        let each = |sums: &mut [T], mean: Option<&[T]>| {
            Arch::new().dispatch(Moments { layer, input, mean, sums });
        };
        each(self.mean, None);
        self.mean.iter_mut().for_each(|sum| *sum = *sum / count);
        each(self.squares, Some(self.mean));
        let lanes = self.inverse.iter_mut().zip(&*self.squares);
        lanes.for_each(|(inverse, sum)| *inverse = layer.inverse(*sum / count));
    }

    /// Writes the statistics of a block of `rows` rows.
    fn report(&self, rows: usize, statistics: &mut [T]) {
        let values = rows * self.layer.places;
        if values == 0 {
            return statistics.fill(T::ZERO);
        }
        let count = T::from_f64(values as f64);
        let (counts, sums) = statistics.split_at_mut(2);
        counts.copy_from_slice(&[count, count - T::ONE]);
        let (of_values, of_squares) = sums.split_at_mut(self.layer.channels);
        of_values.iter_mut().zip(&*self.mean).for_each(|(sum, mean)| *sum = *mean * count);
        of_squares.copy_from_slice(self.squares);
    }
}

/// Sums the values of each channel, or their squared deviations from its mean.
struct Moments<'a, T> {
    layer: BatchNorm,
    input: Matrix<'a, T>,  // (rows, channels * places)
    mean: Option<&'a [T]>, // (channels)
    sums: &'a mut [T],     // (channels)
}

impl<T: Scalar> WithSimd for Moments<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (places, sums) = (self.layer.places, self.sums);
        sums.fill(T::ZERO);
        for row in 0..self.input.rows() {
            let row = self.input.row(row);
            match self.mean {
                None if places == 1 => sums.iter_mut().zip(row).for_each(|(s, x)| *s += *x),
                Some(mean) if places == 1 => {
                    let lanes = sums.iter_mut().zip(row).zip(mean);
                    lanes.for_each(|((sum, x), mean)| *sum += (*x - *mean) * (*x - *mean));
                }
                None => {
                    let planes = sums.iter_mut().zip(row.chunks_exact(places));
                    planes.for_each(|(sum, plane)| *sum += sum_of(plane, plane, |x, _| x));
                }
                Some(mean) => {
                    let planes = row.chunks_exact(places).zip(mean);
                    for (sum, (plane, mean)) in sums.iter_mut().zip(planes) {
                        *sum += sum_of(plane, plane, |x, _| (x - *mean) * (x - *mean));
                    }
                }
            }
        }
    }
}

/// Computes the gradients of scale and shift.
struct Sums<'a, T> {
    layer: BatchNorm,
    input: Matrix<'a, T>,    // (rows, channels * places)
    d_output: Matrix<'a, T>, // (rows, channels * places)
    mean: &'a [T],           // (channels)
    inverse: &'a [T],        // (channels)
    d_scale: &'a mut [T],    // (channels)
    d_shift: &'a mut [T],    // (channels)
}

impl<T: Scalar> WithSimd for Sums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let places = self.layer.places;
        self.d_scale.fill(T::ZERO);
        self.d_shift.fill(T::ZERO);
        for row in 0..self.input.rows() {
            let (x, dy) = (self.input.row(row), self.d_output.row(row));
            let sums = self.d_scale.iter_mut().zip(&mut *self.d_shift).zip(self.mean);
            if places == 1 {
                for (((scale, shift), mean), (x, dy)) in sums.zip(x.iter().zip(dy)) {
                    *scale += *dy * (*x - *mean);
                    *shift += *dy;
                }
            } else {
                let planes = x.chunks_exact(places).zip(dy.chunks_exact(places));
                for (((scale, shift), mean), (x, dy)) in sums.zip(planes) {
                    *scale += sum_of(x, dy, |x, dy| dy * (x - *mean));
                    *shift += sum_of(dy, dy, |dy, _| dy);
                }
            }
        }
        self.d_scale.iter_mut().zip(self.inverse).for_each(|(d, inverse)| *d *= *inverse);
    }
}

/// Computes the gradient of the input columns that need one.
struct Distribute<'a, T> {
    layer: BatchNorm,
    input: Matrix<'a, T>,    // (rows, channels * places)
    d_output: Matrix<'a, T>, // (rows, channels * places)
    mean: &'a [T],           // (channels)
    inverse: &'a [T],        // (channels)
    scale: &'a [T],          // (channels)
    /// Gradients of scale and shift. // (channels)
    gradients: [&'a [T]; 2],
    out: GradientOut<'a, T>, // (rows, at most channels * places)
}

impl<T: Scalar> WithSimd for Distribute<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let places = self.layer.places;
        let count = T::from_f64((self.input.rows() * places) as f64);
        let [d_scale, d_shift] = self.gradients;
        for row in 0..self.input.rows() {
            let values = self.input.row(row).chunks_exact(places);
            let planes = values.zip(self.d_output.row(row).chunks_exact(places));
            let out = self.out.gradient.row(row).chunks_mut(places).zip(planes);
            for (channel, (out, (x, dy))) in out.enumerate() {
                let (mean, inverse) = (self.mean[channel], self.inverse[channel]);
                let (slope, offset) =
                    (d_scale[channel] / count * inverse, d_shift[channel] / count);
                let factor = self.scale[channel] * inverse;
                let of = |x: T, dy: T| factor * (dy - offset - (x - mean) * slope);
                let terms = out.iter_mut().zip(x.iter().zip(dy));
                match self.out.write {
                    Write::Overwrite => terms.for_each(|(d, (x, dy))| *d = of(*x, *dy)),
                    Write::Accumulate => terms.for_each(|(d, (x, dy))| *d += of(*x, *dy)),
                }
            }
        }
    }
}
