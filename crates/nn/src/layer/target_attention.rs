//! Attention of a target to a sequence, the activation unit of DIN (Zhou et al., KDD 2018).
//!
//! ```text
//! inputs  q (rows, dim)                 target
//!         [ s₁: dim ][ s₂: dim ] ...    steps_max vectors
//!         length (rows, 1)
//! weights hidden_weight W = [ W_q | W_s | W_d | W_p ] (hidden, 4 dim), weight w (1, hidden)
//! biases  hidden_bias b (hidden), bias c (1)
//!
//! step t      h = σ(W [ q | s_t | q - s_t | q ∘ s_t ] + b)
//!             a = h·w + c                                not normalized over the steps
//! output      y = a₁ s₁ + a₂ s₂ + ...                               // (rows, dim)
//! kept        a of each step that counts, one after another; then h of each
//! ```
//!
//! Steps past the length don't count: their vectors are never read, and have gradient 0. A length
//! is rounded down to an integer from 0 to `steps_max`; NaN means all steps. The output of an
//! example without steps is 0.
//!
//! Parts of W that meet the same values are added first, so a product of half the size remains for
//! each step, and one for each example:
//!
//! ```text
//! A = W_q + W_d,   B = [ W_s - W_d | W_p ],   f = [ s_t | q ∘ s_t ]
//! u = A q + b,     h = σ(B f + u)
//! ```
//!
//! The steps of all examples of a block, in order, are divided into chunks, whose features f are
//! gathered in one matrix each. Only the last chunk of a block is padded, with zeros to a multiple
//! of [`MULTIPLE`] steps, so work is nearly proportional to the lengths. More zeros give the same
//! bits, so a device may always multiply whole chunks. In the backward pass, `[ f_s | f_p ]` is the
//! gradient of the features:
//!
//! ```text
//! da = dy·s_t,     dw += da h,   dc += da,   dz = da w ∘ h ∘ (1 - h)
//! dB += dzᵀ f,     du += dz      over the example's steps
//! [ f_s | f_p ] = dz B
//! dq += f_p ∘ s_t,               ds_t = f_s + f_p ∘ q + a dy
//! dA = duᵀ q,      db = Σ du,    dq += du A           after all steps
//! dW_q = dA,       dW_s = dB_s,  dW_d = dA - dB_s,    dW_p = dB_p
//! ```
//!
//! Sums of w, c and B run over the steps in order, those of A and b over the examples. Dot products
//! run over the lanes in the order of `lane_sums`. The logistic function is computed in the type
//! of the numbers.

use pulp::Arch;

use super::add::copy;
use super::attention_steps::{
    Attend, AttendBack, CHUNK, Chunk, Gather, Sequences, SumRows, ToInputs,
};
use super::{Backward, Flops, Forward, Inputs, Layer, Operation, Reads, clear_columns};
use crate::gemm::{Scalar, plain, transposed};
use crate::matrix::{Matrix, MatrixMut, Write};
use crate::parameter::{Initial, ParameterShape};

/// Products are padded to a multiple of this many steps; a divisor of [`CHUNK`].
const MULTIPLE: usize = 16;

/// The library may sum a result of up to this many values in a different order, so products are
/// padded until theirs is larger.
const SMALL_PRODUCT: usize = 256;

/// Sums the vectors of a sequence, weighted by a small network of the target and each vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetAttention {
    /// Values of the target and of each vector.
    pub dim: usize,
    /// Most vectors of an example.
    pub steps_max: usize,
    /// Lanes of the hidden layer.
    pub hidden: usize,
}

impl TargetAttention {
    /// Columns of the hidden weight.
    fn columns(&self) -> usize {
        4 * self.dim
    }

    /// Features of a step.
    fn features(&self) -> usize {
        2 * self.dim
    }

    /// Lanes of A and of B.
    fn lanes_of_weights(&self) -> [usize; 2] {
        [self.hidden * self.dim, self.hidden * self.features()]
    }

