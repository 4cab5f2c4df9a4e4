//! Layers that no model of the settings has, in graphs of their own.

use stepwell_nn::{
    Activate, Activation, Add, BatchNorm, Concat, CrossVector, Dice, Dropout, Function, Graph,
    InBatchSoftmax, LayerNorm, Linear, Mixture, MultiHeadAttention, Multiply, NodeId,
    TargetAttention, UnitLength,
};

use super::*;

const FUNCTIONS: [Function; 6] = [
    Function::Relu,
    Function::Sigmoid,
    Function::Tanh,
    Function::Gelu,
    Function::Silu,
    Function::Prelu,
];
const EMBEDDING: usize = 25;
const COLUMNS: usize = EMBEDDING + DENSE;

fn new() -> GraphBuilder<f32> {
    GraphBuilder::new(InputShape { embedding: EMBEDDING, dense: DENSE })
}

fn linear(inputs: usize, outputs: usize) -> Linear {
    Linear { inputs, outputs, bias: true, activation: Activation::Identity }
}

/// Adds a linear layer over `nodes` of `columns` columns in total.
fn finish(mut builder: GraphBuilder<f32>, nodes: &[NodeId], columns: usize) -> Graph<f32> {
    let sources: Vec<Source> = nodes.iter().map(|node| Source::Node(*node)).collect();
    let joined = builder.add("joined", Concat, &sources).unwrap();
    builder.add("logit", linear(columns, 1), &[Source::Node(joined)]).unwrap();
    builder.build().unwrap()
}

/// Trains with the layers of `graph` in place of the model's on several machines and here.
fn check_graph(graph: impl Fn() -> Graph<f32>) {
    check_blocks(8, graph);
}

/// The same with mini-batches of `blocks` blocks.
fn check_blocks(blocks: usize, graph: impl Fn() -> Graph<f32>) {
    let mut config = job(ModelKind::Dcn, &[Loss::LogLoss], true);
    config.train.blocks = blocks;
    check_for(&config, &|config| {
        let plan = RunPlan::of(config).unwrap();
        let model = Model::build(config, plan.schema()).unwrap().with_graph(graph());
        Steps::of(model, &plan, 4000, Arc::new(SystemClock::new())).unwrap()
    });
}

#[test]
fn cross_layers_with_a_vector_have_the_bits_of_the_processor() {
    check_graph(|| {
        let mut builder = new();
        let base = || Source::Columns(0..COLUMNS);
        let cross = CrossVector { columns: COLUMNS };
        let a = builder.add("a", cross, &[base(), base()]).unwrap();
        let b = builder.add("b", cross, &[base(), Source::Node(a)]).unwrap();
        let c = builder.add("c", cross, &[Source::Node(b), base()]).unwrap();
        let narrow = [Source::Columns(3..7), Source::Columns(23..27)];
        let d = builder.add("d", CrossVector { columns: 4 }, &narrow).unwrap();
        let e = builder.add("e", CrossVector { columns: 4 }, &[d, d].map(Source::Node)).unwrap();
        finish(builder, &[c, e], COLUMNS + 4)
    });
}

#[test]
fn layer_normalizations_have_the_bits_of_the_processor() {
    check_graph(|| {
        let mut builder = new();
        let norm = |groups, columns| LayerNorm { groups, columns };
        let a = builder.add("a", norm(1, 26), &[Source::Columns(1..27)]).unwrap();
        let b = builder.add("b", norm(5, 5), &[Source::Columns(0..25)]).unwrap();
        let c = builder.add("c", norm(5, 5), &[Source::Node(b)]).unwrap();
        let d = builder.add("d", norm(3, 1), &[Source::Columns(25..28)]).unwrap();
        finish(builder, &[d, a, c], 26 + 25 + 3)
    });
}

