//! Computes gradients of images, and evaluates models.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use stepwell_nn::{Block, BlockGradients, ClassSums, Graph, Matrix, Workspace, softmax_losses};
use stepwell_sync::{Learner, Number};

use crate::images::{CLASSES, Images};

/// Examples per block when evaluating a whole set.
const BLOCK: usize = 500;

/// A rank's learner, which repeatedly iterates over its part of the examples.
#[derive(Debug)]
pub(crate) struct ImageLearner<T: 'static> {
    graph: Arc<Graph<T>>,
    images: Arc<Images>,
    part: Range<usize>,
    mini_batch: usize,
    /// Relative cost of each mini-batch of the whole set; empty if all cost the same.
    costs: Arc<[f64]>,
    pass: Pass<T>,
}

impl<T: Number> ImageLearner<T> {
    /// A learner of `part` of the examples, in mini-batches of `mini_batch`; all are full,
    /// including the last of a pass.
    pub(crate) fn new(
        graph: &Arc<Graph<T>>,
        images: &Arc<Images>,
        part: Range<usize>,
        mini_batch: usize,
    ) -> Self {
        let pass = Pass::new(graph, images.columns, mini_batch);
        let (graph, images, costs) = (Arc::clone(graph), Arc::clone(images), Arc::new([]));
        Self { graph, images, part, mini_batch, costs, pass }
    }

    /// Sets the costs of mini-batches of the whole set; parts consist of whole mini-batches.
    pub(crate) fn with_costs(self, costs: &Arc<[f64]>) -> Self {
        Self { costs: Arc::clone(costs), ..self }
    }

    /// Start of a step's mini-batch.
    fn start(&self, step: u64) -> usize {
        let per_pass = self.part.len() / self.mini_batch;
        self.part.start + (step as usize % per_pass) * self.mini_batch
    }

    /// Equal parts for `workers` ranks.
    pub(crate) fn parts(images: &Images, workers: usize) -> Vec<Range<usize>> {
        let each = images.count() / workers;
        (0..workers).map(|worker| worker * each..(worker + 1) * each).collect()
    }
}

impl<T: Number> Learner<T> for ImageLearner<T> {
    fn gradient(&mut self, step: u64, parameters: &[T], gradient: &mut [T]) {
        let start = self.start(step);
        let rows = start..start + self.mini_batch;
        let of = rows.len();
        self.pass.run(&self.graph, &self.images, rows, parameters, Some((gradient, of)));
    }

    fn cost(&self, step: u64) -> f64 {
        self.costs.get(self.start(step) / self.mini_batch).copied().unwrap_or(1.0)
    }
}

/// Buffers for a pass over examples.
#[derive(Debug)]
struct Pass<T> {
    workspace: Workspace<T>,
    x: Vec<T>,
    logits: Vec<T>,
    d_logits: Vec<T>,
}

impl<T: Number> Pass<T> {
    fn new(graph: &Graph<T>, columns: usize, rows_max: usize) -> Self {
        let logits = vec![T::ZERO; rows_max * CLASSES];
        let x = Vec::with_capacity(rows_max * columns);
        Self { workspace: Workspace::new(graph, rows_max), x, d_logits: logits.clone(), logits }
    }

    /// Computes the losses of examples, and optionally the gradient of their share of a mean over a
    /// number of examples.
    fn run(
        &mut self,
        graph: &Graph<T>,
        images: &Images,
        examples: Range<usize>,
        parameters: &[T],
        gradient: Option<(&mut [T], usize)>,
    ) -> ClassSums {
        let (count, columns) = (examples.len(), images.columns);
        let values = &images.features[examples.start * columns..examples.end * columns];
        self.x.clear();
        self.x.extend(values.iter().map(|value| T::from_f64(f64::from(*value))));
        let block = Block { x: Matrix::packed(&self.x, count, columns), first_order: &[] };
        let logits = &mut self.logits[..count * CLASSES];
        let labels = &images.labels[examples];
        graph.forward(parameters, &block, &mut self.workspace, logits);
        let Some((gradient, of)) = gradient else {
            return softmax_losses(logits, labels, CLASSES, count, &mut []);
        };
        let d_logits = &mut self.d_logits[..count * CLASSES];
        let sums = softmax_losses(logits, labels, CLASSES, of, d_logits);
        let gradients = BlockGradients { x: &mut [], first_order: &mut [], parameters: gradient };
        graph.backward(parameters, &block, d_logits, &mut self.workspace, gradients);
        sums
    }
}

/// Sums of the losses of all examples, and of correct classes.
pub(crate) fn look<T: Number>(graph: &Graph<T>, images: &Images, parameters: &[T]) -> ClassSums {
    let starts: Vec<usize> = (0..images.count()).step_by(BLOCK).collect();
    let sums = starts.into_par_iter().map_init(
        || Pass::new(graph, images.columns, BLOCK),
        |pass, start| {
            let examples = start..images.count().min(start + BLOCK);
            pass.run(graph, images, examples, parameters, None)
        },
    );
    // Collected first, so that they are added in order.
    add(sums.collect())
}

/// Like [`look`], and computes the gradient of the mean over all examples, summed in order.
pub(crate) fn full_gradient<T: Number>(
    graph: &Graph<T>,
    images: &Images,
    parameters: &[T],
    gradient: &mut [T],
) -> ClassSums {
    gradient.fill(T::ZERO);
    let (mut all, threads) = (ClassSums::default(), rayon::current_num_threads());
    let starts: Vec<usize> = (0..images.count()).step_by(BLOCK).collect();
    // One gradient per thread at a time.
    for starts in starts.chunks(threads) {
        let of_block = |start: &usize| {
            let mut pass = Pass::new(graph, images.columns, BLOCK);
            let mut own = vec![T::ZERO; parameters.len()];
            let examples = *start..images.count().min(start + BLOCK);
            let of = Some((&mut own[..], images.count()));
            (pass.run(graph, images, examples, parameters, of), own)
        };
        let found: Vec<(ClassSums, Vec<T>)> = starts.par_iter().map(of_block).collect();
        for (sums, own) in found {
            all.add(sums);
            gradient.iter_mut().zip(own).for_each(|(sum, value)| *sum += value);
        }
    }
    all
}

fn add(sums: Vec<ClassSums>) -> ClassSums {
    let mut all = ClassSums::default();
    sums.into_iter().for_each(|sums| all.add(sums));
    all
}
