//! The papers' models as graphs.

use stepwell_nn::{
    Activation, Convolution, Graph, GraphBuilder, GraphError, Image, InputShape, Linear, Lstm,
    Pool, Pooling, Scalar, Source, Window,
};

use crate::images::CLASSES;

/// A model of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Model {
    /// Logistic regression over the classes, starting at zero.
    Lr,
    /// Logistic regression over random Fourier features.
    LrRff,
    /// One hidden layer with this number of rectified neurons.
    Fcnn(usize),
    /// A convolution of images of 28 x 28 pixels, and a pooling.
    Conv,
    /// LSTM cells that read sequences of different lengths.
    Lstm {
        /// Values per vector.
        inputs: usize,
        /// Most vectors of a sequence.
        steps_max: usize,
    },
}

/// Channels of the convolution.
const CHANNELS: usize = 8;
/// Cells of the LSTM.
const CELLS: usize = 24;

impl Model {
    /// Name in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lr => "lr",
            Self::LrRff => "lr_rff",
            Self::Fcnn(_) => "fcnn",
            Self::Conv => "conv",
            Self::Lstm { .. } => "lstm",
        }
    }

    /// Graph for examples with `columns` features.
    ///
    /// # Errors
    /// A number of features that doesn't match images or sequences; other models accept any number.
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
            Self::Conv => convolution(&mut builder, x)?,
            Self::Lstm { inputs, steps_max } => {
                let cells = Lstm { inputs, outputs: CELLS, steps_max, remembers: true };
                let last = builder.add("cells", cells, &[x])?;
                let top = linear(CELLS, CLASSES, Activation::Identity);
                builder.add("logits", top, &[Source::Node(last)])?;
            }
        }
        builder.build()
    }
}

/// Windows of 5 x 5 pixels with stride 2, a maximum over 2 x 2 of these, and the classes.
fn convolution<T: Scalar>(builder: &mut GraphBuilder<T>, x: Source) -> Result<(), GraphError> {
    let square = |side, stride| Window { kernel: [side; 2], stride: [stride; 2], padding: [0; 2] };
    let side = |side| Image { channels: CHANNELS, height: side, width: side };
    let convolution = Convolution {
        image: Image { channels: 1, height: 28, width: 28 },
        channels: CHANNELS,
        window: square(5, 2),
        bias: true,
        activation: Activation::Relu,
    };
    let seen = builder.add_kaiming("convolution", convolution, &[x])?;
    let pooling = Pooling { image: side(12), window: square(2, 2), pool: Pool::Max };
    let pooled = builder.add("pooling", pooling, &[Source::Node(seen)])?;
    let inputs = side(6).columns();
    let top = Linear { inputs, outputs: CLASSES, bias: true, activation: Activation::Identity };
    builder.add_kaiming("logits", top, &[Source::Node(pooled)])?;
    Ok(())
}
