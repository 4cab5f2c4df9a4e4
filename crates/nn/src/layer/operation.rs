//! Descriptions of layers for other implementations.

use super::{Image, Window};

/// Activation of a layer's sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Identity.
    Identity,
    /// `max(0, z)`; NaN stays NaN, so that divergence is visible.
    Relu,
}

/// A function that an [`Activate`](super::Activate) layer applies to each value; NaN stays NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `max(0, x)`. Right after a matrix product, [`Activation::Relu`] is cheaper.
    Relu,
    /// Logistic function `σ(x) = 1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// Gaussian error linear unit (Hendrycks and Gimpel 2016), in their approximation by a
    /// hyperbolic tangent: `x / 2 (1 + tanh(√(2 / π) (x + 0.044715 x³)))`.
    Gelu,
    /// `x σ(x)`, also called swish.
    Silu,
    /// `x` if positive, else `x` times a learnt slope of its column (He et al., ICCV 2015).
    Prelu,
}

impl Function {
    /// All functions.
    pub const ALL: [Self; 6] =
        [Self::Relu, Self::Sigmoid, Self::Tanh, Self::Gelu, Self::Silu, Self::Prelu];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
            Self::Gelu => "gelu",
            Self::Silu => "silu",
            Self::Prelu => "prelu",
        }
    }
}

/// How to combine the values under a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Maximum.
    Max,
    /// Mean.
    Average,
}

/// Operation of a layer with its dimensions; the graph gives its inputs.
///
/// Other implementations follow the documentation of the layer, including the order of its sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    /// [`Linear`](super::Linear).
    Linear {
        /// Columns of the input.
        inputs: usize,
        /// Columns of the output.
        outputs: usize,
        /// Whether each output has a bias.
        bias: bool,
        /// Activation of the sums.
        activation: Activation,
    },
    /// [`FactorizationMachine`](super::FactorizationMachine).
    FactorizationMachine {
        /// Number of vectors.
        slots: usize,
        /// Length of each vector.
        dim: usize,
    },
    /// [`Cross`](super::Cross).
    Cross {
        /// Columns of each input and of the output.
        columns: usize,
    },
    /// [`CrossVector`](super::CrossVector).
    CrossVector {
        /// Columns of each input and of the output.
        columns: usize,
    },
    /// [`DotInteraction`](super::DotInteraction).
    DotInteraction {
        /// Number of vectors in all inputs together.
        vectors: usize,
        /// Length of each vector.
        dim: usize,
    },
    /// [`Convolution`](super::Convolution).
    Convolution {
        /// Shape of the input.
        image: Image,
        /// Number of output channels.
        channels: usize,
        /// Window of inputs for each output value.
        window: Window,
        /// Whether each channel has a bias.
        bias: bool,
        /// Activation of the sums.
        activation: Activation,
    },
    /// [`Pooling`](super::Pooling).
    Pooling {
        /// Shape of the input.
        image: Image,
        /// Window of inputs for each output value.
        window: Window,
        /// Kind of pooling.
        pool: Pool,
    },
    /// [`Lstm`](super::Lstm).
    Lstm {
        /// Values per vector.
        inputs: usize,
        /// Number of cells.
        outputs: usize,
        /// Most vectors of an example.
        steps_max: usize,
    },
    /// [`TargetAttention`](super::TargetAttention).
    TargetAttention {
        /// Values of the target and of each vector.
        dim: usize,
        /// Most vectors of an example.
        steps_max: usize,
        /// Lanes of the hidden layer.
        hidden: usize,
    },
    /// [`MultiHeadAttention`](super::MultiHeadAttention).
    MultiHeadAttention {
        /// Number of queries.
        heads: usize,
        /// Values of each query and vector.
        dim: usize,
        /// Most vectors of an example.
        steps_max: usize,
    },
    /// [`FourierFeatures`](super::FourierFeatures).
    FourierFeatures {
        /// Columns of the input.
        inputs: usize,
        /// Columns of the output.
        outputs: usize,
        /// Width of the kernel.
        sigma: f64,
        /// Seed of frequencies and phases.
        seed: u64,
    },
    /// [`Dropout`](super::Dropout).
    Dropout {
        /// Share of lanes to drop.
        rate: f64,
    },
    /// [`BatchNorm`](super::BatchNorm).
    BatchNorm {
        /// Number of channels.
        channels: usize,
        /// Values per channel.
        places: usize,
        /// Added to variances.
        epsilon: f64,
        /// Weight of a step in the state.
        momentum: f64,
    },
    /// [`Dice`](super::Dice).
    Dice {
        /// Columns of the input and the output.
        columns: usize,
        /// Added to variances.
        epsilon: f64,
        /// Weight of a step in the state.
        momentum: f64,
    },
    /// [`LayerNorm`](super::LayerNorm).
    LayerNorm {
        /// Number of groups.
        groups: usize,
        /// Columns of each group.
        columns: usize,
    },
    /// [`Activate`](super::Activate).
    Activate {
        /// Function of each value.
        function: Function,
        /// Columns of the input and the output.
        columns: usize,
    },
    /// [`UnitLength`](super::UnitLength).
    UnitLength {
        /// Columns of the input and the output.
        columns: usize,
    },
    /// [`InBatchSoftmax`](super::InBatchSoftmax).
    InBatchSoftmax {
        /// Columns of each vector.
        dim: usize,
        /// Divisor of the scores.
        temperature: f64,
    },
    /// [`Mixture`](super::Mixture).
    Mixture {
        /// Number of experts.
        experts: usize,
        /// Columns of each expert's output and of the mixture.
        columns: usize,
    },
    /// [`Concat`](super::Concat).
    Concat,
    /// [`Add`](super::Add).
    Add,
    /// [`Multiply`](super::Multiply).
    Multiply,
}

impl Operation {
    /// Name for error messages.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Linear { .. } => "linear",
            Self::FactorizationMachine { .. } => "factorization machine",
            Self::Cross { .. } => "cross",
            Self::CrossVector { .. } => "cross layer with a vector",
            Self::DotInteraction { .. } => "dot interaction",
            Self::Convolution { .. } => "convolution",
            Self::Pooling { .. } => "pooling",
            Self::Lstm { .. } => "LSTM",
            Self::TargetAttention { .. } => "target attention",
            Self::MultiHeadAttention { .. } => "multi-head attention",
            Self::FourierFeatures { .. } => "layer of Fourier features",
            Self::Dropout { .. } => "dropout",
            Self::BatchNorm { .. } => "batch normalization",
            Self::Dice { .. } => "Dice",
            Self::LayerNorm { .. } => "layer normalization",
            Self::Activate { .. } => "activation",
            Self::UnitLength { .. } => "scaling to unit length",
            Self::InBatchSoftmax { .. } => "in-batch softmax",
            Self::Mixture { .. } => "mixture of experts",
            Self::Concat => "concatenation",
            Self::Add => "sum",
            Self::Multiply => "product",
        }
    }
}
