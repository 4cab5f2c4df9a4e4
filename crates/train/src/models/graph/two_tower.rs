//! `two_tower`.

use std::ops::Range;

use stepwell_settings::{LayerConfig, LayerKind, ModelConfig};

use super::input::ModelInput;
use super::layers::Layers;

/// Hidden layers over the columns of the user and over those of the item, each with a vector of
/// length 1, and their dot product. In training, it competes with those of the block's other items.
///
/// # Errors
/// Columns of the item that the model doesn't read, or no others.
pub(super) fn two_tower(
    layers: &mut Layers,
    input: &ModelInput<'_>,
    model: &ModelConfig,
) -> Result<(), String> {
    let item = item_columns(input, &model.item)?;
    let user = outside(&item, input.whole().end);
    if user.is_empty() {
        return Err("model.item has all columns of the input: leave some to the user".to_owned());
    }
    let vectors = [("user", &user), ("item", &item)].map(|(name, columns)| {
        let inputs: Vec<String> = columns.iter().map(|columns| input.name(columns)).collect();
        let inputs = match &inputs[..] {
            [input] => input.clone(),
            _ => layers.concat(&format!("{name}/input"), &inputs),
        };
        let top = layers.mlp(name, &model.hidden, &inputs);
        let vector = layers.linear(name, &top, model.vector);
        layers.plain(&format!("{name}/unit"), LayerKind::UnitLength, &[&vector])
    });
    let inputs = vectors.into_iter().chain(input.bin()).collect();
    let temperature = Some(model.temperature);
    let logit = LayerConfig::new("logit", LayerKind::InBatchSoftmax, &[]);
    layers.add(LayerConfig { inputs, temperature, ..logit });
    Ok(())
}

/// The columns of the item's features and dense columns, adjacent ones together.
fn item_columns(input: &ModelInput<'_>, names: &[String]) -> Result<Vec<Range<usize>>, String> {
    if names.is_empty() {
        return Err(
            "model.kind = two_tower, but model.item is empty: give the columns of the item; the \
             user has the others"
                .to_owned(),
        );
    }
    if let Some(name) = names.iter().find(|name| !input.parts().any(|part| part.column == **name)) {
        return Err(format!(
            "model.item has {name}, which the model doesn't read: give a column of ids with a \
             feature, or a dense column"
        ));
    }
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for part in input.parts().filter(|part| names.iter().any(|name| name == part.column)) {
        match ranges.last_mut() {
            Some(last) if last.end == part.columns.start => last.end = part.columns.end,
            _ => ranges.push(part.columns.clone()),
        }
    }
    ranges.retain(|range| !range.is_empty());
    if ranges.is_empty() {
        return Err(
            "the columns of model.item have no embeddings: give their tables dim".to_owned()
        );
    }
    Ok(ranges)
}

/// The parts of `0..end` that are outside of `ranges`, which ascend.
fn outside(ranges: &[Range<usize>], end: usize) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(ranges.iter().map(|range| range.end));
    let ends = ranges.iter().map(|range| range.start).chain(std::iter::once(end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty()).collect()
}
