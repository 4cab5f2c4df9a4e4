//! Graphs, data and runs for the tests.

#![expect(clippy::unwrap_used, reason = "the tests' own graphs are well formed")]

use stepwell_base::random::Stream;
use stepwell_nn::{
    Activation, Add, Block, BlockGradients, Concat, Cross, DotInteraction, FactorizationMachine,
    Graph, GraphBuilder, InputShape, Linear, Matrix, NodeId, Objective, PassObserver, Precision,
    Scalar, Source, Targets, Watched, Workspace, losses,
};

pub(crate) fn numbers<T: Scalar>(name: &str, count: usize) -> Vec<T> {
    let mut stream = Stream::named(7, name.as_bytes());
    (0..count).map(|_| T::from_f64(stream.next_f64() * 2.0 - 1.0)).collect()
}

pub(crate) fn linear(inputs: usize, outputs: usize, activation: Activation) -> Linear {
    Linear { inputs, outputs, bias: true, activation }
}

/// Two hidden layers and one output on top of `source`.
fn tower<T: Scalar>(builder: &mut GraphBuilder<T>, source: Source, inputs: usize) -> NodeId {
    let hidden = builder.add("hidden0", linear(inputs, 9, Activation::Relu), &[source]).unwrap();
    let source = Source::Node(hidden);
    let second = builder.add("hidden1", linear(9, 5, Activation::Relu), &[source]).unwrap();
    let top = linear(5, 1, Activation::Identity);
    builder.add("top", top, &[Source::Node(second)]).unwrap()
}

pub(crate) fn lr<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 0, dense: 3 });
    let dense = linear(3, 1, Activation::Identity);
    let dense = builder.add("dense", dense, &[Source::Columns(0..3)]).unwrap();
    builder.add("logit", Add, &[Source::FirstOrder, Source::Node(dense)]).unwrap();
    builder.build().unwrap()
}

pub(crate) fn wide_deep<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 6, dense: 3 });
    let deep = tower(&mut builder, Source::Columns(0..9), 9);
    builder.add("logit", Add, &[Source::FirstOrder, Source::Node(deep)]).unwrap();
    builder.build().unwrap()
}

pub(crate) fn deepfm<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 12, dense: 2 });
    let fm = FactorizationMachine { slots: 3, dim: 4 };
    let fm = builder.add("fm", fm, &[Source::Columns(0..12)]).unwrap();
    let deep = tower(&mut builder, Source::Columns(0..14), 14);
    let sources = [Source::FirstOrder, Source::Node(fm), Source::Node(deep)];
    builder.add("logit", Add, &sources).unwrap();
    builder.build().unwrap()
}

/// Two cross layers next to a hidden layer; the second reads the input and a node.
pub(crate) fn dcn<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 6, dense: 3 });
    let base = || Source::Columns(0..9);
    let cross = Cross { columns: 9 };
    let first = builder.add("cross1", cross, &[base(), base()]).unwrap();
    let second = builder.add("cross2", cross, &[base(), Source::Node(first)]).unwrap();
    let hidden = builder.add("hidden", linear(9, 4, Activation::Relu), &[base()]).unwrap();
    let sources = [Source::Node(second), Source::Node(hidden)];
    let joined = builder.add("joined", Concat, &sources).unwrap();
    let top = linear(13, 1, Activation::Identity);
    builder.add("logit", top, &[Source::Node(joined)]).unwrap();
    builder.build().unwrap()
}

/// Cross layers in other positions: on a node twice, on overlapping columns, without embeddings.
pub(crate) fn crossed<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 8, dense: 4 });
    let cross = Cross { columns: 4 };
    let columns = |start| Source::Columns(start..start + 4);
    let a = builder.add("a", cross, &[columns(6), columns(2)]).unwrap();
    let b = builder.add("b", cross, &[Source::Node(a), Source::Node(a)]).unwrap();
    let c = builder.add("c", cross, &[Source::Node(a), columns(8)]).unwrap();
    let d = builder.add("d", cross, &[columns(8), Source::Node(c)]).unwrap();
    let sum = [Source::Node(b), Source::Node(a), Source::Node(d)];
    let sum = builder.add("sum", Add, &sum).unwrap();
    let top = linear(4, 1, Activation::Identity);
    builder.add("logit", top, &[Source::Node(sum)]).unwrap();
    builder.build().unwrap()
}

