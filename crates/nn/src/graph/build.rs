//! Builds a graph from a description: checks shapes, routes gradients, plans buffers.

use std::ops::Range;

use super::plan::{NodeUse, plan};
use super::{BufferKind, Graph, Node};
use crate::error::GraphError;
use crate::gemm::Scalar;
use crate::gemm::{F32, Precision};
use crate::layer::{Flops, GradientTarget, Layer, Layout, NodeId, Source};
use crate::matrix::Write;
use crate::parameter::{Initial, ParameterShape, ParameterSpec};

/// Columns of a graph's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputShape {
    /// Embedding values, which are first and have gradients.
    pub embedding: usize,
    /// Dense features, which follow and have no gradients.
    pub dense: usize,
}

impl InputShape {
    /// All columns.
    pub fn columns(&self) -> usize {
        self.embedding + self.dense
    }
}

/// Builds a graph: nodes are added in execution order, the output last.
#[derive(Debug)]
pub struct GraphBuilder<T> {
    input: InputShape,
    nodes: Vec<Draft<T>>,
}

#[derive(Debug)]
struct Draft<T> {
    name: String,
    layer: Box<dyn Layer<T>>,
    sources: Vec<Source>,
    columns: usize,
    begin: Begin,
}

/// Initial values of a node's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// As declared by the layer.
    Declared,
    AtZero,
    /// Normal weights.
    Kaiming,
}

impl<T: Scalar> GraphBuilder<T> {
    /// A graph without nodes.
    pub fn new(input: InputShape) -> Self {
        Self { input, nodes: Vec::new() }
    }

    /// Adds a node that runs after those already added.
    ///
    /// # Errors
    /// A duplicate name, a source that doesn't exist, or shapes that don't match.
    pub fn add(
        &mut self,
        name: &str,
        layer: impl Layer<T> + 'static,
        sources: &[Source],
    ) -> Result<NodeId, GraphError> {
        if self.nodes.iter().any(|node| node.name == name) {
            return Err(GraphError::DuplicateName { layer: name.to_owned() });
        }
        let widths: Vec<usize> =
            sources.iter().map(|source| self.width(name, source)).collect::<Result<_, _>>()?;
        let shape = |problem| GraphError::Shape { layer: name.to_owned(), problem };
        let columns = layer.output_columns(&widths).map_err(shape)?;
        let (name, layer, sources) = (name.to_owned(), Box::new(layer), sources.to_vec());
        self.nodes.push(Draft { name, layer, sources, columns, begin: Begin::Declared });
        Ok(NodeId(self.nodes.len() - 1))
    }

    /// Like [`GraphBuilder::add`], with parameters that start at zero.
    ///
    /// # Errors
    /// The errors of [`GraphBuilder::add`].
    pub fn add_at_zero(
        &mut self,
        name: &str,
        layer: impl Layer<T> + 'static,
        sources: &[Source],
    ) -> Result<NodeId, GraphError> {
        let id = self.add(name, layer, sources)?;
        self.nodes[id.0].begin = Begin::AtZero;
        Ok(id)
    }

    /// Like [`GraphBuilder::add`], but parameters that the layer declares uniform start as follows:
    /// weights are normal with mean 0 and deviation √(2 / inputs), as rectifiers need (He et al.,
    /// ICCV 2015), biases are 0. Parameters with several dimensions are weights; their inputs are
    /// the values per index of the slowest dimension.
    ///
    /// # Errors
    /// The errors of [`GraphBuilder::add`].
    pub fn add_kaiming(
        &mut self,
        name: &str,
        layer: impl Layer<T> + 'static,
        sources: &[Source],
    ) -> Result<NodeId, GraphError> {
        let id = self.add(name, layer, sources)?;
        self.nodes[id.0].begin = Begin::Kaiming;
        Ok(id)
    }

    /// Number of columns that `layer` would read from `source`.
    ///
    /// # Errors
    /// A source that doesn't exist.
    pub fn width(&self, layer: &str, source: &Source) -> Result<usize, GraphError> {
        let found = match source {
            Source::Columns(range) => {
                let inside = range.start <= range.end && range.end <= self.input.columns();
                inside.then(|| range.len())
            }
            Source::FirstOrder => Some(1),
            Source::Node(node) => self.nodes.get(node.0).map(|node| node.columns),
        };
        found.ok_or_else(|| GraphError::NoSuchSource {
            layer: layer.to_owned(),
            source_name: format!("{source:?}"),
        })
    }

    /// Builds the graph, in full precision. The columns of the last node are the logits.
    ///
    /// # Errors
    /// No nodes, an output without columns, or a node that feeds nothing.
    pub fn build(self) -> Result<Graph<T>, GraphError> {
        self.check_connections()?;
        let uses: Vec<NodeUse<'_>> = self.nodes.iter().map(Draft::uses).collect();
        let plan = plan(&uses);
        let layout = |(node, draft): (usize, &Draft<T>)| Layout {
            columns: draft.columns,
            kept: draft.layer.kept_columns(),
            value: plan.offset(node, BufferKind::Value),
            gradient: plan.offset(node, BufferKind::Gradient),
        };
        let layouts: Vec<Layout> = self.nodes.iter().enumerate().map(layout).collect();
        let (targets, untouched) = route(self.input, &self.nodes);
        let (mut parameters, mut state, mut statistics_count) = (Vec::new(), Vec::new(), 0);
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for (draft, targets) in self.nodes.into_iter().zip(targets) {
            let declared = draft.layer.parameters();
            let of_parameters = draft.place(declared, draft.begin, &mut parameters);
            let of_state = draft.place(draft.layer.state(), Begin::Declared, &mut state);
            let first = statistics_count;
            statistics_count += draft.layer.statistics_lanes();
            let flops = flops(&draft, &targets, &layouts);
            let Draft { name, layer, sources, .. } = draft;
            nodes.push(Node {
                name,
                layer,
                sources,
                targets,
                parameters: of_parameters,
                state: of_state,
                statistics: first..statistics_count,
                flops,
            });
        }
        Ok(Graph {
            input: self.input,
            nodes,
            layouts,
            parameter_count: end(&parameters),
            parameters,
            state,
            statistics_count,
            untouched,
            plan,
            precision: Precision::F32,
            kernel: &F32,
        })
    }

