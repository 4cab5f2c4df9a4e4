//! Parameters by name: where each lies in the flat vector, what shape it has, how it begins.

use std::ops::Range;

use stepwell_base::random::Stream;

use crate::Scalar;

/// A parameter as its layer declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterShape {
    /// Name within the layer.
    pub name: &'static str,
    /// Extents, the slowest first.
    pub shape: Vec<usize>,
    /// It begins uniform in [-range, range).
    pub init_range: f64,
}

impl ParameterShape {
    /// Number of values.
    pub fn lanes(&self) -> usize {
        self.shape.iter().product()
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
    /// It begins uniform in [-range, range), or at 0.
    pub init_range: f64,
}

impl ParameterSpec {
    /// Writes the values with which the parameter begins: a function of seed and name alone.
    pub(crate) fn init<T: Scalar>(&self, seed: u64, values: &mut [T]) {
        if self.init_range == 0.0 {
            return values.fill(T::from_f64(0.0));
        }
        let mut stream = Stream::named(seed, format!("dense/{}", self.name).as_bytes());
        let range = self.init_range as f32;
        values
            .iter_mut()
            .for_each(|value| *value = T::from_f64(f64::from(stream.next_symmetric(range))));
    }
}
