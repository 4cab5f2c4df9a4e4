//! The papers' models, as graphs.

use stepwell_nn::{
    Activation, Graph, GraphBuilder, GraphError, InputShape, Linear, Scalar, Source,
};

use crate::images::CLASSES;

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
                builder.add_at_zero(
                    "logits",
                    linear(columns, CLASSES, Activation::Identity),
                    &[x],
                )?;
            }
            Self::Fcnn(neurons) => {
                let hidden = builder.add_kaiming(
                    "hidden",
                    linear(columns, neurons, Activation::Relu),
                    &[x],
                )?;
                let top = linear(neurons, CLASSES, Activation::Identity);
                builder.add_kaiming("logits", top, &[Source::Node(hidden)])?;
            }
        }
        builder.build()
    }
}
