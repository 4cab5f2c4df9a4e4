//! Dot products of all pairs of different vectors (DLRM; Naumov et al. 2019).
//!
//! ```text
//! inputs  [ v₀: dim ][ v₁: dim ] ...   one input, or two, concatenated
//! output  v₁·v₀ | v₂·v₀  v₂·v₁ | v₃·v₀  v₃·v₁  v₃·v₂ | ...      // (rows, n (n - 1) / 2)
//! ```
//!
//! The output is the lower triangle of the matrix of all products, row by row: the pair i < j is at
//! `j (j - 1) / 2 + i`, regardless of the number of vectors.
//!
//! In the forward pass, up to 16 vectors `i` are transposed, so that a register holds one lane of
//! each, and every later vector `j` is multiplied in, lane by lane: registers accumulate a row of
//! the triangle without sums across lanes. In the backward pass, the gradient of `v_i` is the sum
//! of the other vectors, weighted by their pair's gradient, also in registers.
//!
//! Sums run over the lanes of a vector in order; in the backward pass, over the vectors in order.
//! An example's vectors are read from the first-level cache `n / 16` times forwards and `n` times
//! backwards.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::factorization_machine::{TILE, tiles};
use super::{Backward, Flops, Forward, GradientOut, Inputs, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};

/// Vectors multiplied with a tile before the products are written.
const CHUNK: usize = 32;
/// Vectors that share one read of the tile.
const GROUP: usize = 4;

/// Dot products of all pairs of `vectors` vectors of `dim` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DotInteraction {
    /// Number of vectors in all inputs together.
    pub vectors: usize,
    /// Length of each vector.
    pub dim: usize,
}

impl DotInteraction {
    /// Number of pairs, which is the number of output columns.
    pub fn pairs(&self) -> usize {
        triangle(self.vectors)
    }

    fn inputs<'a, T: Scalar>(&self, inputs: &Inputs<'a, T>) -> Vectors<'a, T> {
        let first = inputs.get(0);
        let none = || Matrix::packed(&[], first.rows(), 0);
        let second = if inputs.count() > 1 { inputs.get(1) } else { none() };
        Vectors { vectors: self.vectors, dim: self.dim, inputs: [first, second] }
    }
}

impl<T: Scalar> Layer<T> for DotInteraction {
    fn operation(&self) -> Operation {
        Operation::DotInteraction { vectors: self.vectors, dim: self.dim }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let (vectors, dim) = (self.vectors, self.dim);
        if vectors < 2 || dim == 0 {
            return Err("an interaction has at least two vectors and one dimension".to_owned());
        }
        let whole = inputs.iter().all(|columns| columns.is_multiple_of(dim));
        let fits = whole && inputs.iter().sum::<usize>() == vectors * dim;
        if fits && inputs.len() <= 2 {
            Ok(self.pairs())
        } else {
            Err(format!("it takes one or two inputs of {vectors} x {dim} columns, not {inputs:?}"))
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let wanted = wanted.iter().sum::<usize>();
        let backward = (2 * (self.vectors - 1) * wanted) as u64;
        Flops { forward: (2 * self.dim * self.pairs()) as u64, backward }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let vectors = self.inputs(&pass.inputs);
        Arch::new().dispatch(Interact { vectors, output: pass.output });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let vectors = self.inputs(&pass.inputs);
        let mut first = 0;
        for index in 0..pass.d_inputs.count() {
            let count = pass.inputs.columns(index) / self.dim;
            if let Some(out) = pass.d_inputs.get(index) {
                let d_output = pass.d_output.as_ref();
                Arch::new().dispatch(Distribute { vectors, first, d_output, out });
            }
            first += count;
        }
    }
}

/// Number of pairs before vector `index`: the start of its row of the triangle.
#[inline(always)]
fn triangle(index: usize) -> usize {
    index * index.saturating_sub(1) / 2
}

/// Vectors of all examples.
#[derive(Clone, Copy)]
struct Vectors<'a, T> {
    vectors: usize,
    dim: usize,
    inputs: [Matrix<'a, T>; 2], // (rows, some * dim) and (rows, the rest * dim)
}

impl<'a, T: Scalar> Vectors<'a, T> {
    #[inline(always)]
    fn row(&self, row: usize) -> Row<'a, T> {
        let [first, second] = self.inputs;
        Row { dim: self.dim, inputs: [first.row(row), second.row(row)] }
    }
}

