//! Mixture of experts: a gate weighs the outputs of several nodes (MMoE; Ma et al., KDD 2018).
//!
//! ```text
//! inputs    z (rows, experts), then x₀, x₁, ... one per expert, (rows, columns) each
//! kept      p = softmax(z)                                   // (rows, experts)
//! output    y = p₀ x₀ + p₁ x₁ + ...                          // (rows, columns)
//!
//! backward  dx_e = dy p_e
//!           dz_e = p_e (dp_e - Σ_j p_j dp_j)                 where dp_e = dy·x_e
//! ```
//!
//! The softmax is computed in f64, relative to the largest logit, and rounded once. Sums over
//! experts run in their order, and dot products over the lanes in the order of `lane_sums`.

use pulp::{Arch, Simd, WithSimd};

use super::lane_sums::dot;
use super::multiply::multiply;
use super::{Backward, Flops, Forward, GradientOut, Layer, Operation, Reads};
use crate::exponential;
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};

/// Mean of the experts' outputs, weighted by the softmax of a gate's logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mixture {
    /// Number of experts.
    pub experts: usize,
    /// Columns of each expert's output and of the mixture.
    pub columns: usize,
}

impl<T: Scalar> Layer<T> for Mixture {
    fn operation(&self) -> Operation {
        let Self { experts, columns } = *self;
        Operation::Mixture { experts, columns }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let Self { experts, columns } = *self;
        if experts == 0 || columns == 0 {
            return Err("a mixture has at least one expert and column".to_owned());
        }
        match inputs {
            [gate, rest @ ..]
                if *gate == experts
                    && rest.len() == experts
                    && rest.iter().all(|of| *of == columns) =>
            {
                Ok(columns)
            }
            _ => Err(format!(
                "it takes an input of {experts} columns, then {experts} of {columns}, not \
                 {inputs:?}"
            )),
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn kept_columns(&self) -> usize {
        self.experts
    }

    fn scratch_lanes(&self, rows: usize) -> usize {
        rows * self.experts
    }

    /// An exponential counts as one operation.
    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let (experts, columns) = (self.experts as u64, self.columns as u64);
        let to_gate = if wanted[0] == 0 { 0 } else { 2 * experts * (columns + 1) };
        let to_experts = wanted[1..].iter().sum::<usize>() as u64;
        Flops {
            forward: 2 * experts * columns + 5 * experts,
            backward: to_gate + 2 * wanted[0] as u64 + to_experts,
        }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        let (gate, softmax) = (pass.inputs.get(0), pass.kept.reborrow());
        Arch::new().dispatch(Softmax { gate, softmax });
        for expert in 0..self.experts {
            let input = pass.inputs.get(1 + expert);
            let write = if expert == 0 { Write::Overwrite } else { Write::Accumulate };
            let share = pass.kept.as_ref().select(expert..expert + 1);
            multiply(input, share, GradientOut { gradient: pass.output.reborrow(), write });
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let (d_output, experts) = (pass.d_output.as_ref(), self.experts);
        if let Some(out) = pass.d_inputs.get(0) {
            let scratch = &mut pass.scratch[..d_output.rows() * experts];
            let mut d_softmax = MatrixMut::packed(scratch, d_output.rows(), experts);
            for expert in 0..experts {
                let (input, to) = (pass.inputs.get(1 + expert), d_softmax.reborrow());
                let to = to.select(expert..expert + 1);
                Arch::new().dispatch(ToShare { input, d_output, to });
            }
            let (softmax, d_softmax) = (pass.kept, d_softmax.as_ref());
            Arch::new().dispatch(ToGate { softmax, d_softmax, out });
        }
        for expert in 0..experts {
            if let Some(out) = pass.d_inputs.get(1 + expert) {
                multiply(d_output, pass.kept.select(expert..expert + 1), out);
            }
        }
    }
}

/// Softmax of each row.
struct Softmax<'a, T> {
    gate: Matrix<'a, T>,       // (rows, experts)
    softmax: MatrixMut<'a, T>, // (rows, experts)
}

impl<T: Scalar> WithSimd for Softmax<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.gate.rows() {
            let logits = self.gate.row(row);
            // NaN is never the largest, but propagates through the sum.
            let most = logits.iter().fold(f64::NEG_INFINITY, |most, logit| {
                if logit.to_f64() > most { logit.to_f64() } else { most }
            });
            let power = |logit: &T| exponential::exp(logit.to_f64() - most);
            let all = logits.iter().fold(0.0, |sum, logit| sum + power(logit));
            let lanes = self.softmax.row(row).iter_mut().zip(logits);
            lanes.for_each(|(p, logit)| *p = T::from_f64(power(logit) / all));
        }
    }
}

/// `dp = dy·x` for one expert.
struct ToShare<'a, T> {
    input: Matrix<'a, T>,    // (rows, columns)
    d_output: Matrix<'a, T>, // (rows, columns)
    to: MatrixMut<'a, T>,    // (rows, 1)
}

impl<T: Scalar> WithSimd for ToShare<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.to.rows() {
            self.to.row(row)[0] = dot(self.d_output.row(row), self.input.row(row));
        }
    }
}

/// `dz_e = p_e (dp_e - Σ_j p_j dp_j)`, for the columns that need it.
struct ToGate<'a, T> {
    softmax: Matrix<'a, T>,   // (rows, experts)
    d_softmax: Matrix<'a, T>, // (rows, experts)
    out: GradientOut<'a, T>,  // (rows, at most experts)
}

impl<T: Scalar> WithSimd for ToGate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.softmax.rows() {
            let terms = self.softmax.row(row).iter().zip(self.d_softmax.row(row));
            let mean = terms.clone().fold(T::ZERO, |sum, (p, dp)| sum + *p * *dp);
            let out = self.out.gradient.row(row).iter_mut().zip(terms);
            match self.out.write {
                Write::Overwrite => out.for_each(|(d, (p, dp))| *d = *p * (*dp - mean)),
                Write::Accumulate => out.for_each(|(d, (p, dp))| *d += *p * (*dp - mean)),
            }
        }
    }
}
