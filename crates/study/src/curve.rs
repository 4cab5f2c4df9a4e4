//! How a run goes: a point every so often.

use serde::Serialize;
use stepwell_nn::{ClassSums, Graph};
use stepwell_sim::clock::ClockedRun;
use stepwell_sync::{Counts, Number};

use crate::learner::look;
use crate::{Images, Result};

/// A moment of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// Passes over the examples.
    pub epoch: f64,
    /// Of the virtual clock.
    pub seconds: f64,
    /// Updates of the model.
    pub updates: u64,
    /// Mean loss of the training examples that are looked at.
    pub train_loss: f64,
    /// Share of these whose class is right.
    pub train_accuracy: f64,
    /// Share of the test examples whose class is right.
    pub test_accuracy: f64,
}

/// What a run is looked at with.
#[derive(Debug)]
pub(crate) struct Looks<'a, T: 'static> {
    pub(crate) graph: &'a Graph<T>,
    pub(crate) train: &'a Images,
    pub(crate) test: &'a Images,
    /// Gradients of all ranks in a pass over the examples.
    pub(crate) per_epoch: u64,
}

impl<T: Number> Looks<'_, T> {
    /// A run's present point.
    pub(crate) fn point(&self, run: &ClockedRun<T>) -> Point {
        let (model, counts) = (run.model(), run.counts());
        let train = look(self.graph, self.train, &model);
        let test = look(self.graph, self.test, &model);
        Point {
            epoch: counts.used as f64 / self.per_epoch as f64,
            seconds: run.seconds(),
            updates: counts.updates,
            train_loss: train.loss / train.examples as f64,
            train_accuracy: share(train),
            test_accuracy: share(test),
        }
    }

    /// Runs to the end, or until `stop` says so; a point each `every` gradients, the first before
    /// any.
    pub(crate) fn follow(
        &self,
        run: &mut ClockedRun<T>,
        every: u64,
        mut stop: impl FnMut(&Point, &ClockedRun<T>) -> bool,
    ) -> Result<(Vec<Point>, Counts)> {
        let mut points = vec![self.point(run)];
        let mut next = every;
        while run.advance()? {
            if run.used() < next {
                continue;
            }
            while next <= run.used() {
                next += every;
            }
            let point = self.point(run);
            points.push(point.clone());
            if stop(&point, run) {
                return Ok((points, run.counts()));
            }
        }
        // The end, where it is not on a boundary.
        let last = points.last().map_or(0.0, |point| point.epoch);
        if run.used() as f64 / self.per_epoch as f64 > last {
            points.push(self.point(run));
        }
        Ok((points, run.counts()))
    }
}

/// Of the examples, those whose class is right.
pub(crate) fn share(sums: ClassSums) -> f64 {
    sums.right as f64 / sums.examples as f64
}
