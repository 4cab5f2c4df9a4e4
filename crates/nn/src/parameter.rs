//! Parameters by name: where each lies in the flat vector, what shape it has, how it begins.

use std::ops::Range;

use stepwell_base::random::Stream;

use crate::Scalar;
use crate::normal::normal;

/// How a parameter begins: number i of it is made of number i of the stream `dense/<its name>`
/// under the seed, rounded to f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initial {
    /// The same number everywhere.
    Constant(f64),
    /// Uniform in [-range, range).
    Uniform {
        /// What bounds it.
        range: f64,
    },
    /// Normal, of mean 0.
    Normal {
        /// Standard deviation.
        deviation: f64,
    },
}

impl Initial {
    /// What usually begins uniform, of sums over so many inputs.
    pub(crate) fn uniform_over(inputs: usize) -> Self {
        Self::Uniform { range: 1.0 / (inputs as f64).sqrt() }
    }
}

/// A parameter as its layer declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterShape {
    /// Name within the layer.
    pub name: &'static str,
    /// Extents, the slowest first.
    pub shape: Vec<usize>,
    /// How it begins.
    pub initial: Initial,
}

impl ParameterShape {
    /// Number of values.
    pub fn lanes(&self) -> usize {
        self.shape.iter().product()
    }

    /// How it begins where weights are to be normal: see `GraphBuilder::add_kaiming`.
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
    /// Extents, the slowest first.
    pub shape: Vec<usize>,
    /// Place in the flat vector.
    pub range: Range<usize>,
    /// How it begins.
    pub initial: Initial,
}

impl ParameterSpec {
    /// Writes the values with which the parameter begins: a function of seed and name alone.
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
