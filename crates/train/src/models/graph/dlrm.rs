//! `dlrm`.

use stepwell_nn::{Concat, DotInteraction, GraphBuilder, InputShape, Source};
use stepwell_settings::ModelConfig;

use super::parts::{Built, layer, mlp, vectors};

/// Dot products of the embeddings and of a bottom MLP's output for the dense features.
pub(super) fn dlrm(
    builder: &mut GraphBuilder<f32>,
    input: InputShape,
    model: &ModelConfig,
    (dims, logits): (&[usize], usize),
) -> Built<()> {
    let dense = input.embedding..input.columns();
    let widths = [model.bottom.as_slice(), &[model.dim]].concat();
    let (width, dense) = (dense.len(), Source::Columns(dense));
    let (_, bottom) = mlp(builder, "bottom", &widths, width, dense)?;
    let (count, embeddings) = vectors(builder, dims, model.dim)?;
    let interaction = DotInteraction { vectors: count + 1, dim: model.dim };
    let sources = [bottom.clone(), embeddings];
    let dots = builder.add("interaction", interaction, &sources)?;
    let both = builder.add("both", Concat, &[bottom, Source::Node(dots)])?;
    let columns = model.dim + interaction.pairs();
    let (width, top) = mlp(builder, "mlp", &model.hidden, columns, Source::Node(both))?;
    builder.add("logit", layer(width, logits, false), &[top]).map(drop)
}