#[test]
fn layers_that_look_at_a_block_have_the_bits_of_the_processor() {
    check_graph(|| {
        let mut builder = new();
        let norm = |columns| BatchNorm { momentum: 0.3, ..BatchNorm::new(columns, 1) };
        // The last columns of the inputs have no gradients.
        let a = builder.add("a", norm(24), &[Source::Columns(3..27)]).unwrap();
        let b = builder.add("b", Dice::new(24), &[Source::Node(a)]).unwrap();
        let c = builder.add("c", Dice::new(18), &[Source::Columns(9..27)]).unwrap();
        let d = builder.add("d", norm(18), &[Source::Node(c)]).unwrap();
        let e = builder.add("e", norm(3), &[Source::Columns(25..28)]).unwrap();
        finish(builder, &[e, b, a, d, b], 3 + 3 * 24 + 18)
    });
}

#[test]
fn scaled_vectors_and_dropped_lanes_have_the_bits_of_the_processor() {
    check_graph(|| {
        let mut builder = new();
        let unit = |columns| UnitLength { columns };
        let drop = |columns, rate| Dropout { columns, rate };
        let a = builder.add("a", unit(24), &[Source::Columns(3..27)]).unwrap();
        let b = builder.add("b", drop(24, 0.5), &[Source::Node(a)]).unwrap();
        let c = builder.add("c", drop(9, 0.1), &[Source::Columns(17..26)]).unwrap();
        let d = builder.add("d", unit(9), &[Source::Node(c)]).unwrap();
        let e = builder.add("e", drop(28, 0.0), &[Source::Columns(0..28)]).unwrap();
        finish(builder, &[a, b, d, c, e], 2 * 24 + 2 * 9 + 28)
    });
}

#[test]
fn the_softmax_within_a_block_has_the_bits_of_the_processor() {
    // A block of 100 rows is more than are added up at a time.
    for (blocks, with_bins, temperature) in [(3, false, 0.7), (8, true, 1.0), (1, true, 0.05)] {
        check_blocks(blocks, || {
            let mut builder = new();
            let unit = UnitLength { columns: 5 };
            let item = builder.add("item", unit, &[Source::Columns(0..5)]).unwrap();
            // Several examples have the same item, and the same user.
            let item = builder.add("same", linear(5, 5), &[Source::Node(item)]).unwrap();
            let user = builder.add("user", linear(13, 5), &[Source::Columns(8..21)]).unwrap();
            let softmax = |dim| InBatchSoftmax { dim, temperature, counts_items: with_bins };
            let sources = [Source::Node(user), Source::Node(item), Source::Columns(26..27)];
            let taken = if with_bins { 3 } else { 2 };
            builder.add("logit", softmax(5), &sources[..taken]).unwrap();
            builder.build().unwrap()
        });
    }
}

/// Adds a length between 0 and 6.
fn add_length(builder: &mut GraphBuilder<f32>) -> NodeId {
    let around = builder.add("around", linear(4, 1), &[Source::Columns(4..8)]).unwrap();
    let share = Activate { function: Function::Sigmoid, columns: 1 };
    let share = builder.add("share", share, &[Source::Node(around)]).unwrap();
    builder.add("length", Add, &[share; 6].map(Source::Node)).unwrap()
}

#[test]
fn attention_to_sequences_has_the_bits_of_the_processor() {
    let attention = |dim, steps_max, hidden| TargetAttention { dim, steps_max, hidden };
    // A block of 100 examples has more steps than are multiplied at a time.
    for blocks in [8, 3, 1] {
        check_blocks(blocks, || {
            let mut builder = new();
            let length = Source::Node(add_length(&mut builder));
            let a = [Source::Columns(0..4), Source::Columns(4..24), length];
            let a = builder.add("a", attention(4, 5, 7), &a).unwrap();
            finish(builder, &[a], 4)
        });
        check_blocks(blocks, || {
            let mut builder = new();
            let length = add_length(&mut builder);
            let a = [Source::Columns(0..4), Source::Columns(4..24), Source::Node(length)];
            let a = builder.add("a", attention(4, 5, 7), &a).unwrap();
            let b = [Source::Node(a), Source::Columns(12..28), Source::Node(length)];
            let b = builder.add("b", attention(4, 4, 19), &b).unwrap();
            let c = [Source::Columns(3..5), Source::Columns(2..12), Source::Columns(26..27)];
            let c = builder.add("c", attention(2, 5, 1), &c).unwrap();
            finish(builder, &[a, b, c], 4 + 4 + 2)
        });
    }
}