/// `slots` embeddings of `dim` lanes and the output of a bottom layer, with all pairwise products.
pub(crate) fn dlrm<T: Scalar>(slots: usize, dim: usize) -> Graph<T> {
    let embedding = slots * dim;
    let mut builder = GraphBuilder::new(InputShape { embedding, dense: 2 });
    let bottom = linear(2, dim, Activation::Relu);
    let bottom = builder.add("bottom", bottom, &[Source::Columns(embedding..embedding + 2)]);
    let bottom = Source::Node(bottom.unwrap());
    let interaction = DotInteraction { vectors: slots + 1, dim };
    let sources = [bottom.clone(), Source::Columns(0..embedding)];
    let interaction = builder.add("interaction", interaction, &sources).unwrap();
    let joined = builder.add("joined", Concat, &[bottom, Source::Node(interaction)]).unwrap();
    let top = tower(&mut builder, Source::Node(joined), dim + slots * (slots + 1) / 2);
    builder.add("logit", Add, &[Source::Node(top)]).unwrap();
    builder.build().unwrap()
}

/// Interactions of overlapping columns, of columns without gradients, and of nodes.
pub(crate) fn interacting<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 13, dense: 4 });
    let sources = [Source::Columns(8..17), Source::Columns(3..12)];
    let a = DotInteraction { vectors: 6, dim: 3 };
    let a = builder.add("a", a, &sources).unwrap();
    let b = DotInteraction { vectors: 3, dim: 5 };
    let b = builder.add("b", b, &[Source::Node(a)]).unwrap();
    let joined = builder.add("joined", Concat, &[Source::Node(b), Source::Node(a)]).unwrap();
    let top = linear(18, 1, Activation::Identity);
    builder.add("logit", top, &[Source::Node(joined)]).unwrap();
    builder.build().unwrap()
}

/// Forks, joins, overlapping and untouched columns, and factorization that includes dense columns.
pub(crate) fn forked<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 20, dense: 4 });
    let a = linear(6, 4, Activation::Relu);
    let a = builder.add("a", a, &[Source::Columns(2..8)]).unwrap();
    let b = linear(7, 4, Activation::Identity);
    let b = builder.add("b", b, &[Source::Columns(5..12)]).unwrap();
    let sum = builder.add("sum", Add, &[Source::Node(a), Source::Node(b), Source::Node(a)]);
    let fm = FactorizationMachine { slots: 3, dim: 3 };
    let fm = builder.add("fm", fm, &[Source::Columns(15..24)]).unwrap();
    let sources =
        [Source::Node(sum.unwrap()), Source::Columns(10..22), Source::Node(b), Source::Node(fm)];
    let joined = builder.add("joined", Concat, &sources).unwrap();
    let inner = FactorizationMachine { slots: 7, dim: 3 };
    let inner = builder.add("inner", inner, &[Source::Node(joined)]).unwrap();
    let out = Linear { inputs: 21, outputs: 1, bias: false, activation: Activation::Identity };
    let out = builder.add("out", out, &[Source::Node(joined)]).unwrap();
    let sources = [Source::Node(inner), Source::Node(out), Source::Node(fm)];
    builder.add("logit", Add, &sources).unwrap();
    builder.build().unwrap()
}

/// Factorization machines with whole tiles and with partial ones, over the same columns.
pub(crate) fn factorized<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 64, dense: 0 });
    let plain = linear(64, 1, Activation::Identity);
    let plain = builder.add("plain", plain, &[Source::Columns(0..64)]).unwrap();
    let beyond = FactorizationMachine { slots: 3, dim: 19 };
    let beyond = builder.add("beyond", beyond, &[Source::Columns(0..57)]).unwrap();
    let whole = FactorizationMachine { slots: 4, dim: 16 };
    let whole = builder.add("whole", whole, &[Source::Columns(0..64)]).unwrap();
    builder.add("logit", Add, &[plain, beyond, whole].map(Source::Node)).unwrap();
    builder.build().unwrap()
}

/// Only the sum of wide weights.
pub(crate) fn wide_only<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 4, dense: 0 });
    builder.add("logit", Add, &[Source::FirstOrder]).unwrap();
    builder.build().unwrap()
}

/// Three logits with a common input; two nodes read the first order.
pub(crate) fn several<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 6, dense: 2 });
    let fm = FactorizationMachine { slots: 2, dim: 3 };
    let fm = builder.add("fm", fm, &[Source::Columns(0..6)]).unwrap();
    let hidden = linear(9, 4, Activation::Relu);
    let with_wide = builder.add("with wide", Concat, &[Source::FirstOrder, Source::Columns(0..8)]);
    let hidden = builder.add("hidden", hidden, &[Source::Node(with_wide.unwrap())]).unwrap();
    let sources = [Source::FirstOrder, Source::Columns(6..8), Source::Node(fm)];
    let sources = [&sources[..], &[Source::Node(hidden)]].concat();
    let shared = builder.add("shared", Concat, &sources).unwrap();
    let top = linear(8, 3, Activation::Identity);
    builder.add("logit", top, &[Source::Node(shared)]).unwrap();
    builder.build().unwrap()
}

