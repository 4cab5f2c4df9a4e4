//! The settings of the layers of `model.kind = graph`. Keys are `model.layers.N.`, followed by the
//! entry's key.

use crate::check::{self, given};
use crate::config::{LayerConfig, LayerKind};
use crate::setting::{Kept, Setting, setting};
use crate::setting_types::Typed;

/// All settings of a layer, in the order of the documentation and of digests of jobs.
pub const LAYER_SETTINGS: &[Setting<LayerConfig>] = &[
    setting!(
        LayerConfig: "name",
        name = String::new(),
        Always,
        "name of the layer and of its parameters"
    ),
    setting!(
        LayerConfig: "kind",
        kind = LayerKind::Linear,
        Always,
        "linear, activate, concat, add, multiply, cross, cross_vector, dot_interaction, \
         factorization_machine, layer_norm, batch_norm, dice, mixture, target_attention, \
         multi_head_attention, dropout, unit_length or in_batch_softmax"
    ),
    setting!(
        LayerConfig: "inputs",
        inputs = Vec::new(),
        Always,
        "layers before it, and parts of the model's input: input, embeddings, dense, first_order, \
         column:NAME"
    ),
    setting!(
        LayerConfig: "width",
        width = None,
        Always,
        "columns of a linear layer's output, or of the hidden layer of target_attention"
    )
    .check(|layer| given(layer.width, |width| check::count(width, check::WIDTH_MAX))),
    setting!(
        LayerConfig: "function",
        function = None,
        Always,
        "relu, sigmoid, tanh, gelu, silu or prelu of each value; linear takes relu"
    ),
    setting!(
        LayerConfig: "dim",
        dim = None,
        Always,
        "lanes of each vector in the inputs of dot_interaction, factorization_machine and \
         layer_norm"
    )
    .check(|layer| given(layer.dim, |dim| check::count(dim, check::WIDTH_MAX))),
    setting!(
        LayerConfig: "rate",
        rate = None,
        Always,
        "share of the values that dropout drops in training"
    )
    .check(|layer| given(layer.rate, check::dropout)),
    setting!(
        LayerConfig: "temperature",
        temperature = None,
        Always,
        "divisor of the scores of in_batch_softmax (default 1)"
    )
    .check(|layer| given(layer.temperature, check::temperature)),
    setting!(
        LayerConfig: "bias",
        bias = true,
        Always,
        "false: a linear layer without bias"
    ),
    setting!(
        LayerConfig: "zero",
        zero = false,
        Always,
        "true: its parameters start at zero"
    ),
];
