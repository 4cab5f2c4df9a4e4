//! Maximum or mean of the values under a window, in each plane of an image.
//!
//! ```text
//! input   image                                             // (rows, channels * height * width)
//! output  image with the same channels, a plane of places   // (rows, channels * places)
//! ```
//!
//! Padding never counts as a value: the maximum is one of the plane's own, and a mean divides by
//! the number of these under the window. NaN is the maximum, so that divergence is visible; its
//! window has no gradient. Otherwise the first of equal values gets the gradient. A mean is summed
//! row by row. A value's gradient sums over the values of the window in order, one place each.
//!
//! All loops run over the values of the window, then over lines of places, as in `window`.

use std::hint::select_unpredictable;

use pulp::{Arch, Simd, WithSimd};

use super::window::Places;
use super::{Backward, Flops, Forward, GradientOut, Image, Layer, Operation, Pool, Reads, Window};
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};

/// Pooling of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// Shape of the input.
    pub image: Image,
    /// Window of inputs for each output value.
    pub window: Window,
    /// Kind of pooling.
    pub pool: Pool,
}

impl Pooling {
    /// Shape of the output.
    ///
    /// # Errors
    /// What doesn't match, with a fix.
    pub fn output(&self) -> Result<Image, String> {
        let [height, width] = self.window.places(&self.image)?;
        Ok(Image { channels: self.image.channels, height, width })
    }
}

impl<T: Scalar> Layer<T> for Pooling {
    fn operation(&self) -> Operation {
        let Self { image, window, pool } = *self;
        Operation::Pooling { image, window, pool }
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

    fn reads(&self) -> Reads {
        let largest = self.pool == Pool::Max;
        Reads { inputs: largest, output: largest }
    }

    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let places = self.output().map_or(0, |image| image.height * image.width);
        let values = |columns: usize| {
            (columns.div_ceil(self.image.plane()) * places * self.window.area()) as u64
        };
        Flops { forward: values(self.image.columns()), backward: values(wanted[0]) }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let (input, walk) = (pass.inputs.get(0), Places::new(self.image, self.window));
        Arch::new().dispatch(Gather { pool: self.pool, walk, input, output: pass.output });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let Some(out) = pass.d_inputs.get(0) else { return };
        // A mean's gradient doesn't need values, which no longer exist.
        let values = (self.pool == Pool::Max).then(|| (pass.inputs.get(0), pass.output));
        let walk = Places::new(self.image, self.window);
        Arch::new().dispatch(Scatter { walk, values, d_output: pass.d_output, out });
    }
}

/// Divides sums, or gradients to distribute, by the number of values under each window.
#[inline(always)]
fn divide<T: Scalar>(walk: &Places, lanes: &mut [T]) {
    let Places { image, window, places: [down, across] } = *walk;
    for (line, lanes) in lanes.chunks_exact_mut(across).enumerate() {
        let rows = window.covered(0, line % down, image.height);
        for (place, lane) in lanes.iter_mut().enumerate() {
            let count = rows * window.covered(1, place, image.width);
            *lane = *lane / T::from_f64(count as f64);
        }
    }
}

struct Gather<'a, T> {
    pool: Pool,
    walk: Places,
    input: Matrix<'a, T>,     // (rows, channels * height * width)
    output: MatrixMut<'a, T>, // (rows, channels * places)
}

impl<T: Scalar> WithSimd for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let (walk, pool) = (self.walk, self.pool);
        let (stride, across) = (walk.window.stride[1], walk.places[1]);
        let values = walk.image.channels * walk.window.area();
        for row in 0..self.input.rows() {
            let (input, output) = (self.input.row(row), self.output.row(row));
            let nothing = if pool == Pool::Max { f64::NEG_INFINITY } else { 0.0 };
            output.fill(T::from_f64(nothing));
            walk.runs(values, |_, line, inside, lane| {
                let places = output[line * across..][inside].iter_mut();
                let pairs = places.zip(input[lane..].iter().step_by(stride));
                match pool {
                    Pool::Max => pairs.for_each(|(y, x)| *y = larger(*y, *x)),
                    Pool::Average => pairs.for_each(|(y, x)| *y += *x),
                }
            });
            if pool == Pool::Average {
                divide(&walk, output);
            }
        }
    }
}

/// The larger value, or NaN if one is NaN.
#[inline(always)]
fn larger<T: Scalar>(best: T, value: T) -> T {
    let stays = best >= value || best.partial_cmp(&best).is_none();
    if stays { best } else { value }
}

struct Scatter<'a, T> {
    walk: Places,
    /// Input and output, if the position of the maximum matters.
    values: Option<(Matrix<'a, T>, Matrix<'a, T>)>,
    d_output: MatrixMut<'a, T>, // (rows, channels * places)
    out: GradientOut<'a, T>,    // (rows, at most channels * height * width)
}

impl<T: Scalar> WithSimd for Scatter<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let walk = self.walk;
        let (stride, across) = (walk.window.stride[1], walk.places[1]);
        let wanted = self.out.gradient.columns();
        let values = wanted.div_ceil(walk.image.plane()) * walk.window.area();
        for row in 0..self.d_output.rows() {
            let (gradient, d_output) = (self.out.gradient.row(row), self.d_output.row(row));
            if self.out.write == Write::Overwrite {
                gradient.fill(T::ZERO);
            }
            let Some((input, output)) = self.values else {
                divide(&walk, d_output);
                walk.runs(values, |_, line, inside, lane| {
                    let lanes = gradient.get_mut(lane..).unwrap_or_default().iter_mut();
                    let places = d_output[line * across..][inside].iter();
                    lanes.step_by(stride).zip(places).for_each(|(to, d)| *to += *d);
                });
                continue;
            };
            let (input, output) = (input.row(row), output.row(row));
            walk.runs(values, |_, line, inside, lane| {
                let lanes = gradient.get_mut(lane..).unwrap_or_default().iter_mut();
                let lanes = lanes.zip(&input[lane..]).step_by(stride);
                let start = line * across;
                let places = d_output[start..][inside.clone()].iter_mut();
                for ((to, x), (d, y)) in lanes.zip(places.zip(&output[start..][inside])) {
                    // The first of equal values takes all of it.
                    let is_largest = *x == *y;
                    *to += select_unpredictable(is_largest, *d, T::ZERO);
                    *d = select_unpredictable(is_largest, T::ZERO, *d);
                }
            });
        }
    }
}
