//! The layers of each model, a file for each family.

mod dcn;
mod din;
mod dlrm;
mod experts;
mod final_mlp;
mod mask_net;
mod sum;

use stepwell_data::Schema;
use stepwell_nn::{
    Activation, Concat, Graph, GraphBuilder, GraphError, InputShape, Linear, Source,
};
use stepwell_settings::{Config, ModelKind};

use self::dcn::dcn;
use self::din::din;
use self::dlrm::dlrm;
use self::experts::experts;
use self::final_mlp::final_mlp;
use self::mask_net::mask_net;
use self::sum::sum;
use crate::features::SequencePlace;
use crate::labels::Label;

type Built<T> = Result<T, GraphError>;

/// The graph over fields whose embeddings have `dims` lanes, with a logit for each of `labels`, and
/// the lengths of `sequences` after the dense features.
pub(super) fn graph(
    config: &Config,
    schema: Schema,
    (dims, labels, sequences): (&[usize], &[Label], &[SequencePlace<'_>]),
) -> Built<Graph<f32>> {
    let logits = labels.len();
    let dense = schema.dense + sequences.len();
    let input = InputShape { embedding: dims.iter().sum(), dense };
    let mut builder = GraphBuilder::new(input);
    match config.model.kind {
        ModelKind::Lr | ModelKind::Fm | ModelKind::WideDeep | ModelKind::DeepFm => {
            sum(&mut builder, input, &config.model, (dims, logits))?;
        }
        ModelKind::Dcn | ModelKind::DcnV1 => dcn(&mut builder, input, &config.model, logits)?,
        ModelKind::Dlrm => dlrm(&mut builder, input, &config.model, (dims, logits))?,
        ModelKind::FinalMlp => final_mlp(&mut builder, input, &config.model, logits)?,
        ModelKind::MaskNet => mask_net(&mut builder, input, &config.model, (dims, logits))?,
        ModelKind::Din => din(&mut builder, input, &config.model, (sequences, logits))?,
        ModelKind::Mmoe | ModelKind::Ple => {
            // Parameters are named after their label, so that they stay its own when labels change.
            let names: Vec<String> = labels.iter().map(|label| label.name.clone()).collect();
            experts(&mut builder, input, &config.model, &names)?;
        }
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
