//! Layers of `model.kind = graph`, by name.

use stepwell_nn::Function;

use super::Config;

/// A layer of a model: what it computes, and from which inputs.
///
/// Sizes of inputs aren't given, because they follow from the inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerConfig {
    /// Name, also of its parameters.
    pub name: String,
    /// The operation.
    pub kind: LayerKind,
    /// Names of layers before it, and parts of the model's input.
    pub inputs: Vec<String>,
    /// Columns of the output, or of the hidden layer of an attention.
    pub width: Option<usize>,
    /// Function of each value.
    pub function: Option<Function>,
    /// Lanes of each vector in the inputs.
    pub dim: Option<usize>,
    /// Share of values to drop in training.
    pub rate: Option<f64>,
    /// Divisor of the scores.
    pub temperature: Option<f64>,
    /// Whether each column of the output has a bias.
    pub bias: bool,
    /// Whether parameters start at zero.
    pub zero: bool,
}

/// Operation of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayerKind {
    /// Weighted sums of the input, plus a bias.
    #[default]
    Linear,
    /// A function of each value.
    Activate,
    /// The inputs side by side.
    Concat,
    /// Sum of the inputs.
    Add,
    /// Product of two inputs, value by value.
    Multiply,
    /// Cross layer of DCN-V2.
    Cross,
    /// Cross layer of DCN.
    CrossVector,
    /// Dot products of all pairs of vectors.
    DotInteraction,
    /// Sum of the dot products of all pairs of vectors.
    FactorizationMachine,
    /// Normalization of each vector.
    LayerNorm,
    /// Normalization of each column over a block of examples.
    BatchNorm,
    /// PReLU whose step is smooth and follows the values of each column.
    Dice,
    /// Mean of the other inputs, weighted by a softmax of the first.
    Mixture,
    /// Attention of a target to a sequence.
    TargetAttention,
    /// Attention of several queries to a sequence.
    MultiHeadAttention,
    /// The input, some of whose values training drops at random.
    Dropout,
    /// A vector of length 1.
    UnitLength,
    /// Scores of pairs of vectors among those of the block.
    InBatchSoftmax,
}

/// Inputs and settings that a kind of layer accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Takes {
    /// Fewest inputs, and most.
    pub(crate) inputs: (usize, usize),
    pub(crate) width: Need,
    pub(crate) function: Need,
    pub(crate) dim: Need,
    pub(crate) rate: Need,
    pub(crate) temperature: Need,
    /// Whether it has parameters, which may start at zero.
    pub(crate) zero: bool,
}

/// Whether a layer takes a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Never,
    Optional,
    Required,
}

impl LayerKind {
    /// All kinds.
    pub const ALL: [Self; 18] = [
        Self::Linear,
        Self::Activate,
        Self::Concat,
        Self::Add,
        Self::Multiply,
        Self::Cross,
        Self::CrossVector,
        Self::DotInteraction,
        Self::FactorizationMachine,
        Self::LayerNorm,
        Self::BatchNorm,
        Self::Dice,
        Self::Mixture,
        Self::TargetAttention,
        Self::MultiHeadAttention,
        Self::Dropout,
        Self::UnitLength,
        Self::InBatchSoftmax,
    ];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Activate => "activate",
            Self::Concat => "concat",
            Self::Add => "add",
            Self::Multiply => "multiply",
            Self::Cross => "cross",
            Self::CrossVector => "cross_vector",
            Self::DotInteraction => "dot_interaction",
            Self::FactorizationMachine => "factorization_machine",
            Self::LayerNorm => "layer_norm",
            Self::BatchNorm => "batch_norm",
            Self::Dice => "dice",
            Self::Mixture => "mixture",
            Self::TargetAttention => "target_attention",
            Self::MultiHeadAttention => "multi_head_attention",
            Self::Dropout => "dropout",
            Self::UnitLength => "unit_length",
            Self::InBatchSoftmax => "in_batch_softmax",
        }
    }

    /// Whether its second input is a sequence.
    pub const fn reads_sequence(self) -> bool {
        matches!(self, Self::TargetAttention | Self::MultiHeadAttention)
    }

    /// Whether it normalizes columns over a block of examples.
    pub(crate) const fn normalizes_blocks(self) -> bool {
        matches!(self, Self::BatchNorm | Self::Dice)
    }

    pub(crate) const fn takes(self) -> Takes {
        use Need::{Never, Optional, Required};
        let (inputs, width, function, dim) = match self {
            Self::Linear => ((1, 1), Required, Optional, Never),
            Self::Activate => ((1, 1), Never, Required, Never),
            Self::Concat | Self::Add => ((1, usize::MAX), Never, Never, Never),
            Self::BatchNorm | Self::Dice | Self::Dropout | Self::UnitLength => {
                ((1, 1), Never, Never, Never)
            }
            Self::InBatchSoftmax => ((2, 3), Never, Never, Never),
            Self::Multiply | Self::Cross | Self::CrossVector => ((2, 2), Never, Never, Never),
            Self::DotInteraction => ((1, 2), Never, Never, Required),
            Self::FactorizationMachine => ((1, 1), Never, Never, Required),
            Self::LayerNorm => ((1, 1), Never, Never, Optional),
            Self::Mixture => ((2, usize::MAX), Never, Never, Never),
            Self::TargetAttention => ((2, 2), Required, Never, Never),
            Self::MultiHeadAttention => ((2, 2), Never, Never, Never),
        };
        let zero =
            matches!(self, Self::Linear | Self::Cross | Self::CrossVector | Self::TargetAttention);
        let rate = if matches!(self, Self::Dropout) { Required } else { Never };
        let temperature = if matches!(self, Self::InBatchSoftmax) { Optional } else { Never };
        Takes { inputs, width, function, dim, rate, temperature, zero }
    }
}

impl LayerConfig {
    /// A layer without further settings.
    pub fn new(name: &str, kind: LayerKind, inputs: &[&str]) -> Self {
        let inputs = inputs.iter().map(|&input| input.to_owned()).collect();
        Self { name: name.to_owned(), kind, inputs, ..Self::default() }
    }

    /// The whole key of a setting of the layer with this number, counted from 1.
    pub(crate) fn key(number: usize, setting: &str) -> String {
        format!("model.layers.{number}.{setting}")
    }
}

impl Config {
    /// The layer with this number, counted from 1; adds the one after the last.
    ///
    /// # Errors
    /// If the number is too high; the message names the next one.
    pub fn layer_mut(&mut self, number: usize) -> Result<&mut LayerConfig, String> {
        let layers = &mut self.model.layers;
        let count = layers.len();
        if !(1..=count + 1).contains(&number) {
            let next = count + 1;
            return Err(format!("model.layers.{number} skips a number: give model.layers.{next}"));
        }
        if number > count {
            layers.push(LayerConfig::default());
        }
        Ok(&mut layers[number - 1])
    }
}
