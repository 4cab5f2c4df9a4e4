//! The passes of a graph, as operations of a device's stream.
//!
//! Nodes run in the graph's order, backwards in the reverse, in the buffers of its plan.
//! Elementwise operations, and sums within an example, are one launch over the rows of all slots.
//! Products are per block, with the same shape, strides and alignment wherever the block is: a
//! library may sum in another order for another shape. Products of consecutive blocks of one size
//! are issued together, in the way that is best for all blocks of a mini-batch. So a block's
//! results do not depend on how many blocks a device has.

use std::ops::Range;

use stepwell_device::{Arg, Buffer, Layout, Precision as OfDevice, Product, Shape};
use stepwell_kernels::named;
use stepwell_nn::{GradientTarget, Graph, NodeView, Operation, Precision, Source, Write};

use super::block_layers::{Attention, Heads, Softmax};
use super::captured::PassKind;
use super::replica::{Replica, flag, number};
use super::sizes::{Sizes, drops};
use crate::{Error, Result};

/// A matrix on a device: a row for each example of all slots, perhaps with gaps between rows.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) buffer: &'a Buffer<f32>,
    pub(super) start: usize,
    pub(super) columns: usize,
    pub(super) stride: usize,
}

impl<'a> View<'a> {
    /// The matrix of the given columns.
    pub(super) fn select(self, columns: Range<usize>) -> Self {
        assert!(columns.end <= self.columns, "columns {columns:?} of {}", self.columns);
        Self { start: self.start + columns.start, columns: columns.len(), ..self }
    }

    /// Kernel argument for the first `rows` rows of this matrix.
    pub(super) fn arg(self, rows: usize) -> Arg<'a> {
        let lanes = if rows == 0 { 0 } else { (rows - 1) * self.stride + self.columns };
        Arg::part(self.buffer, self.start..self.start + lanes)
    }
}

/// The destination of a gradient, and whether it is added to the content.
pub(super) struct Target<'a> {
    pub(super) view: View<'a>,
    pub(super) adds: bool,
}

/// Describes the first node of `graph` that devices cannot compute; `None` if they can compute all.
pub(super) fn refusal(graph: &Graph<f32>) -> Option<String> {
    let is_known = |node: &NodeView<'_>| {
        matches!(
            node.operation,
            Operation::Linear { .. }
                | Operation::FactorizationMachine { .. }
                | Operation::Cross { .. }
                | Operation::CrossVector { .. }
                | Operation::DotInteraction { .. }
                | Operation::LayerNorm { .. }
                | Operation::Activate { .. }
                | Operation::Dropout { .. }
                | Operation::BatchNorm { places: 1, .. }
                | Operation::Dice { .. }
                | Operation::UnitLength { .. }
                | Operation::InBatchSoftmax { .. }
                | Operation::TargetAttention { .. }
                | Operation::MultiHeadAttention { .. }
                | Operation::Mixture { .. }
                | Operation::Concat
                | Operation::Add
                | Operation::Multiply
        )
    };
    graph.nodes().find(|node| !is_known(node)).map(|node| unknown(&node))
}

fn unknown(node: &NodeView<'_>) -> String {
    let (name, operation) = (node.name, node.operation.name());
    format!("devices don't compute the layer '{name}' ({operation})")
}

/// Consecutive blocks of one size.
#[derive(Clone, Copy)]
pub(super) struct Alike {
    pub(super) first: usize,
    pub(super) count: usize,
    /// Examples of each of these blocks.
    pub(super) rows: usize,
}

/// The passes over the blocks of one device.
pub(super) struct Passes<'a> {
    graph: &'a Graph<f32>,
    nodes: Vec<NodeView<'a>>,
    pub(super) replica: &'a Replica,
    pub(super) sizes: Sizes,
    pub(super) trains: bool,
    pub(super) parameters: &'a Buffer<f32>,
    /// Examples of each block.
    blocks: Vec<usize>,
}

