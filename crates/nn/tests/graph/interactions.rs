//! Graphs of cross layers, gates, experts, normalizations and activations.

#![expect(clippy::unwrap_used, reason = "the tests' own graphs are well formed")]

use crate::common::linear;
use stepwell_nn::{
    Activate, Activation, Add, Concat, CrossVector, Function, Graph, GraphBuilder, InputShape,
    LayerNorm, Mixture, Multiply, NodeId, Scalar, Source,
};

pub(crate) const FUNCTIONS: [Function; 6] = [
    Function::Relu,
    Function::Sigmoid,
    Function::Tanh,
    Function::Gelu,
    Function::Silu,
    Function::Prelu,
];

/// Adds the logits of `nodes` of `columns` columns in total.
fn finish<T: Scalar>(
    mut builder: GraphBuilder<T>,
    nodes: &[NodeId],
    columns: usize,
    outputs: usize,
) -> Graph<T> {
    let sources: Vec<Source> = nodes.iter().map(|node| Source::Node(*node)).collect();
    let joined = builder.add("joined", Concat, &sources).unwrap();
    let top = linear(columns, outputs, Activation::Identity);
    builder.add("logit", top, &[Source::Node(joined)]).unwrap();
    builder.build().unwrap()
}

/// Cross layers with vectors: stacked, on a node twice, on overlapping columns, without embeddings,
/// and wider than the partial sums of a dot product.
fn cross_vectors<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 34, dense: 4 });
    let cross = |columns| CrossVector { columns };
    let columns = |start| Source::Columns(start..start + 4);
    let wide = || Source::Columns(0..37);
    let first = builder.add("first", cross(37), &[wide(), wide()]).unwrap();
    let second = builder.add("second", cross(37), &[wide(), Source::Node(first)]).unwrap();
    let a = builder.add("a", cross(4), &[columns(32), columns(2)]).unwrap();
    let b = builder.add("b", cross(4), &[Source::Node(a), Source::Node(a)]).unwrap();
    let c = builder.add("c", cross(4), &[Source::Node(a), columns(34)]).unwrap();
    let d = builder.add("d", cross(4), &[columns(32), Source::Node(c)]).unwrap();
    let sum = builder.add("sum", Add, &[b, a, d].map(Source::Node)).unwrap();
    finish(builder, &[sum, second, first], 78, 1)
}

/// Normalizations of one group and of several, of columns and of nodes.
fn layer_norms<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 30, dense: 6 });
    let norm = |groups, columns| LayerNorm { groups, columns };
    let a = builder.add("a", norm(1, 35), &[Source::Columns(1..36)]).unwrap();
    let b = builder.add("b", norm(3, 4), &[Source::Columns(20..32)]).unwrap();
    let c = builder.add("c", norm(2, 17), &[Source::Columns(0..34)]).unwrap();
    let d = builder.add("d", norm(4, 3), &[Source::Node(b)]).unwrap();
    let few = builder.add("few", norm(2, 3), &[Source::Columns(30..36)]).unwrap();
    finish(builder, &[d, a, few, c], 35 + 12 + 34 + 6, 1)
}

/// Every function of columns that partly need gradients, of a node, and of columns without
/// gradients.
fn activated<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 18, dense: 5 });
    let mut nodes = Vec::new();
    for (number, function) in FUNCTIONS.into_iter().enumerate() {
        let of = |columns| Activate { function, columns };
        let start = 2 * number;
        let name = |part| format!("{function:?} of {part}");
        let columns = Source::Columns(start + 3..start + 10);
        let a = builder.add(&name("columns"), of(7), &[columns]).unwrap();
        let sums = linear(7, 3, Activation::Identity);
        let sums = builder.add(&name("sums"), sums, &[Source::Node(a)]).unwrap();
        let b = builder.add(&name("node"), of(3), &[Source::Node(sums)]).unwrap();
        let c = builder.add(&name("features"), of(4), &[Source::Columns(19..23)]).unwrap();
        nodes.extend([c, b, a, sums]);
    }
    finish(builder, &nodes, 6 * (7 + 3 + 3 + 4), 2)
}

/// Products of columns and nodes, squares, and gates on either side.
fn gated<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 22, dense: 5 });
    let hidden = linear(6, 19, Activation::Identity);
    let hidden = builder.add("hidden", hidden, &[Source::Columns(20..26)]).unwrap();
    let gate = linear(4, 1, Activation::Identity);
    let gate = builder.add("gate", gate, &[Source::Columns(2..6)]).unwrap();
    let both = [Source::Columns(3..22), Source::Node(hidden)];
    let both = builder.add("both", Multiply, &both).unwrap();
    let square = builder.add("square", Multiply, &[both, both].map(Source::Node)).unwrap();
    let left = builder.add("left", Multiply, &[gate, both].map(Source::Node)).unwrap();
    let right = [Source::Columns(6..25), Source::Columns(8..9)];
    let right = builder.add("right", Multiply, &right).unwrap();
    let one = [Source::FirstOrder, Source::Node(gate)];
    let one = builder.add("one", Multiply, &one).unwrap();
    let given = builder.add("given", Multiply, &[Source::Node(hidden), Source::Columns(26..27)]);
    let nodes = [given.unwrap(), one, square, left, right];
    finish(builder, &nodes, 4 * 19 + 1, 1)
}

/// Two mixtures of the same experts, one of which is a range of columns; another whose gate is also
/// an expert; one expert alone.
fn mixed<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 20, dense: 4 });
    let expert = linear(7, 18, Activation::Relu);
    let first = builder.add("expert0", expert.clone(), &[Source::Columns(0..7)]).unwrap();
    let second = builder.add("expert1", expert, &[Source::Columns(14..21)]).unwrap();
    let gate = linear(9, 3, Activation::Identity);
    let gate = builder.add("gate", gate, &[Source::Columns(11..20)]).unwrap();
    let third = Source::Columns(4..22);
    let experts = [Source::Node(first), Source::Node(second), third];
    let mixture = Mixture { experts: 3, columns: 18 };
    let a = builder.add("a", mixture, &[&[Source::Node(gate)], &experts[..]].concat()).unwrap();
    let of_columns = Source::Columns(18..21);
    let b = builder.add("b", mixture, &[&[of_columns], &experts[..]].concat()).unwrap();
    let mixture = Mixture { experts: 3, columns: 3 };
    let sources = [Source::Node(gate), Source::Columns(17..20), Source::Node(gate)];
    let sources = [&sources[..], &[Source::Columns(20..23)]].concat();
    let c = builder.add("c", mixture, &sources).unwrap();
    let alone = Mixture { experts: 1, columns: 3 };
    let d = builder.add("d", alone, &[Source::Columns(1..2), Source::Node(c)]).unwrap();
    finish(builder, &[d, a, c, b], 2 * 18 + 2 * 3, 2)
}

/// All of these graphs.
pub(crate) fn interactions<T: Scalar>() -> Vec<(&'static str, Graph<T>)> {
    vec![
        ("cross vectors", cross_vectors()),
        ("layer norms", layer_norms()),
        ("activated", activated()),
        ("gated", gated()),
        ("mixed", mixed()),
    ]
}
