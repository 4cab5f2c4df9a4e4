//! Convolution of images (cross-correlation, as usual) with its activation.
//!
//! ```text
//! input   image of C channels                                  // (rows, C * height * width)
//! weight  (O, C, kernel rows, kernel columns), bias (O)
//! output  image of O channels, a plane of places each          // (rows, O * places)
//!
//! per example:    U = values under the window, unfolded         // (C * area, places)
//! forward    Y  = W U, then bias and activation in one pass over Y
//! backward   dZ = dY where the activation passes, and db = Σ dZ
//!            dW = Σ dZ Uᵀ
//!            dX = Wᵀ dZ folded back: adds each value to its source lane
//! ```
//!
//! Each example is a separate product. Its U is in scratch, so memory doesn't grow with the block;
//! the backward pass recomputes it, which is cheaper than keeping `area` times the input. Order of
//! sums: dW over examples in order, and places in order within each; db over places in the order of
//! `channels`, then examples in order; a value of dX over the kernel in order. dX is computed for
//! every channel with a column that needs a gradient.

use pulp::{Arch, Simd, WithSimd};

use super::lane_sums::sum_of;
use super::linear::{pass_through, relu};
use super::window::Places;
use super::{Activation, Backward, Flops, Forward, Image, Layer, Operation, Reads, Window};
use crate::gemm::Scalar;
use crate::gemm::{plain, transposed};
use crate::matrix::{Matrix, MatrixMut, Write};
use crate::parameter::{Initial, ParameterShape};

/// A convolution with its activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Shape of the input.
    pub image: Image,
    /// Number of output channels.
    pub channels: usize,
    /// Window of inputs for each output value.
    pub window: Window,
    /// Whether each channel has a bias.
    pub bias: bool,
    /// Activation of the sums.
    pub activation: Activation,
}

impl Convolution {
    /// Shape of the output.
    ///
    /// # Errors
    /// What doesn't match, with a fix.
    pub fn output(&self) -> Result<Image, String> {
        if self.channels == 0 {
            return Err("a convolution has at least one output channel".to_owned());
        }
        let [height, width] = self.window.places(&self.image)?;
        Ok(Image { channels: self.channels, height, width })
    }

    /// Values of all channels that a window covers.
    fn patch(&self) -> usize {
        self.image.channels * self.window.area()
    }

    fn weight_lanes(&self) -> usize {
        self.channels * self.patch()
    }

    fn places(&self) -> Places {
        Places::new(self.image, self.window)
    }
}

impl<T: Scalar> Layer<T> for Convolution {
    fn operation(&self) -> Operation {
        let Self { image, channels, window, bias, activation } = *self;
        Operation::Convolution { image, channels, window, bias, activation }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let output = self.output()?;
        let Image { channels, height, width } = self.image;
        if inputs != [self.image.columns()] {
            return Err(format!(
                "it takes one input of {channels} x {height} x {width} columns, not {inputs:?}"
            ));
        }
        Ok(output.columns())
    }

    fn parameters(&self) -> Vec<ParameterShape> {
        let initial = Initial::uniform_over(self.patch());
        let [rows, columns] = self.window.kernel;
        let shape = vec![self.channels, self.image.channels, rows, columns];
        let mut parameters = vec![ParameterShape { name: "weight", shape, initial }];
        if self.bias {
            let shape = vec![self.channels];
            parameters.push(ParameterShape { name: "bias", shape, initial });
        }
        parameters
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: self.activation == Activation::Relu }
    }

    fn scratch_lanes(&self, _rows: usize) -> usize {
        self.patch() * self.places().count()
    }

    fn product_side(&self) -> usize {
        self.patch().max(self.channels).max(self.places().count())
    }

    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let places = self.places().count();
        let product = |patch: usize| 2 * (self.channels * patch * places) as u64;
        let sums = if self.bias { (self.channels * places) as u64 } else { 0 };
        let back = wanted[0].div_ceil(self.image.plane()) * self.window.area();
        let folded = (back * places) as u64;
        let forward = product(self.patch()) + sums;
        Flops { forward, backward: forward + product(back) + folded }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        let (weight, bias) = pass.parameters.split_at(self.weight_lanes());
        let weight = Matrix::packed(weight, self.channels, self.patch());
        let (input, walk) = (pass.inputs.get(0), self.places());
        let (patch, places) = (self.patch(), walk.count());
        let unfolded = &mut pass.scratch[..patch * places];
        for row in 0..input.rows() {
            let image = input.row(row);
            Arch::new().dispatch(Unfold { walk, image, unfolded: &mut *unfolded });
            let right = plain(Matrix::packed(unfolded, patch, places));
            let target = MatrixMut::packed(pass.output.row(row), self.channels, places);
            pass.gemm.multiply(target, Write::Overwrite, plain(weight), right);
        }
        if self.bias || self.activation != Activation::Identity {
            let (activation, values) = (self.activation, pass.output);
            Arch::new().dispatch(Activate { values, bias, places, activation });
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let (d_weight, d_bias) = pass.gradients.split_at_mut(self.weight_lanes());
        let (input, walk) = (pass.inputs.get(0), self.places());
        let (patch, places, channels) = (self.patch(), walk.count(), self.channels);
        if self.bias || self.activation != Activation::Identity {
            let (activation, output) = (self.activation, pass.output);
            let gradient = pass.d_output.reborrow();
            Arch::new().dispatch(Deactivate { output, gradient, d_bias, places, activation });
        }
        d_weight.fill(T::ZERO);
        for row in 0..input.rows() {
            let unfolded = &mut pass.scratch[..patch * places];
            let image = input.row(row);
            Arch::new().dispatch(Unfold { walk, image, unfolded: &mut *unfolded });
            let left = plain(Matrix::packed(pass.d_output.row(row), channels, places));
            let right = transposed(Matrix::packed(unfolded, patch, places));
            let target = MatrixMut::packed(d_weight, channels, patch);
            pass.gemm.multiply(target, Write::Accumulate, left, right);
        }
        let Some(mut out) = pass.d_inputs.get(0) else { return };
        let weight = &pass.parameters[..self.weight_lanes()];
        let back = out.gradient.columns().div_ceil(self.image.plane()) * self.window.area();
        let weight = Matrix::packed(weight, channels, patch).select(0..back);
        for row in 0..input.rows() {
            let unfolded = &mut pass.scratch[..back * places];
            let right = plain(Matrix::packed(pass.d_output.row(row), channels, places));
            let target = MatrixMut::packed(unfolded, back, places);
            pass.gemm.multiply(target, Write::Overwrite, transposed(weight), right);
            let image = out.gradient.row(row);
            if out.write == Write::Overwrite {
                image.fill(T::ZERO);
            }
            Arch::new().dispatch(Fold { walk, unfolded, image });
        }
    }
}

