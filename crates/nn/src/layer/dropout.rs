//! Drops lanes at random in training (Srivastava et al., JMLR 2014).
//!
//! ```text
//! training    y = x ∘ m,   m = 0 where the lane is dropped, 1 / (1 - rate) elsewhere
//! evaluation  y = x
//! kept        m                                                   // (rows, columns)
//! backward    dx = dy ∘ m
//! ```
//!
//! Lane l of an example is dropped if uniform number l of the stream
//! [`of_dropping`](Stream::of_dropping) is below the rate. The stream depends on the seed, the name
//! of the layer, the step, and the example's number in its mini-batch, so neither threads nor
//! blocks nor ranks matter.

use stepwell_base::random::Stream;

use super::{Backward, Flops, Forward, Layer, Operation, Purpose, Reads};
use crate::gemm::Scalar;
use crate::matrix::Write;
use crate::normal::uniform;

/// Drops lanes in training, and none in evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Columns of the input and the output.
    pub columns: usize,
    /// Share of lanes to drop, at least 0 and below 1.
    pub rate: f64,
}

impl<T: Scalar> Layer<T> for Dropout {
    fn operation(&self) -> Operation {
        Operation::Dropout { rate: self.rate }
    }

    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String> {
        if !(0.0..1.0).contains(&self.rate) {
            return Err(format!("a rate of {}: give a number from 0 to below 1", self.rate));
        }
        if inputs != [self.columns] {
            return Err(format!("it takes one input of {} columns, not {inputs:?}", self.columns));
        }
        Ok(self.columns)
    }

    fn reads(&self) -> Reads {
        Reads { inputs: false, output: false }
    }

    fn kept_columns(&self) -> usize {
        self.columns
    }

    fn flops(&self, inputs: &[usize], wanted: &[usize]) -> Flops {
        Flops { forward: inputs[0] as u64, backward: wanted[0] as u64 }
    }

    fn forward(&self, mut pass: Forward<'_, T>) {
        let input = pass.inputs.get(0);
        let Purpose::Training(training) = pass.purpose else {
            return super::add::copy(input, pass.output, Write::Overwrite);
        };
        let scale = T::from_f64(1.0 / (1.0 - self.rate));
        for row in 0..input.rows() {
            let example = training.first_example + row as u64;
            let stream = Stream::of_dropping(training.seed, pass.name, training.step, example);
            let lanes = pass.output.row(row).iter_mut().zip(input.row(row));
            for (lane, ((y, x), m)) in lanes.zip(pass.kept.row(row)).enumerate() {
                let is_dropped = uniform(&stream, lane as u64) < self.rate;
                *m = if is_dropped { T::ZERO } else { scale };
                *y = *x * *m;
            }
        }
    }

    fn backward(&self, mut pass: Backward<'_, T>) {
        let Some(mut out) = pass.d_inputs.get(0) else { return };
        for row in 0..pass.d_output.rows() {
            let terms = pass.d_output.row(row).iter().zip(pass.kept.row(row));
            let places = out.gradient.row(row).iter_mut().zip(terms);
            match out.write {
                Write::Overwrite => places.for_each(|(d, (dy, m))| *d = *dy * *m),
                Write::Accumulate => places.for_each(|(d, (dy, m))| *d += *dy * *m),
            }
        }
    }
}
