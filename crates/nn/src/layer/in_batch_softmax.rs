//! Scores pairs of vectors against the other pairs of their block: the in-batch softmax of two
//! towers (Yi et al., "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item
//! Recommendations", RecSys 2019).
//!
//! ```text
//! inputs      u (rows, dim)          an example's user
//!             v (rows, dim)          its item
//!             b (rows, 1), optional  bin of its id, from 0 to [`BINS`] - 1; -1 for no id
//! state       n (BINS)               examples with each bin in earlier steps
//!
//! scores      s_ij = u_i·v_j / τ - ln (1 + n[b_j])          τ: temperature
//! training    z_i = s_ii - ln Σ_j exp s_ij                  over j with v_j ≠ v_i
//! evaluation  z_i = u_i·v_i / τ
//! ```
//!
//! The logistic function of z_i is exp s_ii / (exp s_ii + Σ_j exp s_ij): the softmax's share of the
//! example's own item. So the log loss of a positive is the softmax's cross entropy. Examples of
//! the same item have the same vector, bit for bit, and aren't each other's negatives. An example
//! without negatives has the logit [`ALONE`] and no gradient.
//!
//! Frequent items are negatives more often, which lowers their scores too far. Subtracting the
//! logarithm of an item's count corrects this; the total number of examples would only add a
//! constant, which cancels. Without bins there is neither a correction nor state. Counts are f32:
//! beyond 2²⁴, adding 1 no longer changes them.
//!
//! ```text
//! kept        first row with the same item; ln Σ_j exp s_ij; ln (1 + n[b_i])
//! statistics  examples of the block with each bin
//! backward    ds_ii = dz_i,  ds_ij = -dz_i exp(s_ij - ln Σ_k exp s_ik)
//!             du_i = Σ_j ds_ij v_j / τ,  dv_j = Σ_i ds_ij u_i / τ
//! ```
//!
//! Like batch normalization, this looks at the other examples of the block, so the model depends on
//! the number of blocks, but not on threads and ranks. Scores are products of matrices, for
//! [`TILE`] rows at a time, and are computed again in the backward pass. Sums over j run in the
//! order of `lane_sums`, sums over i in order.

use pulp::{Arch, Simd, WithSimd};

use super::add::copy;
use super::lane_sums::{dot, sum_of};
use super::{Backward, Flops, Forward, Inputs, Layer, Operation, Purpose, Reads};
use crate::gemm::{Gemm, Scalar, plain, transposed};
use crate::matrix::{Matrix, MatrixMut, Write};
use crate::parameter::{Initial, ParameterShape};

/// The most rows whose scores are computed at a time.
const TILE: usize = 64;
/// Number of bins of ids.
pub const BINS: usize = 1 << 16;
/// Logit of an example without negatives: its log loss is 0 in f32.
const ALONE: f64 = 104.0;

/// Scores an example's pair of vectors against the pairs of its user with the block's other items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InBatchSoftmax {
    /// Columns of each vector.
    pub dim: usize,
    /// Divisor of the scores, above 0.
    pub temperature: f64,
    /// Whether a third input has the bin of each item's id, by which scores are corrected.
    pub counts_items: bool,
}

impl InBatchSoftmax {
    /// Factor of dot products.
    fn factor<T: Scalar>(&self) -> T {
        T::from_f64(1.0 / self.temperature)
    }
}

impl<T: Scalar> Layer<T> for InBatchSoftmax {
    fn operation(&self) -> Operation {
        let Self { dim, temperature, .. } = *self;
        Operation::InBatchSoftmax { dim, temperature }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let Self { dim, temperature, counts_items } = *self;
        if dim == 0 {
            return Err("a vector has at least one column".to_owned());
        }
        if !(temperature.is_finite() && temperature > 0.0) {
            return Err(format!("a temperature of {temperature}: give a number above 0"));
        }
        match inputs {
            [user, item] if [*user, *item] == [dim; 2] && !counts_items => Ok(1),
            [user, item, 1] if [*user, *item] == [dim; 2] && counts_items => Ok(1),
            _ => Err(format!(
                "it takes two inputs of {dim} columns, and optionally one of 1, not {inputs:?}"
            )),
        }
    }

    fn state(&self) -> Vec<ParameterShape> {
        let initial = Initial::Constant(0.0);
        let count = ParameterShape { name: "count", shape: vec![BINS], initial };
        if self.counts_items { vec![count] } else { Vec::new() }
    }

    fn statistics_lanes(&self) -> usize {
        if self.counts_items { BINS } else { 0 }
    }