pub(crate) fn all<T: Scalar>() -> Vec<(&'static str, Graph<T>)> {
    vec![
        ("lr", lr()),
        ("wide_deep", wide_deep()),
        ("deepfm", deepfm()),
        ("dcn", dcn()),
        ("crossed", crossed()),
        ("dlrm", dlrm(4, 3)),
        ("dlrm of many slots", dlrm(36, 2)),
        ("dlrm of many lanes", dlrm(2, 19)),
        ("dlrm of whole tiles", dlrm(5, 16)),
        ("interacting", interacting()),
        ("forked", forked()),
        ("factorized", factorized()),
        ("wide_only", wide_only()),
        ("several", several()),
    ]
}

/// All of these, and the graphs of other files.
pub(crate) fn every<T: Scalar>() -> Vec<(&'static str, Graph<T>)> {
    let mut graphs = all();
    graphs.extend(crate::networks::networks());
    graphs.extend(crate::interactions::interactions());
    graphs
}

/// All graphs that train, in both precisions.
pub(crate) fn in_both_precisions() -> Vec<(String, Graph<f32>)> {
    let graphs = |precision: Precision| {
        let named = move |(name, graph): (&str, Graph<f32>)| {
            (format!("{name} {}", precision.name()), graph.with_precision(precision))
        };
        every().into_iter().map(named)
    };
    Precision::ALL.into_iter().flat_map(graphs).collect()
}

/// One block of examples, with all results of a step on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step<T> {
    pub(crate) rows: usize,
    pub(crate) stride: usize,
    pub(crate) x: Vec<T>,
    pub(crate) first_order: Vec<T>,
    pub(crate) labels: Vec<f32>,
    pub(crate) logits: Vec<T>,
    pub(crate) d_logits: Vec<T>,
    pub(crate) d_x: Vec<T>,
    pub(crate) d_first_order: Vec<T>,
    pub(crate) gradients: Vec<T>,
}

/// Gaps between rows of the input, so that strides matter.
pub(crate) const GAP: usize = 2;

impl<T: Scalar> Step<T> {
    pub(crate) fn new(graph: &Graph<T>, rows: usize) -> Self {
        let stride = graph.input().columns() + GAP;
        let (nan, lanes) = (T::from_f64(f64::NAN), rows * graph.outputs());
        Self {
            rows,
            stride,
            x: numbers("x", rows * stride),
            first_order: numbers("first order", rows),
            labels: (0..lanes).map(|lane| (lane % 3 == 0) as u32 as f32).collect(),
            logits: vec![nan; lanes],
            d_logits: vec![nan; lanes],
            d_x: vec![nan; rows * graph.input().embedding],
            d_first_order: vec![if graph.reads_first_order() { nan } else { T::ZERO }; rows],
            gradients: vec![nan; graph.parameter_count()],
        }
    }

    /// Runs the forward pass; returns the mean loss.
    pub(crate) fn forward(
        &mut self,
        graph: &Graph<T>,
        parameters: &[T],
        workspace: &mut Workspace<T>,
    ) -> f64 {
        self.forward_by(graph, graph.watched(&mut ()), parameters, workspace)
    }

    /// Like [`Self::forward`], with `passes` of `graph` that are observed or read packed weights.
    pub(crate) fn forward_by(
        &mut self,
        graph: &Graph<T>,
        passes: Watched<'_, T, impl PassObserver>,
        parameters: &[T],
        workspace: &mut Workspace<T>,
    ) -> f64 {
        let x = Matrix::new(&self.x, self.rows, graph.input().columns(), self.stride);
        let block = Block { x, first_order: &self.first_order };
        passes.forward(parameters, &block, workspace, &mut self.logits);
        let (labels, count) = (&self.labels, self.rows.max(1));
        let of = &vec![Objective::LOG_LOSS; graph.outputs()];
        let targets = Targets { objectives: of, labels, weights: &[] };
        losses(&self.logits, targets, count, &mut self.d_logits).loss / count as f64
    }

    pub(crate) fn backward(
        &mut self,
        graph: &Graph<T>,
        parameters: &[T],
        workspace: &mut Workspace<T>,
    ) {
        self.backward_by(graph, graph.watched(&mut ()), parameters, workspace);
    }

    /// Like [`Self::backward`], with `passes` of `graph` that are observed or read packed weights.
    pub(crate) fn backward_by(
        &mut self,
        graph: &Graph<T>,
        passes: Watched<'_, T, impl PassObserver>,
        parameters: &[T],
        workspace: &mut Workspace<T>,
    ) {
        let x = Matrix::new(&self.x, self.rows, graph.input().columns(), self.stride);
        let block = Block { x, first_order: &self.first_order };
        let gradients = BlockGradients {
            x: &mut self.d_x,
            first_order: &mut self.d_first_order,
            parameters: &mut self.gradients,
        };
        passes.backward(parameters, &block, &self.d_logits, workspace, gradients);
    }
}