    fn check_connections(&self) -> Result<(), GraphError> {
        let (output, inner) = self.nodes.split_last().ok_or(GraphError::Empty)?;
        if output.columns == 0 {
            return Err(GraphError::Output { layer: output.name.clone() });
        }
        for (index, node) in inner.iter().enumerate() {
            let source = Source::Node(NodeId(index));
            if !self.nodes.iter().any(|reader| reader.sources.contains(&source)) {
                return Err(GraphError::Unused { layer: node.name.clone() });
            }
        }
        Ok(())
    }
}

impl<T: Scalar> Draft<T> {
    fn uses(&self) -> NodeUse<'_> {
        let (reads, kept) = (self.layer.reads(), self.layer.kept_columns());
        NodeUse { columns: self.columns, kept, reads, sources: &self.sources }
    }

    /// Appends what this node declares to a flat vector; returns its range.
    fn place(
        &self,
        declared: Vec<ParameterShape>,
        begin: Begin,
        vector: &mut Vec<ParameterSpec>,
    ) -> Range<usize> {
        let start = end(vector);
        for parameter in declared {
            let first = end(vector);
            let range = first..first + parameter.lanes();
            let name = format!("{}/{}", self.name, parameter.name);
            let initial = match begin {
                Begin::Declared => parameter.initial,
                Begin::AtZero => Initial::Constant(0.0),
                Begin::Kaiming => parameter.kaiming(),
            };
            vector.push(ParameterSpec { name, shape: parameter.shape, range, initial });
        }
        start..end(vector)
    }
}

/// Length of a flat vector.
fn end(vector: &[ParameterSpec]) -> usize {
    vector.last().map_or(0, |spec| spec.range.end)
}

fn flops<T: Scalar>(draft: &Draft<T>, targets: &[GradientTarget], layouts: &[Layout]) -> Flops {
    let wanted = |target: &GradientTarget| match target {
        GradientTarget::None => 0,
        GradientTarget::FirstOrder(_) => 1,
        GradientTarget::Input { columns, .. } => columns.len(),
        GradientTarget::Node(node, _) => layouts[*node].columns,
    };
    let inputs: Vec<usize> = draft.sources.iter().map(|source| source.columns(layouts)).collect();
    let wanted: Vec<usize> = targets.iter().map(wanted).collect();
    draft.layer.flops(&inputs, &wanted)
}

/// Routes every node's gradients; also returns the embedding columns that get none.
///
/// Follows passes in the order in which they will run, so that the first to reach a destination
/// overwrites it and later ones add.
fn route<T>(
    input: InputShape,
    nodes: &[Draft<T>],
) -> (Vec<Vec<GradientTarget>>, Vec<Range<usize>>) {
    let mut written = vec![false; input.embedding];
    let mut reached = vec![false; nodes.len()];
    let mut first_order = false;
    let mut targets: Vec<Vec<GradientTarget>> = Vec::with_capacity(nodes.len());
    for node in nodes.iter().rev() {
        let target = |source: &Source| match source {
            Source::FirstOrder => {
                let before = std::mem::replace(&mut first_order, true);
                GradientTarget::FirstOrder(write_after(before))
            }
            Source::Columns(range) => input_target(range, &mut written),
            Source::Node(node) => {
                let before = std::mem::replace(&mut reached[node.0], true);
                GradientTarget::Node(node.0, write_after(before))
            }
        };
        targets.push(node.sources.iter().map(target).collect());
    }
    targets.reverse();
    (targets, unwritten(&written, 0..input.embedding))
}

fn write_after(before: bool) -> Write {
    if before { Write::Accumulate } else { Write::Overwrite }
}

/// Destination of the gradient of input columns `range`; marks them as written.
fn input_target(range: &Range<usize>, written: &mut [bool]) -> GradientTarget {
    let columns = range.start..range.end.min(written.len());
    if columns.is_empty() {
        return GradientTarget::None;
    }
    let before = written[columns.clone()].contains(&true);
    let clear = if before { unwritten(written, columns.clone()) } else { Vec::new() };
    written[columns.clone()].fill(true);
    GradientTarget::Input { columns, clear, write: write_after(before) }
}

/// The ranges of `columns` that aren't written yet.
fn unwritten(written: &[bool], columns: Range<usize>) -> Vec<Range<usize>> {
    let mut ranges = Vec::<Range<usize>>::new();
    for column in columns.filter(|column| !written[*column]) {
        match ranges.last_mut() {
            Some(last) if last.end == column => last.end += 1,
            _ => ranges.push(column..column + 1),
        }
    }
    ranges
}
