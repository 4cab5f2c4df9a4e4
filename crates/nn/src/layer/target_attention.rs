//! Attention of a target to a sequence, the activation unit of DIN (Zhou et al., KDD 2018).
//!
//! ```text
//! inputs  q (rows, dim)                 target
//!         [ s₁: dim ][ s₂: dim ] ...    steps_max vectors
//!         length (rows, 1)
//! weights hidden_weight W (hidden, 4 dim), weight w (1, hidden)
//! biases  hidden_bias b (hidden), bias c (1)
//!
//! step t      f = [ q | s_t | q - s_t | q ∘ s_t ]
//!             h = σ(W f + b),   a = h·w + c          not normalized over the steps
//! output      y = a₁ s₁ + a₂ s₂ + ...                               // (rows, dim)
//! kept        [ h | a ] of each step that counts, one after another
//! ```
//!
//! Steps past the length don't count: their vectors are never read, and have gradient 0. A length
//! is rounded down to an integer from 0 to `steps_max`; NaN means all steps. The output of an
//! example without steps is 0.
//!
//! The steps of all examples of a block, in order, are divided into chunks, whose features are
//! gathered in one matrix each. So products have no rows for padding, and work is proportional to
//! the lengths. In the backward pass, `[ f_q | f_s | f_d | f_p ]` is the gradient of the features:
//!
//! ```text
//! da = dy·s_t,   dw += da h,   dc += da,   dz = da w ∘ h ∘ (1 - h)
//! dW += dzᵀ f,   db += dz,     df = dz W
//! dq += f_q + f_d + f_p ∘ s_t,   ds_t = f_s - f_d + f_p ∘ q + a dy
//! ```
//!
//! Sums of parameters run over the steps in order. Dot products run over the lanes in the order of
//! `lane_sums`.

use pulp::{Arch, Simd, WithSimd};

use super::activate::sigmoid;
use super::add::copy;
use super::lane_sums::dot;
use super::sequence::steps_of;
use super::{
    Backward, Flops, Forward, GradientOut, Inputs, Layer, Operation, Reads, clear_columns,
};
use crate::gemm::Scalar;
use crate::gemm::{plain, transposed};
use crate::matrix::{Matrix, MatrixMut, Write};
use crate::parameter::{Initial, ParameterShape};

