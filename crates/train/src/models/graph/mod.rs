//! The layers of each model, a file for each family.

mod dcn;
mod din;
mod dlrm;
mod experts;
mod final_mlp;
mod mask_net;
mod parts;
mod sum;

use stepwell_data::Schema;
use stepwell_nn::{Graph, GraphBuilder, InputShape};
use stepwell_settings::{Config, ModelKind};

use self::dcn::dcn;
use self::din::din;
use self::dlrm::dlrm;
use self::experts::experts;
use self::final_mlp::final_mlp;
use self::mask_net::mask_net;
use self::parts::Built;
use self::sum::sum;
use crate::features::SequencePlace;
use crate::labels::Label;

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
