//! DeepFM over rows that are stored elsewhere: it takes rows together with the dense parameters,
//! and returns the gradients of both.

use std::collections::HashMap;
use std::ops::Range;

use stepwell_base::Key;
use stepwell_nn::{
    Activation, Add, Block, BlockGradients, FactorizationMachine, Graph, GraphBuilder, GraphError,
    InputShape, Linear, LossSums, Matrix, Objective, Source, Targets, Workspace, losses,
};

use super::examples::{Clicks, DENSE, SLOTS};

/// Lanes of an embedding.
pub(super) const DIM: usize = 16;
/// Weights of a row: the embedding and the first-order weight.
pub(super) const LANES: usize = DIM + 1;
/// Neurons of the hidden layers.
const HIDDEN: [usize; 2] = [64, 32];
const EMBEDDING: usize = SLOTS * DIM;

/// The sum of first order, linear(dense), fm(embeddings) and an MLP over all.
pub(super) fn deep_fm() -> Result<Graph<f32>, GraphError> {
    let layer = |inputs, outputs, activation| Linear { inputs, outputs, bias: true, activation };
    let input = InputShape { embedding: EMBEDDING, dense: DENSE };
    let mut builder = GraphBuilder::new(input);
    let (all, dense) = (Source::Columns(0..EMBEDDING + DENSE), EMBEDDING..EMBEDDING + DENSE);
    let linear = layer(DENSE, 1, Activation::Identity);
    let linear = builder.add("linear", linear, &[Source::Columns(dense)])?;
    let (mut columns, mut below) = (EMBEDDING + DENSE, all);
    for (number, neurons) in HIDDEN.into_iter().enumerate() {
        let hidden = layer(columns, neurons, Activation::Relu);
        below = Source::Node(builder.add(&format!("hidden{number}"), hidden, &[below])?);
        columns = neurons;
    }
    let top = builder.add("top", layer(columns, 1, Activation::Identity), &[below])?;
    let pairs = FactorizationMachine { slots: SLOTS, dim: DIM };
    let pairs = builder.add("fm", pairs, &[Source::Columns(0..EMBEDDING)])?;
    let nodes = [linear, top, pairs].map(Source::Node);
    builder.add("logit", Add, &[&[Source::FirstOrder][..], &nodes].concat())?;
    builder.build()
}

/// Distinct keys of the examples, in order of first occurrence.
pub(super) fn distinct(clicks: &Clicks, examples: Range<usize>, keys: &mut Vec<Key>) {
    let mut seen = HashMap::new();
    places(clicks, examples, keys, &mut seen);
}

/// Like [`distinct`]; also returns the index of each occurrence's key.
fn places(
    clicks: &Clicks,
    examples: Range<usize>,
    keys: &mut Vec<Key>,
    seen: &mut HashMap<Key, usize>,
) -> Vec<usize> {
    let occurrences = &clicks.keys[examples.start * SLOTS..examples.end * SLOTS];
    let place = |key: &Key| {
        *seen.entry(*key).or_insert_with(|| {
            keys.push(*key);
            keys.len() - 1
        })
    };
    occurrences.iter().map(place).collect()
}

/// Buffers for passes.
#[derive(Debug)]
pub(super) struct Pass {
    workspace: Workspace<f32>,
    x: Vec<f32>,
    d_x: Vec<f32>,
    first_order: Vec<f32>,
    d_first_order: Vec<f32>,
    pub(super) logits: Vec<f32>,
    d_logits: Vec<f32>,
}

impl Pass {
    pub(super) fn new(graph: &Graph<f32>, examples_max: usize) -> Self {
        let lanes = |each: usize| vec![0.0; examples_max * each];
        Self {
            workspace: Workspace::new(graph, examples_max),
            x: lanes(EMBEDDING + DENSE),
            d_x: lanes(EMBEDDING),
            first_order: lanes(1),
            d_first_order: lanes(1),
            logits: lanes(1),
            d_logits: lanes(1),
        }
    }

