//! Image and sequence layers report what doesn't match, and count their work and memory.

#![expect(clippy::unwrap_used, reason = "the tests' own graphs are well formed")]

use crate::networks::window;
use stepwell_nn::{
    Activation, Add, BatchNorm, BufferKind, Convolution, Dice, Dropout, Flops, FourierFeatures,
    Graph, GraphBuilder, Image, Initial, InputShape, Layer, Lstm, Operation, Pool, Pooling, Source,
    TargetAttention, Window,
};

/// The error of a layer over `columns` columns.
fn refusal(layer: impl Layer<f32> + 'static, columns: usize) -> String {
    let mut builder = GraphBuilder::new(InputShape { embedding: columns, dense: 0 });
    let error = builder.add("a", layer, &[Source::Columns(0..columns)]).unwrap_err();
    error.to_string().strip_prefix("layer 'a': ").unwrap().to_owned()
}

fn alone(layer: impl Layer<f32> + 'static, input: InputShape) -> Graph<f32> {
    let mut builder = GraphBuilder::new(input);
    builder.add("a", layer, &[Source::Columns(0..input.columns())]).unwrap();
    builder.build().unwrap()
}

#[test]
fn of_images() {
    let image = Image { channels: 2, height: 4, width: 5 };
    let pooling = |image, window| Pooling { image, window, pool: Pool::Max };
    let of = |window: Window| refusal(pooling(image, window), 40);
    assert_eq!(
        of(window(5, 1, 0)),
        "a window of 5 x 5 does not fit into planes of 4 x 5 with padding of 0 x 0; give a smaller \
         window or more padding"
    );
    let alone = "a window of 2 x 2 may cover only padding of 2 x 2; give less padding than the \
                 window has rows and columns";
    assert_eq!(of(window(2, 1, 2)), alone);
    let nothing = "a window has at least one row and column, and moves by one";
    assert_eq!(of(window(0, 1, 0)), nothing);
    assert_eq!(of(window(2, 0, 0)), nothing);
    let empty = pooling(Image { channels: 0, ..image }, window(1, 1, 0));
    assert_eq!(refusal(empty, 0), "an image has at least one channel, row and column");
    let fitting = pooling(image, window(2, 2, 0));
    assert_eq!(refusal(fitting, 39), "it takes one input of 2 x 4 x 5 columns, not [39]");
    let (window, bias, activation) = (window(2, 2, 0), true, Activation::Relu);
    let convolution = Convolution { image, channels: 0, window, bias, activation };
    assert_eq!(refusal(convolution, 40), "a convolution has at least one output channel");
    let convolution = Convolution { channels: 3, ..convolution };
    assert_eq!(refusal(convolution, 41), "it takes one input of 2 x 4 x 5 columns, not [41]");
}

#[test]
fn work_and_memory_of_images_are_counted() {
    let (image, window) = (Image { channels: 2, height: 4, width: 5 }, window(3, 1, 1));
    let layer =
        Convolution { image, channels: 3, window, bias: true, activation: Activation::Relu };
    let graph = alone(layer, InputShape { embedding: 15, dense: 25 });
    let (patch, places) = (2 * 9, 20);
    let (product, sums) = (2 * 3 * patch * places, 3 * places);
    let forward = product + sums;
    // The 15 columns that need a gradient are all in the first channel.
    let backward = forward + product / 2 + patch / 2 * places;
    assert_eq!(graph.flops_per_example(), Flops { forward, backward });
    let described: Vec<_> =
        graph.parameters().iter().map(|p| (p.name.as_str(), p.shape.as_slice())).collect();
    assert_eq!(described, [("a/weight", &[3, 2, 3, 3][..]), ("a/bias", &[3][..])]);
    let operation = graph.nodes().next().unwrap().operation;
    assert!(matches!(operation, Operation::Convolution { channels: 3, .. }));
    // The unfolded image is included, and doesn't grow with the block.
    let pooling = alone(Pooling { image, window, pool: Pool::Average }, graph.input());
    let scratch = graph.packing_bytes(64) - pooling.packing_bytes(64);
    assert_eq!(scratch, 4096 * (patch * places * 4).div_ceil(4096) as usize);
    assert_eq!(graph.packing_bytes(1), graph.packing_bytes(40));
    let flops = pooling.flops_per_example();
    assert_eq!((flops.forward, flops.backward), (2 * 9 * places, 9 * places));
    assert_eq!(graph.plan().buffers.iter().map(|of| of.lanes).sum::<usize>(), 2 * 60);
    assert!(graph.plan().buffers.iter().any(|of| of.kind == BufferKind::Value));
}