    /// Weight and bias of the hidden layer, and of the sum over it.
    fn parts<'a, T: Scalar>(&self, parameters: &'a [T]) -> [&'a [T]; 4] {
        let (of_hidden, rest) = parameters.split_at(self.hidden * self.columns());
        let (hidden_bias, rest) = rest.split_at(self.hidden);
        let (weight, bias) = rest.split_at(self.hidden);
        [of_hidden, hidden_bias, weight, bias]
    }

    /// Adds the parts of the hidden weight up to A and B.
    fn add_up<'a, T: Scalar>(&self, of_hidden: &[T], [a, b]: [&'a mut [T]; 2]) -> Weights<'a, T> {
        let Self { dim, hidden, .. } = *self;
        let rows = a.chunks_exact_mut(dim).zip(b.chunks_exact_mut(self.features()));
        for ((a, b), weight) in rows.zip(of_hidden.chunks_exact(self.columns())) {
            let (both, others) = weight.split_at(2 * dim);
            let ((q, s), (d, p)) = (both.split_at(dim), others.split_at(dim));
            let (b_s, b_p) = b.split_at_mut(dim);
            a.iter_mut().zip(q.iter().zip(d)).for_each(|(a, (q, d))| *a = *q + *d);
            b_s.iter_mut().zip(s.iter().zip(d)).for_each(|(b, (s, d))| *b = *s - *d);
            b_p.copy_from_slice(p);
        }
        let of_target = Matrix::packed(a, hidden, dim);
        Weights { of_target, of_features: Matrix::packed(b, hidden, self.features()) }
    }

    /// Turns gradients of A and B into the hidden weight's.
    fn divide<T: Scalar>(&self, [d_a, d_b]: [&[T]; 2], d_of_hidden: &mut [T]) {
        let dim = self.dim;
        let rows = d_a.chunks_exact(dim).zip(d_b.chunks_exact(self.features()));
        for ((a, b), to) in rows.zip(d_of_hidden.chunks_exact_mut(self.columns())) {
            let (b_s, b_p) = b.split_at(dim);
            let (both, others) = to.split_at_mut(2 * dim);
            let (of_d, of_p) = others.split_at_mut(dim);
            both[..dim].copy_from_slice(a);
            both[dim..].copy_from_slice(b_s);
            of_d.iter_mut().zip(a.iter().zip(b_s)).for_each(|(to, (a, b))| *to = *a - *b);
            of_p.copy_from_slice(b_p);
        }
    }

    /// Steps in the products of a chunk of `count` steps, with padding.
    fn padded(&self, count: usize) -> usize {
        let least = SMALL_PRODUCT / self.hidden + 1;
        count.max(least).next_multiple_of(MULTIPLE).min(CHUNK)
    }

    fn sequences<'a, T: Scalar>(&self, inputs: &Inputs<'a, T>) -> Sequences<'a, T> {
        let [target, vectors, lengths] = [0, 1, 2].map(|index| inputs.get(index));
        Sequences { dim: self.dim, steps_max: self.steps_max, target, vectors, lengths }
    }
}

impl<T: Scalar> Layer<T> for TargetAttention {
    fn operation(&self) -> Operation {
        let Self { dim, steps_max, hidden } = *self;
        Operation::TargetAttention { dim, steps_max, hidden }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let Self { dim, steps_max, hidden } = *self;
        if dim == 0 || steps_max == 0 || hidden == 0 {
            return Err("an attention has at least one value, step and hidden lane".to_owned());
        }
        if inputs == [dim, steps_max * dim, 1] {
            Ok(dim)
        } else {
            Err(format!(
                "it takes a target of {dim} columns, {steps_max} x {dim} columns and one with the \
                 length, not {inputs:?}"
            ))
        }
    }