/// The most steps whose features are gathered at a time.
const CHUNK: usize = 256;

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
    fn features(&self) -> usize {
        4 * self.dim
    }

    /// Lanes kept per step.
    fn kept_of_step(&self) -> usize {
        self.hidden + 1
    }

    /// Weight and bias of the hidden layer, and of the sum over it.
    fn parts<'a, T: Scalar>(&self, parameters: &'a [T]) -> [&'a [T]; 4] {
        let (of_hidden, rest) = parameters.split_at(self.hidden * self.features());
        let (hidden_bias, rest) = rest.split_at(self.hidden);
        let (weight, bias) = rest.split_at(self.hidden);
        [of_hidden, hidden_bias, weight, bias]
    }

    fn sequences<'a, T: Scalar>(&self, inputs: &Inputs<'a, T>) -> Sequences<'a, T> {
        let [target, vectors, lengths] = [0, 1, 2].map(|index| inputs.get(index));
        Sequences { layer: *self, target, vectors, lengths }
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
        let (hidden, features) = (self.hidden, self.features());
        vec![
            of("hidden_weight", vec![hidden, features], features),
            of("hidden_bias", vec![hidden], features),
            of("weight", vec![1, hidden], hidden),
            of("bias", vec![1], hidden),
        ]
    }

    fn weight(&self) -> Option<[usize; 2]> {
        Some([self.hidden, self.features()])
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn kept_columns(&self) -> usize {
        self.steps_max * self.kept_of_step()
    }

    /// Features, their gradients and the hidden layer's of a chunk; gradients of the targets and of
    /// all steps.
    fn scratch_lanes(&self, rows: usize) -> usize {
        let chunk = CHUNK * (2 * self.features() + self.hidden);
        chunk + rows * self.dim * (1 + self.steps_max)
    }

    fn product_side(&self) -> usize {
        CHUNK.max(self.features()).max(self.hidden)
    }

    /// Counts sequences with all steps; an exponential counts as one operation.
    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let [dim, hidden, steps] = [self.dim, self.hidden, self.steps_max].map(|of| of as u64);
        let product = 2 * 4 * dim * hidden;
        let to_inputs = if wanted[..2] == [0, 0] { 0 } else { product + 9 * dim };
        Flops {
            forward: steps * (product + 4 * dim + 6 * hidden),
            backward: steps * (product + 4 * dim + 7 * hidden + to_inputs),
        }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        let [of_hidden, hidden_bias, weight, bias] = self.parts(pass.parameters);
        let of_hidden = Matrix::packed(of_hidden, self.hidden, self.features());
        let of_hidden = transposed(of_hidden).with_packed(pass.packed_weight);
        let sequences = self.sequences(&pass.inputs);
        (0..pass.output.rows()).for_each(|row| pass.output.row(row).fill(T::ZERO));
        let mut chunk = Chunk::new();
        while chunk.advance(&sequences) {
            let (places, count) = (chunk.places(), chunk.places().len());
            let mut features = MatrixMut::packed(&mut *pass.scratch, count, self.features());
            Arch::new().dispatch(Gather { sequences, places, features: features.reborrow() });
            let kept = &mut pass.kept.data_mut()[chunk.first * self.kept_of_step()..];
            let mut kept = MatrixMut::packed(kept, count, self.kept_of_step());
            let (sums, features) = (kept.reborrow().select(0..self.hidden), features.as_ref());
            pass.gemm.multiply(sums, Write::Overwrite, plain(features), of_hidden);
            let output = pass.output.reborrow();
            let attend =
                Attend { sequences, places, hidden_bias, weight, bias: bias[0], kept, output };
            Arch::new().dispatch(attend);
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let [of_hidden, _, weight, _] = self.parts(pass.parameters);
        let of_hidden = Matrix::packed(of_hidden, self.hidden, self.features());
        let (d_of_hidden, d_rest) = pass.gradients.split_at_mut(of_hidden.data().len());
        d_of_hidden.fill(T::ZERO);
        d_rest.fill(T::ZERO);
        let (sequences, rows) = (self.sequences(&pass.inputs), pass.d_output.rows());
        let (features, rest) = pass.scratch.split_at_mut(CHUNK * self.features());
        let (d_features, rest) = rest.split_at_mut(CHUNK * self.features());
        let (d_sums, rest) = rest.split_at_mut(CHUNK * self.hidden);
        let (d_targets, d_steps) = rest.split_at_mut(rows * self.dim);
        d_targets.fill(T::ZERO);
        let reaches_inputs = pass.d_inputs.is_wanted(0) || pass.d_inputs.is_wanted(1);
        let d_output = pass.d_output.as_ref();
        let mut chunk = Chunk::new();
        while chunk.advance(&sequences) {
            let (places, count, first) = (chunk.places(), chunk.places().len(), chunk.first);
            let mut features = MatrixMut::packed(&mut *features, count, self.features());
            Arch::new().dispatch(Gather { sequences, places, features: features.reborrow() });
            let kept = &pass.kept.data()[first * self.kept_of_step()..];
            let kept = Matrix::packed(kept, count, self.kept_of_step());
            let (features, mut d_sums) =
                (features.as_ref(), MatrixMut::packed(&mut *d_sums, count, self.hidden));
            Arch::new().dispatch(AttendBack {
                sequences,
                places,
                weight,
                kept,
                d_output,
                d_sums: d_sums.reborrow(),
                d_rest: &mut *d_rest,
            });
            let d_sums = d_sums.as_ref();
            let to = MatrixMut::packed(&mut *d_of_hidden, self.hidden, self.features());
            pass.gemm.multiply(to, Write::Accumulate, transposed(d_sums), plain(features));
            if !reaches_inputs {
                continue;
            }
            let mut d_features = MatrixMut::packed(&mut *d_features, count, self.features());
            let of_hidden = plain(of_hidden).with_packed(pass.packed_weight);
            pass.gemm.multiply(d_features.reborrow(), Write::Overwrite, plain(d_sums), of_hidden);
            Arch::new().dispatch(ToInputs {
                places,
                features,
                d_features: d_features.as_ref(),
                kept,
                d_output,
                d_targets: MatrixMut::packed(&mut *d_targets, rows, self.dim),
                d_steps: MatrixMut::packed(&mut d_steps[first * self.dim..], count, self.dim),
            });
        }
        if let Some(out) = pass.d_inputs.get(0) {
            let d_targets = Matrix::packed(d_targets, rows, self.dim);
            copy(d_targets.select(0..out.gradient.columns()), out.gradient, out.write);
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

/// Inputs of a block.
#[derive(Clone, Copy)]
struct Sequences<'a, T> {
    layer: TargetAttention,
    target: Matrix<'a, T>,  // (rows, dim)
    vectors: Matrix<'a, T>, // (rows, steps_max * dim)
    lengths: Matrix<'a, T>, // (rows, 1)
}

impl<'a, T: Scalar> Sequences<'a, T> {
    /// Number of steps of an example.
    fn steps(&self, row: usize) -> usize {
        steps_of(self.lengths.row(row)[0], self.layer.steps_max)
    }

    #[inline(always)]
    fn vector(&self, (row, step): (usize, usize)) -> &'a [T] {
        let dim = self.layer.dim;
        &self.vectors.row(row)[step * dim..][..dim]
    }

    /// Writes the gradients of all steps that count to where they belong; others have none.
    fn spread(&self, d_steps: &[T], mut out: GradientOut<'_, T>) {
        let (dim, mut of_steps) = (self.layer.dim, d_steps.chunks_exact(self.layer.dim));
        for row in 0..self.vectors.rows() {
            let gradient = out.gradient.row(row);
            if out.write == Write::Overwrite {
                gradient.fill(T::ZERO);
            }
            let steps = of_steps.by_ref().take(self.steps(row));
            let mut vectors = gradient.chunks_mut(dim);
            for d_step in steps {
                // Only the first columns may need a gradient.
                let lanes = vectors.next().unwrap_or_default();
                lanes.iter_mut().zip(d_step).for_each(|(d, by)| *d += *by);
            }
        }
    }
}

/// Consecutive steps that count, of all examples in order.
struct Chunk {
    /// Example and step of each.
    places: [(usize, usize); CHUNK],
    count: usize,
    /// Number of steps in earlier chunks.
    first: usize,
    /// The place after the last.
    next: (usize, usize),
}

impl Chunk {
    /// The empty chunk before the first.
    fn new() -> Self {
        Self { places: [(0, 0); CHUNK], count: 0, first: 0, next: (0, 0) }
    }

    /// Moves on to the next chunk; false if there is none.
    fn advance<T: Scalar>(&mut self, sequences: &Sequences<'_, T>) -> bool {
        self.first += self.count;
        self.count = 0;
        let (first, step) = self.next;
        let mut start = step;
        for row in first..sequences.lengths.rows() {
            for step in start..sequences.steps(row) {
                if self.count == CHUNK {
                    self.next = (row, step);
                    return true;
                }
                self.places[self.count] = (row, step);
                self.count += 1;
            }
            start = 0;
        }
        self.next = (sequences.lengths.rows(), 0);
        self.count > 0
    }

    fn places(&self) -> &[(usize, usize)] {
        &self.places[..self.count]
    }
}

/// Writes the features of a chunk.
struct Gather<'a, T> {
    sequences: Sequences<'a, T>,
    places: &'a [(usize, usize)],
    features: MatrixMut<'a, T>, // (steps, 4 dim)
}