#[test]
fn heads_of_attention_have_the_bits_of_the_processor() {
    let heads = |heads, dim, steps_max| MultiHeadAttention { heads, dim, steps_max };
    check_graph(|| {
        let mut builder = new();
        let length = add_length(&mut builder);
        let queries = builder.add("queries", linear(7, 12), &[Source::Columns(1..8)]).unwrap();
        let d = [Source::Node(queries), Source::Columns(2..22), Source::Node(length)];
        let d = builder.add("d", heads(3, 4, 5), &d).unwrap();
        let e = [Source::Columns(20..26), Source::Columns(16..28), Source::Columns(26..27)];
        let e = builder.add("e", heads(2, 3, 4), &e).unwrap();
        finish(builder, &[e, d], 6 + 12)
    });
}

#[test]
fn functions_have_the_bits_of_the_processor() {
    check_graph(|| {
        let (mut builder, mut nodes) = (new(), Vec::new());
        for function in FUNCTIONS {
            let of = |columns| Activate { function, columns };
            let name = |part| format!("{function:?} of {part}");
            let columns = Source::Columns(9..27);
            let a = builder.add(&name("columns"), of(18), &[columns]).unwrap();
            let sums = builder.add(&name("sums"), linear(18, 7), &[Source::Node(a)]).unwrap();
            let b = builder.add(&name("node"), of(7), &[Source::Node(sums)]).unwrap();
            nodes.extend([b, a]);
        }
        finish(builder, &nodes, 6 * (18 + 7))
    });
}

#[test]
fn products_and_gates_have_the_bits_of_the_processor() {
    check_graph(|| {
        let mut builder = new();
        let hidden = builder.add("hidden", linear(6, 19), &[Source::Columns(20..26)]).unwrap();
        let gate = builder.add("gate", linear(4, 1), &[Source::Columns(2..6)]).unwrap();
        let both = [Source::Columns(3..22), Source::Node(hidden)];
        let both = builder.add("both", Multiply, &both).unwrap();
        let square = builder.add("square", Multiply, &[both, both].map(Source::Node)).unwrap();
        let left = builder.add("left", Multiply, &[gate, both].map(Source::Node)).unwrap();
        let right = [Source::Columns(6..25), Source::Columns(8..9)];
        let right = builder.add("right", Multiply, &right).unwrap();
        let given = [Source::Node(hidden), Source::Columns(26..27)];
        let given = builder.add("given", Multiply, &given).unwrap();
        finish(builder, &[square, given, left, right], 4 * 19)
    });
}

#[test]
fn mixtures_have_the_bits_of_the_processor() {
    check_graph(|| {
        let mut builder = new();
        let first = builder.add("expert0", linear(9, 18), &[Source::Columns(0..9)]).unwrap();
        let second = builder.add("expert1", linear(9, 18), &[Source::Columns(14..23)]).unwrap();
        let gate = builder.add("gate", linear(9, 3), &[Source::Columns(11..20)]).unwrap();
        let experts = [Source::Node(first), Source::Node(second), Source::Columns(9..27)];
        let mixture = Mixture { experts: 3, columns: 18 };
        let sources = [&[Source::Node(gate)], &experts[..]].concat();
        let a = builder.add("a", mixture, &sources).unwrap();
        let sources = [&[Source::Columns(24..27)], &experts[..]].concat();
        let b = builder.add("b", mixture, &sources).unwrap();
        let sum = builder.add("sum", Add, &[a, b].map(Source::Node)).unwrap();
        finish(builder, &[sum, a], 2 * 18)
    });
}
