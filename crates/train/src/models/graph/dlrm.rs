//! `dlrm`.

use stepwell_settings::{LayerKind, ModelConfig};

use super::input::ModelInput;
use super::layers::Layers;

/// Dot products of the embeddings and of a bottom MLP's output for the dense features.
pub(super) fn dlrm(
    layers: &mut Layers,
    input: &ModelInput<'_>,
    model: &ModelConfig,
    logits: usize,
) {
    let widths = [model.bottom.as_slice(), &[model.dim]].concat();
    let bottom = layers.mlp("bottom", &widths, "dense");
    let embeddings = layers.vectors(input, model.dim);
    let vectors = ([bottom.as_str(), &embeddings], model.dim);
    let dots = layers.of_vectors("interaction", LayerKind::DotInteraction, (&vectors.0, vectors.1));
    let both = layers.concat("both", &[bottom, dots]);
    let top = layers.mlp("mlp", &model.hidden, &both);
    layers.linear("logit", &top, logits);
}