impl<'a> Passes<'a> {
    /// The passes of `graph` over the blocks of `replica`.
    pub(super) fn new(
        graph: &'a Graph<f32>,
        (replica, sizes): (&'a Replica, Sizes),
        trains: bool,
    ) -> Self {
        let share = replica.share;
        let blocks = (0..share.count()).map(|block| share.range(block).len()).collect();
        let parameters = replica.parameters_of(trains);
        Self { graph, nodes: graph.nodes().collect(), replica, sizes, trains, parameters, blocks }
    }

    /// Runs a pass without its uploads and downloads.
    pub(super) fn run(&self, kind: PassKind) -> Result<()> {
        if kind.pooled {
            self.put_features()?;
        }
        self.forward()?;
        self.losses(kind.weighs, kind.examples)?;
        if kind.trains { self.backward() } else { Ok(()) }
    }

    /// Computes the outputs of all nodes; the last output is the logits.
    fn forward(&self) -> Result<()> {
        self.nodes.iter().try_for_each(|node| match node.operation {
            Operation::Linear { .. } => self.linear(node),
            Operation::FactorizationMachine { slots, dim } => self.fm(node, (slots, dim)),
            Operation::Cross { .. } => self.cross(node),
            Operation::CrossVector { .. } => self.cross_vector(node),
            Operation::DotInteraction { vectors, dim } => self.dots(node, (vectors, dim)),
            Operation::LayerNorm { groups, columns } => self.norm(node, (groups, columns)),
            Operation::Activate { function, .. } => self.function(node, function),
            Operation::Mixture { experts, .. } => self.mixture(node, experts),
            Operation::Dropout { rate } => self.dropout(node, rate),
            Operation::BatchNorm { places: 1, .. } => self.batch_norm(node),
            Operation::Dice { .. } => self.dice(node),
            Operation::UnitLength { .. } => self.unit_length(node),
            Operation::InBatchSoftmax { dim, temperature } => {
                self.in_batch(node, Softmax { dim, temperature })
            }
            Operation::TargetAttention { dim, steps_max, hidden } => {
                self.attention(node, Attention { dim, steps_max, hidden })
            }
            Operation::MultiHeadAttention { heads, dim, steps_max } => {
                self.heads(node, Heads { heads, dim, steps_max })
            }
            Operation::Concat | Operation::Add => self.together(node),
            Operation::Multiply => self.product_of(node),
            _ => Err(Error::Config(unknown(node))),
        })
    }

    /// Computes all gradients from the gradients of the logits.
    fn backward(&self) -> Result<()> {
        self.graph.untouched().iter().try_for_each(|columns| self.clear(columns))?;
        self.nodes.iter().rev().try_for_each(|node| match node.operation {
            Operation::Linear { .. } => self.linear_back(node),
            Operation::FactorizationMachine { slots, dim } => self.fm_back(node, (slots, dim)),
            Operation::Cross { .. } => self.cross_back(node),
            Operation::CrossVector { .. } => self.cross_vector_back(node),
            Operation::DotInteraction { vectors, dim } => self.dots_back(node, (vectors, dim)),
            Operation::LayerNorm { groups, columns } => self.norm_back(node, (groups, columns)),
            Operation::Activate { function, .. } => self.function_back(node, function),
            Operation::Mixture { experts, .. } => self.mixture_back(node, experts),
            Operation::Dropout { .. } => self.dropout_back(node),
            Operation::BatchNorm { places: 1, .. } => self.batch_norm_back(node),
            Operation::Dice { .. } => self.dice_back(node),
            Operation::UnitLength { .. } => self.unit_length_back(node),
            Operation::InBatchSoftmax { dim, temperature } => {
                self.in_batch_back(node, Softmax { dim, temperature })
            }
            Operation::TargetAttention { dim, steps_max, hidden } => {
                self.attention_back(node, Attention { dim, steps_max, hidden })
            }
            Operation::MultiHeadAttention { heads, dim, steps_max } => {
                self.heads_back(node, Heads { heads, dim, steps_max })
            }
            Operation::Concat | Operation::Add => self.together_back(node),
            Operation::Multiply => self.product_of_back(node),
            _ => Err(Error::Config(unknown(node))),
        })
    }

    /// The losses of all blocks, and the gradients of the logits of a mini-batch of `examples`.
    fn losses(&self, has_weights: bool, examples: usize) -> Result<()> {
        let (Replica { stream, targets, weights, kinds, emphases, .. }, rows) =
            (self.replica, self.rows());
        let Replica { rows_of, loss_terms, loss_sums, .. } = self.replica;
        let (labels, blocks) = (self.sizes.labels, self.blocks.len());
        let last = self.last();
        let terms = rows * (labels + 1);
        let of_weights = || Arg::first(&weights.device, if has_weights { rows } else { 0 });
        let args = vec![
            self.value(last).arg(rows),
            Arg::first(&targets.device, rows * labels),
            of_weights(),
            Arg::first(kinds, labels),
            Arg::first(emphases, 3 * labels),
            self.gradient(last).arg(rows),
            Arg::first(loss_terms, terms),
            number(rows),
            number(labels),
            flag(has_weights),
            number(examples),
        ];
        stream.launch(named("dense_losses"), rows * labels, args)?;
        let args = vec![
            Arg::first(loss_terms, terms),
            of_weights(),
            Arg::first(&loss_sums.device, 3 * blocks),
            Arg::first(&rows_of.device, blocks),
            number(blocks),
            number(self.sizes.slot_rows),
            number(labels),
            flag(has_weights),
        ];
        Ok(stream.launch(named("dense_loss_sums"), 3 * blocks, args)?)
    }

    /// The nodes in the order of execution.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeView<'a>> {
        self.nodes.iter().cloned()
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Number of layers before `node` that drop lanes.
    pub(super) fn dropping_before(&self, node: &NodeView<'_>) -> usize {
        let before = self.nodes.iter().take_while(|other| other.name != node.name);
        before.filter(|other| drops(other)).count()
    }

    /// The node whose output is the logits.
    fn last(&self) -> &NodeView<'a> {
        &self.nodes[self.nodes.len() - 1]
    }

