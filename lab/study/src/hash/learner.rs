//! Trains a network over the sum of an example's rows, and tests it.

use std::ops::Range;

use stepwell_base::TableId;
use stepwell_base::random::initial_weights;
use stepwell_nn::{
    Activation, Add, Auc, Block, BlockGradients, Graph, GraphBuilder, InputShape, Linear, Matrix,
    Objective, Source, Targets, Workspace, losses,
};
use stepwell_optim::{Adagrad, DenseOptimizer, DenseState, Lanes, RowOptimizer, Rule};

use super::inputs::{Examples, Rows};
use crate::Result;

/// Examples of a mini-batch.
pub(super) const MINI_BATCH: usize = 128;
/// Lanes of an embedding.
pub(super) const DIM: usize = 16;
/// Neurons of the hidden layers.
pub(super) const HIDDEN: [usize; 2] = [64, 32];
/// Range of the initial embeddings.
const INITIAL_RANGE: f32 = 0.01;

/// A network, and how it is trained: with Adagrad, in passes over the training examples.
///
/// Of all settings that were tried, these have the best log loss, over all ids, of the last fifth
/// of the training examples of 80,000 lines of Criteo's. A second pass only helps logistic
/// regression.
#[derive(Debug)]
pub(super) struct Network {
    graph: Graph<f32>,
    /// Lanes of an embedding; 0 if an id has one weight.
    dim: usize,
    /// Learning rate of rows.
    row_rate: f64,
    /// Initial sum of squared gradients of rows: it slows down those that occur once.
    row_initial: f64,
    /// Learning rate of the other parameters.
    rate: f64,
    passes: usize,
}

impl Network {
    /// Logistic regression: a weight of each id, and a bias.
    pub(super) fn lr() -> Result<Self> {
        let mut builder = GraphBuilder::new(InputShape { embedding: 0, dense: 1 });
        // The weight of a feature that is always 1.
        let bias = Linear { inputs: 1, outputs: 1, bias: false, activation: Activation::Identity };
        let bias = builder.add_at_zero("bias", bias, &[Source::Columns(0..1)])?;
        builder.add("logit", Add, &[Source::FirstOrder, Source::Node(bias)])?;
        let graph = builder.build()?;
        Ok(Self { graph, dim: 0, row_rate: 0.05, row_initial: 1e-4, rate: 0.05, passes: 2 })
    }

    /// Hidden layers over the sum of the embeddings of all ids.
    pub(super) fn dnn() -> Result<Self> {
        let mut builder = GraphBuilder::new(InputShape { embedding: DIM, dense: 0 });
        let layer =
            |inputs, outputs, activation| Linear { inputs, outputs, bias: true, activation };
        let (mut columns, mut below) = (DIM, Source::Columns(0..DIM));
        for (number, neurons) in HIDDEN.into_iter().enumerate() {
            let hidden = layer(columns, neurons, Activation::Relu);
            below = Source::Node(builder.add(&format!("hidden{number}"), hidden, &[below])?);
            columns = neurons;
        }
        builder.add("logit", layer(columns, 1, Activation::Identity), &[below])?;
        let graph = builder.build()?;
        Ok(Self { graph, dim: DIM, row_rate: 0.01, row_initial: 1e-5, rate: 0.02, passes: 1 })
    }

    /// Weights of a row.
    fn width(&self) -> usize {
        self.dim.max(1)
    }
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    /// Rows with a weight that isn't 0: ids, or outputs of a hash, that the model uses.
    pub(super) nonzero: u64,
    pub(super) auc: f64,
    /// Mean log loss of the test examples.
    pub(super) log_loss: f64,
}

/// Trains a network on the training examples, in order, and tests it on the others.
pub(super) fn run(network: &Network, examples: &Examples, rows: &Rows, seed: u64) -> Outcome {
    let mut learner = Learner::new(network, examples, rows, seed);
    for _ in 0..network.passes {
        for start in (0..examples.train).step_by(MINI_BATCH) {
            learner.train(start..examples.train.min(start + MINI_BATCH));
        }
    }
    let (mut auc, mut loss) = (Auc::new(examples.count() - examples.train), 0.0);
    for start in (examples.train..examples.count()).step_by(MINI_BATCH) {
        let block = start..examples.count().min(start + MINI_BATCH);
        loss += learner.forward(block.clone());
        auc.add(&learner.logits[..block.len()], &examples.labels[block]);
    }
    let tested = examples.count() - examples.train;
    let auc = auc.take().map_or(f64::NAN, |value| value.auc);
    Outcome { nonzero: learner.nonzero(), auc, log_loss: loss / tested as f64 }
}

