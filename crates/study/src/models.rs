//! The papers' models, as graphs.

use stepwell_base::random::Stream;
use stepwell_nn::{
    Activation, Graph, GraphBuilder, GraphError, InputShape, Linear, Scalar, Source,
};

use crate::images::{CLASSES, next_normal};

/// A model of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Model {
    /// Logistic regression over the classes; it begins at zero.
    Lr,
    /// The same over random Fourier features.
    LrRff,
    /// A hidden layer of so many rectified neurons.
    Fcnn(usize),
}

impl Model {
    /// Its name in figures.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lr => "lr",
            Self::LrRff => "lr_rff",
            Self::Fcnn(_) => "fcnn",
        }
    }

    /// Its graph over examples of so many features.
    ///
    /// # Errors
    /// None, as long as there are features.
    pub(crate) fn graph<T: Scalar>(self, columns: usize) -> Result<Graph<T>, GraphError> {
        let linear =
            |inputs, outputs, activation| Linear { inputs, outputs, bias: true, activation };
        let mut builder = GraphBuilder::new(InputShape { embedding: 0, dense: columns });
        let x = Source::Columns(0..columns);
        match self {
            Self::Lr | Self::LrRff => {
                builder.add("logits", linear(columns, CLASSES, Activation::Identity), &[x])?;
            }
            Self::Fcnn(neurons) => {
                let hidden =
                    builder.add("hidden", linear(columns, neurons, Activation::Relu), &[x])?;
                let top = linear(neurons, CLASSES, Activation::Identity);
                builder.add("logits", top, &[Source::Node(hidden)])?;
            }
        }
        builder.build()
    }

    /// What it begins with: zeros, or weights of N(0, 2 / inputs) (Kaiming) and biases of zero.
    pub(crate) fn begin<T: Scalar>(self, graph: &Graph<T>, seed: u64) -> Vec<T> {
        let mut values = vec![T::ZERO; graph.parameter_count()];
        if !matches!(self, Self::Fcnn(_)) {
            return values;
        }
        for spec in graph.parameters().iter().filter(|spec| spec.shape.len() == 2) {
            let mut stream = Stream::named(seed, format!("study/{}", spec.name).as_bytes());
            let scale = libm::sqrt(2.0 / spec.shape[1] as f64);
            for value in &mut values[spec.range.clone()] {
                *value = T::from_f64(scale * next_normal(&mut stream));
            }
        }
        values
    }
}