    fn parameters(&self) -> Vec<ParameterShape> {
        let of = |name, shape, inputs| ParameterShape {
            name,
            shape,
            initial: Initial::uniform_over(inputs),
        };
        let (hidden, columns) = (self.hidden, self.columns());
        vec![
            of("hidden_weight", vec![hidden, columns], columns),
            of("hidden_bias", vec![hidden], columns),
            of("weight", vec![1, hidden], hidden),
            of("bias", vec![1], hidden),
        ]
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn kept_columns(&self) -> usize {
        self.steps_max * (1 + self.hidden)
    }

    /// A and B; features, their gradients and the hidden layer's of a chunk; u; gradients of A, B,
    /// u, the targets and all steps.
    fn scratch_lanes(&self, rows: usize) -> usize {
        let weights: usize = self.lanes_of_weights().iter().sum();
        let chunk = CHUNK * (2 * self.features() + self.hidden);
        2 * weights + chunk + rows * (self.hidden + self.dim * (1 + self.steps_max))
    }

    fn product_side(&self) -> usize {
        CHUNK.max(self.features()).max(self.hidden)
    }

    /// Counts sequences with all steps; an exponential counts as one operation.
    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let [dim, hidden, steps] = [self.dim, self.hidden, self.steps_max].map(|of| of as u64);
        let (once, product) = (2 * dim * hidden, 2 * 2 * dim * hidden);
        let to_inputs = |work| if wanted[..2] == [0, 0] { 0 } else { work };
        let of_step = product + 3 * dim + 7 * hidden + to_inputs(product + 6 * dim);
        Flops {
            forward: once + hidden + steps * (product + 3 * dim + 6 * hidden),
            backward: once + hidden + to_inputs(once) + steps * of_step,
        }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        let [of_hidden, hidden_bias, weight, bias] = self.parts(pass.parameters);
        let (sequences, rows) = (self.sequences(&pass.inputs), pass.output.rows());
        let [for_a, for_b] = self.lanes_of_weights();
        let of_chunk = [CHUNK * self.features(), CHUNK * self.hidden];
        let [a, b, of_targets, features, products] =
            divided(pass.scratch, [for_a, for_b, rows * self.hidden, of_chunk[0], of_chunk[1]]);
        let weights = self.add_up(of_hidden, [a, b]);
        let mut of_targets = MatrixMut::packed(of_targets, rows, self.hidden);
        for row in 0..rows {
            pass.output.row(row).fill(T::ZERO);
            of_targets.row(row).copy_from_slice(hidden_bias);
        }
        let (targets, of_target) = (plain(sequences.target), transposed(weights.of_target));
        pass.gemm.multiply(of_targets.reborrow(), Write::Accumulate, targets, of_target);
        let (parts, hidden) = pass.kept.data_mut().split_at_mut(rows * self.steps_max);
        let mut chunk = Chunk::new();
        while chunk.advance(&sequences) {
            let (places, count, first) = (chunk.places(), chunk.count, chunk.first);
            let gathered = MatrixMut::packed(&mut *features, count, self.features());
            Arch::new().dispatch(Gather { sequences, places, features: gathered });
            let hidden = &mut hidden[first * self.hidden..];
            let steps = self.padded(count);
            let all = with_zeros(features, count, [steps, self.features()]);
            let of_features = transposed(weights.of_features);
            let lanes = steps * self.hidden;
            // Rows of padding are overwritten by the next chunk, or never read.
            let fits = hidden.len() >= lanes;
            let to = if fits { &mut hidden[..lanes] } else { &mut products[..lanes] };
            let to = MatrixMut::packed(to, steps, self.hidden);
            pass.gemm.multiply(to, Write::Overwrite, plain(all), of_features);
            let hidden = &mut hidden[..count * self.hidden];
            if !fits {
                hidden.copy_from_slice(&products[..hidden.len()]);
            }
            let hidden = MatrixMut::packed(hidden, count, self.hidden);
            Arch::new().dispatch(Attend {
                sequences,
                places,
                of_targets: of_targets.as_ref(),
                weight,
                bias: bias[0],
                hidden,
                parts: &mut parts[first..],
                output: pass.output.reborrow(),
            });
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let [of_hidden, _, weight, _] = self.parts(pass.parameters);
        let (d_of_hidden, d_rest) = pass.gradients.split_at_mut(of_hidden.len());
        let (d_hidden_bias, d_others) = d_rest.split_at_mut(self.hidden);
        let (sequences, rows) = (self.sequences(&pass.inputs), pass.d_output.rows());
        let scratch = Scratch::new(self, rows, pass.scratch);
        let Scratch { weights, d_a, d_b, d_gathered, of_rows, .. } = scratch;
        let (gathered_of, d_sums_of) = (scratch.gathered, scratch.d_sums);
        let [d_of_targets, d_targets, d_steps] = of_rows;
        let (features, weights) = (self.features(), self.add_up(of_hidden, weights));
        d_others.fill(T::ZERO);
        let (parts, hidden) = pass.kept.data().split_at(rows * self.steps_max);
        let reaches_inputs = pass.d_inputs.is_wanted(0) || pass.d_inputs.is_wanted(1);
        let d_output = pass.d_output.as_ref();
        let mut chunk = Chunk::new();
        while chunk.advance(&sequences) {
            let (places, count, first) = (chunk.places(), chunk.count, chunk.first);
            let gathered = MatrixMut::packed(&mut *gathered_of, count, features);
            Arch::new().dispatch(Gather { sequences, places, features: gathered });
            let d_sums = MatrixMut::packed(&mut *d_sums_of, count, self.hidden);
            Arch::new().dispatch(AttendBack {
                sequences,
                places,
                weight,
                hidden: Matrix::packed(&hidden[first * self.hidden..], count, self.hidden),
                d_output,
                d_sums,
                d_of_targets: MatrixMut::packed(&mut *d_of_targets, rows, self.hidden),
                d_others: &mut *d_others,
            });
            let steps = self.padded(count);
            let d_sums = with_zeros(d_sums_of, count, [steps, self.hidden]);
            let gathered = with_zeros(gathered_of, count, [steps, features]);
            let to = MatrixMut::packed(&mut *d_b, self.hidden, features);
            pass.gemm.multiply(to, Write::Accumulate, transposed(d_sums), plain(gathered));
            if reaches_inputs {
                let d_gathered = &mut d_gathered[..steps * features];
                let mut d_gathered = MatrixMut::packed(d_gathered, steps, features);
                let (to, of_features) = (d_gathered.reborrow(), plain(weights.of_features));
                pass.gemm.multiply(to, Write::Overwrite, plain(d_sums), of_features);
                Arch::new().dispatch(ToInputs {
                    sequences,
                    places,
                    d_features: d_gathered.as_ref(),
                    parts: &parts[first..],
                    d_output,
                    d_targets: MatrixMut::packed(&mut *d_targets, rows, self.dim),
                    d_steps: MatrixMut::packed(&mut d_steps[first * self.dim..], count, self.dim),
                });
            }
        }
        let d_of_targets = Matrix::packed(d_of_targets, rows, self.hidden);
        let to = MatrixMut::packed(&mut *d_a, self.hidden, self.dim);
        let targets = plain(sequences.target);
        pass.gemm.multiply(to, Write::Overwrite, transposed(d_of_targets), targets);
        self.divide([d_a, d_b], d_of_hidden);
        Arch::new().dispatch(SumRows { of: d_of_targets, sums: d_hidden_bias });
        if let Some(out) = pass.d_inputs.get(0) {
            let mut d_targets = MatrixMut::packed(&mut *d_targets, rows, self.dim);
            let (to, of_target) = (d_targets.reborrow(), plain(weights.of_target));
            pass.gemm.multiply(to, Write::Accumulate, plain(d_of_targets), of_target);
            copy(d_targets.as_ref().select(0..out.gradient.columns()), out.gradient, out.write);
        }
        if let Some(out) = pass.d_inputs.get(1) {
            sequences.spread(d_steps, out);
        }
        if let Some(mut out) = pass.d_inputs.get(2)
            && out.write == Write::Overwrite
        {
            clear_columns(&mut out.gradient, &(0..1));
        }
    }
}

/// A matrix of this shape, in `lanes`: after `count` rows, all are 0.
fn with_zeros<T: Scalar>(lanes: &mut [T], count: usize, shape: [usize; 2]) -> Matrix<'_, T> {
    let [rows, columns] = shape;
    lanes[count * columns..rows * columns].fill(T::ZERO);
    Matrix::packed(&lanes[..rows * columns], rows, columns)
}