    fn advance(&self, state: &mut [T], statistics: &[T]) {
        state.iter_mut().zip(statistics).for_each(|(count, more)| *count += *more);
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn kept_columns(&self) -> usize {
        3
    }

    fn scratch_lanes(&self, rows: usize) -> usize {
        (rows.min(TILE) + self.dim + 2) * rows
    }

    fn product_side(&self) -> usize {
        self.dim
    }

    /// Counts the product of an example's vectors; those with other examples depend on the block.
    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        Flops { forward: 2 * self.dim as u64, backward: 2 * wanted.iter().sum::<usize>() as u64 }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { purpose, inputs, mut output, mut kept, scratch, mut gemm, .. } = pass;
        let rows = inputs.get(0).rows();
        let Purpose::Training(training) = purpose else {
            let [user, item] = [inputs.get(0), inputs.get(1)];
            let factor = self.factor::<T>();
            (0..rows)
                .for_each(|row| output.row(row)[0] = factor * dot(user.row(row), item.row(row)));
            return;
        };
        let mut block = Pairs::new(*self, inputs, scratch);
        number_items(inputs.get(1), block.items);
        block.corrections.fill(T::ZERO);
        if self.counts_items {
            let bins = inputs.get(2);
            correct(bins, training.state, block.corrections);
            training.statistics.into_iter().for_each(|counts| count(bins, counts));
        }
        for start in (0..rows).step_by(TILE) {
            let count = block.score(start, &mut gemm);
            for at in 0..count {
                let (row, scores) = (start + at, &block.tile[at * rows..(at + 1) * rows]);
                let others = Others { scores, items: block.items, own: block.items[row] };
                let sum = Arch::new().dispatch(others);
                let (item, correction) = (block.items[row], block.corrections[row]);
                kept.row(row).copy_from_slice(&[item, sum.unwrap_or(T::ZERO), correction]);
                output.row(row)[0] = sum.map_or(T::from_f64(ALONE), |sum| scores[row] - sum);
            }
        }
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { inputs, kept, d_output, mut d_inputs, scratch, mut gemm, .. } = pass;
        let (rows, factor) = (kept.rows(), self.factor::<T>());
        let mut block = Pairs::new(*self, inputs, scratch);
        for row in 0..rows {
            block.items[row] = kept.row(row)[0];
            block.corrections[row] = kept.row(row)[2];
        }
        let d_output = d_output.as_ref();
        let mut to_user = d_inputs.get(0);
        for start in (0..rows).step_by(TILE) {
            let count = block.score(start, &mut gemm);
            for at in 0..count {
                let row = start + at;
                let to = Differentiate {
                    scores: &mut block.tile[at * rows..(at + 1) * rows],
                    items: block.items,
                    row,
                    sum: kept.row(row)[1],
                    d_output: d_output.row(row)[0],
                    factor,
                };
                Arch::new().dispatch(to);
            }
            let d_scores = Matrix::packed(&block.tile[..count * rows], count, rows);
            if let Some(out) = &mut to_user {
                let columns = out.gradient.columns();
                let to = rows_of(&mut out.gradient, start, count);
                let items = inputs.get(1).select(0..columns);
                gemm.multiply(to, out.write, plain(d_scores), plain(items));
            }
            let to = MatrixMut::packed(block.d_items, rows, self.dim);
            let write = if start == 0 { Write::Overwrite } else { Write::Accumulate };
            let users = part(inputs.get(0), start, count);
            gemm.multiply(to, write, transposed(d_scores), plain(users));
        }
        let d_items = Matrix::packed(&block.d_items[..rows * self.dim], rows, self.dim);
        if let Some(out) = d_inputs.get(1) {
            copy(d_items.select(0..out.gradient.columns()), out.gradient, out.write);
        }
        if self.counts_items
            && let Some(mut out) = d_inputs.get(2)
            && out.write == Write::Overwrite
        {
            // A bin has no gradient.
            (0..rows).for_each(|row| out.gradient.row(row).fill(T::ZERO));
        }
    }
}

/// The pairs of a block, with scratch.
struct Pairs<'a, T> {
    layer: InBatchSoftmax,
    inputs: Inputs<'a, T>,
    /// First row with the same item, by row.
    items: &'a mut [T], // (rows)
    /// Correction of each item, which is subtracted from its scores.
    corrections: &'a mut [T], // (rows)
    d_items: &'a mut [T], // (rows, dim)
    tile: &'a mut [T],    // (at most TILE, rows)
}

impl<'a, T: Scalar> Pairs<'a, T> {
    fn new(layer: InBatchSoftmax, inputs: Inputs<'a, T>, scratch: &'a mut [T]) -> Self {
        let rows = inputs.get(0).rows();
        let (items, rest) = scratch.split_at_mut(rows);
        let (corrections, rest) = rest.split_at_mut(rows);
        let (d_items, rest) = rest.split_at_mut(rows * layer.dim);
        let tile = &mut rest[..rows.min(TILE) * rows];
        Self { layer, inputs, items, corrections, d_items, tile }
    }

