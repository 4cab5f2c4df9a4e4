//! Graphs of images and sequences.

#![expect(clippy::unwrap_used, reason = "the tests' own graphs are well formed")]

use crate::common::linear;
use stepwell_nn::{
    Activate, Activation, Add, BatchNorm, Concat, Convolution, Dice, Dropout, FourierFeatures,
    Function, Graph, GraphBuilder, Image, InBatchSoftmax, InputShape, Lstm, MultiHeadAttention,
    Pool, Pooling, Scalar, Source, TargetAttention, UnitLength, Window,
};

/// A square window.
pub(crate) fn window(kernel: usize, stride: usize, padding: usize) -> Window {
    Window { kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 2] }
}

/// Two convolutions, each followed by a pooling; the image ends among the dense columns.
pub(crate) fn images<T: Scalar>() -> Graph<T> {
    let image = Image { channels: 2, height: 5, width: 6 };
    let mut builder = GraphBuilder::new(InputShape { embedding: 43, dense: 20 });
    let relu = Activation::Relu;
    let first =
        Convolution { image, channels: 3, window: window(3, 1, 1), bias: true, activation: relu };
    let pooled =
        Pooling { image: first.output().unwrap(), window: window(2, 2, 0), pool: Pool::Max };
    let image = pooled.output().unwrap();
    let narrow = Window { kernel: [2, 1], stride: [1, 2], padding: [1, 0] };
    let second = Convolution { image, channels: 4, window: narrow, bias: false, activation: relu };
    let mean =
        Pooling { image: second.output().unwrap(), window: window(2, 1, 1), pool: Pool::Average };
    let columns = mean.output().unwrap().columns();
    let mut source = Source::Columns(1..61);
    source = Source::Node(builder.add("first", first, &[source]).unwrap());
    source = Source::Node(builder.add("pooled", pooled, &[source]).unwrap());
    source = Source::Node(builder.add("second", second, &[source]).unwrap());
    source = Source::Node(builder.add("mean", mean, &[source]).unwrap());
    builder.add("logit", linear(columns, 2, Activation::Identity), &[source]).unwrap();
    builder.build().unwrap()
}

/// Convolutions and poolings of overlapping columns, with strides and without activation.
pub(crate) fn strided<T: Scalar>() -> Graph<T> {
    let image = Image { channels: 1, height: 4, width: 5 };
    let mut builder = GraphBuilder::new(InputShape { embedding: 26, dense: 0 });
    let wide = Window { kernel: [3, 2], stride: [2, 3], padding: [2, 1] };
    let plain = Activation::Identity;
    let a = Convolution { image, channels: 2, window: wide, bias: true, activation: plain };
    let columns = a.output().unwrap().columns();
    let a = builder.add("a", a, &[Source::Columns(0..20)]).unwrap();
    let b = Convolution { image, channels: 1, window: wide, bias: false, activation: plain };
    let b = builder.add("b", b, &[Source::Columns(5..25)]).unwrap();
    let pool = |pool| Pooling { image, window: window(3, 2, 1), pool };
    let pooled = pool(Pool::Max).output().unwrap().columns();
    let c = builder.add("c", pool(Pool::Max), &[Source::Columns(6..26)]).unwrap();
    let d = builder.add("d", pool(Pool::Average), &[Source::Columns(2..22)]).unwrap();
    let sources = [a, b, c, d].map(Source::Node);
    let joined = builder.add("joined", Concat, &sources).unwrap();
    let top = linear(columns / 2 * 3 + 2 * pooled, 1, plain);
    builder.add("logit", top, &[Source::Node(joined)]).unwrap();
    builder.build().unwrap()
}

