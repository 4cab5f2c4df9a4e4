//! `dcn` and `dcn_v1`.

use stepwell_nn::{Concat, Cross, CrossVector, GraphBuilder, InputShape, Source};
use stepwell_settings::{ModelConfig, ModelKind};

use super::parts::{Built, layer, mlp};

/// Cross layers next to hidden layers, both over the whole input.
pub(super) fn dcn(
    builder: &mut GraphBuilder<f32>,
    input: InputShape,
    model: &ModelConfig,
    logits: usize,
) -> Built<()> {
    let columns = input.columns();
    let whole = Source::Columns(0..columns);
    let mut crossed = whole.clone();
    for number in 1..=model.cross_layers {
        let (name, sources) = (format!("cross{number}"), [whole.clone(), crossed]);
        crossed = Source::Node(match model.kind {
            ModelKind::DcnV1 => builder.add(&name, CrossVector { columns }, &sources)?,
            _ => builder.add(&name, Cross { columns }, &sources)?,
        });
    }
    let (width, deep) = mlp(builder, "mlp", &model.hidden, columns, whole)?;
    let both = builder.add("both", Concat, &[crossed, deep])?;
    let logit = layer(columns + width, logits, false);
    builder.add("logit", logit, &[Source::Node(both)]).map(drop)
}
