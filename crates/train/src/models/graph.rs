//! The layers of each model.

use stepwell_data::Schema;
use stepwell_nn::{
    Activation, Add, Concat, Cross, DotInteraction, FactorizationMachine, Graph, GraphBuilder,
    GraphError, InputShape, Linear, Source,
};
use stepwell_settings::{Config, ModelConfig, ModelKind};

type Built<T> = Result<T, GraphError>;

/// The graph over fields whose embeddings have `dims` lanes, with `logits` logits.
pub(super) fn graph(
    config: &Config,
    schema: Schema,
    (dims, logits): (&[usize], usize),
) -> Built<Graph<f32>> {
    let input = InputShape { embedding: dims.iter().sum(), dense: schema.dense };
    let mut builder = GraphBuilder::new(input);
    match config.model.kind {
        ModelKind::Lr | ModelKind::Fm | ModelKind::WideDeep | ModelKind::DeepFm => {
            sum(&mut builder, input, &config.model, (dims, logits))?;
        }
        ModelKind::Dcn => dcn(&mut builder, input, &config.model, logits)?,
        ModelKind::Dlrm => dlrm(&mut builder, input, &config.model, (dims, logits))?,
        ModelKind::FinalMlp => final_mlp(&mut builder, input, &config.model, logits)?,
    }
    Ok(builder.build()?.with_precision(config.model.precision))
}

/// The embeddings as vectors of `dim` lanes: others are projected, empty ones are left out. Returns
/// their number and place.
fn vectors(builder: &mut GraphBuilder<f32>, dims: &[usize], dim: usize) -> Built<(usize, Source)> {
    let whole = Source::Columns(0..dims.iter().sum());
    if dims.iter().all(|of| *of == dim) {
        return Ok((dims.len(), whole));
    }
    let (mut sources, mut column, mut count) = (Vec::new(), 0, 0);
    for (number, of) in (1..).zip(dims) {
        let own = column..column + of;
        column = own.end;
        count += usize::from(*of > 0);
        match (*of, sources.last_mut()) {
            (0, _) => {}
            // Adjacent embeddings are read as one.
            (of, Some(Source::Columns(last))) if of == dim && last.end == own.start => {
                last.end = own.end;
            }
            (of, _) if of == dim => sources.push(Source::Columns(own)),
            (of, _) => {
                let name = format!("project{number}");
                let layer = Linear {
                    inputs: of,
                    outputs: dim,
                    bias: false,
                    activation: Activation::Identity,
                };
                sources.push(Source::Node(builder.add(&name, layer, &[Source::Columns(own)])?));
            }
        }
    }
    let together = builder.add("vectors", Concat, &sources)?;
    Ok((count, Source::Node(together)))
}

/// The models whose logit is a sum: first order, linear in the dense features, and further terms.
/// Several logits are linear in these terms, each with its own weights.
fn sum(
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

/// Cross layers next to hidden layers, both over the whole input.
fn dcn(
    builder: &mut GraphBuilder<f32>,
    input: InputShape,
    model: &ModelConfig,
    logits: usize,
) -> Built<()> {
    let columns = input.columns();
    let whole = Source::Columns(0..columns);
    let mut crossed = whole.clone();
    for number in 1..=model.cross_layers {
        let sources = [whole.clone(), crossed];
        crossed =
            Source::Node(builder.add(&format!("cross{number}"), Cross { columns }, &sources)?);
    }
    let (width, deep) = mlp(builder, "mlp", &model.hidden, columns, whole)?;
    let both = builder.add("both", Concat, &[crossed, deep])?;
    let logit = layer(columns + width, logits, false);
    builder.add("logit", logit, &[Source::Node(both)]).map(drop)
}

/// Dot products of the embeddings and of a bottom MLP's output for the dense features.
fn dlrm(
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

/// Two streams of hidden layers over the whole input, and a bilinear form of their outputs.
fn final_mlp(
    builder: &mut GraphBuilder<f32>,
    input: InputShape,
    model: &ModelConfig,
    logits: usize,
) -> Built<()> {
    let columns = input.columns();
    let whole = Source::Columns(0..columns);
    let (width, first) = mlp(builder, "mlp", &model.hidden, columns, whole.clone())?;
    let (dim, second) = mlp(builder, "second", &model.second, columns, whole)?;
    let form = Linear { bias: false, ..layer(width, dim, false) };
    let form = builder.add("bilinear", form, std::slice::from_ref(&first))?;
    let products = DotInteraction { vectors: 2, dim };
    let product = builder.add("fusion", products, &[Source::Node(form), second.clone()])?;
    let (mut columns, mut sources) = (width + dim, vec![first, second]);
    if logits > 1 {
        columns += 1;
        sources.push(Source::Node(product));
    }
    let both = builder.add("both", Concat, &sources)?;
    let linear = layer(columns, logits, false);
    if logits > 1 {
        return builder.add("logits", linear, &[Source::Node(both)]).map(drop);
    }
    let linear = builder.add("linear", linear, &[Source::Node(both)])?;
    let logit = [Source::Node(linear), Source::Node(product)];
    builder.add("logit", Add, &logit).map(drop)
}

fn layer(inputs: usize, outputs: usize, hidden: bool) -> Linear {
    let activation = if hidden { Activation::Relu } else { Activation::Identity };
    Linear { inputs, outputs, bias: true, activation }
}

/// Hidden layers `<name>1`, `<name>2` and so on; returns columns and place of the last one's
/// output.
fn mlp(
    builder: &mut GraphBuilder<f32>,
    name: &str,
    widths: &[usize],
    mut columns: usize,
    mut source: Source,
) -> Built<(usize, Source)> {
    for (index, outputs) in widths.iter().enumerate() {
        let name = format!("{name}{}", index + 1);
        let node = builder.add(&name, layer(columns, *outputs, true), &[source])?;
        (columns, source) = (*outputs, Source::Node(node));
    }
    Ok((columns, source))
}
