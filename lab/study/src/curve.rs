//! Learning curves: a point at regular intervals of a run.

use serde::Serialize;
use stepwell_nn::{ClassSums, Graph};
use stepwell_sim::clock::ClockedRun;
use stepwell_sync::{Counts, Number};

use crate::Result;
use crate::images::Images;
use crate::learner::look;

/// A point of a learning curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// Passes over the examples.
    pub epoch: f64,
    /// Seconds on the virtual clock.
    pub seconds: f64,
    /// Updates of the model.
    pub updates: u64,
    /// Mean loss of the training examples evaluated.
    pub train_loss: f64,
    /// Share of these that are classified correctly.
    pub train_accuracy: f64,
    /// Share of the test examples evaluated that are classified correctly.
    pub test_accuracy: f64,
}

/// Evaluation of a run.
#[derive(Debug)]
pub(crate) struct Looks<'a, T: 'static> {
    pub(crate) graph: &'a Graph<T>,
    pub(crate) train: &'a Images,
    pub(crate) test: &'a Images,
    /// Gradients of all ranks per epoch.
    pub(crate) per_epoch: u64,
}

impl<T: Number> Looks<'_, T> {
    /// Evaluates the current state of a run.
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

    /// Runs to the end, or until `stop` returns true; evaluates before the first gradient and every
    /// `every` gradients.
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
        // The end, unless it is on a boundary.
        let last = points.last().map_or(0.0, |point| point.epoch);
        if run.used() as f64 / self.per_epoch as f64 > last {
            points.push(self.point(run));
        }
        Ok((points, run.counts()))
    }
}

/// Points on either side for smoothing a loss.
const REACH: usize = 2;

/// When a loss was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reached {
    /// Passes over the examples.
    pub(crate) epoch: f64,
    /// Seconds on the virtual clock.
    pub(crate) seconds: f64,
}

/// When the smoothed training loss of a run was first at most `target`.
///
/// A single evaluation of the loss varies by more than a tenth. The smoothed loss is the mean of a
/// point and two points on either side, fewer at the ends; between points it is interpolated
/// linearly.
pub(crate) fn reached(points: &[Point], target: f64) -> Option<Reached> {
    let smooth = |place: usize| {
        // Symmetric: otherwise, a falling loss would be too high at one end.
        let reach = REACH.min(place).min(points.len() - 1 - place);
        let near = &points[place - reach..=place + reach];
        near.iter().map(|point| point.train_loss).sum::<f64>() / near.len() as f64
    };
    let after = (0..points.len()).find(|place| smooth(*place) <= target)?;
    let before = after.saturating_sub(1);
    let (from, to) = (smooth(before), smooth(after));
    let share = if from > to { (from - target) / (from - to) } else { 1.0 };
    let between = |of: fn(&Point) -> f64| {
        of(&points[before]) + share * (of(&points[after]) - of(&points[before]))
    };
    Some(Reached { epoch: between(|point| point.epoch), seconds: between(|point| point.seconds) })
}

/// Share of the examples that are classified correctly.
pub(crate) fn share(sums: ClassSums) -> f64 {
    sums.right as f64 / sums.examples as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_reached_where_its_smoothed_curve_crosses_it() {
        let losses = [9.0, 7.0, 8.0, 4.0, 0.0, 4.0, 2.0];
        let point = |(place, train_loss): (usize, &f64)| {
            let epoch = place as f64;
            Point { epoch, seconds: 2.0 * epoch, train_loss: *train_loss, ..Point::default() }
        };
        let points: Vec<Point> = losses.iter().enumerate().map(point).collect();
        // Smoothed: 9, 8, 5.6, 4.6, 3.6, 2, 2.
        let at = |target| reached(&points, target).map(|at| (at.epoch, at.seconds));
        assert_eq!(at(9.0), Some((0.0, 0.0)));
        let near = |found: Option<(f64, f64)>, epoch: f64| {
            let (found, seconds) = found.unwrap();
            (found - epoch).abs() < 1e-9 && (seconds - 2.0 * epoch).abs() < 1e-9
        };
        assert!(near(at(8.0), 1.0) && near(at(6.8), 1.5) && near(at(4.1), 3.5));
        // A single evaluation of 0 doesn't count.
        assert_eq!(at(1.0), None);
    }
}
