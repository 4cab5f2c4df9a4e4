//! What a protocol is told.

use crate::{Descent, Groups, Kind, Number, Optimizer, Rate, Rules};

/// What becomes of several gradients of a rank that are in one sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Several {
    /// Each counts as it would alone.
    #[default]
    Summed,
    /// They count as one, their mean with weights that rise with their updates: the thesis's
    /// section 5.1.3.
    Averaged,
}

/// What all ranks of a run have in common.
#[derive(Clone, Debug)]
pub struct Options {
    /// Gradients that each rank gives; of `eager_majority` and `rna`, sums that are made.
    pub steps: u64,
    /// How far a step along the mean of all ranks' gradients goes.
    pub rate: Rate,
    /// What is left of the velocity after a step.
    pub momentum: f64,
    /// What is added of the parameters to their gradient.
    pub weight_decay: f64,
    /// What drawn ranks follow from.
    pub seed: u64,
    /// Of `rna`: ranks that are probed for each sum.
    pub probes: usize,
    /// Of `rna`: the most updates that a gradient may have missed.
    pub age_max: u64,
    /// Of `rna`: gradients that wait on a rank at most.
    pub waiting_max: usize,
    /// Whether a rank may begin no gradient for a while though it will give more, as where it waits
    /// for data: then others that wait for it say so.
    pub may_rest: bool,
    /// Of `rna`: what becomes of several that waited.
    pub several: Several,
    /// Of `rna`: ranks that sum among themselves.
    pub groups: Groups,
    /// Which rules hold: all, but in tests.
    pub rules: Rules,
}

/// Options that do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(String);

impl OptionsError {
    pub(crate) fn new(why: String) -> Self {
        Self(why)
    }
}

impl Options {
    /// The usual ones for so many steps at this rate.
    pub fn new(steps: u64, rate: Rate) -> Self {
        Self {
            steps,
            rate,
            momentum: 0.0,
            weight_decay: 0.0,
            seed: 0,
            probes: 2,
            age_max: 8,
            waiting_max: 8,
            may_rest: false,
            several: Several::default(),
            groups: Groups::One,
            rules: Rules::default(),
        }
    }

    /// Most bytes that the end of a rank takes for parameters of so many bytes, its windows and
    /// messages included.
    pub fn bytes(&self, kind: Kind, ranks: usize, parameter_bytes: usize) -> usize {
        // Parameters, gradient, velocity, and messages under way, each way.
        let replica = 3 + 4;
        let copies = match kind {
            Kind::Bsp | Kind::EagerMajority => replica + 1,
            // A window, and another of its size while MPI takes it over, or messages that wait.
            Kind::SyncDsgd | Kind::RdmaWild => replica + 2 * ranks,
            Kind::AdPsgd => replica + 2,
            Kind::Rna => replica + 3 + self.waiting_max,
        };
        copies * parameter_bytes
    }

    /// Their rule for so many parameters.
    pub(crate) fn descent<T: Number>(&self, lanes: usize) -> Box<dyn Optimizer<T>> {
        Box::new(Descent::new(self.rate.clone(), self.momentum, self.weight_decay, lanes))
    }

    pub(crate) fn check(&self, kind: Kind, ranks: usize) -> Result<(), OptionsError> {
        let wrong = |why: String| Err(OptionsError(why));
        if ranks < 2 {
            return wrong(format!("{kind} is between ranks, and there is one: use at least 2"));
        }
        if !(self.rate.base > 0.0 && self.rate.base.is_finite()) {
            return wrong(format!("a rate of {} does not learn: use one above 0", self.rate.base));
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return wrong(format!("a momentum of {}: use one from 0 to below 1", self.momentum));
        }
        if !(0.0..1.0).contains(&self.weight_decay) {
            let decay = self.weight_decay;
            return wrong(format!("a weight decay of {decay}: use one from 0 to below 1"));
        }
        if kind == Kind::Rna {
            return self.check_rna(ranks);
        }
        Ok(())
    }

    fn check_rna(&self, ranks: usize) -> Result<(), OptionsError> {
        if self.probes == 0 || self.probes > ranks {
            let why = format!("{} probes among {ranks} ranks: use 1 to {ranks}", self.probes);
            return Err(OptionsError(why));
        }
        if self.waiting_max == 0 {
            return Err(OptionsError("a rank keeps at least 1 gradient".to_owned()));
        }
        self.groups.check(ranks).map_err(OptionsError)
    }
}
