//! Runs the protocols in a setting, with one seed.

use std::sync::{Arc, Mutex, PoisonError};

use stepwell_nn::Graph;
use stepwell_sim::clock::ClockedRun;
use stepwell_sync::{Counts, Options, Rate};

use super::setting::{Entrant, HEADLINE, Setting};
use super::task::{Data, Examined, Task};
use crate::Result;
use crate::costs::Costs;
use crate::curve::{Looks, Point, Reached, reached, share};
use crate::learner::look;

/// Points of the curve per epoch.
const POINTS: u64 = 20;
/// Most updates that a gradient may miss: more than any does unless its rank has stopped. The
/// thesis has such a bound, but doesn't give it.
const AGE_MAX: u64 = 1024;

/// A task in a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) task: Task,
    pub(super) setting: Setting,
}

/// Results of a case with one seed.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) limit: f64,
    /// Results by protocol, the baseline first.
    pub(super) runs: Vec<(Entrant, Run)>,
}

/// Result of a protocol.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// When the loss was reached, if it was.
    pub(super) reached: Option<Reached>,
    pub(super) accuracy: f64,
    pub(super) counts: Counts,
    pub(super) curve: Vec<Point>,
}

impl Case {
    /// Runs all protocols with this seed, one per thread at a time, as a run is mostly sequential.
    pub(super) fn run(&self, data: &Data, costs: &Costs, seed: u64) -> Result<Outcome> {
        let data = data.of(self.task.model);
        let graph = Arc::new(self.task.model.graph::<f32>(data.columns())?);
        let learners = data.learners(&graph, self.setting.ranks);
        let limit = self.setting.limit(seed, |rank, step| learners[rank].cost(step));
        let entrants = Entrant::of(self.setting.lateness);
        let left = Mutex::new(entrants.iter());
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            let mut own = Vec::new();
            while let Some(entrant) = next() {
                own.push((*entrant, self.run_one(*entrant, &graph, data, costs, seed)?));
            }
            Ok(own)
        };
        let found = std::thread::scope(|scope| {
            let threads = rayon::current_num_threads().min(entrants.len());
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Vec<_>>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        let mut runs = found.concat();
        runs.sort_by_key(|(entrant, _)| entrants.iter().position(|other| other == entrant));
        Ok(Outcome { limit, runs })
    }

    fn run_one(
        &self,
        entrant: Entrant,
        graph: &Arc<Graph<f32>>,
        data: &Examined,
        costs: &Costs,
        seed: u64,
    ) -> Result<Run> {
        let (task, ranks) = (&self.task, self.setting.ranks);
        // There are more sums if few ranks take part in each, so the run ends by its gradients.
        let mut options = Options::new(u64::MAX, Rate::constant(task.rate));
        (options.seed, options.age_max) = (seed, AGE_MAX);
        (options.groups, options.several) = (entrant.groups(&self.setting), entrant.several);
        let begin = graph.initial_parameters(seed);
        let (learners, times) = (data.learners(graph, ranks), self.setting.times(costs, seed));
        let mut run = ClockedRun::new(entrant.kind, &options, &begin, learners, times)?;
        let (per_epoch, [train, test]) = (data.per_epoch(ranks), &data.looked_at);
        let looks = Looks { graph, train, test, per_epoch };
        let every = (per_epoch / POINTS).max(1);
        // The number of steps doesn't depend on the number of ranks, so the examples do.
        let epochs = task.epochs * ranks as f64 / HEADLINE.ranks as f64;
        let stop = |point: &Point, _: &_| point.epoch >= epochs;
        let (curve, counts) = looks.follow(&mut run, every, stop)?;
        Ok(Run {
            reached: reached(&curve, task.target),
            accuracy: share(look(graph, &data.test, &run.model())),
            counts,
            curve,
        })
    }
}
