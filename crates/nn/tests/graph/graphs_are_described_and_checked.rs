//! Descriptions that a graph gives of itself, and invalid descriptions of graphs.

use stepwell_nn::{
    Activation, Add, BufferKind, Concat, Cross, DotInteraction, FactorizationMachine, Flops,
    GraphBuilder, GraphError, Initial, InputShape, NodeId, Operation, Precision, Source, Workspace,
    bf16_kernel,
};

#[test]
fn parameters_have_names_shapes_and_ranges() {
    let graph = crate::common::deepfm::<f32>();
    let described: Vec<_> =
        graph.parameters().iter().map(|p| (p.name.as_str(), p.shape.as_slice())).collect();
    let expected: [(&str, &[usize]); 6] = [
        ("hidden0/weight", &[9, 14]),
        ("hidden0/bias", &[9]),
        ("hidden1/weight", &[5, 9]),
        ("hidden1/bias", &[5]),
        ("top/weight", &[1, 5]),
        ("top/bias", &[1]),
    ];
    assert_eq!(described, expected);
    let mut next = 0;
    for spec in graph.parameters() {
        assert_eq!(spec.range.start, next);
        assert_eq!(spec.range.len(), spec.shape.iter().product::<usize>());
        next = spec.range.end;
    }
    assert_eq!(next, graph.parameter_count());
    let names = ["fm", "hidden0", "hidden1", "top", "logit"];
    assert!(graph.node_names().eq(names));
}

/// The description matches the passes: positions don't overlap, sources precede their readers, and
/// parameters are contiguous.
#[test]
fn nodes_say_what_they_compute_and_where() {
    let graph = crate::common::deepfm::<f32>();
    let nodes: Vec<_> = graph.nodes().collect();
    let names: Vec<&str> = nodes.iter().map(|node| node.name).collect();
    assert_eq!(names, ["fm", "hidden0", "hidden1", "top", "logit"]);
    assert_eq!(
        nodes[1].operation,
        Operation::Linear { inputs: 14, outputs: 9, bias: true, activation: Activation::Relu }
    );
    assert!(matches!(nodes[0].operation, Operation::FactorizationMachine { .. }));
    assert_eq!(nodes[4].operation, Operation::Add);
    let mut next = 0;
    for node in &nodes {
        assert_eq!((node.parameters.start, node.targets.len()), (next, node.sources.len()));
        next = node.parameters.end;
        let place = |kind| {
            let plan = graph.plan().buffers.iter();
            let mut own = plan.filter(|of| graph.node_names().nth(of.node.0) == Some(node.name));
            own.find(|of| of.kind == kind).map(|of| (of.offset, of.lanes))
        };
        let kept = node.columns + node.kept;
        assert_eq!(place(BufferKind::Value), Some((node.value, kept)), "{}", node.name);
        assert_eq!(place(BufferKind::Gradient), Some((node.gradient, node.columns)));
    }
    assert_eq!((next, graph.precision()), (graph.parameter_count(), Precision::F32));
}

#[test]
fn initial_values_follow_seed_and_name() {
    let graph = crate::common::wide_deep::<f32>();
    let parameters = graph.initial_parameters(5);
    assert_eq!(parameters, graph.initial_parameters(5));
    assert_ne!(parameters, graph.initial_parameters(6));
    for spec in graph.parameters() {
        let fan_in: f64 = if spec.name.starts_with("top") { 5.0 } else { 9.0 };
        let range = 1.0 / fan_in.sqrt();
        assert_eq!(spec.initial, Initial::Uniform { range }, "{}", spec.name);
        let values = &parameters[spec.range.clone()];
        assert!(values.iter().all(|v| f64::from(v.abs()) <= range));
        assert!(values.iter().any(|v| *v != values[0]) || values.len() == 1);
    }
    let graph = crate::common::dcn::<f32>();
    for spec in graph.parameters() {
        let fan_in: f64 = if spec.name.starts_with("logit") { 13.0 } else { 9.0 };
        let range = 1.0 / fan_in.sqrt();
        assert_eq!(spec.initial, Initial::Uniform { range }, "{}", spec.name);
    }
    let wide: Vec<f64> = parameters.iter().map(|v| f64::from(*v)).collect();
    assert_eq!(wide, crate::common::wide_deep::<f64>().initial_parameters(5));
}