impl<T: Scalar> WithSimd for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let dim = self.sequences.layer.dim;
        for (index, place) in self.places.iter().enumerate() {
            let (q, s) = (self.sequences.target.row(place.0), self.sequences.vector(*place));
            let (both, others) = self.features.row(index).split_at_mut(2 * dim);
            let (differences, products) = others.split_at_mut(dim);
            both[..dim].copy_from_slice(q);
            both[dim..].copy_from_slice(s);
            let pairs = || q.iter().zip(s);
            differences.iter_mut().zip(pairs()).for_each(|(to, (q, s))| *to = *q - *s);
            products.iter_mut().zip(pairs()).for_each(|(to, (q, s))| *to = *q * *s);
        }
    }
}

/// Computes the hidden layer and the weight of each step of a chunk, and adds up its vectors.
struct Attend<'a, T> {
    sequences: Sequences<'a, T>,
    places: &'a [(usize, usize)],
    hidden_bias: &'a [T], // (hidden)
    weight: &'a [T],      // (hidden)
    bias: T,
    kept: MatrixMut<'a, T>,   // (steps, hidden + 1)
    output: MatrixMut<'a, T>, // (rows, dim)
}

impl<T: Scalar> WithSimd for Attend<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for (index, place) in self.places.iter().enumerate() {
            let (hidden, kept) = self.kept.row(index).split_at_mut(self.weight.len());
            hidden.iter_mut().zip(self.hidden_bias).for_each(|(z, b)| *z = sigmoid(*z + *b));
            let a = dot(hidden, self.weight) + self.bias;
            kept[0] = a;
            let output = self.output.row(place.0).iter_mut();
            output.zip(self.sequences.vector(*place)).for_each(|(y, s)| *y += a * *s);
        }
    }
}

