//! `din`.

use std::ops::Range;

use stepwell_settings::{LayerConfig, LayerKind, ModelConfig};

use super::input::{ModelInput, Part};
use super::layers::Layers;

/// Hidden layers over the attention of each target to its sequence, the other embeddings and the
/// dense features.
///
/// # Errors
/// A target and a sequence whose embeddings differ in their dimensions.
pub(super) fn din(
    layers: &mut Layers,
    input: &ModelInput<'_>,
    model: &ModelConfig,
    logits: usize,
) -> Result<(), String> {
    let mut sources = Vec::new();
    for ((target, name), columns) in
        model.target.iter().zip(&model.sequences).zip(input.sequences())
    {
        let of = |is_it: &dyn Fn(&Part<'_>) -> bool| {
            let part = input.features().find(|part| is_it(part));
            part.map(|part| (part.dim, input.name(&part.columns))).unwrap_or_default()
        };
        let (dim, target) = of(&|part| part.column == target && part.is_pooled);
        let (of_each, sequence) = of(&|part| part.columns == *columns);
        if dim != of_each {
            return Err(format!(
                "layer 'attention/{name}': its target's embedding has dimension {dim}, but those \
                 of the sequence have {of_each}: give both one table, or tables of one dim"
            ));
        }
        let name = format!("attention/{name}");
        let attention = LayerConfig::new(&name, LayerKind::TargetAttention, &[&target, &sequence]);
        sources.push(layers.add(LayerConfig { width: Some(model.attention), ..attention }));
    }
    sources.extend(between(input).iter().map(|columns| input.name(columns)));
    let all = layers.concat("all", &sources);
    let top = layers.mlp("mlp", &model.hidden, &all);
    layers.linear("logit", &top, logits);
    Ok(())
}

/// The columns that belong to no sequence.
fn between(input: &ModelInput<'_>) -> Vec<Range<usize>> {
    let mut of_sequences = input.sequences().to_vec();
    of_sequences.sort_by_key(|columns| columns.start);
    let (mut ranges, mut start) = (Vec::new(), 0);
    for columns in of_sequences {
        ranges.push(start..columns.start.max(start));
        start = start.max(columns.end);
    }
    ranges.push(start..input.whole().end);
    ranges.retain(|range| !range.is_empty());
    ranges
}
