//! Options of a protocol.

use crate::group::Groups;
use crate::hazard_rules::Rules;
use crate::number::Number;
use crate::optimizers::{Descent, Optimizer, Rate};

/// How several gradients of a rank in one sum count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Several {
    /// Each counts as if alone.
    #[default]
    Summed,
    /// All count as one: their weighted mean, with weights that rise with the number of updates in
    /// the parameters of each (the thesis, section 5.1.3).
    Averaged,
}

/// Options that all ranks of a run share.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of gradients that each rank gives; for `eager_majority` and `rna`, number of sums.
    pub steps: u64,
    /// Length of a step along the mean of all ranks' gradients.
    pub rate: Rate,
    /// Part of the velocity that remains after a step.
    pub momentum: f64,
    /// Part of the parameters that is added to their gradient.
    pub weight_decay: f64,
    /// Seed of drawn ranks.
    pub seed: u64,
    /// For `rna`: ranks that are probed for each sum.
    pub probes: usize,
    /// For `rna`: the most updates that a gradient may have missed.
    pub age_max: u64,
    /// For `rna`: the most gradients that wait on a rank.
    pub waiting_max: usize,
    /// Whether a rank may pause before its next gradient, as when it waits for data; others that
    /// wait for it then send it a message.
    pub may_rest: bool,
    /// For `rna`: how several waiting gradients count.
    pub several: Several,
    /// For `rna`: groups of ranks that sum among themselves.
    pub groups: Groups,
    /// The rules that hold: all, except in tests.
    pub rules: Rules,
}

/// Options that do not fit each other or the ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(String);

impl OptionsError {
    pub(crate) fn new(why: String) -> Self {
        Self(why)
    }
}

impl Options {
    /// The usual options for `steps` steps at this rate.
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

    /// The update rule of these options for `lanes` parameters.
    pub(crate) fn descent<T: Number>(&self, lanes: usize) -> Box<dyn Optimizer<T>> {
        Box::new(Descent::new(self.rate.clone(), self.momentum, self.weight_decay, lanes))
    }

    pub(crate) fn check_rna(&self, ranks: usize) -> Result<(), OptionsError> {
        if self.probes == 0 || self.probes > ranks {
            let why = format!("{} probes among {ranks} ranks: use 1 to {ranks}", self.probes);
            return Err(OptionsError(why));
        }
        if self.waiting_max == 0 {
            return Err(OptionsError("waiting_max is 0: use at least 1".to_owned()));
        }
        self.groups.check(ranks).map_err(OptionsError)
    }
}