/// Computes the gradients of a chunk's hidden sums, and adds those of the parameters but the first.
struct AttendBack<'a, T> {
    sequences: Sequences<'a, T>,
    places: &'a [(usize, usize)],
    weight: &'a [T],          // (hidden)
    kept: Matrix<'a, T>,      // (steps, hidden + 1)
    d_output: Matrix<'a, T>,  // (rows, dim)
    d_sums: MatrixMut<'a, T>, // (steps, hidden)
    d_rest: &'a mut [T],      // (hidden + hidden + 1)
}

impl<T: Scalar> WithSimd for AttendBack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let (d_hidden_bias, d_others) = self.d_rest.split_at_mut(self.weight.len());
        let (d_weight, d_bias) = d_others.split_at_mut(self.weight.len());
        for (index, place) in self.places.iter().enumerate() {
            let da = dot(self.d_output.row(place.0), self.sequences.vector(*place));
            d_bias[0] += da;
            let hidden = &self.kept.row(index)[..self.weight.len()];
            d_weight.iter_mut().zip(hidden).for_each(|(sum, h)| *sum += da * *h);
            let d_sums = self.d_sums.row(index);
            let lanes = d_sums.iter_mut().zip(hidden.iter().zip(self.weight));
            lanes.for_each(|(dz, (h, w))| *dz = da * *w * *h * (T::ONE - *h));
            d_hidden_bias.iter_mut().zip(d_sums).for_each(|(sum, dz)| *sum += *dz);
        }
    }
}

/// Adds the gradients of a chunk's targets, and computes those of its vectors.
struct ToInputs<'a, T> {
    places: &'a [(usize, usize)],
    features: Matrix<'a, T>,     // (steps, 4 dim)
    d_features: Matrix<'a, T>,   // (steps, 4 dim)
    kept: Matrix<'a, T>,         // (steps, hidden + 1)
    d_output: Matrix<'a, T>,     // (rows, dim)
    d_targets: MatrixMut<'a, T>, // (rows, dim)
    d_steps: MatrixMut<'a, T>,   // (steps, dim)
}

impl<T: Scalar> WithSimd for ToInputs<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let (dim, last) = (self.d_steps.columns(), self.kept.columns() - 1);
        for (index, (row, _)) in self.places.iter().enumerate() {
            let (q, others) = self.features.row(index).split_at(dim);
            let (s, a) = (&others[..dim], self.kept.row(index)[last]);
            let (of_q, others) = self.d_features.row(index).split_at(dim);
            let (of_s, others) = others.split_at(dim);
            let (of_d, of_p) = others.split_at(dim);
            let gradients = || of_d.iter().zip(of_p);
            let to_target = self.d_targets.row(*row).iter_mut().zip(of_q.iter().zip(s));
            to_target.zip(gradients()).for_each(|((d, (fq, s)), (fd, fp))| {
                *d += *fq + *fd + *fp * *s;
            });
            let dy = self.d_output.row(*row);
            let to_step = self.d_steps.row(index).iter_mut().zip(of_s.iter().zip(q.iter().zip(dy)));
            to_step.zip(gradients()).for_each(|((d, (fs, (q, dy))), (fd, fp))| {
                *d = *fs - *fd + *fp * *q + a * *dy;
            });
        }
    }
}
