//! Long short-term memory over sequences of different lengths (Hochreiter and Schmidhuber 1997,
//! with the forget gate of Gers et al. 2000).
//!
//! ```text
//! inputs  [ x₁: inputs ][ x₂: inputs ] ... steps_max of them, then [ length ]
//!         in one input, or the length in a second one
//! weights input_weight (4 H, inputs), hidden_weight (4 H, H)
//! biases  forget_bias (H), bias (3 H)
//!
//! step t      [ f | i | g | o ] = x_t Wxᵀ + h Whᵀ + b     gates of H lanes each
//!             f, i, o ← σ(f, i, o),   g ← tanh g
//!             c ← f ∘ c + i ∘ g,      h ← o ∘ tanh c      both start at 0
//! output      h after the example's last step                        // (rows, H)
//! kept        [ f | i | g | o | c | h ] of each step                 // (rows, steps_max * 6 H)
//! ```
//!
//! Steps past the length don't count: their vectors are never read, and have gradient 0. A length
//! is rounded down to an integer from 0 to `steps_max`; NaN means all steps. The output of an
//! example without steps is 0.
//!
//! A step is two products over all examples of the block, for as many steps as the longest example
//! has. The backward pass runs from the last step to the first:
//!
//! ```text
//! do = dh ∘ tanh c,  dc += dh ∘ o ∘ (1 - tanh² c)
//! df = dc ∘ c',      di = dc ∘ g,  dg = dc ∘ i,   dc ← dc ∘ f     c', h': previous step
//! dz = d(f, i, g, o) through σ and tanh
//! dWx += dzᵀ x_t,  dWh += dzᵀ h',  db += Σ dz,  dx_t = dz Wx,  dh ← dz Wh
//! ```
//!
//! Sums of parameters run over steps from the last to the first, and within each over examples in
//! order. `tanh c` is recomputed rather than kept.

use pulp::{Arch, Simd, WithSimd};

use super::activate::{sigmoid, tanh};
use super::sequence::steps_of;
use super::{Backward, Flops, Forward, Inputs, Layer, Operation, Reads, clear_columns};
use crate::gemm::Scalar;
use crate::gemm::{plain, transposed};
use crate::matrix::{Matrix, MatrixMut, Write};
use crate::parameter::{Initial, ParameterShape};

/// Layer of cells that reads a sequence and returns their final hidden state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lstm {
    /// Values per vector.
    pub inputs: usize,
    /// Number of cells.
    pub outputs: usize,
    /// Most vectors of an example.
    pub steps_max: usize,
    /// Whether biases of forget gates start at 1, so that cells initially remember (Jozefowicz et
    /// al., ICML 2015).
    pub remembers: bool,
}

impl Lstm {
    /// Columns of all vectors.
    fn columns(&self) -> usize {
        self.steps_max * self.inputs
    }

    /// Lanes of the gates per step.
    fn gates(&self) -> usize {
        4 * self.outputs
    }

    /// Lanes kept per step.
    fn kept_of_step(&self) -> usize {
        6 * self.outputs
    }

    fn sequences<'a, T: Scalar>(&self, inputs: &Inputs<'a, T>) -> Sequences<'a, T> {
        let (columns, first) = (self.columns(), inputs.get(0));
        let alone = inputs.count() == 1;
        let lengths = if alone { first.select(columns..columns + 1) } else { inputs.get(1) };
        Sequences { lstm: *self, vectors: first.select(0..columns), lengths }
    }

    /// Weights of inputs, weights of hidden states, and biases.
    fn parts<'a, T: Scalar>(&self, parameters: &'a [T]) -> [&'a [T]; 3] {
        let (of_inputs, rest) = parameters.split_at(self.gates() * self.inputs);
        let (of_hidden, biases) = rest.split_at(self.gates() * self.outputs);
        [of_inputs, of_hidden, biases]
    }
}

