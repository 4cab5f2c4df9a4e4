//! Initial values are functions of seed and name that anyone can compute.

#![expect(clippy::unwrap_used, reason = "the tests' own graphs are well formed")]

use crate::common::linear;
use crate::networks::window;
use stepwell_nn::{
    Activation, Convolution, Cross, Graph, GraphBuilder, Image, Initial, InputShape, Scalar, Source,
};

fn rectified<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 8, dense: 0 });
    let layer = linear(8, 5, Activation::Relu);
    let hidden = builder.add_kaiming("hidden", layer, &[Source::Columns(0..8)]).unwrap();
    builder.add("top", linear(5, 1, Activation::Identity), &[Source::Node(hidden)]).unwrap();
    builder.build().unwrap()
}

/// Computed in Python with xxhash.xxh3_64_intdigest, SplitMix64, math.log and math.cos.
#[test]
fn of_normal_weights() {
    let graph = rectified::<f32>();
    let parameters = graph.initial_parameters(5);
    let bits: Vec<u32> = parameters[..6].iter().map(|value| value.to_bits()).collect();
    let expected = [0xbd63_7aaa, 0x3f43_957d, 0x3f7d_a563, 0x3e2f_31f2, 0x3e80_b555, 0x3ec3_08df];
    assert_eq!(bits, expected);
    assert_eq!(parameters[40..45], [0.0; 5], "biases");
    assert!(parameters[45..].iter().all(|value| *value != 0.0), "another layer");
    let wide: Vec<f64> = parameters.iter().map(|value| f64::from(*value)).collect();
    assert_eq!(wide, rectified::<f64>().initial_parameters(5));
    let initial: Vec<Initial> = graph.parameters().iter().map(|of| of.initial).collect();
    let (deviation, range) = (0.5, 1.0 / 5f64.sqrt());
    assert_eq!(initial[..2], [Initial::Normal { deviation }, Initial::Constant(0.0)]);
    assert_eq!(initial[2..], [Initial::Uniform { range }; 2]);
}

#[test]
fn inputs_of_a_weight_are_those_of_one_output() {
    let image = Image { channels: 3, height: 5, width: 5 };
    let (window, activation) = (window(3, 1, 1), Activation::Relu);
    let layer = Convolution { image, channels: 4, window, bias: true, activation };
    let mut builder = GraphBuilder::<f32>::new(InputShape { embedding: 75, dense: 0 });
    let source = builder.add_kaiming("a", layer, &[Source::Columns(0..75)]).unwrap();
    let source = Source::Node(source);
    builder.add_kaiming("b", Cross { columns: 100 }, &[source.clone(), source]).unwrap();
    let graph = builder.build().unwrap();
    let deviations = graph.parameters().iter().filter_map(|of| match of.initial {
        Initial::Normal { deviation } => Some(deviation),
        _ => None,
    });
    let expected = [27.0, 100.0].map(|inputs: f64| (2.0 / inputs).sqrt());
    assert_eq!(deviations.collect::<Vec<_>>(), expected);
}