#[test]
fn work_is_counted() {
    let flops = crate::common::wide_deep::<f32>().flops_per_example();
    let products = [9 * 9, 9 * 5, 5];
    let biases = 9 + 5 + 1;
    assert_eq!(flops.forward, 2 * products.iter().sum::<u64>() + biases + 1);
    // The first layer's input gradient covers only the 6 embedding columns; the sum passes on 2.
    let inputs = 6 * 9 + 9 * 5 + 5;
    assert_eq!(flops.backward, 2 * (products.iter().sum::<u64>() + inputs) + biases + 2);
}

#[test]
fn work_of_crosses_and_interactions_is_counted() {
    let flops = crate::common::crossed::<f32>().flops_per_example();
    let product = 2 * 4 * 4;
    assert_eq!(flops.forward, 4 * (product + 3 * 4) + 2 * 4 + (2 * 4 + 1));
    // Number of base and input columns that need a gradient.
    for (node, [base, input]) in [[2, 4], [4, 4], [4, 0], [0, 4]].into_iter().enumerate() {
        let backward = product + 2 * 4 * input + 2 * 4 + 2 * base + input;
        let of_node = crate::common::crossed::<f32>().node_flops().nth(node).unwrap();
        assert_eq!(of_node.backward, backward, "node {node}");
    }
    let flops = crate::common::interacting::<f32>().flops_per_example();
    assert_eq!(flops.forward, 15 * 2 * 3 + 3 * 2 * 5 + 2 * 18 + 1);
    // Five of the columns 8..17 are embeddings.
    let inner = 2 * 5 * (5 + 9) + 2 * 2 * 15;
    assert_eq!(flops.backward, inner + 2 * (18 + 18) + 1);
}

#[test]
fn work_of_factorization_machines_and_of_layers_without_bias_is_counted() {
    let of = |graph: &stepwell_nn::Graph<f32>, node: usize| graph.node_flops().nth(node);
    let lanes = 3 * 4;
    // A sum and a sum of squares over the slots; for each lane a square, a difference and a sum.
    let forward = 3 * lanes + 3 * 4 + 1;
    let expected = Flops { forward, backward: lanes + 2 * lanes };
    assert_eq!(of(&crate::common::deepfm(), 0), Some(expected));
    // Five of the columns 15..24 are embeddings.
    let graph = crate::common::forked();
    let expected = Flops { forward: 3 * 9 + 3 * 3 + 1, backward: 9 + 2 * 5 };
    assert_eq!(of(&graph, 3), Some(expected));
    let expected = Flops { forward: 2 * 21, backward: 2 * 21 + 2 * 21 };
    assert_eq!(of(&graph, 6), Some(expected));
}

#[test]
fn only_cross_layers_keep_more_than_their_output() {
    for (name, graph) in crate::common::all::<f32>() {
        let crosses = match name {
            "dcn" => 9 * 2,
            "crossed" => 4 * 4,
            _ => 0,
        };
        let lanes = |kind| {
            let of_kind = graph.plan().buffers.iter().filter(move |buffer| buffer.kind == kind);
            of_kind.map(|buffer| buffer.lanes).sum::<usize>()
        };
        // Gradients only have the lanes of the output.
        let kept = lanes(BufferKind::Value) - lanes(BufferKind::Gradient);
        assert_eq!(kept, crosses, "{name}");
    }
}

#[test]
fn weights_are_packed_for_each_pass_where_they_have_eight_columns() {
    // Both passes for layers of 9 x 9; only the backward pass for 9 to 5, 9 to 4 and 13 to 1.
    let parts = [("lr", 0), ("wide_deep", 2 + 1), ("dcn", 2 + 2 + 1 + 1), ("crossed", 0)];
    for (name, graph) in crate::common::all::<f32>() {
        assert_eq!(graph.packed_weights().parts_mut().len(), 0, "{name} in f32");
        let graph = graph.with_precision(Precision::Bf16);
        let packed = graph.packed_weights().parts_mut().len();
        if let Some((_, parts)) = parts.iter().find(|(of, _)| *of == name) {
            // Without a bf16 unit, products use unpacked weights.
            let parts = if bf16_kernel().name == "portable" { 0 } else { *parts };
            assert_eq!(packed, parts, "{name}");
        }
        assert_eq!(packed > 0, graph.packed_bytes() > 0, "{name}");
        assert!(graph.packing_writes() <= graph.packed_bytes(), "{name}");
    }
}

