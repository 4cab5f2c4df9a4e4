//! Times forward and backward passes of single image and sequence layers on one thread.
//!
//! `cargo run --release -p stepwell-nn --example layers -- [rows] [repetitions] [part of a name]`

use std::error::Error;
use std::io::Write as _;
use std::time::Instant;

use stepwell_base::random::Stream;
use stepwell_nn::{
    Activation, BatchNorm, Block, BlockGradients, Convolution, Dice, Dropout, FourierFeatures,
    Graph, GraphBuilder, Image, InputShape, Layer, Lstm, Matrix, Pool, Pooling, Source,
    TargetAttention, Window, Workspace,
};

/// A graph with one layer over all columns.
fn alone(layer: impl Layer<f32> + 'static, columns: usize) -> Result<Graph<f32>, Box<dyn Error>> {
    let mut builder = GraphBuilder::new(InputShape { embedding: columns, dense: 0 });
    builder.add("layer", layer, &[Source::Columns(0..columns)])?;
    Ok(builder.build()?)
}

/// A graph with an attention of a target to a sequence and its length.
fn attention(dim: usize, steps_max: usize, hidden: usize) -> Result<Graph<f32>, Box<dyn Error>> {
    let end = dim + steps_max * dim;
    let mut builder = GraphBuilder::new(InputShape { embedding: end + 1, dense: 0 });
    let inputs = [0..dim, dim..end, end..end + 1].map(Source::Columns);
    builder.add("layer", TargetAttention { dim, steps_max, hidden }, &inputs)?;
    Ok(builder.build()?)
}

fn convolution(image: Image, channels: usize, kernel: usize) -> Convolution {
    let window = Window { kernel: [kernel; 2], stride: [1; 2], padding: [kernel / 2; 2] };
    Convolution { image, channels, window, bias: true, activation: Activation::Relu }
}

/// A named layer.
type Named = (&'static str, Graph<f32>);

/// All layers.
fn graphs() -> Result<Vec<Named>, Box<dyn Error>> {
    let image = |channels, side| Image { channels, height: side, width: side };
    let halves = Window { kernel: [2; 2], stride: [2; 2], padding: [0; 2] };
    let pooling = |pool| Pooling { image: image(16, 28), window: halves, pool };
    let lstm = Lstm { inputs: 32, outputs: 64, steps_max: 20, remembers: true };
    Ok(vec![
        ("convolution 5x5, 1 to 16 of 28x28", alone(convolution(image(1, 28), 16, 5), 784)?),
        ("convolution 5x5, 16 to 32 of 14x14", alone(convolution(image(16, 14), 32, 5), 3136)?),
        ("convolution 3x3, 64 to 64 of 7x7", alone(convolution(image(64, 7), 64, 3), 3136)?),
        ("max pooling 2x2, 16 of 28x28", alone(pooling(Pool::Max), 12544)?),
        ("average pooling 2x2, 16 of 28x28", alone(pooling(Pool::Average), 12544)?),
        ("LSTM 32 to 64, 20 steps", alone(lstm, 20 * 32 + 1)?),
        ("attention 64 to 20 of 16", attention(16, 20, 64)?),
        ("Fourier features, 784 to 2048", alone(FourierFeatures::new(784, 2048, 5.0, 1), 784)?),
        ("dropout of 4096", alone(Dropout { columns: 4096, rate: 0.5 }, 4096)?),
        ("Dice of 4096", alone(Dice::new(4096), 4096)?),
        ("normalization of 4096", alone(BatchNorm::new(4096, 1), 4096)?),
        ("normalization of 16 x 28x28", alone(BatchNorm::new(16, 784), 12544)?),
    ])
}

/// Shortest times of a forward and of a backward pass over `rows` examples, in seconds.
fn time(graph: &Graph<f32>, rows: usize, repetitions: usize) -> [f64; 2] {
    let columns = graph.input().columns();
    let mut stream = Stream::named(1, b"layers");
    // A last column of at least 20 is the length of a sequence with all steps.
    let number = |index: usize| match index % columns {
        last if last + 1 == columns => 20.0,
        _ => stream.next_symmetric(1.0),
    };
    let x: Vec<f32> = (0..rows * columns).map(number).collect();
    let block = Block { x: Matrix::packed(&x, rows, columns), first_order: &[] };
    let (parameters, mut workspace) = (graph.initial_parameters(1), Workspace::new(graph, rows));
    let mut outputs = vec![0.0; rows * graph.outputs()];
    let d_outputs = vec![1.0; outputs.len()];
    let (mut d_x, mut gradients) = (vec![0.0; x.len()], vec![0.0; parameters.len()]);
    let mut least = [f64::INFINITY; 2];
    for _ in 0..repetitions {
        let start = Instant::now();
        graph.forward(&parameters, &block, &mut workspace, &mut outputs);
        let forward = start.elapsed().as_secs_f64();
        let of = BlockGradients { x: &mut d_x, first_order: &mut [], parameters: &mut gradients };
        graph.backward(&parameters, &block, &d_outputs, &mut workspace, of);
        let backward = start.elapsed().as_secs_f64() - forward;
        least = [least[0].min(forward), least[1].min(backward)];
    }
    least
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rows: usize = arguments.first().map_or(Ok(64), |text| text.parse())?;
    let repetitions = arguments.get(1).map_or(Ok(10), |text| text.parse())?;
    let wanted = arguments.get(2).map_or("", String::as_str);
    let mut out = std::io::stdout().lock();
    for (name, graph) in graphs()?.into_iter().filter(|(name, _)| name.contains(wanted)) {
        let (flops, seconds) = (graph.flops_per_example(), time(&graph, rows, repetitions));
        let rate =
            |operations: u64, seconds: f64| (operations * rows as u64) as f64 / seconds / 1e9;
        let micros = seconds.map(|seconds| seconds / rows as f64 * 1e6);
        writeln!(
            out,
            "{name:36} forward {:8.2} us an example, {:6.1} GFLOP/s   backward {:8.2} us, {:6.1} \
             GFLOP/s",
            micros[0],
            rate(flops.forward, seconds[0]),
            micros[1],
            rate(flops.backward, seconds[1]),
        )?;
    }
    Ok(())
}
