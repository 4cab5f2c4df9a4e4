//! The largest value, or the mean, of what a window covers of each plane of an image.
//!
//! ```text
//! input   image                                             // (rows, channels * height * width)
//! output  image of as many channels, a plane of places each // (rows, channels * places)
//! ```
//!
//! Padding is never a value: the largest is one of the plane's own, and a mean divides by how many
//! of these the window covers. Of equal values the first counts, which alone gets the gradient; of
//! values that are not numbers the last, so that divergence shows. A mean adds up row by row. A
//! value's gradient adds up the places of windows that cover it, in order. Which value was largest
//! is found again backwards: that costs less than to remember it in memory.

use pulp::{Arch, Simd, WithSimd};

use super::{Backward, Flops, Forward, GradientOut, Image, Layer, Operation, Reads, Window, Write};
use crate::{Matrix, MatrixMut, Scalar};

/// What becomes of the values that a window covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The largest of them.
    Max,
    /// Their mean.
    Average,
}

/// A pooling of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// What it reads.
    pub image: Image,
    /// What a value is made of.
    pub window: Window,
    /// How.
    pub pool: Pool,
}

impl Pooling {
    /// What it writes.
    ///
    /// # Errors
    /// What does not fit, in words that name the mend.
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
        Reads { inputs: self.pool == Pool::Max, output: false }
    }

    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let places = self.output().map_or(0, |image| image.height * image.width);
        let values = |columns: usize| {
            (columns.div_ceil(self.image.plane()) * places * self.window.area()) as u64
        };
        Flops { forward: values(self.image.columns()), backward: values(wanted[0]) }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let input = pass.inputs.get(0);
        Arch::new().dispatch(Gather { pooling: *self, input, output: pass.output });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        if let Some(out) = pass.d_inputs.get(0) {
            // Of a mean the values do not matter, and are not there any more.
            let input = (self.pool == Pool::Max).then(|| pass.inputs.get(0));
            let d_output = pass.d_output.as_ref();
            Arch::new().dispatch(Scatter { pooling: *self, input, d_output, out });
        }
    }
}

impl Pooling {
    /// Calls `each` with every window of a plane, in order: the number of its place, the lane of
    /// its first value, and its rows and columns inside of the plane.
    #[inline(always)]
    fn windows(&self, mut each: impl FnMut(usize, usize, [usize; 2])) {
        let Self { image: Image { height, width, .. }, window, .. } = *self;
        let [down, across] = window.places(&self.image).unwrap_or([0; 2]);
        for y in 0..down {
            let rows = window.covered(0, y, height);
            for x in 0..across {
                let columns = window.covered(1, x, width);
                let first = rows.start * width + columns.start;
                each(y * across + x, first, [rows.len(), columns.len()]);
            }
        }
    }

    /// Lane of the largest value of a window.
    #[inline(always)]
    fn largest<T: Scalar>(&self, plane: &[T], first: usize, [rows, columns]: [usize; 2]) -> usize {
        let mut best = first;
        for row in 0..rows {
            let start = first + row * self.image.width;
            for lane in start..start + columns {
                let value = plane[lane];
                if value > plane[best] || value.partial_cmp(&value).is_none() {
                    best = lane;
                }
            }
        }
        best
    }
}

struct Gather<'a, T> {
    pooling: Pooling,
    input: Matrix<'a, T>,     // (rows, channels * height * width)
    output: MatrixMut<'a, T>, // (rows, channels * places)
}

impl<T: Scalar> WithSimd for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let Self { pooling, input, .. } = self;
        let (plane, width) = (pooling.image.plane(), pooling.image.width);
        let places = self.output.columns() / pooling.image.channels;
        for row in 0..input.rows() {
            let planes = input.row(row).chunks_exact(plane);
            for (plane, output) in planes.zip(self.output.row(row).chunks_exact_mut(places)) {
                pooling.windows(|place, first, extents| match pooling.pool {
                    Pool::Max => output[place] = plane[pooling.largest(plane, first, extents)],
                    Pool::Average => output[place] = mean(plane, first, extents, width),
                });
            }
        }
    }
}

/// The mean of a window's values.
#[inline(always)]
fn mean<T: Scalar>(plane: &[T], first: usize, [rows, columns]: [usize; 2], width: usize) -> T {
    let mut sum = T::ZERO;
    for row in 0..rows {
        let start = first + row * width;
        plane[start..start + columns].iter().for_each(|value| sum += *value);
    }
    sum / T::from_f64((rows * columns) as f64)
}

struct Scatter<'a, T> {
    pooling: Pooling,
    input: Option<Matrix<'a, T>>, // (rows, channels * height * width)
    d_output: Matrix<'a, T>,      // (rows, channels * places)
    out: GradientOut<'a, T>,      // (rows, at most channels * height * width)
}

impl<T: Scalar> WithSimd for Scatter<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let Self { pooling, input, d_output, .. } = self;
        let (lanes, width) = (pooling.image.plane(), pooling.image.width);
        let places = d_output.columns() / pooling.image.channels;
        for row in 0..d_output.rows() {
            let gradient = self.out.gradient.row(row);
            if self.out.write == Write::Overwrite {
                gradient.fill(T::ZERO);
            }
            let planes = gradient.chunks_mut(lanes).zip(d_output.row(row).chunks_exact(places));
            for (channel, (gradient, d_output)) in planes.enumerate() {
                if let Some(input) = input {
                    let plane = &input.row(row)[channel * lanes..][..lanes];
                    pooling.windows(|place, first, extents| {
                        let lane = pooling.largest(plane, first, extents);
                        if let Some(gradient) = gradient.get_mut(lane) {
                            *gradient += d_output[place];
                        }
                    });
                } else {
                    pooling.windows(|place, first, [rows, columns]| {
                        let share = d_output[place] / T::from_f64((rows * columns) as f64);
                        for row in 0..rows {
                            let lanes = gradient.get_mut(first + row * width..).unwrap_or_default();
                            lanes.iter_mut().take(columns).for_each(|lane| *lane += share);
                        }
                    });
                }
            }
        }
    }
}
