//! `mask_net`.

use std::collections::BTreeMap;
use std::ops::Range;

use stepwell_nn::Function;
use stepwell_settings::{LayerConfig, LayerKind, ModelConfig};

use super::input::ModelInput;
use super::layers::{Layers, linear};

/// Blocks side by side, each of which masks the normalized embeddings by the whole input, and
/// hidden layers over all blocks and the dense features.
pub(super) fn mask_net(
    layers: &mut Layers,
    input: &ModelInput<'_>,
    model: &ModelConfig,
    logits: usize,
) {
    let normed = normalized(layers, input);
    let mut blocks = Vec::new();
    for number in 1..=model.mask_blocks {
        let name = format!("block{number}");
        blocks.push(block(layers, &name, (&normed, input.embeddings().len()), model));
    }
    blocks.push("dense".to_owned());
    let all = layers.concat("blocks", &blocks);
    let top = layers.mlp("mlp", &model.hidden, &all);
    layers.linear("logit", &top, logits);
}

/// The embeddings, each normalized: those of one dimension together, the smallest first.
fn normalized(layers: &mut Layers, input: &ModelInput<'_>) -> String {
    let mut of_dims: BTreeMap<usize, Vec<Range<usize>>> = BTreeMap::new();
    for field in input.fields().into_iter().filter(|field| !field.is_empty()) {
        let columns = of_dims.entry(field.len()).or_default();
        match columns.last_mut() {
            // Adjacent embeddings are read as one.
            Some(last) if last.end == field.start => last.end = field.end,
            _ => columns.push(field),
        }
    }
    let mut norms = Vec::new();
    for (dim, columns) in of_dims {
        let names: Vec<String> = columns.iter().map(|columns| input.name(columns)).collect();
        let embeddings = match names.as_slice() {
            [one] => one.clone(),
            all => layers.concat(&format!("embeddings{dim}"), all),
        };
        let name = format!("norm{dim}");
        norms.push(layers.of_vectors(&name, LayerKind::LayerNorm, (&[&embeddings], dim)));
    }
    match norms.as_slice() {
        [one] => one.clone(),
        all => layers.concat("norms", all),
    }
}

/// A layer over the normalized embeddings `normed` times a mask, which two layers compute from the
/// whole input.
fn block(
    layers: &mut Layers,
    name: &str,
    (normed, lanes): (&str, usize),
    model: &ModelConfig,
) -> String {
    let of = |part: &str| format!("{name}/{part}");
    let width = ((model.mask_ratio * lanes as f64).round() as usize).max(1);
    let aggregate = layers.relu(&of("aggregate"), "input", width);
    let mask = layers.linear(&of("mask"), &aggregate, lanes);
    let masked = layers.plain(&of("masked"), LayerKind::Multiply, &[normed, &mask]);
    // The normalization has a bias.
    let hidden = LayerConfig { bias: false, ..linear(&of("hidden"), &masked, model.mask_dim) };
    let hidden = layers.add(hidden);
    let norm = layers.plain(&of("norm"), LayerKind::LayerNorm, &[&hidden]);
    let relu = LayerConfig::new(&of("relu"), LayerKind::Activate, &[&norm]);
    layers.add(LayerConfig { function: Some(Function::Relu), ..relu })
}
