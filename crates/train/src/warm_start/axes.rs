//! Labels along the axes of dense parameters.
//!
//! - **Why.** A layer over a model's whole input has a column for each lane of each feature. When
//!   features are added or removed, the others keep what was learned.
//! - **How.** Each place along an axis has a label: the lane of a feature, a dense feature, an
//!   output of a layer. Equal labels match. An output's label names the layer's width, so layers of
//!   different widths don't match. Labels follow values through the model's graph.

use std::collections::HashMap;

use stepwell_nn::{NodeView, Operation, Source};
use stepwell_settings::{Config, ModelKind};

use crate::Result;
use crate::models::Model;
use crate::run_plan::schema;

/// Labels along an axis.
type Axis = Vec<String>;
/// Labels along the axes of a parameter.
pub(super) type Axes = Vec<Axis>;

/// Axes of the parameters, and of the graph's state, whose meaning depends on the model's input or
/// labels, by name. All others match by shape.
pub(super) fn axes(config: &Config, model: &Model) -> Result<HashMap<String, Axes>> {
    let lanes = model.field_lanes().concat();
    let derived = model.features().derived_names();
    let whole: Axis = lanes.into_iter().chain(dense_names(config)?).chain(derived).collect();
    let logits: Axis = model.labels().iter().map(|label| label.name.clone()).collect();
    let mut values = Values { whole, outputs: Vec::new() };
    let mut axes = HashMap::new();
    let nodes: Vec<NodeView<'_>> = model.graph().nodes().collect();
    let mut gates = gates(&nodes);
    for (number, node) in nodes.iter().enumerate() {
        let inputs: Vec<Axis> = node.sources.iter().map(|source| values.of(source)).collect();
        let mut output = gates.remove(&number).unwrap_or_else(|| output_of(node, &inputs));
        let is_last = config.model.kind == ModelKind::Graph && number + 1 == nodes.len();
        let has_logits = is_last || matches!(node.name, "logit" | "logits");
        if has_logits && node.columns == logits.len() {
            output.clone_from(&logits);
        }
        for (part, of) in parameters_of(node, &inputs, &output) {
            axes.insert(format!("{}/{part}", node.name), of);
        }
        values.outputs.push(output);
    }
    Ok(axes)
}

/// Labels of the values of a graph.
struct Values {
    /// Labels of the input's columns.
    whole: Axis,
    /// Labels of the outputs of the nodes so far.
    outputs: Vec<Axis>,
}

impl Values {
    fn of(&self, source: &Source) -> Axis {
        match source {
            Source::Columns(columns) => self.whole[columns.clone()].to_vec(),
            Source::FirstOrder => vec!["first order".to_owned()],
            Source::Node(node) => self.outputs[node.0].clone(),
        }
    }
}

/// Labels of the outputs of gates, by number of node: the names of the experts that they weigh.
fn gates(nodes: &[NodeView<'_>]) -> HashMap<usize, Axis> {
    let of = |node: &NodeView<'_>| match (&node.operation, node.sources) {
        (Operation::Mixture { .. }, [Source::Node(gate), experts @ ..]) => {
            let name = |expert: &Source| match expert {
                Source::Node(node) => nodes[node.0].name.to_owned(),
                _ => "input".to_owned(),
            };
            Some((gate.0, unique(experts.iter().map(name).collect())))
        }
        _ => None,
    };
    nodes.iter().filter_map(of).collect()
}

/// Labels of a node's output: its inputs' where a value is a function of one of theirs.
fn output_of(node: &NodeView<'_>, inputs: &[Axis]) -> Axis {
    use Operation::{
        Activate, BatchNorm, Concat, Cross, CrossVector, Dice, DotInteraction, Dropout, LayerNorm,
        Linear, Multiply, UnitLength,
    };
    match (&node.operation, inputs) {
        (Concat, _) => unique(inputs.concat()),
        (
            Cross { .. }
            | CrossVector { .. }
            | LayerNorm { .. }
            | BatchNorm { .. }
            | Dice { .. }
            | Activate { .. }
            | Dropout { .. }
            | UnitLength { .. },
            [first, ..],
        ) => first.clone(),
        (Multiply, [first, second]) => {
            if first.len() < second.len() {
                second.clone()
            } else {
                first.clone()
            }
        }
        (DotInteraction { dim, .. }, _) => unique(pairs(&inputs.concat(), *dim)),
        // A projection belongs to its field, whose number changes with the other fields.
        (Linear { .. }, [of, ..]) if node.name.starts_with("project") => {
            outputs(&format!("projected {}", of[0]), node.columns)
        }
        _ => outputs(node.name, node.columns),
    }
}

/// Labels along the axes of a node's parameters and state, by name.
fn parameters_of(node: &NodeView<'_>, inputs: &[Axis], output: &Axis) -> Vec<(&'static str, Axes)> {
    let (bias, of) = (("bias", vec![output.clone()]), inputs.first().cloned().unwrap_or_default());
    match node.operation {
        Operation::Linear { .. } | Operation::Cross { .. } => {
            let input = inputs.last().cloned().unwrap_or_default();
            vec![("weight", vec![output.clone(), input]), bias]
        }
        Operation::CrossVector { .. } => vec![("weight", vec![of]), bias],
        Operation::LayerNorm { columns, .. } => {
            let groups = of.chunks(columns).map(|group| group[0].clone()).collect();
            let axes = vec![groups, outputs("column", columns)];
            vec![("weight", axes.clone()), ("bias", axes)]
        }
        Operation::BatchNorm { .. } | Operation::Dice { .. } => {
            let parts = ["scale", "shift", "slope", "mean", "variance"];
            parts.map(|part| (part, vec![of.clone()])).to_vec()
        }
        Operation::Activate { .. } => vec![("slope", vec![of])],
        _ => Vec::new(),
    }
}

/// Labels of all pairs of vectors of `dim` lanes, in the order of their dot products.
fn pairs(lanes: &[String], dim: usize) -> Axis {
    let vectors: Vec<&String> = lanes.chunks(dim).map(|vector| &vector[0]).collect();
    let with_earlier = |(number, later): (usize, &&String)| {
        let pair = |earlier: &&String| format!("{earlier} x {later}");
        vectors[..number].iter().map(pair).collect::<Axis>()
    };
    vectors.iter().enumerate().flat_map(with_earlier).collect()
}

/// Tells equal labels apart by how often each occurred before.
fn unique(labels: Axis) -> Axis {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let tell = |label: String| {
        let before = seen.entry(label.clone()).or_default();
        *before += 1;
        if *before == 1 { label } else { format!("{label}, again {before}") }
    };
    labels.into_iter().map(tell).collect()
}

/// Labels of a layer's `count` outputs.
fn outputs(layer: &str, count: usize) -> Axis {
    (0..count).map(|number| format!("{layer} {number} of {count}")).collect()
}

/// Labels of the dense features, including the constant one.
fn dense_names(config: &Config) -> Result<Axis> {
    let layout = config.layout().map_err(crate::Error::Config)?;
    let Some(layout) = layout else {
        return Ok((1..=schema(config)?.dense).map(|number| format!("I{number}")).collect());
    };
    let mut names = Axis::new();
    for name in layout.dense_names() {
        let label = match (name, names.last()) {
            (Some(name), _) => format!("number {name}"),
            (None, Some(of)) => format!("{of} is missing"),
            (None, None) => "constant".to_owned(),
        };
        names.push(label);
    }
    names.resize(schema(config)?.dense, "constant".to_owned());
    Ok(names)
}
