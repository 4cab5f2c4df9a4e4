//! The fully connected layer `y = activation(x Wᵀ + b)`.
//!
//! ```text
//! weight (outputs, inputs)   row o holds the weights of output o
//! bias   (outputs)
//!
//! forward    Y  = X Wᵀ, then bias and activation in one pass over Y
//! backward   dZ = dY where the activation passes, and db = Σ dZ, in one pass over dY
//!            dW = dZᵀ X
//!            dX = dZ W, only for columns that need it
//! ```

use pulp::{Arch, Simd, WithSimd};

use super::{Activation, Backward, Flops, Forward, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::gemm::{plain, transposed};
use crate::matrix::{Matrix, MatrixMut, Write};
use crate::parameter::{Initial, ParameterShape};

/// A fully connected layer with its activation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// Columns of the input.
    pub inputs: usize,
    /// Columns of the output.
    pub outputs: usize,
    /// Whether each output has a bias.
    pub bias: bool,
    /// Activation of the sums.
    pub activation: Activation,
}

impl Linear {
    fn weight_lanes(&self) -> usize {
        self.inputs * self.outputs
    }
}

impl<T: Scalar> Layer<T> for Linear {
    fn operation(&self) -> Operation {
        let Self { inputs, outputs, bias, activation } = *self;
        Operation::Linear { inputs, outputs, bias, activation }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        if self.inputs == 0 || self.outputs == 0 {
            return Err("a linear layer has at least one input and one output".to_owned());
        }
        if inputs != [self.inputs] {
            return Err(format!("it takes one input of {} columns, not {inputs:?}", self.inputs));
        }
        Ok(self.outputs)
    }

    fn parameters(&self) -> Vec<ParameterShape> {
        let initial = Initial::uniform_over(self.inputs);
        let weight = vec![self.outputs, self.inputs];
        let mut parameters = vec![ParameterShape { name: "weight", shape: weight, initial }];
        if self.bias {
            let shape = vec![self.outputs];
            parameters.push(ParameterShape { name: "bias", shape, initial });
        }
        parameters
    }

    fn weight(&self) -> Option<[usize; 2]> {
        Some([self.outputs, self.inputs])
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: self.activation == Activation::Relu }
    }

    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let product = |inputs: usize| 2 * (inputs * self.outputs) as u64;
        let sums = if self.bias { self.outputs as u64 } else { 0 };
        let backward = product(self.inputs) + product(wanted[0]) + sums;
        Flops { forward: product(self.inputs) + sums, backward }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        let (weight, bias) = pass.parameters.split_at(self.weight_lanes());
        let weight = Matrix::packed(weight, self.outputs, self.inputs);
        let (input, weight) = (plain(pass.inputs.get(0)), transposed(weight));
        let weight = weight.with_packed(pass.packed_weight);
        pass.gemm.multiply(pass.output.reborrow(), Write::Overwrite, input, weight);
        if self.bias || self.activation != Activation::Identity {
            let activation = self.activation;
            Arch::new().dispatch(Activate { values: pass.output, bias, activation });
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let (d_weight, d_bias) = pass.gradients.split_at_mut(self.weight_lanes());
        if self.bias || self.activation != Activation::Identity {
            Arch::new().dispatch(Deactivate {
                output: pass.output,
                gradient: pass.d_output.reborrow(),
                d_bias,
                activation: self.activation,
            });
        }
        let d_sums = pass.d_output.as_ref();
        let d_weight = MatrixMut::packed(d_weight, self.outputs, self.inputs);
        pass.gemm.multiply(
            d_weight,
            Write::Overwrite,
            transposed(d_sums),
            plain(pass.inputs.get(0)),
        );
        if let Some(out) = pass.d_inputs.get(0) {
            let weight = &pass.parameters[..self.weight_lanes()];
            let weight = Matrix::packed(weight, self.outputs, self.inputs);
            let wanted = plain(weight.select(0..out.gradient.columns()));
            let wanted = wanted.with_packed(pass.packed_weight);
            pass.gemm.multiply(out.gradient, out.write, plain(d_sums), wanted);
        }
    }
}

/// Adds the bias, if there is one, and applies the activation.
struct Activate<'a, T> {
    values: MatrixMut<'a, T>, // (rows, outputs)
    bias: &'a [T],            // (outputs) or empty
    activation: Activation,
}

impl<T: Scalar> WithSimd for Activate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.values.rows() {
            let values = self.values.row(row);
            match (self.activation, self.bias.is_empty()) {
                (Activation::Identity, true) => {}
                (Activation::Identity, false) => {
                    values.iter_mut().zip(self.bias).for_each(|(v, b)| *v += *b);
                }
                (Activation::Relu, true) => values.iter_mut().for_each(|v| *v = relu(*v)),
                (Activation::Relu, false) => {
                    values.iter_mut().zip(self.bias).for_each(|(v, b)| *v = relu(*v + *b));
                }
            }
        }
    }
}

#[inline(always)]
pub(super) fn relu<T: Scalar>(z: T) -> T {
    if z <= T::ZERO { T::ZERO } else { z }
}

/// Turns the gradient of the outputs into the gradient of the sums before the activation, which is
/// also summed over the rows for the bias.
struct Deactivate<'a, T> {
    output: Matrix<'a, T>,      // (rows, outputs)
    gradient: MatrixMut<'a, T>, // (rows, outputs)
    d_bias: &'a mut [T],        // (outputs) or empty
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
            self.d_bias.iter_mut().zip(gradient).for_each(|(sum, d)| *sum += *d);
        }
    }
}

/// Gradient before a rectifier with output `y`.
#[inline(always)]
pub(super) fn pass_through<T: Scalar>(d: T, y: T) -> T {
    if y <= T::ZERO { T::ZERO } else { d }
}