/// A model that is trained, and buffers for a mini-batch.
struct Learner<'a> {
    network: &'a Network,
    examples: &'a Examples,
    rows: &'a Rows,
    /// Weights and state of each row.
    table: Vec<f32>,
    /// Lanes of a row.
    lanes: usize,
    optimizer: RowOptimizer,
    parameters: Vec<f32>,
    dense: DenseOptimizer,
    dense_state: DenseState,
    workspace: Workspace<f32>,
    /// Sum of an example's rows. // (MINI_BATCH, width)
    sums: Vec<f32>,
    d_sums: Vec<f32>,
    logits: Vec<f32>,
    d_logits: Vec<f32>,
    d_parameters: Vec<f32>,
    /// Place of each row in `distinct`, if it is there.
    places: Vec<u32>,
    /// Rows of the mini-batch, and the gradient of each.
    distinct: Vec<u32>,
    d_rows: Vec<f32>,
}

impl<'a> Learner<'a> {
    fn new(network: &'a Network, examples: &'a Examples, rows: &'a Rows, seed: u64) -> Self {
        let (graph, width) = (&network.graph, network.width());
        let rule = Rule::adagrad(network.rate);
        let of_rows = Adagrad { initial: network.row_initial, ..Adagrad::new(network.row_rate) };
        let (Ok(optimizer), Ok(dense)) =
            (RowOptimizer::new(Rule::Adagrad(of_rows)), DenseOptimizer::new(rule))
        else {
            unreachable!("rates are above 0")
        };
        let lanes = width + optimizer.state_lanes(Lanes { dim: width, wide: 0 });
        let mut table = vec![0.0; rows.keys.len() * lanes];
        for (row, key) in table.chunks_exact_mut(lanes).zip(&rows.keys) {
            let (weights, state) = row.split_at_mut(width);
            initial_weights(seed, TableId(0), *key, INITIAL_RANGE, network.dim, weights);
            optimizer.init_state(state);
        }
        Self {
            network,
            examples,
            rows,
            table,
            lanes,
            optimizer,
            parameters: graph.initial_parameters(seed),
            dense,
            dense_state: DenseState::new(&rule, graph.parameter_count()),
            workspace: Workspace::new(graph, MINI_BATCH),
            sums: vec![0.0; MINI_BATCH * width],
            d_sums: vec![0.0; MINI_BATCH * width],
            logits: vec![0.0; MINI_BATCH],
            d_logits: vec![0.0; MINI_BATCH],
            d_parameters: vec![0.0; graph.parameter_count()],
            places: vec![u32::MAX; rows.keys.len()],
            distinct: Vec::new(),
            d_rows: Vec::new(),
        }
    }

    /// Computes the logits of examples, and the gradient of the mean loss by these. Returns the sum
    /// of the losses.
    fn forward(&mut self, examples: Range<usize>) -> f64 {
        let (count, width) = (examples.len(), self.network.width());
        for (example, sum) in examples.clone().zip(self.sums.chunks_exact_mut(width)) {
            sum.fill(0.0);
            for row in self.rows.of(example) {
                let weights = &self.table[*row as usize * self.lanes..][..width];
                sum.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
            }
        }
        let block = block(self.network, &self.sums, count);
        let logits = &mut self.logits[..count];
        self.network.graph.forward(&self.parameters, &block, &mut self.workspace, logits);
        let labels = &self.examples.labels[examples];
        let targets = Targets { objectives: &[Objective::LOG_LOSS], labels, weights: &[] };
        losses(logits, targets, count, &mut self.d_logits[..count]).loss
    }

    /// Takes a step along the gradient of a mini-batch.
    fn train(&mut self, examples: Range<usize>) {
        let count = examples.len();
        self.forward(examples.clone());
        let block = block(self.network, &self.sums, count);
        let d_sums = &mut self.d_sums[..count * self.network.width()];
        let parameters = &mut self.d_parameters[..];
        let gradients = if self.network.dim == 0 {
            BlockGradients { x: &mut [], first_order: d_sums, parameters }
        } else {
            BlockGradients { x: d_sums, first_order: &mut [], parameters }
        };
        let (graph, d_logits) = (&self.network.graph, &self.d_logits[..count]);
        graph.backward(&self.parameters, &block, d_logits, &mut self.workspace, gradients);
        self.train_rows(examples);
        let step = self.dense.begin_step();
        step.apply(&mut self.parameters, self.dense_state.whole(), &self.d_parameters);
    }

    /// Changes each row of the mini-batch once, by the sum of its examples' gradients in order.
    fn train_rows(&mut self, examples: Range<usize>) {
        let width = self.network.width();
        for (example, d_sum) in examples.zip(self.d_sums.chunks_exact(width)) {
            for row in self.rows.of(example) {
                let place = &mut self.places[*row as usize];
                if *place == u32::MAX {
                    *place = self.distinct.len() as u32;
                    self.distinct.push(*row);
                    self.d_rows.extend_from_slice(d_sum);
                    continue;
                }
                let d_row = &mut self.d_rows[*place as usize * width..][..width];
                d_row.iter_mut().zip(d_sum).for_each(|(sum, value)| *sum += value);
            }
        }
        for (row, d_row) in self.distinct.drain(..).zip(self.d_rows.chunks_exact(width)) {
            self.places[row as usize] = u32::MAX;
            let of_row = &mut self.table[row as usize * self.lanes..][..self.lanes];
            let (weights, state) = of_row.split_at_mut(width);
            self.optimizer.update(weights, state, d_row);
        }
        self.d_rows.clear();
    }