impl<T: Scalar> Layer<T> for Lstm {
    fn operation(&self) -> Operation {
        let Self { inputs, outputs, steps_max, .. } = *self;
        Operation::Lstm { inputs, outputs, steps_max }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        let (steps, columns) = (self.steps_max, self.inputs);
        if columns == 0 || self.outputs == 0 || steps == 0 {
            return Err("an LSTM has at least one input, output and step".to_owned());
        }
        let vectors = self.columns();
        if inputs == [vectors + 1] || inputs == [vectors, 1] {
            Ok(self.outputs)
        } else {
            Err(format!(
                "it takes {steps} x {columns} columns and one with the length, in one input or \
                 two, not {inputs:?}"
            ))
        }
    }

    fn parameters(&self) -> Vec<ParameterShape> {
        let (gates, outputs) = (self.gates(), self.outputs);
        let initial = Initial::uniform_over(outputs);
        let forget = if self.remembers { Initial::Constant(1.0) } else { initial };
        let of = |name, shape| ParameterShape { name, shape, initial };
        vec![
            of("input_weight", vec![gates, self.inputs]),
            of("hidden_weight", vec![gates, outputs]),
            ParameterShape { name: "forget_bias", shape: vec![outputs], initial: forget },
            of("bias", vec![3 * outputs]),
        ]
    }

    fn weight(&self) -> Option<[usize; 2]> {
        Some([self.gates(), self.inputs])
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }

    fn kept_columns(&self) -> usize {
        self.steps_max * self.kept_of_step()
    }

    fn scratch_lanes(&self, rows: usize) -> usize {
        rows * (self.gates() + self.outputs + self.inputs)
    }

    fn product_side(&self) -> usize {
        self.gates().max(self.inputs)
    }

