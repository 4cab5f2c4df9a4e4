//! Gradients that can be told apart in the model: number s of rank r is 1 in a separate lane, times
//! the number of ranks that compute. So the model shows how often each was used.

use stepwell_base::random::Stream;
use stepwell_sync::{Groups, Kind, Learner, Options, Rate};

use crate::schedule::{self, Outcome};

/// Gradients of a rank that have a lane.
pub(crate) const PER_RANK: usize = 96;

/// A job drawn from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub kind: Kind,
    pub ranks: usize,
    pub options: Options,
}

impl Job {
    pub(crate) fn drawn(kind: Kind, seed: u64) -> Self {
        let mut stream = Stream::named(seed, b"job");
        let mut draw = |from: u64, to: u64| from + stream.next_u64() % (to - from);
        let ranks = draw(2, 7) as usize;
        let mut options = Options::new(draw(1, 13), Rate::constant(1.0));
        (options.seed, options.age_max) = (seed, draw(0, 5));
        (options.waiting_max, options.probes) = (draw(1, 6) as usize, draw(1, 3) as usize);
        if kind == Kind::Rna && ranks > 2 && draw(0, 2) == 1 {
            let (slow, fast): (Vec<usize>, Vec<usize>) =
                (0..ranks).partition(|rank| rank.is_multiple_of(2));
            options.groups = Groups::Several(vec![fast, slow]);
        }
        Self { kind, ranks, options }
    }

    /// Runs the job in an order drawn from `seed`, and checks the model.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self, seed: u64) -> Result<Outcome, String> {
        let parameters = vec![0.0; self.ranks * PER_RANK];
        let scale = self.kind.workers(self.ranks) as f64;
        let learner = |rank: usize| -> Box<dyn Learner<f64>> {
            Box::new(move |step: u64, _: &[f64], gradient: &mut [f64]| {
                gradient.fill(0.0);
                gradient[rank * PER_RANK + step as usize] = scale;
            })
        };
        let parts = (self.kind, self.ranks, &self.options);
        let outcome = schedule::run(parts, &parameters, learner, seed)?;
        self.judge(&outcome)?;
        Ok(outcome)
    }

    pub(crate) fn judge(&self, outcome: &Outcome) -> Result<(), String> {
        let counts = outcome.counts;
        if counts.lost() != 0 {
            return Err(format!("{} gradients lost: {counts:?}", counts.lost()));
        }
        // Number of uses of each gradient; the model moves against it.
        let uses: Vec<f64> = outcome.model.iter().map(|lane| -lane).collect();
        let used = uses.iter().filter(|use_| **use_ != 0.0).count() as u64;
        if used != counts.used {
            return Err(format!("{used} gradients show in the model: {counts:?}"));
        }
        let bounded = self.kind == Kind::Rna;
        if bounded && counts.age_max > self.options.age_max {
            return Err(format!("a gradient of age {}", counts.age_max));
        }
        if let Some(wrong) = uses.iter().find(|use_| ![0.0, 1.0].iter().any(|n| near(**use_, *n))) {
            return Err(format!("a gradient counts {wrong} times"));
        }
        Ok(())
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}
