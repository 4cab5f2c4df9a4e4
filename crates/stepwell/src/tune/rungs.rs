//! Successive halving (Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and
//! Hyperparameter Optimization", AISTATS 2016): at each rung, the best third of the trials goes on.

use stepwell_settings::Config;

/// Of so many trials, one passes a rung.
const FACTOR: u64 = 3;

/// Where trials stop to be compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rungs {
    /// Rungs before the end of training.
    count: u32,
    /// Lines that an epoch trains on.
    lines: u64,
}

impl Rungs {
    /// As many rungs as leave one trial of `trials`; `lines` is the length of an epoch.
    pub(super) fn of(trials: u64, lines: u64) -> Self {
        Self { count: trials.max(1).ilog(FACTOR), lines }
    }

    /// The rungs, from 1; the end of training is the last.
    pub(super) fn all(self) -> impl Iterator<Item = u32> {
        1..=self.count + 1
    }

    /// How many of `trials` go beyond a rung.
    pub(super) fn passing(trials: u64, rung: u32) -> usize {
        (trials / FACTOR.pow(rung)).max(1) as usize
    }

    /// The step at which a trial stops at a rung, which is evaluated; `None` at the end of
    /// training.
    ///
    /// The share of all steps is 1/3 at the last rung, 1/9 at the one before, and so on.
    pub(super) fn step(self, rung: u32, config: &Config) -> Option<u64> {
        let below = (self.count + 1).checked_sub(rung).filter(|below| *below > 0)?;
        let of_epoch = self.lines.div_ceil(config.data.mini_batch as u64);
        let all = of_epoch.saturating_mul(config.data.epochs);
        let unit = config.train.evaluate_every.max(1);
        let step = all.div_ceil(FACTOR.pow(below)).next_multiple_of(unit);
        (step < all).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_thirds_of_a_trials_own_steps() {
        let mut config = Config::default();
        (config.data.mini_batch, config.data.epochs) = (10, 2);
        let steps = |trials, config: &Config| {
            let rungs = Rungs::of(trials, 1345);
            rungs.all().map(|rung| rungs.step(rung, config)).collect::<Vec<_>>()
        };
        assert_eq!(steps(2, &config), [None]);
        assert_eq!(steps(3, &config), [Some(90), None]);
        assert_eq!(steps(26, &config), [Some(30), Some(90), None]);
        assert_eq!(steps(27, &config), [Some(10), Some(30), Some(90), None]);
        config.data.mini_batch = 20;
        assert_eq!(steps(9, &config), [Some(16), Some(46), None]);
        config.train.evaluate_every = 40;
        assert_eq!(steps(9, &config), [Some(40), Some(80), None]);
        config.train.evaluate_every = 200;
        assert_eq!(steps(9, &config), [None, None, None]);
        assert_eq!([1, 2, 3].map(|rung| Rungs::passing(20, rung)), [6, 2, 1]);
    }
}
