//! Second-order term of a factorization machine (Rendle, ICDM 2010).
//!
//! ```text
//! input  [ v₀: dim ][ v₁: dim ] ... one vector per slot        // (rows, slots * dim)
//! output ½ Σ_d ( (Σ_s v_sd)² - Σ_s v_sd² )                     // (rows, 1)
//! ```
//!
//! which is the sum of the products of all pairs of different slots' vectors, and reads each only
//! once. Lanes `d` are independent until the last sum, which runs over `d` in order.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::{Backward, Flops, Forward, GradientOut, Layer, Operation, Reads};
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};

/// Second-order interactions of `slots` vectors of `dim` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactorizationMachine {
    /// Number of vectors.
    pub slots: usize,
    /// Length of each vector.
    pub dim: usize,
}

impl<T: Scalar> Layer<T> for FactorizationMachine {
    fn operation(&self) -> Operation {
        Operation::FactorizationMachine { slots: self.slots, dim: self.dim }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let (slots, dim) = (self.slots, self.dim);
        if slots == 0 || dim == 0 {
            return Err("a factorization machine has at least one slot and dimension".to_owned());
        }
        if inputs == [slots * dim] {
            Ok(1)
        } else {
            Err(format!("it takes one input of {slots} x {dim} columns, not {inputs:?}"))
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn flops(&self, inputs: &[usize], wanted: &[usize]) -> Flops {
        let forward = (3 * inputs[0] + 3 * self.dim + 1) as u64;
        Flops { forward, backward: (inputs[0] + 2 * wanted[0]) as u64 }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let input = pass.inputs.get(0);
        Arch::new().dispatch(Interact { dim: self.dim, input, output: pass.output });
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let input = pass.inputs.get(0);
        if let Some(out) = pass.d_inputs.get(0) {
            let d_output = pass.d_output.as_ref();
            Arch::new().dispatch(Distribute { dim: self.dim, input, d_output, out });
        }
    }
}

/// Lanes of a vector that are summed over the slots at a time, in registers.
pub(super) const TILE: usize = 16;

/// Sums over slots of the lanes `tile` and of their squares; zero beyond the tile.
#[inline(always)]
fn sums<T: Scalar>(row: &[T], dim: usize, tile: Range<usize>) -> ([T; TILE], [T; TILE]) {
    let (mut sum, mut squares) = ([T::ZERO; TILE], [T::ZERO; TILE]);
    for vector in row.chunks_exact(dim) {
        let lanes = &vector[tile.clone()];
        if let Ok(lanes) = <&[T; TILE]>::try_from(lanes) {
            for i in 0..TILE {
                sum[i] += lanes[i];
                squares[i] += lanes[i] * lanes[i];
            }
        } else {
            for (i, lane) in lanes.iter().enumerate() {
                sum[i] += *lane;
                squares[i] += *lane * *lane;
            }
        }
    }
    (sum, squares)
}

/// Tiles of a vector of `dim` lanes.
pub(super) fn tiles(dim: usize) -> impl Iterator<Item = Range<usize>> {
    (0..dim).step_by(TILE).map(move |start| start..dim.min(start + TILE))
}

struct Interact<'a, T> {
    dim: usize,
    input: Matrix<'a, T>,     // (rows, slots * dim)
    output: MatrixMut<'a, T>, // (rows, 1)
}

impl<T: Scalar> WithSimd for Interact<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.output.rows() {
            let mut total = T::ZERO;
            for tile in tiles(self.dim) {
                let count = tile.len();
                let (sum, squares) = sums(self.input.row(row), self.dim, tile);
                for (sum, square) in sum.iter().zip(squares).take(count) {
                    total += *sum * *sum - square;
                }
            }
            self.output.row(row)[0] = T::HALF * total;
        }
    }
}

struct Distribute<'a, T> {
    dim: usize,
    input: Matrix<'a, T>,    // (rows, slots * dim)
    d_output: Matrix<'a, T>, // (rows, 1)
    out: GradientOut<'a, T>, // (rows, at most slots * dim)
}

impl<T: Scalar> WithSimd for Distribute<'_, T> {
    type Output = ();

    /// ∂y/∂v_sd = Σ_t v_td - v_sd.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for row in 0..self.d_output.rows() {
            let (input, scale) = (self.input.row(row), self.d_output.row(row)[0]);
            for tile in tiles(self.dim) {
                let (sum, _) = sums(input, self.dim, tile.clone());
                let gradient = self.out.gradient.row(row);
                match self.out.write {
                    Write::Overwrite => {
                        distribute(self.dim, tile, input, &sum, gradient, |d, s, v| {
                            *d = scale * (s - v);
                        });
                    }
                    Write::Accumulate => {
                        distribute(self.dim, tile, input, &sum, gradient, |d, s, v| {
                            *d += scale * (s - v);
                        });
                    }
                }
            }
        }
    }
}

/// Calls `put` for the lanes `tile` of every slot that need a gradient.
#[inline(always)]
fn distribute<T: Scalar>(
    dim: usize,
    tile: Range<usize>,
    input: &[T],
    sum: &[T; TILE],
    gradient: &mut [T],
    put: impl Fn(&mut T, T, T),
) {
    for (vector, gradient) in input.chunks_exact(dim).zip(gradient.chunks_mut(dim)) {
        let wanted = tile.start.min(gradient.len())..tile.end.min(gradient.len());
        let vector = &vector[wanted.clone()];
        let gradient = &mut gradient[wanted];
        let full = <&mut [T; TILE]>::try_from(&mut *gradient);
        if let (Ok(gradient), Ok(vector)) = (full, <&[T; TILE]>::try_from(vector)) {
            for i in 0..TILE {
                put(&mut gradient[i], sum[i], vector[i]);
            }
        } else {
            for ((d, s), v) in gradient.iter_mut().zip(sum).zip(vector) {
                put(d, *s, *v);
            }
        }
    }
}
