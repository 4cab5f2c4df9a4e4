//! Layers become a graph: names become sources, and sizes follow from the inputs.

use std::collections::HashMap;

use stepwell_nn::{
    Activate, Activation, Add, BatchNorm, Concat, Cross, CrossVector, Dice, DotInteraction,
    Dropout, FactorizationMachine, Function, Graph, GraphBuilder, GraphError, InBatchSoftmax,
    Layer, LayerNorm, Linear, Mixture, MultiHeadAttention, Multiply, NodeId, Source,
    TargetAttention, UnitLength,
};
use stepwell_settings::{LayerConfig, LayerKind};

use super::input::{ModelInput, Sequence};

/// The graph of `layers` over `input`, each with at most `columns_max` columns.
///
/// # Errors
/// Names the layer and the fix.
pub(super) fn compile(
    layers: &[LayerConfig],
    input: &ModelInput<'_>,
    columns_max: usize,
) -> Result<Graph<f32>, String> {
    let mut compiler = Compiler {
        layers,
        input,
        builder: GraphBuilder::new(input.shape()),
        nodes: HashMap::new(),
    };
    for layer in layers {
        let node = compiler.add(layer)?;
        let columns = compiler.builder.width(&layer.name, &Source::Node(node));
        if columns.is_ok_and(|columns| columns > columns_max) {
            let name = &layer.name;
            return Err(format!("layer '{name}' has more than {columns_max} columns: give fewer"));
        }
        compiler.nodes.insert(&layer.name, node);
    }
    compiler.builder.build().map_err(|error| error.to_string())
}

struct Compiler<'a> {
    layers: &'a [LayerConfig],
    input: &'a ModelInput<'a>,
    builder: GraphBuilder<f32>,
    /// Layers so far, by name.
    nodes: HashMap<&'a str, NodeId>,
}