#[test]
fn the_plan_names_every_buffer() {
    let graph = crate::common::forked::<f32>();
    let plan = graph.plan();
    let nodes = graph.node_names().count();
    assert_eq!(plan.buffers.len(), 2 * nodes);
    assert_eq!(plan.passes, 2 * nodes);
    for buffer in &plan.buffers {
        assert!(buffer.first_use <= buffer.last_use && buffer.last_use < plan.passes);
        let total = match buffer.kind {
            BufferKind::Value => plan.value_lanes,
            BufferKind::Gradient => plan.gradient_lanes,
        };
        assert!(buffer.offset + buffer.lanes <= total);
    }
    assert_eq!(Workspace::new(&graph, 10).rows_max(), 10);
}

fn builder() -> GraphBuilder<f32> {
    GraphBuilder::new(InputShape { embedding: 6, dense: 2 })
}

#[test]
fn wrong_descriptions_are_refused() {
    let columns = |range| [Source::Columns(range)];
    let mut graph = builder();
    let narrow = crate::common::linear(5, 1, Activation::Relu);
    let error = graph.add("a", narrow.clone(), &columns(0..8)).unwrap_err();
    assert_eq!(error.to_string(), "layer 'a': it takes one input of 5 columns, not [8]");
    assert!(graph.add("a", narrow.clone(), &columns(0..9)).is_err());
    assert!(graph.add("a", narrow.clone(), &[Source::Node(NodeId(0))]).is_err());
    let error = graph.add("a", Add, &[]).unwrap_err();
    assert_eq!(error.to_string(), "layer 'a': a sum has at least one input");
    assert!(graph.add("a", Concat, &[]).is_err());
    let unequal = [Source::Columns(0..2), Source::Columns(0..3)];
    assert!(graph.add("a", Add, &unequal).is_err());
    let flat = FactorizationMachine { slots: 3, dim: 0 };
    assert!(graph.add("a", flat, &columns(0..0)).is_err());
    let error = graph.add("a", Cross { columns: 4 }, &columns(0..4)).unwrap_err();
    assert_eq!(error.to_string(), "layer 'a': it takes two inputs of 4 columns, not [4]");
    assert!(
        graph
            .add("a", Cross { columns: 0 }, &[Source::Columns(0..0), Source::Columns(0..0)])
            .is_err()
    );
    let three = DotInteraction { vectors: 3, dim: 2 };
    let error = graph.add("a", three, &columns(0..8)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "layer 'a': it takes one or two inputs of 3 x 2 columns, not [8]"
    );
    let broken = [Source::Columns(0..3), Source::Columns(3..6)];
    assert!(graph.add("a", three, &broken).is_err());
    let alone = DotInteraction { vectors: 1, dim: 2 };
    assert!(graph.add("a", alone, &columns(0..2)).is_err());
    assert_eq!(graph.build().unwrap_err(), GraphError::Empty);

    let mut graph = builder();
    graph.add("a", narrow.clone(), &columns(0..5)).unwrap();
    let twice = graph.add("a", narrow.clone(), &columns(0..5)).unwrap_err();
    assert!(matches!(twice, GraphError::DuplicateName { .. }));
    graph.add("b", narrow, &columns(0..5)).unwrap();
    assert!(matches!(graph.build().unwrap_err(), GraphError::Unused { layer } if layer == "a"));

    let mut graph = builder();
    graph.add("a", Concat, &columns(0..0)).unwrap();
    assert!(matches!(graph.build().unwrap_err(), GraphError::Output { .. }));
}

#[test]
#[should_panic(expected = "9 rows in a workspace of 8")]
fn a_block_fits_its_workspace() {
    let graph = crate::common::lr::<f32>();
    let mut step = crate::common::Step::new(&graph, 9);
    let parameters = graph.initial_parameters(1);
    step.forward(&graph, &parameters, &mut Workspace::new(&graph, 8));
}