    /// Sets the tile to the scores of the users of up to [`TILE`] rows from `start` on with all
    /// items; returns the number of rows.
    fn score(&mut self, start: usize, gemm: &mut Gemm<'_, T>) -> usize {
        let [users, items] = [self.inputs.get(0), self.inputs.get(1)];
        let (rows, factor) = (users.rows(), self.layer.factor());
        let count = TILE.min(rows - start);
        let scores = &mut self.tile[..count * rows];
        let to = MatrixMut::packed(scores, count, rows);
        let users = part(users, start, count);
        gemm.multiply(to, Write::Overwrite, plain(users), transposed(items));
        let corrections = &*self.corrections;
        Arch::new().dispatch(Scale { scores, corrections, factor });
        count
    }
}

/// Rows of a matrix.
fn part<T>(matrix: Matrix<'_, T>, start: usize, count: usize) -> Matrix<'_, T> {
    let stride = matrix.stride();
    Matrix::new(&matrix.data()[start * stride..], count, matrix.columns(), stride)
}

/// Rows of a matrix for writing.
fn rows_of<'a, T>(
    matrix: &'a mut MatrixMut<'_, T>,
    start: usize,
    count: usize,
) -> MatrixMut<'a, T> {
    let (stride, columns) = (matrix.stride(), matrix.columns());
    MatrixMut::new(&mut matrix.data_mut()[start * stride..], count, columns, stride)
}

/// Numbers each row's item by the first row that has it, which has the same bits in all columns.
fn number_items<T: Scalar>(items: Matrix<'_, T>, numbers: &mut [T]) {
    for (row, number) in numbers.iter_mut().enumerate() {
        let own = items.row(row);
        // The first lane tells nearly all items apart.
        let is_same = |of: &usize| items.row(*of)[0] == own[0] && items.row(*of) == own;
        let first = (0..row).find(is_same).unwrap_or(row);
        *number = T::from_f64(first as f64);
    }
}

/// The bin in a lane, if it is one.
fn bin_of<T: Scalar>(lane: T) -> Option<usize> {
    let bin = lane.to_f64();
    (0.0..BINS as f64).contains(&bin).then_some(bin as usize)
}

/// Computes each item's correction: the logarithm of one more than its count in the state.
fn correct<T: Scalar>(bins: Matrix<'_, T>, state: &[T], corrections: &mut [T]) {
    for (row, correction) in corrections.iter_mut().enumerate() {
        let count = bin_of(bins.row(row)[0]).and_then(|bin| state.get(bin));
        *correction = count.map_or(T::ZERO, |count| T::from_f64(libm::log1p(count.to_f64())));
    }
}

/// Counts the items of a block by bin.
fn count<T: Scalar>(bins: Matrix<'_, T>, counts: &mut [T]) {
    counts.fill(T::ZERO);
    for row in 0..bins.rows() {
        if let Some(bin) = bin_of(bins.row(row)[0]) {
            counts[bin] += T::ONE;
        }
    }
}

/// Divides scores by the temperature and subtracts the items' corrections.
struct Scale<'a, T> {
    scores: &'a mut [T],  // (rows, items)
    corrections: &'a [T], // (items)
    factor: T,
}

impl<T: Scalar> WithSimd for Scale<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for scores in self.scores.chunks_exact_mut(self.corrections.len()) {
            let lanes = scores.iter_mut().zip(self.corrections);
            lanes.for_each(|(score, correction)| *score = self.factor * *score - *correction);
        }
    }
}

/// The other items of a row.
struct Others<'a, T> {
    scores: &'a [T], // (items)
    items: &'a [T],  // (items)
    own: T,
}

impl<T: Scalar> WithSimd for Others<'_, T> {
    /// Logarithm of the sum of their exponentials; `None` if there are none.
    type Output = Option<T>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<T> {
        let Self { scores, items, own } = self;
        // NaN is never the largest, but propagates through the sum.
        let (mut most, mut any) = (T::from_f64(f64::NEG_INFINITY), false);
        for at in 0..scores.len() {
            let is_other = items[at] != own;
            any |= is_other;
            most = if is_other && scores[at] > most { scores[at] } else { most };
        }
        let sum = sum_of(
            scores,
            items,
            |score, item| {
                if item == own { T::ZERO } else { (score - most).exp() }
            },
        );
        any.then(|| T::from_f64(most.to_f64() + libm::log(sum.to_f64())))
    }
}

/// Turns the scores of a row into gradients of the dot products.
struct Differentiate<'a, T> {
    scores: &'a mut [T], // (items)
    items: &'a [T],      // (items)
    row: usize,
    /// Logarithm of the sum over the other items.
    sum: T,
    d_output: T,
    factor: T,
}

impl<T: Scalar> WithSimd for Differentiate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { scores, items, row, sum, d_output, factor } = self;
        let own = items[row];
        let mut any = false;
        for at in 0..scores.len() {
            let is_other = items[at] != own;
            any |= is_other;
            let share = if is_other { (scores[at] - sum).exp() } else { T::ZERO };
            scores[at] = -d_output * share;
        }
        scores[row] = if any { d_output } else { T::ZERO };
        scores.iter_mut().for_each(|score| *score *= factor);
    }
}