/// The first parts of `lanes`, of these lengths.
fn divided<T, const PARTS: usize>(lanes: &mut [T], lengths: [usize; PARTS]) -> [&mut [T]; PARTS] {
    let mut rest = lanes;
    lengths.map(|length| {
        let (part, others) = std::mem::take(&mut rest).split_at_mut(length);
        rest = others;
        part
    })
}

/// Parts of the scratch of the backward pass; sums start at 0.
struct Scratch<'a, T> {
    /// A and B.
    weights: [&'a mut [T]; 2],
    d_a: &'a mut [T],
    d_b: &'a mut [T],
    /// Features of a chunk, their gradients and the hidden layer's.
    gathered: &'a mut [T],
    d_gathered: &'a mut [T],
    d_sums: &'a mut [T],
    /// Gradients of u, the targets and all steps.
    of_rows: [&'a mut [T]; 3],
}

impl<'a, T: Scalar> Scratch<'a, T> {
    fn new(layer: &TargetAttention, rows: usize, lanes: &'a mut [T]) -> Self {
        let ([of_a, of_b], gathered) = (layer.lanes_of_weights(), CHUNK * layer.features());
        let of_chunk = [gathered, gathered, CHUNK * layer.hidden];
        let of_rows = [layer.hidden, layer.dim, layer.steps_max * layer.dim].map(|of| rows * of);
        let [weights, d_weights, chunk, rest] =
            divided(lanes, [of_a + of_b, of_a + of_b, of_chunk.iter().sum(), of_rows.iter().sum()]);
        let [d_a, d_b] = divided(d_weights, [of_a, of_b]);
        let [gathered, d_gathered, d_sums] = divided(chunk, of_chunk);
        let of_rows = divided(rest, of_rows);
        d_b.fill(T::ZERO);
        of_rows[0].fill(T::ZERO);
        of_rows[1].fill(T::ZERO);
        let weights = divided(weights, [of_a, of_b]);
        Self { weights, d_a, d_b, gathered, d_gathered, d_sums, of_rows }
    }
}

/// A and B.
struct Weights<'a, T> {
    of_target: Matrix<'a, T>,   // (hidden, dim)
    of_features: Matrix<'a, T>, // (hidden, 2 dim)
}
