//! Parts that several models have.

use stepwell_nn::{Activation, Concat, GraphBuilder, GraphError, Linear, Source};

pub(super) type Built<T> = Result<T, GraphError>;

/// The embeddings as vectors of `dim` lanes: others are projected, empty ones are left out. Returns
/// their number and place.
pub(super) fn vectors(
    builder: &mut GraphBuilder<f32>,
    dims: &[usize],
    dim: usize,
) -> Built<(usize, Source)> {
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

pub(super) fn layer(inputs: usize, outputs: usize, hidden: bool) -> Linear {
    let activation = if hidden { Activation::Relu } else { Activation::Identity };
    Linear { inputs, outputs, bias: true, activation }
}

/// Hidden layers `<name>1`, `<name>2` and so on; returns columns and place of the last one's
/// output.
pub(super) fn mlp(
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
