//! The layers of each model, a file for each family, and the graph that they become.
//!
//! A model is a list of layers, which `model.kind = graph` takes from settings. The other kinds are
//! functions that write such a list for the model's features and labels.

mod compile;
mod dcn;
mod din;
mod dlrm;
mod experts;
mod final_mlp;
mod input;
mod layers;
mod mask_net;
mod sum;
mod two_tower;

use std::borrow::Cow;
use std::ops::Range;

use stepwell_nn::{Graph, NodeId, Source};
use stepwell_settings::{Config, LayerConfig, ModelConfig, ModelKind};

use self::compile::compile;
use self::dcn::dcn;
use self::din::din;
use self::dlrm::dlrm;
use self::experts::experts;
use self::final_mlp::final_mlp;
use self::input::ModelInput;
use self::layers::Layers;
use self::mask_net::mask_net;
use self::sum::sum;
use self::two_tower::two_tower;
use crate::features::Features;
use crate::labels::Label;

/// Most columns of one of the user's layers, so that the sizes of all of them can be counted.
const COLUMNS_MAX: usize = 1 << 22;

/// The graph over `features` from tables with `dims` lanes, with a logit for each of `labels`.
///
/// # Errors
/// Names the layer and the fix.
pub(super) fn graph(
    config: &Config,
    (features, dims): (&Features, &[usize]),
    labels: &[Label],
) -> Result<Graph<f32>, String> {
    let input = ModelInput::new(features, dims);
    let layers = layers_over(config, &input, labels)?;
    let columns_max = match config.model.kind {
        ModelKind::Graph => COLUMNS_MAX,
        _ => usize::MAX,
    };
    let graph = compile(&layers, &input, columns_max)?.with_precision(config.model.precision);
    if config.model.kind == ModelKind::Graph {
        check_outputs(&graph, &layers, labels)?;
        check_reads(&graph, &input)?;
    }
    Ok(graph)
}

/// What `name` stands for: a layer, or a part of the model's input.
pub(super) fn source(
    graph: &Graph<f32>,
    (features, dims): (&Features, &[usize]),
    name: &str,
) -> Option<Source> {
    match graph.nodes().position(|node| node.name == name) {
        Some(node) => Some(Source::Node(NodeId(node))),
        None => ModelInput::new(features, dims).columns(name).map(Source::Columns),
    }
}

/// Whether a layer reads embeddings, unless the model has none.
pub(super) fn reads_embeddings(graph: &Graph<f32>) -> bool {
    let whole = 0..graph.input().embedding;
    whole.is_empty() || graph.untouched().first() != Some(&whole)
}

/// Whether a layer reads lanes of the input by their numbers.
pub(super) fn reads_lanes(model: &ModelConfig) -> bool {
    model.layers.iter().flat_map(|layer| &layer.inputs).any(|name| name.starts_with("input["))
}

/// The layers of the model; see [`graph`].
///
/// # Errors
/// Embeddings that a kind of model can't combine.
pub(super) fn layers(
    config: &Config,
    (features, dims): (&Features, &[usize]),
    labels: &[Label],
) -> Result<Vec<LayerConfig>, String> {
    Ok(layers_over(config, &ModelInput::new(features, dims), labels)?.into_owned())
}

fn layers_over<'a>(
    config: &'a Config,
    input: &ModelInput<'_>,
    labels: &[Label],
) -> Result<Cow<'a, [LayerConfig]>, String> {
    let (model, logits) = (&config.model, labels.len());
    let mut layers = Layers::new(model);
    match model.kind {
        ModelKind::Lr | ModelKind::Fm | ModelKind::WideDeep | ModelKind::DeepFm => {
            sum(&mut layers, input, model, logits);
        }
        ModelKind::Dcn | ModelKind::DcnV1 => dcn(&mut layers, model, logits),
        ModelKind::Dlrm => dlrm(&mut layers, input, model, logits),
        ModelKind::FinalMlp => final_mlp(&mut layers, input, model, logits),
        ModelKind::MaskNet => mask_net(&mut layers, input, model, logits),
        ModelKind::Din => din(&mut layers, input, model, logits)?,
        ModelKind::TwoTower => two_tower(&mut layers, input, model)?,
        ModelKind::Mmoe | ModelKind::Ple => {
            // Parameters are named after their label, so that they stay its own when labels change.
            let names: Vec<&str> = labels.iter().map(|label| label.name.as_str()).collect();
            experts(&mut layers, model, &names);
        }
        ModelKind::Graph => return Ok(Cow::Borrowed(&model.layers)),
    }
    Ok(Cow::Owned(layers.into_settings()))
}

/// Refuses a graph whose last layer doesn't give a logit for each label.
fn check_outputs(
    graph: &Graph<f32>,
    layers: &[LayerConfig],
    labels: &[Label],
) -> Result<(), String> {
    let (columns, count) = (graph.outputs(), labels.len());
    if columns == count {
        return Ok(());
    }
    let name = layers.last().map_or("", |layer| &layer.name);
    Err(format!(
        "the last layer, '{name}', has {columns} columns, but it must have as many as there are \
         labels: {count}"
    ))
}

/// Refuses a graph that doesn't read the embeddings of a feature, unless it reads none at all.
fn check_reads(graph: &Graph<f32>, input: &ModelInput<'_>) -> Result<(), String> {
    if !reads_embeddings(graph) {
        return Ok(());
    }
    let unread = graph.untouched();
    let mut features = input.features();
    let lost = features.find(|part| {
        let is_in =
            |of: &&Range<usize>| of.start <= part.columns.start && part.columns.end <= of.end;
        !part.columns.is_empty() && unread.iter().any(|of| is_in(&of))
    });
    match lost {
        None => Ok(()),
        Some(part) => Err(format!(
            "no layer reads the embeddings of column {}: read them, or give [[features]] without \
             the column",
            part.column
        )),
    }
}
