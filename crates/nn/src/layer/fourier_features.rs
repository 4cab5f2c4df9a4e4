//! Random Fourier features, whose products approximate a Gaussian kernel (Rahimi and Recht 2007).
//!
//! ```text
//! input   x                                                    // (rows, inputs)
//! kept    z = W x + b                                          // (rows, outputs)
//! output  y = √(2 / outputs) cos z                             // (rows, outputs)
//!
//! y(x)·y(x') approximates exp(-|x - x'|² / (2 σ²)), with an error of about 1 / √outputs
//!
//! W (outputs, inputs)  w_oi = normal number o · inputs + i of the stream `fourier/frequencies`
//!                             under the seed, over σ
//! b (outputs)          b_o  = 2 π times uniform number o of the stream `fourier/phases`
//!
//! backward  dx = Wᵀ dz,  dz = -√(2 / outputs) sin z ∘ dy
//! ```
//!
//! Frequencies and phases are drawn when the layer is created, rounded to f32, and never trained.
//! With a linear layer on top, this is a machine with a Gaussian kernel, trained like any other
//! model. Layers with the same seed and shape have the same features. Cosines are pure Rust, in
//! f64.

use std::f64::consts::TAU;

use stepwell_base::random::Stream;

use super::{Backward, Flops, Forward, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::gemm::{plain, transposed};
use crate::matrix::{Matrix, Write};
use crate::normal::{normal, uniform};

/// Random Fourier features of a Gaussian kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct FourierFeatures<T> {
    inputs: usize,
    outputs: usize,
    sigma: f64,
    seed: u64,
    frequencies: Vec<T>, // (outputs, inputs)
    phases: Vec<T>,      // (outputs)
}

impl<T: Scalar> FourierFeatures<T> {
    /// Draws `outputs` features of `inputs` columns for a kernel of width `sigma`.
    pub fn new(inputs: usize, outputs: usize, sigma: f64, seed: u64) -> Self {
        let frequencies = Stream::named(seed, b"fourier/frequencies");
        let phases = Stream::named(seed, b"fourier/phases");
        let rounded = |value: f64| T::from_f64(f64::from(value as f32));
        let frequency = |index| rounded(normal(&frequencies, index as u64) / sigma);
        let phase = |index| rounded(TAU * uniform(&phases, index as u64));
        Self {
            inputs,
            outputs,
            sigma,
            seed,
            frequencies: (0..outputs * inputs).map(frequency).collect(),
            phases: (0..outputs).map(phase).collect(),
        }
    }

    fn frequencies(&self) -> Matrix<'_, T> {
        Matrix::packed(&self.frequencies, self.outputs, self.inputs)
    }

    /// √(2 / outputs).
    fn scale(&self) -> f64 {
        (2.0 / self.outputs as f64).sqrt()
    }
}

impl<T: Scalar> Layer<T> for FourierFeatures<T> {
    fn operation(&self) -> Operation {
        let Self { inputs, outputs, sigma, seed, .. } = *self;
        Operation::FourierFeatures { inputs, outputs, sigma, seed }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        if self.inputs == 0 || self.outputs == 0 {
            return Err("Fourier features have at least one input and one output".to_owned());
        }
        if !(self.sigma.is_finite() && self.sigma > 0.0) {
            return Err(format!("a kernel of width {}: give a number above 0", self.sigma));
        }
        if inputs != [self.inputs] {
            return Err(format!("it takes one input of {} columns, not {inputs:?}", self.inputs));
        }
        Ok(self.outputs)
    }

    fn reads(&self) -> Reads {
        Reads { inputs: false, output: false }
    }

    fn kept_columns(&self) -> usize {
        self.outputs
    }

    fn constant_lanes(&self) -> usize {
        self.frequencies.len() + self.phases.len()
    }

    fn product_side(&self) -> usize {
        self.inputs
    }

    /// A cosine counts as one operation.
    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let product = |columns: usize| 2 * (self.outputs * columns) as u64;
        let outputs = self.outputs as u64;
        let backward = if wanted[0] == 0 { 0 } else { product(wanted[0]) + 3 * outputs };
        Flops { forward: product(self.inputs) + 3 * outputs, backward }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        let (input, frequencies) = (plain(pass.inputs.get(0)), transposed(self.frequencies()));
        pass.gemm.multiply(pass.kept.reborrow(), Write::Overwrite, input, frequencies);
        let scale = self.scale();
        for row in 0..pass.output.rows() {
            let sums = pass.kept.row(row).iter_mut().zip(&self.phases);
            pass.output.row(row).iter_mut().zip(sums).for_each(|(y, (z, b))| {
                *z += *b;
                *y = T::from_f64(scale * libm::cos(z.to_f64()));
            });
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let Some(out) = pass.d_inputs.get(0) else { return };
        let scale = -self.scale();
        for row in 0..pass.d_output.rows() {
            let gradient = pass.d_output.row(row).iter_mut().zip(pass.kept.row(row));
            gradient.for_each(|(d, z)| *d *= T::from_f64(scale * libm::sin(z.to_f64())));
        }
        let wanted = plain(self.frequencies().select(0..out.gradient.columns()));
        pass.gemm.multiply(out.gradient, out.write, plain(pass.d_output.as_ref()), wanted);
    }
}