    /// Computes the losses of examples, and optionally the gradient of their mean: of the dense
    /// parameters, followed by the rows of their distinct keys. `parameters` has the same layout.
    pub(super) fn run(
        &mut self,
        graph: &Graph<f32>,
        clicks: &Clicks,
        examples: Range<usize>,
        parameters: &[f32],
        gradient: Option<&mut [f32]>,
    ) -> LossSums {
        let count = examples.len();
        let (mut keys, mut seen) = (Vec::new(), HashMap::new());
        let places = places(clicks, examples.clone(), &mut keys, &mut seen);
        let (dense, rows) = parameters.split_at(graph.parameter_count());
        assert_eq!(rows.len(), keys.len() * LANES, "a row for each distinct key");
        self.gather(clicks, examples.clone(), &places, rows);
        let columns = EMBEDDING + DENSE;
        let block = Block {
            x: Matrix::packed(&self.x[..count * columns], count, columns),
            first_order: &self.first_order[..count],
        };
        let logits = &mut self.logits[..count];
        graph.forward(dense, &block, &mut self.workspace, logits);
        let labels = &clicks.labels[examples];
        let targets = Targets { objectives: &[Objective::LOG_LOSS], labels, weights: &[] };
        let d_logits = &mut self.d_logits[..count];
        let sums = losses(logits, targets, count, d_logits);
        let Some(gradient) = gradient else { return sums };
        let (of_dense, of_rows) = gradient.split_at_mut(dense.len());
        let gradients = BlockGradients {
            x: &mut self.d_x[..count * EMBEDDING],
            first_order: &mut self.d_first_order[..count],
            parameters: of_dense,
        };
        graph.backward(dense, &block, d_logits, &mut self.workspace, gradients);
        self.scatter(&places, of_rows);
        sums
    }

    /// Concatenates each example's embeddings and its dense features.
    fn gather(&mut self, clicks: &Clicks, of: Range<usize>, places: &[usize], rows: &[f32]) {
        let dense = clicks.dense[of.start * DENSE..of.end * DENSE].chunks_exact(DENSE);
        let columns = EMBEDDING + DENSE;
        let x = self.x.chunks_exact_mut(columns).zip(&mut self.first_order);
        for (((x, wide), dense), places) in x.zip(dense).zip(places.chunks_exact(SLOTS)) {
            *wide = 0.0;
            for (place, lanes) in places.iter().zip(x.chunks_exact_mut(DIM)) {
                let row = &rows[place * LANES..(place + 1) * LANES];
                lanes.copy_from_slice(&row[..DIM]);
                *wide += row[DIM];
            }
            x[EMBEDDING..].copy_from_slice(dense);
        }
    }

    /// Sums the gradients of each row's occurrences, in order.
    fn scatter(&self, places: &[usize], of_rows: &mut [f32]) {
        of_rows.fill(0.0);
        let examples = places.chunks_exact(SLOTS).zip(self.d_x.chunks_exact(EMBEDDING));
        for ((places, d_x), wide) in examples.zip(&self.d_first_order) {
            for (place, lanes) in places.iter().zip(d_x.chunks_exact(DIM)) {
                let row = &mut of_rows[place * LANES..(place + 1) * LANES];
                row[..DIM].iter_mut().zip(lanes).for_each(|(sum, value)| *sum += value);
                row[DIM] += wide;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stepwell_base::random::Stream;

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let graph = deep_fm().unwrap();
        let mut stream = Stream::named(1, b"clicks");
        let count = 3;
        let clicks = Clicks {
            labels: vec![1.0, 0.0, 1.0],
            dense: (0..count * DENSE).map(|_| stream.next_f32()).collect(),
            // Some keys occur several times.
            keys: (0..count * SLOTS).map(|_| Key(stream.next_u64() % 60)).collect(),
        };
        let mut keys = Vec::new();
        distinct(&clicks, 0..count, &mut keys);
        assert!(keys.len() < count * SLOTS);
        let mut parameters = graph.initial_parameters(3);
        parameters.extend((0..keys.len() * LANES).map(|_| stream.next_symmetric(0.3)));
        let mut gradient = vec![f32::NAN; parameters.len()];
        let mut pass = Pass::new(&graph, count);
        pass.run(&graph, &clicks, 0..count, &parameters, Some(&mut gradient));
        let mut loss = |parameters: &[f32]| {
            pass.run(&graph, &clicks, 0..count, parameters, None).loss / count as f64
        };
        let dense = graph.parameter_count();
        for lane in [dense, dense + 5, dense + DIM, dense + 7 * LANES + 2, parameters.len() - 1] {
            let (mut up, mut down) = (parameters.clone(), parameters.clone());
            let step = 1e-2;
            (up[lane], down[lane]) = (up[lane] + step, down[lane] - step);
            let slope = (loss(&up) - loss(&down)) / (2.0 * f64::from(step));
            let found = f64::from(gradient[lane]);
            assert!((slope - found).abs() < 1e-3 + 0.02 * slope.abs(), "{lane}: {slope} {found}");
        }
    }
}