impl Compiler<'_> {
    fn add(&mut self, layer: &LayerConfig) -> Result<NodeId, String> {
        let sources: Result<Vec<Source>, String> =
            layer.inputs.iter().map(|name| self.source(layer, name)).collect();
        let mut sources = sources?;
        let reads = layer.kind.reads_sequence();
        let sequence = reads.then(|| self.sequence(layer, &sources)).transpose()?;
        if let Some(Sequence { length, .. }) = sequence {
            sources.push(Source::Columns(length..length + 1));
        }
        self.build(layer, &sources, sequence).map_err(|error| error.to_string())
    }

    /// What `name` stands for among the inputs of `layer`.
    fn source(&self, layer: &LayerConfig, name: &str) -> Result<Source, String> {
        if let Some(node) = self.nodes.get(name) {
            return Ok(Source::Node(*node));
        }
        if name == "first_order" {
            return Ok(Source::FirstOrder);
        }
        if let Some(columns) = self.input.columns(name) {
            return Ok(Source::Columns(columns));
        }
        let why = if self.layers.iter().any(|of| of.name == name) {
            "which isn't before it: give layers in the order in which they are computed"
        } else {
            &self.input.why_not(name)
        };
        Err(format!("layer '{}' has the input {name}, {why}", layer.name))
    }

    /// The sequence that is the second input of `layer`, if the first input fits its embeddings.
    fn sequence(&self, layer: &LayerConfig, sources: &[Source]) -> Result<Sequence, String> {
        let sequence = match sources.get(1) {
            Some(Source::Columns(columns)) => self.input.sequence_of(columns),
            _ => None,
        };
        let name = &layer.name;
        let sequence = sequence.ok_or_else(|| {
            format!(
                "layer '{name}': its second input isn't a sequence: give column:NAME of a feature \
                 with pooling = none"
            )
        })?;
        let Sequence { dim, .. } = sequence;
        let width = self.builder.width(name, &sources[0]).map_err(|error| error.to_string())?;
        match layer.kind {
            LayerKind::MultiHeadAttention if !width.is_multiple_of(dim) => Err(format!(
                "layer '{name}': its queries have {width} columns, but the embeddings of the \
                 sequence have {dim}: give a query of {dim} columns for each head"
            )),
            LayerKind::TargetAttention if width != dim => Err(format!(
                "layer '{name}': its target has {width} columns, but the embeddings of the \
                 sequence have {dim}: give both as many"
            )),
            _ => Ok(sequence),
        }
    }

    fn build(
        &mut self,
        layer: &LayerConfig,
        sources: &[Source],
        sequence: Option<Sequence>,
    ) -> Result<NodeId, GraphError> {
        let widths: Result<Vec<usize>, GraphError> =
            sources.iter().map(|source| self.builder.width(&layer.name, source)).collect();
        let widths = widths?;
        let first = widths.first().copied().unwrap_or(0);
        let width = layer.width.unwrap_or(0);
        // A dimension that doesn't divide the inputs is refused by the layer.
        let dim = sequence.map_or(layer.dim.unwrap_or(first), |of| of.dim).max(1);
        let vectors = widths.iter().sum::<usize>() / dim;
        match layer.kind {
            LayerKind::Linear => {
                let activation = match layer.function {
                    Some(_) => Activation::Relu,
                    None => Activation::Identity,
                };
                let bias = layer.bias;
                let linear = Linear { inputs: first, outputs: width, bias, activation };
                self.put(layer, linear, sources)
            }
            LayerKind::Activate => {
                let function = layer.function.unwrap_or(Function::Relu);
                self.put(layer, Activate { function, columns: first }, sources)
            }
            LayerKind::Concat => self.put(layer, Concat, sources),
            LayerKind::Add => self.put(layer, Add, sources),
            LayerKind::Multiply => self.put(layer, Multiply, sources),
            LayerKind::Cross => self.put(layer, Cross { columns: first }, sources),
            LayerKind::CrossVector => self.put(layer, CrossVector { columns: first }, sources),
            LayerKind::DotInteraction => self.put(layer, DotInteraction { vectors, dim }, sources),
            LayerKind::FactorizationMachine => {
                self.put(layer, FactorizationMachine { slots: vectors, dim }, sources)
            }
            LayerKind::LayerNorm => {
                self.put(layer, LayerNorm { groups: vectors, columns: dim }, sources)
            }
            LayerKind::BatchNorm => self.put(layer, BatchNorm::new(first, 1), sources),
            LayerKind::Dice => self.put(layer, Dice::new(first), sources),
            LayerKind::Dropout => {
                let rate = layer.rate.unwrap_or(0.0);
                self.put(layer, Dropout { columns: first, rate }, sources)
            }
            LayerKind::UnitLength => self.put(layer, UnitLength { columns: first }, sources),
            LayerKind::InBatchSoftmax => {
                let temperature = layer.temperature.unwrap_or(1.0);
                let counts_items = widths.len() > 2;
                let softmax = InBatchSoftmax { dim: first, temperature, counts_items };
                self.put(layer, softmax, sources)
            }
            LayerKind::Mixture => {
                let columns = widths.get(1).copied().unwrap_or(0);
                self.put(layer, Mixture { experts: widths.len() - 1, columns }, sources)
            }
            LayerKind::MultiHeadAttention => {
                let steps_max = widths.get(1).map_or(0, |columns| columns / dim);
                let attention = MultiHeadAttention { heads: first / dim, dim, steps_max };
                self.put(layer, attention, sources)
            }
            LayerKind::TargetAttention => {
                let steps_max = widths.get(1).map_or(0, |columns| columns / dim);
                let attention = TargetAttention { dim, steps_max, hidden: width };
                self.put(layer, attention, sources)
            }
        }
    }

    fn put(
        &mut self,
        layer: &LayerConfig,
        computes: impl Layer<f32> + 'static,
        sources: &[Source],
    ) -> Result<NodeId, GraphError> {
        match layer.zero {
            true => self.builder.add_at_zero(&layer.name, computes, sources),
            false => self.builder.add(&layer.name, computes, sources),
        }
    }
}
