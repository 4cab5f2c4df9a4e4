//! What a layer computes, as a description that others than this crate can read.

use super::{Activation, Image, Pool, Window};

/// The operation of a layer with its dimensions; where its inputs come from, the graph says.
///
/// Whoever computes it elsewhere follows the text of the layer, which says what is summed in which
/// order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    /// [`Linear`](super::Linear).
    Linear {
        /// Columns read.
        inputs: usize,
        /// Columns written.
        outputs: usize,
        /// Whether each output has a bias.
        bias: bool,
        /// What is applied to the sums.
        activation: Activation,
    },
    /// [`FactorizationMachine`](super::FactorizationMachine).
    FactorizationMachine {
        /// Number of vectors.
        slots: usize,
        /// Length of each.
        dim: usize,
    },
    /// [`Cross`](super::Cross).
    Cross {
        /// Columns of either input and of the output.
        columns: usize,
    },
    /// [`DotInteraction`](super::DotInteraction).
    DotInteraction {
        /// Number of vectors, of all inputs together.
        vectors: usize,
        /// Length of each.
        dim: usize,
    },
    /// [`Convolution`](super::Convolution).
    Convolution {
        /// What is read.
        image: Image,
        /// Channels written.
        channels: usize,
        /// What a value is made of.
        window: Window,
        /// Whether each channel has a bias.
        bias: bool,
        /// What is applied to the sums.
        activation: Activation,
    },
    /// [`Pooling`](super::Pooling).
    Pooling {
        /// What is read.
        image: Image,
        /// What a value is made of.
        window: Window,
        /// How.
        pool: Pool,
    },
    /// [`Lstm`](super::Lstm).
    Lstm {
        /// Values of a vector.
        inputs: usize,
        /// Cells.
        outputs: usize,
        /// Most vectors of an example.
        steps_max: usize,
    },
    /// [`FourierFeatures`](super::FourierFeatures).
    FourierFeatures {
        /// Columns read.
        inputs: usize,
        /// Columns written.
        outputs: usize,
        /// Width of the kernel.
        sigma: f64,
        /// What frequencies and phases are drawn from.
        seed: u64,
    },
    /// [`Dropout`](super::Dropout).
    Dropout {
        /// Share of the lanes that are dropped.
        rate: f64,
    },
    /// [`BatchNorm`](super::BatchNorm).
    BatchNorm {
        /// Channels, each with statistics of its own.
        channels: usize,
        /// Values of a channel.
        places: usize,
        /// What is added to a variance.
        epsilon: f64,
    },
    /// [`Concat`](super::Concat).
    Concat,
    /// [`Add`](super::Add).
    Add,
}

impl Operation {
    /// What it is called where somebody does not compute it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Linear { .. } => "linear",
            Self::FactorizationMachine { .. } => "factorization machine",
            Self::Cross { .. } => "cross",
            Self::DotInteraction { .. } => "dot interaction",
            Self::Convolution { .. } => "convolution",
            Self::Pooling { .. } => "pooling",
            Self::Lstm { .. } => "LSTM",
            Self::FourierFeatures { .. } => "layer of Fourier features",
            Self::Dropout { .. } => "dropout",
            Self::BatchNorm { .. } => "batch normalization",
            Self::Concat => "concatenation",
            Self::Add => "sum",
        }
    }
}