/// Unfolds an image; zeros for padding.
struct Unfold<'a, T> {
    walk: Places,
    image: &'a [T],        // (channels * height * width)
    unfolded: &'a mut [T], // (channels * area, places)
}

impl<T: Scalar> WithSimd for Unfold<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { walk, image, unfolded } = self;
        let (stride, across) = (walk.window.stride[1], walk.places[1]);
        let rows = walk.image.channels * walk.window.area();
        if walk.shifts() {
            for (row, lanes) in unfolded.chunks_exact_mut(walk.count()).enumerate() {
                let shift = walk.shift(row);
                let (places, lane) = (shift.places.clone(), shift.lane);
                lanes[..places.start].fill(T::ZERO);
                lanes[places.end..].fill(T::ZERO);
                lanes[places.clone()].copy_from_slice(&image[lane..lane + places.len()]);
                shift.clear_gaps(lanes);
            }
            return;
        }
        walk.runs(rows, |line, _, inside, lane| {
            let places = &mut unfolded[line * across..(line + 1) * across];
            places[..inside.start].fill(T::ZERO);
            places[inside.end..].fill(T::ZERO);
            let places = &mut places[inside];
            if stride == 1 {
                places.copy_from_slice(&image[lane..lane + places.len()]);
            } else {
                let values = image.get(lane..).unwrap_or(&[]).iter().step_by(stride);
                places.iter_mut().zip(values).for_each(|(place, value)| *place = *value);
            }
        });
    }
}

/// Adds unfolded values to the lanes they came from, within the bounds of the image.
struct Fold<'a, T> {
    walk: Places,
    unfolded: &'a mut [T], // (some channels * area, places); modified
    image: &'a mut [T],    // (at most channels * height * width)
}

impl<T: Scalar> WithSimd for Fold<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { walk, unfolded, image } = self;
        let (stride, across) = (walk.window.stride[1], walk.places[1]);
        let rows = unfolded.len() / walk.count();
        if walk.shifts() {
            for (row, places) in unfolded.chunks_exact_mut(walk.count()).enumerate() {
                let shift = walk.shift(row);
                shift.clear_gaps(places);
                let lanes = image.get_mut(shift.lane..).unwrap_or_default().iter_mut();
                lanes.zip(&places[shift.places]).for_each(|(lane, place)| *lane += *place);
            }
            return;
        }
        walk.runs(rows, |line, _, inside, lane| {
            let places = &unfolded[line * across..][inside];
            let lanes = image.get_mut(lane..).unwrap_or(&mut []);
            if stride == 1 {
                lanes.iter_mut().zip(places).for_each(|(lane, place)| *lane += *place);
            } else {
                let lanes = lanes.iter_mut().step_by(stride);
                lanes.zip(places).for_each(|(lane, place)| *lane += *place);
            }
        });
    }
}

/// Adds the bias, if there is one, and applies the activation.
struct Activate<'a, T> {
    values: MatrixMut<'a, T>, // (rows, channels * places)
    bias: &'a [T],            // (channels) or empty
    places: usize,
    activation: Activation,
}

impl<T: Scalar> WithSimd for Activate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.values.rows() {
            let planes = self.values.row(row).chunks_exact_mut(self.places);
            for (channel, plane) in planes.enumerate() {
                match (self.activation, self.bias.get(channel).copied()) {
                    (Activation::Identity, None) => {}
                    (Activation::Identity, Some(b)) => plane.iter_mut().for_each(|v| *v += b),
                    (Activation::Relu, None) => plane.iter_mut().for_each(|v| *v = relu(*v)),
                    (Activation::Relu, Some(b)) => {
                        plane.iter_mut().for_each(|v| *v = relu(*v + b));
                    }
                }
            }
        }
    }
}

/// Turns the gradient of the outputs into the gradient of the sums before the activation, which is
/// also summed over places and rows for the bias.
struct Deactivate<'a, T> {
    output: Matrix<'a, T>,      // (rows, channels * places)
    gradient: MatrixMut<'a, T>, // (rows, channels * places)
    d_bias: &'a mut [T],        // (channels) or empty
    places: usize,
    activation: Activation,
}

impl<T: Scalar> WithSimd for Deactivate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        self.d_bias.fill(T::ZERO);
        for row in 0..self.gradient.rows() {
            let gradient = self.gradient.row(row);
            if self.activation == Activation::Relu {
                let output = self.output.row(row);
                gradient.iter_mut().zip(output).for_each(|(d, y)| *d = pass_through(*d, *y));
            }
            let planes = gradient.chunks_exact(self.places);
            for (sum, plane) in self.d_bias.iter_mut().zip(planes) {
                *sum += sum_of(plane, plane, |d, _| d);
            }
        }
    }
}
