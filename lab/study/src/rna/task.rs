//! Learning tasks: models, learning rates and examples.

use std::path::Path;
use std::sync::Arc;

use stepwell_nn::Graph;
use stepwell_sim::clock::BoxedLearner;

use super::options::StudyOptions;
use super::sequences::{INPUTS, MINI_BATCH, STEPS_MAX, drawn};
use crate::Result;
use crate::images::Images as Examples;
use crate::learner::ImageLearner;
use crate::models::Model;

/// Training and test examples evaluated during a run.
const LOOKED_AT: [usize; 2] = [2000, 1000];
/// Training and test sequences to draw.
const SEQUENCES: [usize; 2] = [32_768, 4096];

/// A model with its training settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) model: Model,
    /// Learning rate along the mean of all ranks' gradients.
    pub(super) rate: f64,
    /// Target training loss.
    pub(super) target: f64,
    /// Epochs, for the headline's number of ranks.
    pub(super) epochs: f64,
}

impl Task {
    /// One hidden layer of rectified neurons.
    pub(super) const FCNN: Self =
        Self { model: Model::Fcnn(32), rate: 0.025, target: 0.28, epochs: 1.5 };
    /// A small convolutional network.
    pub(super) const CONV: Self =
        Self { model: Model::Conv, rate: 0.025, target: 0.3, epochs: 1.25 };
    /// Sequences of different lengths.
    pub(super) const LSTM: Self = Self {
        model: Model::Lstm { inputs: INPUTS, steps_max: STEPS_MAX },
        rate: 1.0,
        target: 0.2,
        epochs: 1.5,
    };

    /// The task with a higher rate.
    pub(super) fn faster(self, factor: f64) -> Self {
        Self { rate: self.rate * factor, ..self }
    }
}

/// Data drawn by a seed: the order of images, and all sequences.
#[derive(Debug)]
pub(super) struct Data {
    images: Examined,
    sequences: Examined,
}

impl Data {
    /// Enough data for `ranks` ranks.
    ///
    /// # Errors
    /// Images that can't be read.
    pub(super) fn new(
        folder: &Path,
        options: &StudyOptions,
        ranks: usize,
        seed: u64,
    ) -> Result<Self> {
        let least = ranks * MINI_BATCH;
        let sets = Examples::both(folder, options.part, least, seed)?;
        let moments = sets[0].moments();
        let [train, test] = sets.map(|set| set.standardized(moments));
        let images = Examined::new(train, Arc::new([]), test, seed);
        // All ranks have equally many mini-batches.
        let count = (SEQUENCES[0] / options.part).next_multiple_of(least);
        let (train, costs) = drawn(count, b"study/sequences/train", seed);
        let (test, _) = drawn(SEQUENCES[1], b"study/sequences/test", seed);
        Ok(Self { images, sequences: Examined::new(train, costs, test, seed) })
    }

    pub(super) fn of(&self, model: Model) -> &Examined {
        if matches!(model, Model::Lstm { .. }) { &self.sequences } else { &self.images }
    }
}

/// Examples for training and for evaluation.
#[derive(Debug)]
pub(super) struct Examined {
    train: Arc<Examples>,
    /// Relative cost by mini-batch; empty if all cost the same.
    costs: Arc<[f64]>,
    /// A part of the training examples, and of the test examples.
    pub(super) looked_at: [Examples; 2],
    pub(super) test: Examples,
}

impl Examined {
    fn new(train: Examples, costs: Arc<[f64]>, test: Examples, seed: u64) -> Self {
        // Limited for small sets, so that evaluation takes no longer than training.
        let count = |most: usize| most.min(train.count() / 4);
        let [of_train, of_test] = LOOKED_AT.map(count);
        let looked_at = [
            train.shuffled(of_train, seed.wrapping_add(1)),
            test.shuffled(of_test, seed.wrapping_add(1)),
        ];
        Self { train: Arc::new(train), costs, looked_at, test }
    }

    pub(super) fn columns(&self) -> usize {
        self.train.columns
    }

    /// Gradients per epoch.
    pub(super) fn per_epoch(&self, ranks: usize) -> u64 {
        (ranks * (self.train.count() / ranks / MINI_BATCH)) as u64
    }

    /// One learner per rank.
    pub(super) fn learners(&self, graph: &Arc<Graph<f32>>, ranks: usize) -> Vec<BoxedLearner<f32>> {
        let learner = |part| -> BoxedLearner<f32> {
            let learner = ImageLearner::new(graph, &self.train, part, MINI_BATCH);
            Box::new(learner.with_costs(&self.costs))
        };
        ImageLearner::<f32>::parts(&self.train, ranks).into_iter().map(learner).collect()
    }
}