/// Vectors of one example.
struct Row<'a, T> {
    dim: usize,
    inputs: [&'a [T]; 2],
}

impl<'a, T: Scalar> Row<'a, T> {
    #[inline(always)]
    fn vector(&self, index: usize) -> &'a [T] {
        let ([first, second], start) = (self.inputs, index * self.dim);
        if start < first.len() {
            &first[start..][..self.dim]
        } else {
            &second[start - first.len()..][..self.dim]
        }
    }

    /// Puts lane `d` of the vectors `which` into row `d` of `tile`; the rest is unchanged.
    #[inline(always)]
    fn columns(&self, which: Range<usize>, lanes: Range<usize>, tile: &mut [[T; TILE]; TILE]) {
        for (column, index) in which.enumerate() {
            let lanes = &self.vector(index)[lanes.clone()];
            lanes.iter().zip(&mut *tile).for_each(|(lane, row)| row[column] = *lane);
        }
    }
}

struct Interact<'a, T> {
    vectors: Vectors<'a, T>,
    output: MatrixMut<'a, T>, // (rows, pairs)
}

impl<T: Scalar> WithSimd for Interact<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let count = self.vectors.vectors;
        for row in 0..self.output.rows() {
            let (vectors, output) = (self.vectors.row(row), self.output.row(row));
            // The last tile first: see `put`.
            for start in (0..count - 1).step_by(TILE).rev() {
                let tile = start..count.min(start + TILE);
                for first in (start + 1..count).step_by(CHUNK) {
                    let chunk = first..count.min(first + CHUNK);
                    let products = products(&vectors, tile.clone(), chunk.clone());
                    chunk.zip(&products).for_each(|(index, row)| put(index, start, row, output));
                }
            }
        }
    }
}

/// Products of each vector of `chunk` with all of `tile`; entries beyond these are meaningless.
#[inline(always)]
fn products<T: Scalar>(
    vectors: &Row<'_, T>,
    tile: Range<usize>,
    chunk: Range<usize>,
) -> [[T; TILE]; CHUNK] {
    let mut sums = [[T::ZERO; TILE]; CHUNK];
    let mut columns = [[T::ZERO; TILE]; TILE];
    for lanes in tiles(vectors.dim) {
        vectors.columns(tile.clone(), lanes.clone(), &mut columns);
        let columns = &columns[..lanes.len()];
        let (groups, rest) = sums[..chunk.len()].as_chunks_mut::<GROUP>();
        let mut index = chunk.start;
        for group in groups {
            multiply(vectors, index, lanes.clone(), columns, group);
            index += GROUP;
        }
        for (sum, index) in rest.iter_mut().zip(index..) {
            multiply(vectors, index, lanes.clone(), columns, std::array::from_mut(sum));
        }
    }
    sums
}

/// Adds the products of `COUNT` vectors, starting at `first`, with the columns of a tile.
#[inline(always)]
fn multiply<T: Scalar, const COUNT: usize>(
    vectors: &Row<'_, T>,
    first: usize,
    lanes: Range<usize>,
    columns: &[[T; TILE]],
    sums: &mut [[T; TILE]; COUNT],
) {
    let vectors: [&[T]; COUNT] =
        std::array::from_fn(|i| &vectors.vector(first + i)[lanes.clone()][..columns.len()]);
    let mut total = *sums;
    for (lane, column) in columns.iter().enumerate() {
        for (total, vector) in total.iter_mut().zip(vectors) {
            let value = vector[lane];
            for i in 0..TILE {
                total[i] += value * column[i];
            }
        }
    }
    *sums = total;
}

/// Writes the part of the triangle's row `index` that starts at column `start`.
///
/// If there is room, writes a full tile, including lanes past the end of the row. These belong to
/// later rows, in columns of this tile or of earlier ones, all of which are written later.
#[inline(always)]
fn put<T: Scalar>(index: usize, start: usize, products: &[T; TILE], output: &mut [T]) {
    let place = triangle(index) + start;
    if let Some(output) = output.get_mut(place..place + TILE) {
        output.copy_from_slice(products);
    } else {
        let wanted = TILE.min(index - start);
        output[place..place + wanted].copy_from_slice(&products[..wanted]);
    }
}

struct Distribute<'a, T> {
    vectors: Vectors<'a, T>,
    first: usize,            // first vector of the input
    d_output: Matrix<'a, T>, // (rows, pairs)
    out: GradientOut<'a, T>, // (rows, at most the input's vectors * dim)
}

