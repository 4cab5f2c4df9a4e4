//! `dcn` and `dcn_v1`.

use stepwell_settings::{LayerKind, ModelConfig, ModelKind};

use super::layers::Layers;

/// Cross layers next to hidden layers, both over the whole input.
pub(super) fn dcn(layers: &mut Layers, model: &ModelConfig, logits: usize) {
    let kind = match model.kind {
        ModelKind::DcnV1 => LayerKind::CrossVector,
        _ => LayerKind::Cross,
    };
    let mut crossed = "input".to_owned();
    for number in 1..=model.cross_layers {
        crossed = layers.plain(&format!("cross{number}"), kind, &["input", &crossed]);
    }
    let deep = layers.mlp("mlp", &model.hidden, "input");
    let both = layers.concat("both", &[crossed, deep]);
    layers.linear("logit", &both, logits);
}
