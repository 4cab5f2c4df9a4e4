//! Times forward and backward passes of a wide and deep model on one thread.
//!
//! `cargo run --release -p stepwell-nn --example step -- [rows] [repetitions] [f32 | bf16]`

use std::error::Error;
use std::io::Write as _;
use std::time::Instant;

use stepwell_base::random::Stream;
use stepwell_nn::{
    Activation, Add, Block, BlockGradients, Graph, GraphBuilder, InputShape, Linear, Matrix,
    Objective, Precision, Source, Targets, Workspace, bf16_kernel, losses, tree_sum,
};
use stepwell_optim::{DenseOptimizer, DenseState, Rule};

const SLOTS: usize = 26;
const DIM: usize = 16;
const DENSE: usize = 13;
const HIDDEN: [usize; 3] = [512, 256, 128];
const BLOCKS: usize = 8;

fn wide_and_deep(precision: Precision) -> Result<Graph<f32>, Box<dyn Error>> {
    let input = InputShape { embedding: SLOTS * DIM, dense: DENSE };
    let mut builder = GraphBuilder::new(input);
    let (mut source, mut inputs) = (Source::Columns(0..input.columns()), input.columns());
    for (depth, outputs) in HIDDEN.into_iter().enumerate() {
        let layer = Linear { inputs, outputs, bias: true, activation: Activation::Relu };
        source = Source::Node(builder.add(&format!("deep{depth}"), layer, &[source])?);
        inputs = outputs;
    }
    let last = Linear { inputs, outputs: 1, bias: true, activation: Activation::Identity };
    let deep = builder.add("deep_out", last, &[source])?;
    builder.add("logit", Add, &[Source::FirstOrder, Source::Node(deep)])?;
    Ok(builder.build()?.with_precision(precision))
}

/// Everything one thread needs to train.
struct Bench {
    graph: Graph<f32>,
    rows: usize,
    workspace: Workspace<f32>,
    x: Vec<f32>,
    first_order: Vec<f32>,
    labels: Vec<f32>,
    logits: Vec<f32>,
    d_logits: Vec<f32>,
    d_x: Vec<f32>,
    d_first_order: Vec<f32>,
    gradients: Vec<Vec<f32>>,
}

impl Bench {
    fn new(graph: Graph<f32>, rows: usize) -> Self {
        let mut stream = Stream::named(1, b"step");
        let columns = graph.input().columns();
        Self {
            rows,
            workspace: Workspace::new(&graph, rows),
            x: (0..rows * columns).map(|_| stream.next_symmetric(0.5)).collect(),
            first_order: vec![0.0; rows],
            labels: (0..rows).map(|_| (stream.next_u64() & 1) as f32).collect(),
            logits: vec![0.0; rows],
            d_logits: vec![0.0; rows],
            d_first_order: vec![0.0; rows],
            d_x: vec![0.0; rows * graph.input().embedding],
            gradients: vec![vec![0.0; graph.parameter_count()]; BLOCKS],
            graph,
        }
    }

    /// One block; returns the sum of its losses and the seconds of forward and backward.
    fn block(&mut self, index: usize, parameters: &[f32]) -> (f64, f64, f64) {
        let columns = self.graph.input().columns();
        let x = Matrix::packed(&self.x, self.rows, columns);
        let block = Block { x, first_order: &self.first_order };
        let start = Instant::now();
        self.graph.forward(parameters, &block, &mut self.workspace, &mut self.logits);
        let examples = self.rows * BLOCKS;
        let (of, labels) = (&[Objective::LOG_LOSS], &self.labels[..]);
        let targets = Targets { objectives: of, labels, weights: &[] };
        let loss = losses(&self.logits, targets, examples, &mut self.d_logits).loss;
        let forward = start.elapsed().as_secs_f64();
        let (workspace, gradients) = (&mut self.workspace, &mut self.gradients[index]);
        let (x, first_order) = (&mut self.d_x[..], &mut self.d_first_order[..]);
        let gradients = BlockGradients { x, first_order, parameters: gradients };
        self.graph.backward(parameters, &block, &self.d_logits, workspace, gradients);
        (loss, forward, start.elapsed().as_secs_f64() - forward)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rows = arguments.first().map_or(Ok(512), |text| text.parse())?;
    let repetitions = arguments.get(1).map_or(Ok(10), |text| text.parse())?;
    let precision = arguments.get(2).map_or("f32", String::as_str);
    let known = Precision::ALL.into_iter().find(|known| known.name() == precision);
    let precision = known.ok_or_else(|| format!("precision {precision}: give f32 or bf16"))?;
    let graph = wide_and_deep(precision)?;
    let flops = graph.flops_per_example();
    let rule = Rule::adam(0.001);
    let mut parameters = graph.initial_parameters(1);
    let mut state = DenseState::new(&rule, parameters.len());
    let mut optimizer = DenseOptimizer::new(rule)?;
    let mut total = vec![0.0; parameters.len()];
    let mut bench = Bench::new(graph, rows);
    let mut out = std::io::stdout().lock();
    if precision == Precision::Bf16 {
        writeln!(out, "bf16 by {}", bf16_kernel().name)?;
    }
    for _ in 0..repetitions {
        let (mut loss, mut forward, mut backward) = (0.0, 0.0, 0.0);
        for index in 0..BLOCKS {
            let (sum, f, b) = bench.block(index, &parameters);
            (loss, forward, backward) = (loss + sum, forward + f, backward + b);
        }
        let start = Instant::now();
        let blocks: Vec<&[f32]> = bench.gradients.iter().map(Vec::as_slice).collect();
        tree_sum(&blocks, &mut total);
        optimizer.begin_step().apply(&mut parameters, state.whole(), &total);
        let update = start.elapsed().as_secs_f64();
        let examples = (rows * BLOCKS) as f64;
        let rate = |operations: u64, seconds: f64| operations as f64 * examples / seconds / 1e9;
        writeln!(
            out,
            "loss {:.6}  {:.0} examples/s with update  forward {:.1} GFLOP/s {:.2} ms  \
             backward {:.1} GFLOP/s {:.2} ms  update {:.2} ms",
            loss / examples,
            examples / (forward + backward + update),
            rate(flops.forward, forward),
            forward * 1e3,
            rate(flops.backward, backward),
            backward * 1e3,
            update * 1e3,
        )?;
    }
    Ok(())
}
