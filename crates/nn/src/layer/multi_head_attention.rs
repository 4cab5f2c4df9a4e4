//! Multi-head attention to a sequence (Vaswani et al., "Attention Is All You Need", NeurIPS 2017).
//!
//! ```text
//! inputs  [ q₁: dim ][ q₂: dim ] ...    a query of each head
//!         [ s₁: dim ][ s₂: dim ] ...    steps_max vectors
//!         length (rows, 1)              as of `TargetAttention`
//!
//! head h    z_t = q_h·s_t / √dim,  p_t = exp z_t / Σ_u exp z_u
//! output    y_h = p₁ s₁ + p₂ s₂ + ...                          // (rows, heads * dim)
//! kept      p of each step, head by head                       // (rows, heads * steps_max)
//! backward  dp_t = dy_h·s_t,  dz_t = p_t (dp_t - Σ_u p_u dp_u) / √dim
//!           dq_h = Σ_t dz_t s_t,  ds_t = Σ_h p_t dy_h + dz_t q_h
//! ```
//!
//! There are no parameters. A linear layer computes the queries, and another one reads the heads'
//! outputs. They include the paper's projections of keys and values, since
//! `(W_q x)·(W_k s) = (W_kᵀ W_q x)·s` and `Σ p W_v s = W_v Σ p s`. So a step costs
//! `4 heads * dim` operations instead of products of matrices.
//!
//! Steps past the length are never read, and have gradient 0. The output of an example without
//! steps is 0. Sums over steps run in order, then over heads; dot products run over the lanes in
//! the order of `lane_sums`.

use pulp::{Arch, Simd, WithSimd};

use super::add::copy;
use super::lane_sums::dot;
use super::lanes::set;
use super::sequence::steps_of;
use super::{Backward, Flops, Forward, Layer, Operation, Reads, clear_columns};
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};

/// Averages the vectors of a sequence, weighted by their dot products with each head's query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiHeadAttention {
    /// Number of queries.
    pub heads: usize,
    /// Values of each query and vector.
    pub dim: usize,
    /// Most vectors of an example.
    pub steps_max: usize,
}

impl MultiHeadAttention {
    /// Columns of the queries, and of the output.
    fn columns(&self) -> usize {
        self.heads * self.dim
    }

    /// Factor of dot products.
    fn scale<T: Scalar>(&self) -> T {
        T::from_f64(1.0 / (self.dim as f64).sqrt())
    }
}