    /// Counts sequences with all steps; an exponential or a tangent counts as one operation.
    fn flops(&self, _: &[usize], wanted: &[usize]) -> Flops {
        let steps = self.steps_max as u64;
        let product = |columns: usize| 2 * (self.gates() * columns) as u64;
        let of_step = product(self.inputs) + product(self.outputs);
        let back = product(wanted[0].min(self.columns()));
        let lanes = self.outputs as u64;
        Flops {
            forward: steps * (of_step + 13 * lanes),
            backward: steps * (of_step + product(self.outputs) + 29 * lanes) + back,
        }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        let [of_inputs, of_hidden, biases] = self.parts(pass.parameters);
        let of_inputs = Matrix::packed(of_inputs, self.gates(), self.inputs);
        let of_inputs = transposed(of_inputs).with_packed(pass.packed_weight);
        let of_hidden = transposed(Matrix::packed(of_hidden, self.gates(), self.outputs));
        let sequences = self.sequences(&pass.inputs);
        (0..pass.output.rows()).for_each(|row| pass.output.row(row).fill(T::ZERO));
        for step in 0..sequences.longest() {
            let start = step * self.kept_of_step();
            let mut gates = pass.kept.reborrow().select(start..start + self.gates());
            let vectors = plain(sequences.step(step));
            pass.gemm.multiply(gates.reborrow(), Write::Overwrite, vectors, of_inputs);
            if step > 0 {
                let hidden = plain(pass.output.as_ref());
                pass.gemm.multiply(gates, Write::Accumulate, hidden, of_hidden);
            }
            let (kept, output) = (pass.kept.reborrow(), pass.output.reborrow());
            Arch::new().dispatch(Step { sequences, step, biases, kept, output });
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let [of_inputs, of_hidden, _] = self.parts(pass.parameters);
        let of_inputs = Matrix::packed(of_inputs, self.gates(), self.inputs);
        let of_hidden = Matrix::packed(of_hidden, self.gates(), self.outputs);
        let (d_of_inputs, rest) = pass.gradients.split_at_mut(of_inputs.data().len());
        let (d_of_hidden, d_biases) = rest.split_at_mut(of_hidden.data().len());
        for gradient in [&mut *d_of_inputs, &mut *d_of_hidden, &mut *d_biases] {
            gradient.fill(T::ZERO);
        }
        let (sequences, rows) = (self.sequences(&pass.inputs), pass.d_output.rows());
        let (d_gates, rest) = pass.scratch.split_at_mut(rows * self.gates());
        let (d_cells, rest) = rest.split_at_mut(rows * self.outputs);
        let vectors = &mut rest[..rows * self.inputs];
        d_cells.fill(T::ZERO);
        let mut to_input = pass.d_inputs.get(0);
        let longest = sequences.longest();
        if let Some(out) = &mut to_input
            && out.write == Write::Overwrite
        {
            let end = out.gradient.columns();
            clear_columns(&mut out.gradient, &((longest * self.inputs).min(end)..end));
        }
        for step in (0..longest).rev() {
            Arch::new().dispatch(StepBack {
                sequences,
                step,
                kept: pass.kept,
                d_hidden: pass.d_output.reborrow(),
                d_cells: MatrixMut::packed(d_cells, rows, self.outputs),
                d_gates: MatrixMut::packed(d_gates, rows, self.gates()),
                vectors: MatrixMut::packed(vectors, rows, self.inputs),
                d_biases: &mut *d_biases,
            });
            let d_gates = Matrix::packed(d_gates, rows, self.gates());
            let target = MatrixMut::packed(d_of_inputs, self.gates(), self.inputs);
            let vectors = plain(Matrix::packed(vectors, rows, self.inputs));
            pass.gemm.multiply(target, Write::Accumulate, transposed(d_gates), vectors);
            if let Some(out) = &mut to_input {
                let (start, end) = (step * self.inputs, out.gradient.columns());
                let wanted = start.min(end)..(start + self.inputs).min(end);
                let weight = plain(of_inputs.select(0..wanted.len()));
                let weight = weight.with_packed(pass.packed_weight);
                let target = out.gradient.reborrow().select(wanted);
                pass.gemm.multiply(target, out.write, plain(d_gates), weight);
            }
            if step > 0 {
                let hidden = step * self.kept_of_step() - self.outputs;
                let hidden = plain(pass.kept.select(hidden..hidden + self.outputs));
                let target = MatrixMut::packed(d_of_hidden, self.gates(), self.outputs);
                pass.gemm.multiply(target, Write::Accumulate, transposed(d_gates), hidden);
                let target = pass.d_output.reborrow();
                pass.gemm.multiply(target, Write::Accumulate, plain(d_gates), plain(of_hidden));
            }
        }
        if pass.inputs.count() > 1
            && let Some(mut out) = pass.d_inputs.get(1)
            && out.write == Write::Overwrite
        {
            clear_columns(&mut out.gradient, &(0..1));
        }
    }
}

/// Sequences of a block.
#[derive(Clone, Copy)]
struct Sequences<'a, T> {
    lstm: Lstm,
    vectors: Matrix<'a, T>, // (rows, steps_max * inputs)
    lengths: Matrix<'a, T>, // (rows, 1)
}

impl<'a, T: Scalar> Sequences<'a, T> {
    /// Number of steps of an example.
    #[inline(always)]
    fn length(&self, row: usize) -> usize {
        steps_of(self.lengths.row(row)[0], self.lstm.steps_max)
    }

    fn longest(&self) -> usize {
        (0..self.lengths.rows()).map(|row| self.length(row)).max().unwrap_or(0)
    }

    /// Vectors of a step. // (rows, inputs)
    #[inline(always)]
    fn step(&self, step: usize) -> Matrix<'a, T> {
        let inputs = self.lstm.inputs;
        self.vectors.select(step * inputs..(step + 1) * inputs)
    }
}

/// Computes gates, cells and hidden states from the sums of a step.
struct Step<'a, T> {
    sequences: Sequences<'a, T>,
    step: usize,
    biases: &'a [T],          // (4 H)
    kept: MatrixMut<'a, T>,   // (rows, steps_max * 6 H)
    output: MatrixMut<'a, T>, // (rows, H)
}

