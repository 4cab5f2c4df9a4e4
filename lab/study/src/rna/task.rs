//! What is learned: models, the rates that they learn at, and their examples.

use std::path::Path;
use std::sync::Arc;

use stepwell_nn::Graph;
use stepwell_sim::clock::BoxedLearner;

use super::sequences::{INPUTS, STEPS_MAX, drawn};
use super::{MINI_BATCH, StudyOptions};
use crate::learner::ImageLearner;
use crate::models::Model;
use crate::{Images as Examples, Result};

/// Training and test examples that are looked at on the way.
const LOOKED_AT: [usize; 2] = [2000, 1000];
/// Training and test sequences that are drawn.
const SEQUENCES: [usize; 2] = [32_768, 4096];

/// A model, and how it learns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) model: Model,
    /// How far a step along the mean of all ranks' gradients goes.
    pub(super) rate: f64,
    /// Training loss to be reached.
    pub(super) target: f64,
    /// Passes over the examples, with as many ranks as the headline has.
    pub(super) epochs: f64,
}

impl Task {
    /// Rectified neurons.
    pub(super) const FCNN: Self =
        Self { model: Model::Fcnn(32), rate: 0.025, target: 0.28, epochs: 1.5 };
    /// A small convolution net.
    pub(super) const CONV: Self =
        Self { model: Model::Conv, rate: 0.025, target: 0.3, epochs: 1.25 };
    /// Sequences of unequal length.
    pub(super) const LSTM: Self = Self {
        model: Model::Lstm { inputs: INPUTS, steps_max: STEPS_MAX },
        rate: 1.0,
        target: 0.2,
        epochs: 1.5,
    };

    /// The same with a higher rate.
    pub(super) fn faster(self, factor: f64) -> Self {
        Self { rate: self.rate * factor, ..self }
    }
}

/// What a seed draws: of images the order, of sequences all.
#[derive(Debug)]
pub(super) struct Data {
    images: Examined,
    sequences: Examined,
}

impl Data {
    /// Enough for so many ranks.
    ///
    /// # Errors
    /// Images that cannot be read.
    pub(super) fn new(
        folder: &Path,
        options: &StudyOptions,
        ranks: usize,
        seed: u64,
    ) -> Result<Self> {
        let least = ranks * MINI_BATCH;
        let sets = Examples::both(folder, (options.part, least, seed))?;
        let moments = sets[0].moments();
        let [train, test] = sets.map(|set| set.standardized(moments));
        let images = Examined::new(train, Arc::new([]), test, seed);
        // All ranks have as many mini-batches.
        let count = (SEQUENCES[0] / options.part).next_multiple_of(least);
        let (train, costs) = drawn(count, b"study/sequences/train", seed);
        let (test, _) = drawn(SEQUENCES[1], b"study/sequences/test", seed);
        Ok(Self { images, sequences: Examined::new(train, costs, test, seed) })
    }

    pub(super) fn of(&self, model: Model) -> &Examined {
        if matches!(model, Model::Lstm { .. }) { &self.sequences } else { &self.images }
    }
}

/// Examples to learn from, and to look at.
#[derive(Debug)]
pub(super) struct Examined {
    train: Arc<Examples>,
    /// By mini-batch; none where all are usual.
    costs: Arc<[f64]>,
    /// Some of the training and of the test examples.
    pub(super) looked_at: [Examples; 2],
    pub(super) test: Examples,
}

impl Examined {
    fn new(train: Examples, costs: Arc<[f64]>, test: Examples, seed: u64) -> Self {
        // No more than a part where there are few, so that looking takes no longer than learning.
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

    /// Gradients of a pass over the examples.
    pub(super) fn per_epoch(&self, ranks: usize) -> u64 {
        (ranks * (self.train.count() / ranks / MINI_BATCH)) as u64
    }

    /// One for each rank.
    pub(super) fn learners(&self, graph: &Arc<Graph<f32>>, ranks: usize) -> Vec<BoxedLearner<f32>> {
        let learner = |part| -> BoxedLearner<f32> {
            let learner = ImageLearner::new(graph, &self.train, part, MINI_BATCH);
            Box::new(learner.with_costs(&self.costs))
        };
        ImageLearner::<f32>::parts(&self.train, ranks).into_iter().map(learner).collect()
    }
}
