//! `lr`, `fm`, `wide_deep` and `deepfm`.

use stepwell_nn::{Add, Concat, FactorizationMachine, GraphBuilder, InputShape, Source};
use stepwell_settings::{ModelConfig, ModelKind};

use super::parts::{Built, layer, mlp, vectors};

/// The models whose logit is a sum: first order, linear in the dense features, and further terms.
/// Several logits are linear in these terms, each with its own weights.
pub(super) fn sum(
    builder: &mut GraphBuilder<f32>,
    input: InputShape,
    model: &ModelConfig,
    (dims, logits): (&[usize], usize),
) -> Built<()> {
    let dense = Source::Columns(input.embedding..input.columns());
    if logits > 1 {
        let mut shared = vec![Source::FirstOrder, dense];
        let mut columns = 1 + input.dense;
        if model.kind.has_hidden_layers() {
            let (width, hidden) = tower(builder, input, model)?;
            columns += width;
            shared.push(hidden);
        }
        if model.kind.has_pairs() {
            columns += 1;
            shared.push(pairs(builder, dims, model.dim)?);
        }
        let shared = builder.add("shared", Concat, &shared)?;
        let logits = layer(columns, logits, false);
        return builder.add("logits", logits, &[Source::Node(shared)]).map(drop);
    }
    let linear = layer(input.dense, 1, false);
    let linear = match model.kind {
        // Without hidden layers, it needs no random start, which a short training would not forget.
        ModelKind::Lr | ModelKind::Fm => builder.add_at_zero("linear", linear, &[dense])?,
        _ => builder.add("linear", linear, &[dense])?,
    };
    let mut logit = vec![Source::FirstOrder, Source::Node(linear)];
    if model.kind.has_hidden_layers() {
        let (width, source) = tower(builder, input, model)?;
        let top = builder.add("mlp_out", layer(width, 1, false), &[source])?;
        logit.push(Source::Node(top));
    }
    if model.kind.has_pairs() {
        logit.push(pairs(builder, dims, model.dim)?);
    }
    builder.add("logit", Add, &logit).map(drop)
}

/// Hidden layers over the whole input.
fn tower(
    builder: &mut GraphBuilder<f32>,
    input: InputShape,
    model: &ModelConfig,
) -> Built<(usize, Source)> {
    let columns = input.columns();
    mlp(builder, "mlp", &model.hidden, columns, Source::Columns(0..columns))
}

/// Second-order term: interactions of pairs of embeddings.
fn pairs(builder: &mut GraphBuilder<f32>, dims: &[usize], dim: usize) -> Built<Source> {
    let (slots, source) = vectors(builder, dims, dim)?;
    let fm = builder.add("fm", FactorizationMachine { slots, dim }, &[source])?;
    Ok(Source::Node(fm))
}