impl<T: Scalar> WithSimd for Step<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let lstm = self.sequences.lstm;
        let (h, start) = (lstm.outputs, self.step * lstm.kept_of_step());
        for row in 0..self.kept.rows() {
            let (before, now) = self.kept.row(row).split_at_mut(start);
            let (gates, now) = now.split_at_mut(lstm.gates());
            let (cells, hidden) = now[..2 * h].split_at_mut(h);
            if self.step >= self.sequences.length(row) {
                // The product of the backward pass reads this, with gradients of 0.
                hidden.fill(T::ZERO);
                continue;
            }
            let (to_cells, of_cells) = self.biases.split_at(2 * h);
            let (fi, go) = gates.split_at_mut(2 * h);
            let (g, o) = go.split_at_mut(h);
            fi.iter_mut().zip(to_cells).for_each(|(z, b)| *z = sigmoid(*z + *b));
            g.iter_mut().zip(of_cells).for_each(|(z, b)| *z = tanh(*z + *b));
            o.iter_mut().zip(&of_cells[h..]).for_each(|(z, b)| *z = sigmoid(*z + *b));
            let (f, i) = fi.split_at(h);
            cells.iter_mut().zip(i.iter().zip(&*g)).for_each(|(c, (i, g))| *c = *i * *g);
            if let Some(at) = before.len().checked_sub(2 * h) {
                let kept = f.iter().zip(&before[at..at + h]);
                cells.iter_mut().zip(kept).for_each(|(c, (f, before))| *c += *f * *before);
            }
            let states = hidden.iter_mut().zip(cells.iter().zip(&*o));
            states.for_each(|(state, (c, o))| *state = *o * tanh(*c));
            self.output.row(row).copy_from_slice(hidden);
        }
    }
}

/// Computes gradients of a step's sums from the gradients of later hidden states and cells, and
/// collects the step's vectors; both are 0 for examples without this step.
struct StepBack<'a, T> {
    sequences: Sequences<'a, T>,
    step: usize,
    kept: Matrix<'a, T>,        // (rows, steps_max * 6 H)
    d_hidden: MatrixMut<'a, T>, // (rows, H)
    d_cells: MatrixMut<'a, T>,  // (rows, H)
    d_gates: MatrixMut<'a, T>,  // (rows, 4 H)
    vectors: MatrixMut<'a, T>,  // (rows, inputs)
    d_biases: &'a mut [T],      // (4 H)
}

impl<T: Scalar> WithSimd for StepBack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let lstm = self.sequences.lstm;
        let (h, start) = (lstm.outputs, self.step * lstm.kept_of_step());
        let one = T::ONE;
        for row in 0..self.kept.rows() {
            let (d_gates, vector) = (self.d_gates.row(row), self.vectors.row(row));
            if self.step >= self.sequences.length(row) {
                d_gates.fill(T::ZERO);
                vector.fill(T::ZERO);
                continue;
            }
            vector.copy_from_slice(self.sequences.step(self.step).row(row));
            let (before, now) = self.kept.row(row).split_at(start);
            let cells_before = before.len().checked_sub(2 * h).map(|at| &before[at..at + h]);
            let (d_hidden, d_cells) = (self.d_hidden.row(row), self.d_cells.row(row));
            for lane in 0..h {
                let [f, i, g, o, c] = [0, 1, 2, 3, 4].map(|part| now[part * h + lane]);
                let (c, dh) = (tanh(c), d_hidden[lane]);
                let dc = d_cells[lane] + dh * o * (one - c * c);
                let before = cells_before.map_or(T::ZERO, |cells| cells[lane]);
                d_gates[lane] = dc * before * f * (one - f);
                d_gates[h + lane] = dc * g * i * (one - i);
                d_gates[2 * h + lane] = dc * i * (one - g * g);
                d_gates[3 * h + lane] = dh * c * o * (one - o);
                d_cells[lane] = dc * f;
            }
            // The following products add the gradient of the previous step.
            d_hidden.fill(T::ZERO);
            self.d_biases.iter_mut().zip(&*d_gates).for_each(|(sum, d)| *sum += *d);
        }
    }
}