impl<T: Scalar> WithSimd for Distribute<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let (count, dim) = (self.vectors.vectors, self.vectors.dim);
        for row in 0..self.d_output.rows() {
            let (vectors, d_output) = (self.vectors.row(row), self.d_output.row(row));
            let gradients = self.out.gradient.row(row).chunks_mut(dim);
            for (index, gradient) in (self.first..).zip(gradients) {
                for lanes in tiles(gradient.len()) {
                    let sum = others(&vectors, index, count, lanes.clone(), d_output);
                    let gradient = &mut gradient[lanes];
                    match self.out.write {
                        Write::Overwrite => each(gradient, &sum, |d, s| *d = s),
                        Write::Accumulate => each(gradient, &sum, |d, s| *d += s),
                    }
                }
            }
        }
    }
}

/// Lanes of ∂/∂v_i = Σ_{j ≠ i} d_ij v_j; the rest of the tile is zero.
#[inline(always)]
fn others<T: Scalar>(
    vectors: &Row<'_, T>,
    index: usize,
    count: usize,
    lanes: Range<usize>,
    d_output: &[T],
) -> [T; TILE] {
    let mut sum = [T::ZERO; TILE];
    let earlier = &d_output[triangle(index)..][..index];
    for (other, scale) in earlier.iter().enumerate() {
        add_scaled(&mut sum, *scale, &vectors.vector(other)[lanes.clone()]);
    }
    let mut place = triangle(index + 1) + index;
    for other in index + 1..count {
        add_scaled(&mut sum, d_output[place], &vectors.vector(other)[lanes.clone()]);
        place += other;
    }
    sum
}

#[inline(always)]
fn add_scaled<T: Scalar>(sum: &mut [T; TILE], scale: T, lanes: &[T]) {
    if let Ok(lanes) = <&[T; TILE]>::try_from(lanes) {
        for i in 0..TILE {
            sum[i] += scale * lanes[i];
        }
    } else {
        sum.iter_mut().zip(lanes).for_each(|(sum, lane)| *sum += scale * *lane);
    }
}

/// Calls `put` for every lane of `gradient`.
#[inline(always)]
fn each<T: Scalar>(gradient: &mut [T], sum: &[T; TILE], put: impl Fn(&mut T, T)) {
    if let Ok(gradient) = <&mut [T; TILE]>::try_from(&mut *gradient) {
        for i in 0..TILE {
            put(&mut gradient[i], sum[i]);
        }
    } else {
        gradient.iter_mut().zip(sum).for_each(|(d, s)| put(d, *s));
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;

    fn numbers(name: &[u8], count: usize) -> Vec<f64> {
        let mut stream = Stream::named(1, name);
        (0..count).map(|_| stream.next_f64() - 0.5).collect()
    }

    #[test]
    fn products_stand_where_they_should_whatever_the_shape() {
        let shapes = [(2, 1, 1), (3, 2, 0), (16, 16, 4), (17, 5, 17), (27, 16, 1), (33, 3, 2)];
        for (vectors, dim, first) in shapes.into_iter().chain([(34, 17, 1), (70, 40, 35)]) {
            let (rows, layer) = (3, DotInteraction { vectors, dim });
            let left = numbers(b"left", rows * first * dim);
            let right = numbers(b"right", rows * (vectors - first) * dim);
            let inputs = [
                Matrix::packed(&left, rows, first * dim),
                Matrix::packed(&right, rows, (vectors - first) * dim),
            ];
            let mut output = vec![f64::NAN; rows * layer.pairs() + 1];
            let lanes = &mut output[..rows * layer.pairs()];
            let vectors = Vectors { vectors, dim, inputs };
            let target = MatrixMut::packed(lanes, rows, layer.pairs());
            Arch::new().dispatch(Interact { vectors, output: target });
            let mut at = 0;
            for row in 0..rows {
                for j in 0..vectors.vectors {
                    for i in 0..j {
                        let (a, b) = (vectors.row(row).vector(i), vectors.row(row).vector(j));
                        let product: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                        assert!((product - output[at]).abs() < 1e-12, "{layer:?} {row} {i} {j}");
                        at += 1;
                    }
                }
            }
            assert!(output[at].is_nan(), "nothing is written after the last row");
        }
    }
}
