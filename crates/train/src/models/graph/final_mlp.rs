//! `final_mlp`.

use stepwell_nn::{Add, Concat, DotInteraction, GraphBuilder, InputShape, Linear, Source};
use stepwell_settings::ModelConfig;

use super::parts::{Built, layer, mlp};

/// Two streams of hidden layers over the whole input, and a bilinear form of their outputs.
pub(super) fn final_mlp(
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
