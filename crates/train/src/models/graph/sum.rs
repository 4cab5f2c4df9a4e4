//! `lr`, `fm`, `wide_deep` and `deepfm`.

use stepwell_settings::{LayerConfig, LayerKind, ModelConfig, ModelKind};

use super::input::ModelInput;
use super::layers::{Layers, linear};

/// The models whose logit is a sum: first order, linear in the dense features, and further terms.
/// Several logits are linear in these terms, each with its own weights.
pub(super) fn sum(layers: &mut Layers, input: &ModelInput<'_>, model: &ModelConfig, logits: usize) {
    let first_order = "first_order".to_owned();
    if logits > 1 {
        let mut shared = vec![first_order, "dense".to_owned()];
        if model.kind.has_hidden_layers() {
            shared.push(layers.mlp("mlp", &model.hidden, "input"));
        }
        if model.kind.has_pairs() {
            shared.push(pairs(layers, input, model.dim));
        }
        let shared = layers.concat("shared", &shared);
        layers.linear("logits", &shared, logits);
        return;
    }
    // Without hidden layers, it needs no random start, which a short training would not forget.
    let zero = matches!(model.kind, ModelKind::Lr | ModelKind::Fm);
    let linear = layers.add(LayerConfig { zero, ..linear("linear", "dense", 1) });
    let mut terms = vec![first_order, linear];
    if model.kind.has_hidden_layers() {
        let top = layers.mlp("mlp", &model.hidden, "input");
        terms.push(layers.linear("mlp_out", &top, 1));
    }
    if model.kind.has_pairs() {
        terms.push(pairs(layers, input, model.dim));
    }
    layers.add(LayerConfig { inputs: terms, ..LayerConfig::new("logit", LayerKind::Add, &[]) });
}

/// Second-order term: interactions of pairs of embeddings.
fn pairs(layers: &mut Layers, input: &ModelInput<'_>, dim: usize) -> String {
    let vectors = layers.vectors(input, dim);
    layers.of_vectors("fm", LayerKind::FactorizationMachine, (&[&vectors], dim))
}
