//! `mask_net`.

use std::collections::BTreeMap;

use stepwell_nn::{
    Activate, Concat, Function, GraphBuilder, InputShape, LayerNorm, Linear, Multiply, Source,
};
use stepwell_settings::ModelConfig;

use super::parts::{Built, layer, mlp};

/// Blocks side by side, each of which masks the normalized embeddings by the whole input, and
/// hidden layers over all blocks and the dense features.
pub(super) fn mask_net(
    builder: &mut GraphBuilder<f32>,
    input: InputShape,
    model: &ModelConfig,
    (dims, logits): (&[usize], usize),
) -> Built<()> {
    let normed = normalized(builder, dims)?;
    let mut sources = Vec::new();
    for number in 1..=model.mask_blocks {
        let name = format!("block{number}");
        sources.push(block(builder, &name, (input, normed.clone()), model)?);
    }
    let mut columns = model.mask_blocks * model.mask_dim;
    sources.push(Source::Columns(input.embedding..input.columns()));
    columns += input.dense;
    let all = builder.add("blocks", Concat, &sources)?;
    let (width, top) = mlp(builder, "mlp", &model.hidden, columns, Source::Node(all))?;
    builder.add("logit", layer(width, logits, false), &[top]).map(drop)
}

/// The embeddings, each normalized: those of one dimension together, the smallest first.
fn normalized(builder: &mut GraphBuilder<f32>, dims: &[usize]) -> Built<Source> {
    let mut of_dims: BTreeMap<usize, Vec<Source>> = BTreeMap::new();
    let mut column = 0;
    for dim in dims.iter().filter(|dim| **dim > 0) {
        let own = column..column + dim;
        column = own.end;
        let sources = of_dims.entry(*dim).or_default();
        match sources.last_mut() {
            // Adjacent embeddings are read as one.
            Some(Source::Columns(last)) if last.end == own.start => last.end = own.end,
            _ => sources.push(Source::Columns(own)),
        }
    }
    let mut norms = Vec::new();
    for (dim, sources) in of_dims {
        let groups = dims.iter().filter(|of| **of == dim).count();
        let embeddings = match sources.as_slice() {
            [one] => one.clone(),
            all => Source::Node(builder.add(&format!("embeddings{dim}"), Concat, all)?),
        };
        let norm = LayerNorm { groups, columns: dim };
        norms.push(Source::Node(builder.add(&format!("norm{dim}"), norm, &[embeddings])?));
    }
    match norms.as_slice() {
        [one] => Ok(one.clone()),
        all => Ok(Source::Node(builder.add("norms", Concat, all)?)),
    }
}

/// A layer over the normalized embeddings `normed` times a mask, which two layers compute from the
/// whole input.
fn block(
    builder: &mut GraphBuilder<f32>,
    name: &str,
    (input, normed): (InputShape, Source),
    model: &ModelConfig,
) -> Built<Source> {
    let of = |part: &str| format!("{name}/{part}");
    let (columns, lanes) = (input.columns(), input.embedding);
    let width = ((model.mask_ratio * lanes as f64).round() as usize).max(1);
    let whole = Source::Columns(0..columns);
    let aggregate = builder.add(&of("aggregate"), layer(columns, width, true), &[whole])?;
    let mask = layer(width, lanes, false);
    let mask = builder.add(&of("mask"), mask, &[Source::Node(aggregate)])?;
    let masked = builder.add(&of("masked"), Multiply, &[normed, Source::Node(mask)])?;
    let columns = model.mask_dim;
    // The normalization has a bias.
    let hidden = Linear { bias: false, ..layer(lanes, columns, false) };
    let hidden = builder.add(&of("hidden"), hidden, &[Source::Node(masked)])?;
    let norm = LayerNorm { groups: 1, columns };
    let norm = builder.add(&of("norm"), norm, &[Source::Node(hidden)])?;
    let relu = Activate { function: Function::Relu, columns };
    Ok(Source::Node(builder.add(&of("relu"), relu, &[Source::Node(norm)])?))
}
