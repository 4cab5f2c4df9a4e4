//! Cross layers, gates, experts, normalizations and activations report what doesn't match, and
//! count their work and memory.

#![expect(clippy::unwrap_used, reason = "the tests' own graphs are well formed")]

use stepwell_nn::{
    Activate, CrossVector, Flops, Function, Graph, GraphBuilder, Initial, InputShape, Layer,
    LayerNorm, Mixture, Multiply, Operation, Source,
};

/// A graph with only this layer, over inputs of these columns, of which 5 are embeddings.
fn over(layer: impl Layer<f32> + 'static, inputs: &[usize]) -> Result<Graph<f32>, String> {
    let columns = inputs.iter().sum::<usize>();
    let input = InputShape { embedding: 5.min(columns), dense: columns.saturating_sub(5) };
    let (mut builder, mut start) = (GraphBuilder::new(input), 0);
    let sources = inputs.iter().map(|columns| {
        start += columns;
        Source::Columns(start - columns..start)
    });
    let added = builder.add("a", layer, &sources.collect::<Vec<_>>());
    let message = |error: String| error.strip_prefix("layer 'a': ").unwrap().to_owned();
    added.map_err(|error| message(error.to_string()))?;
    Ok(builder.build().unwrap())
}

fn refusal(layer: impl Layer<f32> + 'static, inputs: &[usize]) -> String {
    over(layer, inputs).unwrap_err()
}

/// Work, lanes of output and kept values, and operation.
fn counted(graph: &Graph<f32>) -> (Flops, usize, Operation) {
    let operation = graph.nodes().next().unwrap().operation;
    (graph.flops_per_example(), graph.plan().value_lanes, operation)
}

fn parameters(graph: &Graph<f32>) -> Vec<(&str, &[usize], Initial)> {
    graph.parameters().iter().map(|of| (of.name.as_str(), &of.shape[..], of.initial)).collect()
}

#[test]
fn of_cross_layers_with_a_vector() {
    let cross = |columns| CrossVector { columns };
    assert_eq!(refusal(cross(0), &[0, 0]), "a cross layer has at least one column");
    assert_eq!(refusal(cross(3), &[3, 2]), "it takes two inputs of 3 columns, not [3, 2]");
    assert_eq!(refusal(cross(3), &[3]), "it takes two inputs of 3 columns, not [3]");
    let graph = over(cross(4), &[4, 4]).unwrap();
    let flops = Flops { forward: 5 * 4, backward: 5 * 4 + 4 + 2 };
    assert_eq!(counted(&graph), (flops, 4 + 1, Operation::CrossVector { columns: 4 }));
    let initial = Initial::Uniform { range: 0.5 };
    let expected = [("a/weight", &[4][..], initial), ("a/bias", &[4][..], initial)];
    assert_eq!(parameters(&graph), expected);
}

#[test]
fn of_layer_normalizations() {
    let norm = |groups, columns| LayerNorm { groups, columns };
    let empty = "a layer normalization has at least one group and column";
    assert_eq!(refusal(norm(0, 2), &[0]), empty);
    assert_eq!(refusal(norm(2, 0), &[0]), empty);
    assert_eq!(refusal(norm(2, 3), &[5]), "it takes one input of 2 x 3 columns, not [5]");
    let graph = over(norm(2, 3), &[6]).unwrap();
    let flops = Flops { forward: 8 * 6, backward: 5 * 6 + 5 * 6 + 7 * 5 };
    let operation = Operation::LayerNorm { groups: 2, columns: 3 };
    assert_eq!(counted(&graph), (flops, 6 + 2 * 2, operation));
    let (one, zero) = (Initial::Constant(1.0), Initial::Constant(0.0));
    let expected = [("a/weight", &[2, 3][..], one), ("a/bias", &[2, 3][..], zero)];
    assert_eq!(parameters(&graph), expected);
}

#[test]
fn of_activations() {
    let of = |function, columns| Activate { function, columns };
    let empty = "an activation has at least one column";
    assert_eq!(refusal(of(Function::Relu, 0), &[0]), empty);
    let expected = "it takes one input of 3 columns, not [4]";
    assert_eq!(refusal(of(Function::Silu, 3), &[4]), expected);
    let graph = over(of(Function::Prelu, 6), &[6]).unwrap();
    let operation = Operation::Activate { function: Function::Prelu, columns: 6 };
    let flops = Flops { forward: 6, backward: 5 + 2 * 6 };
    assert_eq!(counted(&graph), (flops, 6, operation));
    assert_eq!(parameters(&graph), [("a/slope", &[6][..], Initial::Constant(0.25))]);
    let graph = over(of(Function::Gelu, 6), &[6]).unwrap();
    assert_eq!(graph.flops_per_example(), Flops { forward: 8 * 6, backward: 16 * 5 });
    assert_eq!(graph.parameter_count(), 0);
}

#[test]
fn of_products() {
    let unequal = "its inputs have [2, 3] columns; a product needs equal ones, or one column";
    assert_eq!(refusal(Multiply, &[2, 3]), unequal);
    assert_eq!(refusal(Multiply, &[3]), "a product takes two inputs, not 1");
    assert_eq!(refusal(Multiply, &[3, 3, 3]), "a product takes two inputs, not 3");
    assert_eq!(refusal(Multiply, &[0, 0]), "a product has at least one column");
    assert_eq!(refusal(Multiply, &[1, 0]), "a product has at least one column");
    let graph = over(Multiply, &[1, 7]).unwrap();
    let flops = Flops { forward: 7, backward: 2 * 7 + 4 };
    assert_eq!(counted(&graph), (flops, 7, Operation::Multiply));
}

#[test]
fn of_mixtures() {
    let of = |experts, columns| Mixture { experts, columns };
    let empty = "a mixture has at least one expert and column";
    assert_eq!(refusal(of(0, 3), &[0]), empty);
    assert_eq!(refusal(of(2, 0), &[2, 0, 0]), empty);
    let expected = "it takes an input of 2 columns, then 2 of 3, not [2, 3]";
    assert_eq!(refusal(of(2, 3), &[2, 3]), expected);
    let expected = "it takes an input of 2 columns, then 2 of 3, not [1, 3, 3]";
    assert_eq!(refusal(of(2, 3), &[1, 3, 3]), expected);
    let expected = "it takes an input of 2 columns, then 2 of 3, not [2, 3, 4]";
    assert_eq!(refusal(of(2, 3), &[2, 3, 4]), expected);
    let expected = "it takes an input of 2 columns, then 2 of 3, not []";
    assert_eq!(refusal(of(2, 3), &[]), expected);
    let graph = over(of(2, 3), &[2, 3, 3]).unwrap();
    let flops = Flops { forward: 2 * 2 * 3 + 5 * 2, backward: 2 * 2 * 4 + 2 * 2 + 3 };
    let operation = Operation::Mixture { experts: 2, columns: 3 };
    assert_eq!(counted(&graph), (flops, 3 + 2, operation));
}
