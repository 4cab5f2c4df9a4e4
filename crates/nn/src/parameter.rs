//! Named parameters: position in the flat vector, shape, and initial values.

use std::ops::Range;

use stepwell_base::random::Stream;

use crate::gemm::Scalar;
use crate::normal::normal;

/// Initial values of a parameter: number i is made from number i of the stream `dense/<its name>`
/// under the seed, rounded to f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initial {
    /// The same number everywhere.
    Constant(f64),
    /// Uniform in [-range, range).
    Uniform {
        /// Bound of the range.
        range: f64,
    },
    /// Normal with mean 0.
    Normal {
        /// Standard deviation.
        deviation: f64,
    },
}

impl Initial {
    /// The usual range for weights of sums over `inputs` inputs.
    pub(crate) fn uniform_over(inputs: usize) -> Self {
        Self::Uniform { range: 1.0 / (inputs as f64).sqrt() }
    }
}

/// A parameter as declared by its layer.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterShape {
    /// Name within the layer.
    pub name: &'static str,
    /// Dimensions, slowest first.
    pub shape: Vec<usize>,
    /// Initial values.
    pub initial: Initial,
}

impl ParameterShape {
    /// Number of values.
    pub fn lanes(&self) -> usize {
        self.shape.iter().product()
    }

    /// Initial values under Kaiming initialization: see `GraphBuilder::add_kaiming`.
    pub(crate) fn kaiming(&self) -> Initial {
        match self.initial {
            Initial::Uniform { .. } => match self.shape.get(1..) {
                None | Some([]) => Initial::Constant(0.0),
                Some(inputs) => {
                    let inputs = inputs.iter().product::<usize>() as f64;
                    Initial::Normal { deviation: (2.0 / inputs).sqrt() }
                }
            },
            other => other,
        }
    }
}

/// A parameter in the flat vector of its graph.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// `<layer>/<name within the layer>`.
    pub name: String,
    /// Dimensions, slowest first.
    pub shape: Vec<usize>,
    /// Position in the flat vector.
    pub range: Range<usize>,
    /// Initial values.
    pub initial: Initial,
}

impl ParameterSpec {
    /// Writes the initial values of the parameter, a function of only seed and name.
    pub(crate) fn init<T: Scalar>(&self, seed: u64, values: &mut [T]) {
        let mut stream = Stream::named(seed, format!("dense/{}", self.name).as_bytes());
        let rounded = |value: f32| T::from_f64(f64::from(value));
        match self.initial {
            Initial::Constant(value) => values.fill(rounded(value as f32)),
            Initial::Uniform { range } => {
                let mut next = || rounded(stream.next_symmetric(range as f32));
                values.iter_mut().for_each(|value| *value = next());
            }
            Initial::Normal { deviation } => {
                let number = |index: u64| rounded((deviation * normal(&stream, index)) as f32);
                values.iter_mut().zip(0..).for_each(|(value, index)| *value = number(index));
            }
        }
    }
}
