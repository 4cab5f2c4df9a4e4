//! Consecutive steps of the sequences of a block, and what is computed for each.

use pulp::{Simd, WithSimd};

use super::GradientOut;
use super::lane_sums::dot;
use super::lanes::set;
use super::sequence::steps_of;
use crate::gemm::Scalar;
use crate::matrix::{Matrix, MatrixMut, Write};

/// The most steps whose features are gathered at a time.
pub(super) const CHUNK: usize = 256;

/// Inputs of a block.
#[derive(Clone, Copy)]
pub(super) struct Sequences<'a, T> {
    pub(super) dim: usize,
    pub(super) steps_max: usize,
    pub(super) target: Matrix<'a, T>,  // (rows, dim)
    pub(super) vectors: Matrix<'a, T>, // (rows, steps_max * dim)
    pub(super) lengths: Matrix<'a, T>, // (rows, 1)
}

impl<'a, T: Scalar> Sequences<'a, T> {
    /// Number of steps of an example.
    pub(super) fn steps(&self, row: usize) -> usize {
        steps_of(self.lengths.row(row)[0], self.steps_max)
    }

    #[inline(always)]
    fn vector(&self, Place { row, step }: Place) -> &'a [T] {
        let dim = self.dim;
        &self.vectors.row(row)[step * dim..][..dim]
    }

    /// Writes the gradients of all steps that count to where they belong; others have none.
    pub(super) fn spread(&self, d_steps: &[T], mut out: GradientOut<'_, T>) {
        let (dim, mut of_steps) = (self.dim, d_steps.chunks_exact(self.dim));
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

/// A step of an example.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) step: usize,
}

/// Consecutive steps that count, of all examples in order.
pub(super) struct Chunk {
    pub(super) places: [Place; CHUNK],
    pub(super) count: usize,
    /// Number of steps in earlier chunks.
    pub(super) first: usize,
    /// The place after the last.
    pub(super) next: Place,
}

impl Chunk {
    /// The empty chunk before the first.
    pub(super) fn new() -> Self {
        Self { places: [Place::default(); CHUNK], count: 0, first: 0, next: Place::default() }
    }

    /// Moves on to the next chunk; false if there is none.
    pub(super) fn advance<T: Scalar>(&mut self, sequences: &Sequences<'_, T>) -> bool {
        self.first += self.count;
        self.count = 0;
        let mut start = self.next.step;
        for row in self.next.row..sequences.lengths.rows() {
            for step in start..sequences.steps(row) {
                if self.count == CHUNK {
                    self.next = Place { row, step };
                    return true;
                }
                self.places[self.count] = Place { row, step };
                self.count += 1;
            }
            start = 0;
        }
        self.next = Place { row: sequences.lengths.rows(), step: 0 };
        self.count > 0
    }

    pub(super) fn places(&self) -> &[Place] {
        &self.places[..self.count]
    }
}

/// Writes the features of a chunk.
pub(super) struct Gather<'a, T> {
    pub(super) sequences: Sequences<'a, T>,
    pub(super) places: &'a [Place],
    pub(super) features: MatrixMut<'a, T>, // (steps, 2 dim)
}

impl<T: Scalar> WithSimd for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let dim = self.sequences.dim;
        for (index, place) in self.places.iter().enumerate() {
            let q = self.sequences.target.row(place.row);
            let s = self.sequences.vector(*place);
            let (vector, products) = self.features.row(index).split_at_mut(dim);
            set(vector, [s], |_, [s]| s);
            set(products, [q, s], |_, [q, s]| q * s);
        }
    }
}

/// Computes the hidden layer and the weight of each step of a chunk, and adds up its vectors.
pub(super) struct Attend<'a, T> {
    pub(super) sequences: Sequences<'a, T>,
    pub(super) places: &'a [Place],
    pub(super) of_targets: Matrix<'a, T>, // (rows, hidden)
    pub(super) weight: &'a [T],           // (hidden)
    pub(super) bias: T,
    pub(super) hidden: MatrixMut<'a, T>, // (steps, hidden)
    pub(super) parts: &'a mut [T],       // (steps)
    pub(super) output: MatrixMut<'a, T>, // (rows, dim)
}