    /// The logits.
    pub(super) fn logits(&self) -> View<'a> {
        self.value(self.last())
    }

    /// Rows of all blocks' slots.
    pub(super) fn rows(&self) -> usize {
        self.blocks.len() * self.sizes.slot_rows
    }

    pub(super) fn launch(&self, name: &str, items: usize, args: Vec<Arg<'_>>) -> Result<()> {
        Ok(self.replica.stream.launch(named(name), items, args)?)
    }

    /// A range of the parameters.
    pub(super) fn parameters(&self, range: Range<usize>) -> Arg<'a> {
        Arg::part(self.parameters, range)
    }

    /// The `index`-th input of `node`.
    pub(super) fn input(&self, node: &NodeView<'_>, index: usize) -> View<'a> {
        let (replica, columns) = (self.replica, self.sizes.columns);
        let x = View { buffer: &replica.at.x, start: 0, columns, stride: columns };
        match &node.sources[index] {
            Source::Columns(range) => x.select(range.clone()),
            Source::FirstOrder => {
                let buffer = &replica.at.first_order;
                View { buffer, start: 0, columns: 1, stride: 1 }
            }
            Source::Node(of) => self.value(&self.nodes[of.0]),
        }
    }

    /// The output of `node`.
    pub(super) fn value(&self, node: &NodeView<'_>) -> View<'a> {
        let (start, columns) = (node.value * self.sizes.rows(), node.columns);
        View { buffer: &self.replica.values, start, columns, stride: columns }
    }

    /// Values that `node` keeps for its backward pass.
    pub(super) fn kept(&self, node: &NodeView<'_>) -> View<'a> {
        let start = (node.value + node.columns) * self.sizes.rows();
        View { buffer: &self.replica.values, start, columns: node.kept, stride: node.kept }
    }

    /// The gradient of the output of `node`.
    pub(super) fn gradient(&self, node: &NodeView<'_>) -> View<'a> {
        let (start, columns) = (node.gradient * self.sizes.rows(), node.columns);
        View { buffer: &self.replica.d_values, start, columns, stride: columns }
    }

    /// The destination of the gradient of the `index`-th input of `node`, ready to be written;
    /// `None` if it is not needed.
    pub(super) fn target(&self, node: &NodeView<'_>, index: usize) -> Result<Option<Target<'a>>> {
        let (view, write) = match &node.targets[index] {
            GradientTarget::None => return Ok(None),
            GradientTarget::Input { columns, clear, write } => {
                clear.iter().try_for_each(|columns| self.clear(columns))?;
                (self.d_x().select(columns.clone()), write)
            }
            GradientTarget::FirstOrder(write) => {
                let buffer = &self.replica.at.d_first_order;
                (View { buffer, start: 0, columns: 1, stride: 1 }, write)
            }
            GradientTarget::Node(of, write) => (self.gradient(&self.nodes[*of]), write),
        };
        Ok(Some(Target { view, adds: *write == Write::Accumulate }))
    }

    /// Copies dense features, which were uploaded alone, next to pooled embeddings.
    fn put_features(&self) -> Result<()> {
        let Sizes { columns, embedding, .. } = self.sizes;
        let (buffer, features) = (&self.replica.features, self.sizes.features());
        if features == 0 {
            return Ok(());
        }
        let from = View { buffer, start: 0, columns: features, stride: features };
        let x = View { buffer: &self.replica.at.x, start: 0, columns, stride: columns };
        self.copy(from, x.select(embedding..columns), false)
    }

    fn d_x(&self) -> View<'a> {
        let columns = self.sizes.embedding;
        View { buffer: &self.replica.at.d_x, start: 0, columns, stride: columns }
    }

    /// Sets the given columns of the gradient of the embeddings to zero.
    fn clear(&self, columns: &Range<usize>) -> Result<()> {
        self.clear_view(self.d_x().select(columns.clone()))
    }

    /// Sets a matrix to zero.
    pub(super) fn clear_view(&self, view: View<'_>) -> Result<()> {
        let rows = self.rows();
        let args = vec![view.arg(rows), number(rows), number(view.columns), number(view.stride)];
        self.launch("dense_clear", rows * view.columns, args)
    }

    /// Copies `from` to `to`, which has the same shape, or adds it.
    pub(super) fn copy(&self, from: View<'_>, to: View<'_>, adds: bool) -> Result<()> {
        let (rows, columns) = (self.rows(), from.columns);
        let args = vec![
            from.arg(rows),
            to.arg(rows),
            number(rows),
            number(columns),
            number(from.stride),
            number(to.stride),
            flag(adds),
        ];
        self.launch("dense_copy", rows * columns, args)
    }

    /// Sums the columns of `of` over the examples of each block, into each block's parameter
    /// gradients from lane `at` on.
    pub(super) fn column_sums(&self, of: View<'_>, at: usize) -> Result<()> {
        let (blocks, apart, rows) = (self.blocks.len(), self.sizes.apart(), self.rows());
        if blocks == 0 {
            return Ok(());
        }
        let end = (blocks - 1) * apart + at + of.columns;
        let args = vec![
            of.arg(rows),
            Arg::part(&self.replica.gradients, at..end),
            Arg::first(&self.replica.rows_of.device, blocks),
            number(blocks),
            number(self.sizes.slot_rows),
            number(of.columns),
            Arg::u64(apart as u64),
        ];
        self.launch("dense_column_sums", blocks * of.columns, args)
    }

    /// Runs of consecutive, non-empty blocks of one size.
    pub(super) fn alike(&self) -> impl Iterator<Item = Alike> {
        let mut first = 0;
        let runs = self.blocks.chunk_by(|one, next| one == next).map(move |run| {
            let alike = Alike { first, count: run.len(), rows: run[0] };
            first += run.len();
            alike
        });
        runs.filter(|alike| alike.rows > 0)
    }

    /// `into = of Wᵀ`, for a weight `(outputs, inputs)` that begins at lane `weight`.
    pub(super) fn forwards(&self, of: View<'_>, weight: usize, into: View<'_>) -> Result<()> {
        let (inputs, outputs) = (of.columns, into.columns);
        self.alike().try_for_each(|Alike { first, count, rows }| {
            let shape = Shape { batches: count, rows, columns: outputs, depth: inputs };
            let right = Layout { transposed: true, ..Layout::rows(inputs) };
            let [left, into_layout] = [of, into].map(|view| self.by_block(view));
            let product = self.product(shape, [left, right, into_layout], false);
            let right = (self.parameters, weight);
            let (left, into) = (self.block_at(of, first), self.block_at(into, first));
            Ok(self.replica.stream.product(&product, left, right, into)?)
        })
    }

    /// The gradient of a weight `(outputs, inputs)` that begins at lane `weight`: `dzᵀ x`.
    pub(super) fn to_weight(&self, dz: View<'_>, x: View<'_>, weight: usize) -> Result<()> {
        let (outputs, inputs) = (dz.columns, x.columns);
        let (stream, gradients) = (&self.replica.stream, &self.replica.gradients);
        let apart = self.sizes.apart();
        for block in (0..self.blocks.len()).filter(|block| self.blocks[*block] == 0) {
            let at = block * apart + weight;
            stream.clear(gradients, at..at + outputs * inputs)?;
        }
        self.alike().try_for_each(|Alike { first, count, rows }| {
            let shape = Shape { batches: count, rows: outputs, columns: inputs, depth: rows };
            let left = Layout { transposed: true, ..self.by_block(dz) };
            let into = Layout { batch_stride: apart, ..Layout::rows(inputs) };
            let product = self.product(shape, [left, self.by_block(x), into], false);
            let (left, right) = (self.block_at(dz, first), self.block_at(x, first));
            Ok(stream.product(&product, left, right, (gradients, first * apart + weight))?)
        })
    }

    /// The gradient of a product's input: `dz W`, for a weight with rows of `inputs` lanes that
    /// begins at lane `weight`; computes as many columns as `into` has.
    pub(super) fn to_input(
        &self,
        dz: View<'_>,
        (weight, inputs): (usize, usize),
        into: View<'_>,
        adds: bool,
    ) -> Result<()> {
        self.alike().try_for_each(|Alike { first, count, rows }| {
            let (columns, depth) = (into.columns, dz.columns);
            let shape = Shape { batches: count, rows, columns, depth };
            let [left, into_layout] = [dz, into].map(|view| self.by_block(view));
            let product = self.product(shape, [left, Layout::rows(inputs), into_layout], adds);
            let (left, right) = (self.block_at(dz, first), (self.parameters, weight));
            let into = self.block_at(into, first);
            Ok(self.replica.stream.product(&product, left, right, into)?)
        })
    }

    /// Layout of the blocks of `view`.
    pub(super) fn by_block(&self, view: View<'_>) -> Layout {
        let batch_stride = self.sizes.slot_rows * view.stride;
        Layout { batch_stride, ..Layout::rows(view.stride) }
    }

    /// Buffer and first lane of block `number` of `view`.
    pub(super) fn block_at<'b>(&self, view: View<'b>, number: usize) -> (&'b Buffer<f32>, usize) {
        (view.buffer, view.start + number * self.sizes.slot_rows * view.stride)
    }

    pub(super) fn product(&self, shape: Shape, layouts: [Layout; 3], adds: bool) -> Product {
        let [left, right, into] = layouts;
        let precision = match self.graph.precision() {
            Precision::F32 => OfDevice::F32,
            Precision::Bf16 => OfDevice::Bf16,
        };
        Product { shape, left, right, into, precision, adds, chosen_for: self.sizes.blocks }
    }
}