/// Sequences of embeddings and of dense features, some of which are read twice; a layer computes a
/// length.
pub(crate) fn sequences<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 14, dense: 4 });
    let lstm = |inputs, outputs, steps_max| Lstm { inputs, outputs, steps_max, remembers: true };
    // Five times a number between -1 and 1.
    let around = linear(4, 1, Activation::Identity);
    let length = builder.add("length", around, &[Source::Columns(14..18)]).unwrap();
    let five = [Source::Node(length); 1].into_iter().cycle().take(5).collect::<Vec<_>>();
    let length = builder.add("five", Add, &five).unwrap();
    let a = [Source::Columns(1..17), Source::Node(length)];
    let a = builder.add("a", lstm(4, 3, 4), &a).unwrap();
    let b = [Source::Columns(0..10), Source::Node(length)];
    let b = builder.add("b", lstm(2, 2, 5), &b).unwrap();
    let c = builder.add("c", Concat, &[Source::Node(b), Source::Node(a), Source::Node(length)]);
    let c = builder.add("d", lstm(1, 9, 5), &[Source::Node(c.unwrap())]).unwrap();
    let joined = builder.add("joined", Concat, &[a, b, c].map(Source::Node)).unwrap();
    let top = linear(14, 1, Activation::Identity);
    builder.add("logit", top, &[Source::Node(joined)]).unwrap();
    builder.build().unwrap()
}

/// Attention to sequences of embeddings and of dense features, by targets and queries that overlap
/// them, by a node and by columns without gradients. Layers compute a length; another is a column
/// below 1.
pub(crate) fn attended<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 19, dense: 6 });
    let attention = |dim, steps_max, hidden| TargetAttention { dim, steps_max, hidden };
    // Six times a number between 0 and 1.
    let around = linear(4, 1, Activation::Identity);
    let around = builder.add("around", around, &[Source::Columns(14..18)]).unwrap();
    let five = builder.add("five", Add, &[around; 5].map(Source::Node)).unwrap();
    let share = Activate { function: Function::Sigmoid, columns: 1 };
    let share = builder.add("share", share, &[Source::Node(five)]).unwrap();
    let length = builder.add("length", Add, &[share; 6].map(Source::Node)).unwrap();
    let a = [Source::Columns(0..4), Source::Columns(2..22), Source::Node(length)];
    let a = builder.add("a", attention(4, 5, 3), &a).unwrap();
    let b = [Source::Node(a), Source::Columns(3..15), Source::Node(length)];
    let b = builder.add("b", attention(4, 3, 17), &b).unwrap();
    let c = [Source::Columns(20..22), Source::Columns(4..16), Source::Node(length)];
    let c = builder.add("c", attention(2, 6, 1), &c).unwrap();
    let d = [Source::Columns(1..3), Source::Columns(19..25), Source::Node(length)];
    let d = builder.add("d", attention(2, 3, 2), &d).unwrap();
    let e = [Source::Columns(23..24), Source::Columns(20..24), Source::Columns(18..19)];
    let e = builder.add("e", attention(1, 4, 2), &e).unwrap();
    let heads = |heads, dim, steps_max| MultiHeadAttention { heads, dim, steps_max };
    let queries = linear(7, 12, Activation::Identity);
    let queries = builder.add("queries", queries, &[Source::Columns(11..18)]).unwrap();
    let length = || Source::Node(length);
    let f = [Source::Node(queries), Source::Columns(2..22), length()];
    let f = builder.add("f", heads(3, 4, 5), &f).unwrap();
    let g = [Source::Columns(14..20), Source::Columns(13..25), length()];
    let g = builder.add("g", heads(2, 3, 4), &g).unwrap();
    let h = [Source::Columns(22..24), Source::Columns(15..21), Source::Columns(18..19)];
    let h = builder.add("h", heads(1, 2, 3), &h).unwrap();
    let all = [a, b, c, d, e, f, g, h].map(Source::Node);
    let joined = builder.add("joined", Concat, &all).unwrap();
    let top = linear(33, 1, Activation::Identity);
    builder.add("logit", top, &[Source::Node(joined)]).unwrap();
    builder.build().unwrap()
}

/// Fourier features of embeddings, of dense columns and of a node.
pub(crate) fn features<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 4, dense: 3 });
    let a = FourierFeatures::new(5, 9, 1.5, 1);
    let a = builder.add("a", a, &[Source::Columns(1..6)]).unwrap();
    let b = FourierFeatures::new(9, 6, 0.7, 2);
    let b = builder.add("b", b, &[Source::Node(a)]).unwrap();
    let c = FourierFeatures::new(2, 10, 2.0, 1);
    let c = builder.add("c", c, &[Source::Columns(5..7)]).unwrap();
    let joined = builder.add("joined", Concat, &[c, b, a].map(Source::Node)).unwrap();
    let top = linear(25, 1, Activation::Identity);
    builder.add("logit", top, &[Source::Node(joined)]).unwrap();
    builder.build().unwrap()
}

