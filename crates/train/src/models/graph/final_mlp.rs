//! `final_mlp`.

use stepwell_settings::{LayerConfig, LayerKind, ModelConfig};

use super::input::ModelInput;
use super::layers::{Layers, linear};

/// Two streams of hidden layers over the whole input, and a bilinear form of their outputs.
pub(super) fn final_mlp(
    layers: &mut Layers,
    input: &ModelInput<'_>,
    model: &ModelConfig,
    logits: usize,
) {
    let first = layers.mlp("mlp", &model.hidden, "input");
    let second = layers.mlp("second", &model.second, "input");
    let dim = model.second.last().copied().unwrap_or(input.whole().len());
    let form = LayerConfig { bias: false, ..linear("bilinear", &first, dim) };
    let form = layers.add(form);
    let vectors = (&[form.as_str(), &second][..], dim);
    let product = layers.of_vectors("fusion", LayerKind::DotInteraction, vectors);
    if logits > 1 {
        let both = layers.concat("both", &[first, second, product]);
        layers.linear("logits", &both, logits);
        return;
    }
    let both = layers.concat("both", &[first, second]);
    let linear = layers.linear("linear", &both, 1);
    layers.plain("logit", LayerKind::Add, &[&linear, &product]);
}