    /// Number of trained rows with a weight that isn't 0.
    fn nonzero(&self) -> u64 {
        let trained = self.table.chunks_exact(self.lanes).take(self.rows.trained);
        let used = |row: &&[f32]| row[..self.network.width()].iter().any(|weight| *weight != 0.0);
        trained.filter(used).count() as u64
    }
}

/// The feature of logistic regression.
static ONES: [f32; MINI_BATCH] = [1.0; MINI_BATCH];

/// The sums of examples, as inputs of the network.
fn block<'a>(network: &Network, sums: &'a [f32], count: usize) -> Block<'a, f32> {
    if network.dim == 0 {
        return Block { x: Matrix::packed(&ONES[..count], count, 1), first_order: &sums[..count] };
    }
    Block { x: Matrix::packed(&sums[..count * network.dim], count, network.dim), first_order: &[] }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::hash::inputs::Method;
    use crate::hash::inputs::tests::examples;

    /// Logistic regression with Adagrad, naively, in f64: weights by row and the bias.
    fn plainly(network: &Network, examples: &Examples, rows: &Rows) -> (HashMap<u32, f64>, f64) {
        let (mut weights, mut squares) = (HashMap::<u32, f64>::new(), HashMap::new());
        let (mut bias, mut bias_squares) = (0.0, 0.0);
        let step = |squares: &mut f64, gradient: f64| {
            *squares += gradient * gradient;
            network.rate * gradient / (squares.sqrt() + 1e-10)
        };
        for _ in 0..network.passes {
            for start in (0..examples.train).step_by(MINI_BATCH) {
                let mini_batch = start..examples.train.min(start + MINI_BATCH);
                let count = mini_batch.len() as f64;
                let (mut gradients, mut d_bias) = (HashMap::<u32, f64>::new(), 0.0);
                for example in mini_batch {
                    let of = rows.of(example);
                    let sum: f64 = of.iter().filter_map(|row| weights.get(row)).sum();
                    let probability = 1.0 / (1.0 + (-sum - bias).exp());
                    let slope = (probability - f64::from(examples.labels[example])) / count;
                    of.iter().for_each(|row| *gradients.entry(*row).or_default() += slope);
                    d_bias += slope;
                }
                for (row, gradient) in gradients {
                    let change = step(squares.entry(row).or_insert(network.row_initial), gradient);
                    *weights.entry(row).or_default() -= change;
                }
                bias -= step(&mut bias_squares, d_bias);
            }
        }
        (weights, bias)
    }

    #[test]
    fn logistic_regression_is_the_plain_one() {
        let examples = examples(400, 300, 40);
        let (network, rows) = (Network::lr().unwrap(), examples.rows(&Method::All));
        let (weights, bias) = plainly(&network, &examples, &rows);
        let loss = |example: usize| {
            let sum: f64 = rows.of(example).iter().filter_map(|row| weights.get(row)).sum();
            stepwell_nn::Loss::LogLoss.outcome(sum + bias, f64::from(examples.labels[example])).loss
        };
        let expected = (examples.train..examples.count()).map(loss).sum::<f64>() / 100.0;
        let outcome = run(&network, &examples, &rows, 1);
        assert!((outcome.log_loss - expected).abs() < 1e-4, "{outcome:?} for {expected}");
        assert_eq!(outcome.nonzero, rows.trained as u64);
    }

    #[test]
    fn the_network_learns_what_a_sum_does_not_tell() {
        let mut examples = examples(9000, 8000, 2);
        // A click needs exactly one of two properties: no weights of single ids say that.
        let rows = examples.rows(&Method::All);
        for example in 0..examples.count() {
            let of = |slot: usize| rows.keys[rows.of(example)[slot] as usize].0 % 2;
            examples.labels[example] = (of(0) ^ of(1)) as f32;
        }
        let network = Network { row_rate: 0.05, passes: 10, ..Network::dnn().unwrap() };
        let outcome = run(&network, &examples, &rows, 1);
        assert!(outcome.auc > 0.9, "{outcome:?}");
        assert_eq!(run(&network, &examples, &rows, 1), outcome, "it repeats");
        let linear = run(&Network::lr().unwrap(), &examples, &rows, 1);
        assert!(linear.auc < 0.6, "{linear:?}");
    }
}
