//! `din`.

use std::ops::Range;

use stepwell_nn::{Concat, GraphBuilder, GraphError, InputShape, Source, TargetAttention};
use stepwell_settings::ModelConfig;

use super::parts::{Built, layer, mlp};
use crate::features::SequencePlace;

/// Hidden layers over the attention of each target to its sequence, the other embeddings and the
/// dense features. The input ends with the lengths of the sequences.
pub(super) fn din(
    builder: &mut GraphBuilder<f32>,
    input: InputShape,
    model: &ModelConfig,
    (sequences, logits): (&[SequencePlace<'_>], usize),
) -> Built<()> {
    let first_length = input.columns() - sequences.len();
    let (mut sources, mut columns) = (Vec::new(), 0);
    for (length, place) in (first_length..).zip(sequences) {
        let name = format!("attention/{}", place.name);
        let dim = place.target.len();
        if place.columns.len() != place.ids * dim {
            let of_each = place.columns.len() / place.ids.max(1);
            let problem = format!(
                "its target's embedding has dimension {dim}, but those of the sequence have \
                 {of_each}: give both one table, or tables of one dim"
            );
            return Err(GraphError::Shape { layer: name, problem });
        }
        let attention = TargetAttention { dim, steps_max: place.ids, hidden: model.attention };
        let of = [place.target.clone(), place.columns.clone(), length..length + 1];
        sources.push(Source::Node(builder.add(&name, attention, &of.map(Source::Columns))?));
        columns += dim;
    }
    for range in between(sequences, first_length) {
        columns += range.len();
        sources.push(Source::Columns(range));
    }
    let all = builder.add("all", Concat, &sources)?;
    let (width, top) = mlp(builder, "mlp", &model.hidden, columns, Source::Node(all))?;
    builder.add("logit", layer(width, logits, false), &[top]).map(drop)
}

/// The columns up to `end` that belong to no sequence.
fn between(sequences: &[SequencePlace<'_>], end: usize) -> Vec<Range<usize>> {
    let mut of_sequences: Vec<Range<usize>> =
        sequences.iter().map(|place| place.columns.clone()).collect();
    of_sequences.sort_by_key(|columns| columns.start);
    let (mut ranges, mut start) = (Vec::new(), 0);
    for columns in of_sequences {
        ranges.push(start..columns.start.max(start));
        start = start.max(columns.end);
    }
    ranges.push(start..end);
    ranges.retain(|range| !range.is_empty());
    ranges
}