#[test]
fn of_sequences() {
    let layer = Lstm { inputs: 3, outputs: 2, steps_max: 4, remembers: true };
    let expected = "it takes 4 x 3 columns and one with the length, in one input or two, not [12]";
    assert_eq!(refusal(layer, 12), expected);
    let empty = "an LSTM has at least one input, output and step";
    assert_eq!(refusal(Lstm { steps_max: 0, ..layer }, 1), empty);
    assert_eq!(refusal(Lstm { outputs: 0, ..layer }, 13), empty);
}

#[test]
fn work_and_memory_of_sequences_are_counted() {
    let layer = Lstm { inputs: 3, outputs: 2, steps_max: 4, remembers: true };
    let graph = alone(layer, InputShape { embedding: 5, dense: 8 });
    let described: Vec<_> = graph
        .parameters()
        .iter()
        .map(|p| (p.name.as_str(), p.shape.as_slice(), p.initial == Initial::Constant(1.0)))
        .collect();
    let expected: [(_, &[usize], _); 4] = [
        ("a/input_weight", &[8, 3], false),
        ("a/hidden_weight", &[8, 2], false),
        ("a/forget_bias", &[2], true),
        ("a/bias", &[6], false),
    ];
    assert_eq!(described, expected);
    let products = 2 * 8 * (3 + 2);
    let forward = 4 * (products + 13 * 2);
    // Five columns need a gradient.
    let backward = 4 * (products + 2 * 8 * 2 + 29 * 2) + 2 * 8 * 5;
    assert_eq!(graph.flops_per_example(), Flops { forward, backward });
    assert_eq!(graph.plan().value_lanes, 2 + 4 * 6 * 2);
    let other = alone(Add, graph.input());
    // Gradients of gates and cells, and the vectors of a step, per example.
    let pages = |rows: usize| (rows * (8 + 2 + 3) * 4).div_ceil(4096) * 4096;
    for rows in [13, 1000] {
        let scratch = graph.packing_bytes(rows) - other.packing_bytes(rows);
        assert_eq!(scratch, pages(rows), "{rows}");
    }
}

#[test]
fn of_attention() {
    let layer = TargetAttention { dim: 2, steps_max: 3, hidden: 5 };
    let over = |layer, inputs: [std::ops::Range<usize>; 3]| {
        let mut builder = GraphBuilder::<f32>::new(InputShape { embedding: 5, dense: 4 });
        builder.add("a", layer, &inputs.map(Source::Columns))?;
        builder.build()
    };
    let refusal = |layer, inputs| over(layer, inputs).unwrap_err().to_string();
    let expected = "layer 'a': it takes a target of 2 columns, 3 x 2 columns and one with the \
                    length, not [2, 5, 1]";
    assert_eq!(refusal(layer, [0..2, 2..7, 8..9]), expected);
    let empty = "layer 'a': an attention has at least one value, step and hidden lane";
    assert_eq!(refusal(TargetAttention { hidden: 0, ..layer }, [0..2, 2..8, 8..9]), empty);
    let graph = over(layer, [0..2, 2..8, 8..9]).unwrap();
    let described: Vec<_> =
        graph.parameters().iter().map(|p| (p.name.as_str(), p.shape.as_slice())).collect();
    let expected: [(_, &[usize]); 4] = [
        ("a/hidden_weight", &[5, 8]),
        ("a/hidden_bias", &[5]),
        ("a/weight", &[1, 5]),
        ("a/bias", &[1]),
    ];
    assert_eq!(described, expected);
    let (once, product) = (2 * 2 * 5, 2 * 4 * 5);
    let forward = once + 5 + 3 * (product + 3 * 2 + 6 * 5);
    let backward = 2 * once + 5 + 3 * (2 * product + 3 * 2 + 7 * 5 + 6 * 2);
    assert_eq!(graph.flops_per_example(), Flops { forward, backward });
    assert_eq!(graph.plan().value_lanes, 2 + 3 * (5 + 1));
    let operation = graph.nodes().next().unwrap().operation;
    assert_eq!(operation, Operation::TargetAttention { dim: 2, steps_max: 3, hidden: 5 });
}