impl<T: Scalar> WithSimd for Attend<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for (index, place) in self.places.iter().enumerate() {
            let s = self.sequences.vector(*place);
            let hidden = self.hidden.row(index);
            set(hidden, [self.of_targets.row(place.row)], |z, [u]| (z + u).logistic());
            let a = dot(hidden, self.weight) + self.bias;
            self.parts[index] = a;
            set(self.output.row(place.row), [s], |y, [s]| y + a * s);
        }
    }
}

/// Computes the gradients of a chunk's hidden sums, and adds those of u, w and c.
pub(super) struct AttendBack<'a, T> {
    pub(super) sequences: Sequences<'a, T>,
    pub(super) places: &'a [Place],
    pub(super) weight: &'a [T],                // (hidden)
    pub(super) hidden: Matrix<'a, T>,          // (steps, hidden)
    pub(super) d_output: Matrix<'a, T>,        // (rows, dim)
    pub(super) d_sums: MatrixMut<'a, T>,       // (steps, hidden)
    pub(super) d_of_targets: MatrixMut<'a, T>, // (rows, hidden)
    pub(super) d_others: &'a mut [T],          // (hidden + 1)
}

impl<T: Scalar> WithSimd for AttendBack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let (d_weight, d_bias) = self.d_others.split_at_mut(self.weight.len());
        for (index, place) in self.places.iter().enumerate() {
            let s = self.sequences.vector(*place);
            let (hidden, d_sums) = (self.hidden.row(index), self.d_sums.row(index));
            let da = dot(self.d_output.row(place.row), s);
            d_bias[0] += da;
            set(d_weight, [hidden], |dw, [h]| dw + da * h);
            set(d_sums, [hidden, self.weight], |_, [h, w]| da * w * h * (T::ONE - h));
            set(self.d_of_targets.row(place.row), [d_sums], |du, [dz]| du + dz);
        }
    }
}

/// Adds the gradients of a chunk's targets, and computes those of its vectors.
pub(super) struct ToInputs<'a, T> {
    pub(super) sequences: Sequences<'a, T>,
    pub(super) places: &'a [Place],
    pub(super) d_features: Matrix<'a, T>,   // (steps, 2 dim)
    pub(super) parts: &'a [T],              // (steps)
    pub(super) d_output: Matrix<'a, T>,     // (rows, dim)
    pub(super) d_targets: MatrixMut<'a, T>, // (rows, dim)
    pub(super) d_steps: MatrixMut<'a, T>,   // (steps, dim)
}

impl<T: Scalar> WithSimd for ToInputs<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let dim = self.sequences.dim;
        for (index, place) in self.places.iter().enumerate() {
            let (q, dy) = (self.sequences.target.row(place.row), self.d_output.row(place.row));
            let (s, a) = (self.sequences.vector(*place), self.parts[index]);
            let (of_s, of_p) = self.d_features.row(index).split_at(dim);
            set(self.d_targets.row(place.row), [of_p, s], |d, [fp, s]| d + fp * s);
            let to_step = self.d_steps.row(index);
            set(to_step, [of_s, of_p, q, dy], |_, [fs, fp, q, dy]| fs + fp * q + a * dy);
        }
    }
}

/// Sums of columns, over the rows in order.
pub(super) struct SumRows<'a, T> {
    pub(super) of: Matrix<'a, T>,
    pub(super) sums: &'a mut [T],
}

impl<T: Scalar> WithSimd for SumRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.sums.fill(T::ZERO);
        for row in 0..self.of.rows() {
            set(self.sums, [self.of.row(row)], |sum, [lane]| sum + lane);
        }
    }
}