/// Normalizations of columns and of planes, some of which are dropped.
pub(crate) fn normalized<T: Scalar>() -> Graph<T> {
    let image = Image { channels: 2, height: 3, width: 3 };
    let mut builder = GraphBuilder::new(InputShape { embedding: 15, dense: 6 });
    let a = builder.add("a", BatchNorm::new(9, 1), &[Source::Columns(8..17)]).unwrap();
    let (window, relu) = (window(3, 1, 1), Activation::Relu);
    let b = Convolution { image, channels: 3, window, bias: false, activation: relu };
    let b = builder.add("b", b, &[Source::Columns(0..18)]).unwrap();
    let planes = BatchNorm { epsilon: 0.1, ..BatchNorm::new(3, 9) };
    let planes = builder.add("planes", planes, &[Source::Node(b)]).unwrap();
    let dropped = Dropout { columns: 27, rate: 0.3 };
    let dropped = builder.add("dropped", dropped, &[Source::Node(planes)]).unwrap();
    let few = builder.add("few", Dropout { columns: 4, rate: 0.8 }, &[Source::Columns(12..16)]);
    let sources = [few.unwrap(), a, dropped, planes].map(Source::Node);
    let joined = builder.add("joined", Concat, &sources).unwrap();
    builder.add("logit", linear(67, 2, Activation::Identity), &[Source::Node(joined)]).unwrap();
    builder.build().unwrap()
}

/// Dice of embeddings and dense columns, of a node, and of a node that others read.
pub(crate) fn diced<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 7, dense: 3 });
    let a = builder.add("a", Dice::new(6), &[Source::Columns(3..9)]).unwrap();
    let hidden = linear(10, 5, Activation::Identity);
    let hidden = builder.add("hidden", hidden, &[Source::Columns(0..10)]).unwrap();
    let b = builder.add("b", Dice::new(5), &[Source::Node(hidden)]).unwrap();
    let c = builder.add("c", Dice::new(5), &[Source::Node(b)]).unwrap();
    let joined = builder.add("joined", Concat, &[a, b, c].map(Source::Node)).unwrap();
    builder.add("logit", linear(16, 2, Activation::Identity), &[Source::Node(joined)]).unwrap();
    builder.build().unwrap()
}

/// Two pairs of towers, one with counts of items; a vector is in both.
pub(crate) fn paired<T: Scalar>() -> Graph<T> {
    let mut builder = GraphBuilder::new(InputShape { embedding: 11, dense: 4 });
    let user = linear(7, 3, Activation::Identity);
    let user = builder.add("user", user, &[Source::Columns(0..7)]).unwrap();
    let user = builder.add("u", UnitLength { columns: 3 }, &[Source::Node(user)]).unwrap();
    let item = linear(6, 3, Activation::Identity);
    let item = builder.add("item", item, &[Source::Columns(7..13)]).unwrap();
    let item = builder.add("i", UnitLength { columns: 3 }, &[Source::Node(item)]).unwrap();
    let sources = [Source::Node(user), Source::Node(item), Source::Columns(14..15)];
    let a = InBatchSoftmax { dim: 3, temperature: 0.5, counts_items: true };
    let a = builder.add("a", a, &sources).unwrap();
    let b = [Source::Columns(9..12), Source::Node(item)];
    let plain = InBatchSoftmax { dim: 3, temperature: 2.0, counts_items: false };
    let b = builder.add("b", plain, &b).unwrap();
    let unit = builder.add("unit", UnitLength { columns: 4 }, &[Source::Columns(9..13)]).unwrap();
    let joined = builder.add("joined", Concat, &[a, b, unit].map(Source::Node)).unwrap();
    builder.add("logit", linear(6, 1, Activation::Identity), &[Source::Node(joined)]).unwrap();
    builder.build().unwrap()
}

/// All networks.
pub(crate) fn networks<T: Scalar>() -> Vec<(&'static str, Graph<T>)> {
    vec![
        ("images", images()),
        ("strided", strided()),
        ("sequences", sequences()),
        ("attended", attended()),
        ("features", features()),
        ("normalized", normalized()),
        ("diced", diced()),
        ("paired", paired()),
    ]
}