#[test]
fn of_fourier_features() {
    let of = |inputs, outputs, sigma| refusal(FourierFeatures::new(inputs, outputs, sigma, 1), 3);
    assert_eq!(of(3, 0, 1.0), "Fourier features have at least one input and one output");
    assert_eq!(of(3, 2, 0.0), "a kernel of width 0: give a number above 0");
    assert_eq!(of(3, 2, f64::NAN), "a kernel of width NaN: give a number above 0");
    assert_eq!(of(2, 2, 1.0), "it takes one input of 2 columns, not [3]");
    let features = FourierFeatures::new(3, 4, 2.0, 7);
    let graph = alone(features, InputShape { embedding: 2, dense: 1 });
    let (forward, backward) = (2 * 4 * 3 + 3 * 4, 2 * 4 * 2 + 3 * 4);
    assert_eq!(graph.flops_per_example(), Flops { forward, backward });
    assert_eq!((graph.parameter_count(), graph.plan().value_lanes), (0, 2 * 4));
    assert_eq!(graph.constant_bytes(), (4 * 3 + 4) * 4);
    let operation = graph.nodes().next().unwrap().operation;
    let expected = Operation::FourierFeatures { inputs: 3, outputs: 4, sigma: 2.0, seed: 7 };
    assert_eq!(operation, expected);
}

#[test]
fn of_normalization_and_dropout() {
    let of = |columns, rate| refusal(Dropout { columns, rate }, 3);
    assert_eq!(of(3, 1.0), "a rate of 1: give a number from 0 to below 1");
    assert_eq!(of(3, f64::NAN), "a rate of NaN: give a number from 0 to below 1");
    assert_eq!(of(2, 0.5), "it takes one input of 2 columns, not [3]");
    let norm = BatchNorm::new(1, 3);
    let none = "a normalization has at least one channel and place";
    assert_eq!(refusal(BatchNorm { places: 0, ..norm }, 3), none);
    let epsilon = BatchNorm { epsilon: 0.0, ..norm };
    assert_eq!(refusal(epsilon, 3), "an epsilon of 0: give a number above 0");
    let momentum = BatchNorm { momentum: 1.5, ..norm };
    assert_eq!(refusal(momentum, 3), "a momentum of 1.5: give a number from 0 to 1");
    assert_eq!(refusal(norm, 4), "it takes one input of 1 x 3 columns, not [4]");
    assert_eq!(refusal(Dice::new(2), 4), "it takes one input of 2 x 1 columns, not [4]");
}

#[test]
fn work_and_memory_of_normalization_and_dropout_are_counted() {
    let input = InputShape { embedding: 4, dense: 2 };
    let graph = alone(BatchNorm::new(2, 3), input);
    assert_eq!(graph.flops_per_example(), Flops { forward: 7 * 6, backward: 9 * 6 + 6 * 4 });
    assert_eq!((graph.plan().value_lanes, graph.parameter_count()), (6, 4));
    assert_eq!(graph.initial_parameters(3), [1.0, 1.0, 0.0, 0.0]);
    let operation = graph.nodes().next().unwrap().operation;
    let (epsilon, momentum) = (1e-5, 0.1);
    assert_eq!(operation, Operation::BatchNorm { channels: 2, places: 3, epsilon, momentum });
    let graph = alone(Dice::new(6), input);
    assert_eq!(graph.flops_per_example(), Flops { forward: 13 * 6, backward: 19 * 6 + 9 * 4 });
    assert_eq!((graph.plan().value_lanes, graph.parameter_count()), (2 * 6, 6));
    let operation = graph.nodes().next().unwrap().operation;
    assert_eq!(operation, Operation::Dice { columns: 6, epsilon: 1e-8, momentum });
    let graph = alone(Dropout { columns: 6, rate: 0.25 }, input);
    assert_eq!(graph.flops_per_example(), Flops { forward: 6, backward: 4 });
    assert_eq!(graph.plan().value_lanes, 2 * 6);
    assert_eq!(graph.nodes().next().unwrap().operation, Operation::Dropout { rate: 0.25 });
}