impl<T: Scalar> Layer<T> for MultiHeadAttention {
    fn operation(&self) -> Operation {
        let Self { heads, dim, steps_max } = *self;
        Operation::MultiHeadAttention { heads, dim, steps_max }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let Self { heads, dim, steps_max } = *self;
        if heads == 0 || dim == 0 || steps_max == 0 {
            return Err("an attention has at least one head, value and step".to_owned());
        }
        if inputs == [self.columns(), steps_max * dim, 1] {
            return Ok(self.columns());
        }
        Err(format!(
            "it takes {heads} x {dim} columns of queries, {steps_max} x {dim} columns and one with \
             the length, not {inputs:?}"
        ))
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn kept_columns(&self) -> usize {
        self.heads * self.steps_max
    }

    /// Gradients of a head's dot products, and of all queries and vectors.
    fn scratch_lanes(&self, rows: usize) -> usize {
        self.steps_max + rows * (self.columns() + self.steps_max * self.dim)
    }

    /// Counts sequences with all steps; an exponential counts as one operation.
    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let [heads, dim, steps] = [self.heads, self.dim, self.steps_max].map(|of| of as u64);
        let backward = if wanted[..2] == [0, 0] { 0 } else { heads * steps * (8 * dim + 4) };
        Flops { forward: heads * steps * (4 * dim + 4), backward }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let [queries, vectors, lengths] = [0, 1, 2].map(|index| pass.inputs.get(index));
        let block = Block { layer: *self, queries, vectors, lengths };
        Arch::new().dispatch(Attend { block, parts: pass.kept, output: pass.output });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let [queries, vectors, lengths] = [0, 1, 2].map(|index| pass.inputs.get(index));
        let block = Block { layer: *self, queries, vectors, lengths };
        let (rows, columns, lanes) = (queries.rows(), self.columns(), self.steps_max * self.dim);
        let (d_scores, rest) = pass.scratch.split_at_mut(self.steps_max);
        let (d_queries, rest) = rest.split_at_mut(rows * columns);
        let d_vectors = &mut rest[..rows * lanes];
        if pass.d_inputs.is_wanted(0) || pass.d_inputs.is_wanted(1) {
            Arch::new().dispatch(AttendBack {
                block,
                parts: pass.kept,
                d_output: pass.d_output.as_ref(),
                d_scores,
                d_queries: MatrixMut::packed(&mut *d_queries, rows, columns),
                d_vectors: MatrixMut::packed(&mut *d_vectors, rows, lanes),
            });
        }
        let gradients = [(&*d_queries, columns), (&*d_vectors, lanes)];
        for (index, (gradient, columns)) in gradients.into_iter().enumerate() {
            if let Some(out) = pass.d_inputs.get(index) {
                let wanted = 0..out.gradient.columns();
                let gradient = Matrix::packed(gradient, rows, columns).select(wanted);
                copy(gradient, out.gradient, out.write);
            }
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
struct Block<'a, T> {
    layer: MultiHeadAttention,
    queries: Matrix<'a, T>, // (rows, heads * dim)
    vectors: Matrix<'a, T>, // (rows, steps_max * dim)
    lengths: Matrix<'a, T>, // (rows, 1)
}

impl<'a, T: Scalar> Block<'a, T> {
    /// The vectors of an example that count.
    #[inline(always)]
    fn vectors(&self, row: usize) -> impl Iterator<Item = &'a [T]> + use<'a, T> {
        let MultiHeadAttention { dim, steps_max, .. } = self.layer;
        let steps = steps_of(self.lengths.row(row)[0], steps_max);
        self.vectors.row(row).chunks_exact(dim).take(steps)
    }
}

/// Computes the weights of all steps, and adds up the vectors.
struct Attend<'a, T> {
    block: Block<'a, T>,
    parts: MatrixMut<'a, T>,  // (rows, heads * steps_max)
    output: MatrixMut<'a, T>, // (rows, heads * dim)
}

impl<T: Scalar> WithSimd for Attend<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let layer = self.block.layer;
        let scale = layer.scale::<T>();
        for row in 0..self.output.rows() {
            let queries = self.block.queries.row(row).chunks_exact(layer.dim);
            let heads = self.parts.row(row).chunks_exact_mut(layer.steps_max);
            let outputs = self.output.row(row).chunks_exact_mut(layer.dim);
            for ((query, parts), output) in queries.zip(heads).zip(outputs) {
                // NaN is never the largest, but propagates through the sum.
                let mut most = T::from_f64(f64::NEG_INFINITY);
                for (part, vector) in parts.iter_mut().zip(self.block.vectors(row)) {
                    *part = dot(query, vector) * scale;
                    most = if *part > most { *part } else { most };
                }
                let mut sum = T::ZERO;
                for (part, _) in parts.iter_mut().zip(self.block.vectors(row)) {
                    *part = (*part - most).exp();
                    sum += *part;
                }
                output.fill(T::ZERO);
                for (part, vector) in parts.iter_mut().zip(self.block.vectors(row)) {
                    *part = *part / sum;
                    let p = *part;
                    set(output, [vector], |y, [s]| y + p * s);
                }
            }
        }
    }
}

/// Computes the gradients of queries and vectors.
struct AttendBack<'a, T> {
    block: Block<'a, T>,
    parts: Matrix<'a, T>,        // (rows, heads * steps_max)
    d_output: Matrix<'a, T>,     // (rows, heads * dim)
    d_scores: &'a mut [T],       // (steps_max)
    d_queries: MatrixMut<'a, T>, // (rows, heads * dim)
    d_vectors: MatrixMut<'a, T>, // (rows, steps_max * dim)
}

impl<T: Scalar> WithSimd for AttendBack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.parts.rows() {
            self.row(row);
        }
    }
}

impl<T: Scalar> AttendBack<'_, T> {
    #[inline(always)]
    fn row(&mut self, row: usize) {
        let (block, layer) = (self.block, self.block.layer);
        let scale = layer.scale::<T>();
        let d_vectors = self.d_vectors.row(row);
        d_vectors.fill(T::ZERO);
        let queries = block.queries.row(row).chunks_exact(layer.dim);
        let d_queries = self.d_queries.row(row).chunks_exact_mut(layer.dim);
        let d_outputs = self.d_output.row(row).chunks_exact(layer.dim);
        let heads = self.parts.row(row).chunks_exact(layer.steps_max).zip(d_outputs);
        for ((query, d_query), (parts, dy)) in queries.zip(d_queries).zip(heads) {
            let mut mean = T::ZERO;
            let steps = self.d_scores.iter_mut().zip(parts).zip(block.vectors(row));
            for ((d_score, p), vector) in steps {
                *d_score = dot(dy, vector);
                mean += *p * *d_score;
            }
            d_query.fill(T::ZERO);
            let steps = self.d_scores.iter().zip(parts).zip(block.vectors(row));
            let steps = steps.zip(d_vectors.chunks_exact_mut(layer.dim));
            for (((d_score, p), vector), d_vector) in steps {
                let (p, dz) = (*p, *p * (*d_score - mean) * scale);
                set(d_query, [vector], |d, [s]| d + dz * s);
                set(d_vector, [dy, query], |d, [dy, q]| d + (p * dy + dz * q));
            }
        }
    }
}
