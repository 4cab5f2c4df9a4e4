//! Learning rates that fall when evaluations no longer improve.
//!
//! Evaluations count as for early stopping. After a fall the count begins again, and the best
//! evaluation remains. Rank 0 decides, and the others follow its [`Verdict`].

use stepwell_fabric::{Malformed, Message, Reader};
use stepwell_settings::{BestKind, OptimConfig, OptimizerConfig, ScheduleKind};

use super::patience::Patience;
use crate::metrics::Metrics;
use crate::resume::{FallenRate, FallenRates};
use crate::step::Falls;

/// The learning rates of rows and dense parameters; `None` if they don't fall at plateaus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plateaus {
    rows: Option<Plateau>,
    dense: Option<Plateau>,
}

#[derive(Clone, Copy, Debug)]
struct Plateau {
    patience: Patience,
    falls: u64,
}

impl Plateaus {
    /// Continues from `was`. If evaluations were compared by another metric, or on other data than
    /// `data` is a hash of, they are compared anew.
    pub(crate) fn new(optim: &OptimConfig, by: BestKind, data: u64, was: FallenRates) -> Self {
        Self {
            rows: Plateau::new(&optim.rows, by, data, was.rows),
            dense: Plateau::new(&optim.dense, by, data, was.dense),
        }
    }

    /// Adds an evaluation of the model after `step` steps.
    pub(super) fn evaluated(&mut self, step: u64, metrics: &Metrics) {
        let all = [&mut self.rows, &mut self.dense];
        all.into_iter().flatten().for_each(|plateau| plateau.evaluated(step, metrics));
    }

    /// Whether any rate falls at plateaus.
    pub(super) fn are_any(&self) -> bool {
        self.rows.is_some() || self.dense.is_some()
    }

    /// The falls so far.
    pub(crate) fn falls(&self) -> Falls {
        let of = |plateau: Option<Plateau>| plateau.map_or(0, |of| of.falls);
        Falls { rows: of(self.rows), dense: of(self.dense) }
    }

    /// State to continue from.
    pub(super) fn state(&self) -> FallenRates {
        let of = |plateau: Option<Plateau>| {
            plateau.map_or_else(FallenRate::default, |Plateau { patience, falls }| FallenRate {
                falls,
                waited: patience.waited(),
            })
        };
        FallenRates { rows: of(self.rows), dense: of(self.dense) }
    }
}

impl Plateau {
    fn new<K>(
        optimizer: &OptimizerConfig<K>,
        by: BestKind,
        data: u64,
        was: FallenRate,
    ) -> Option<Self> {
        let OptimizerConfig { schedule, plateau_patience, .. } = optimizer;
        let patience = Patience::new(*plateau_patience, by, data, was.waited);
        (*schedule == ScheduleKind::Plateau).then_some(Self { patience, falls: was.falls })
    }

    fn evaluated(&mut self, step: u64, metrics: &Metrics) {
        self.patience.evaluated(step, metrics);
        if self.patience.over().is_some() {
            self.patience.begin_again();
            self.falls += 1;
        }
    }
}

/// Rank 0's decision after an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether training ends early.
    pub(super) ends: bool,
    pub(super) falls: Falls,
}

impl Verdict {
    pub(super) fn put(self, message: &mut Message) {
        message.put(&[u64::from(self.ends), self.falls.rows, self.falls.dense]);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match *reader.take_exactly::<u64>(3)? {
            [ends @ (0 | 1), rows, dense] => {
                Ok(Self { ends: ends == 1, falls: Falls { rows, dense } })
            }
            _ => Err(Malformed::Wrong("it is no decision after an evaluation")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plateaus(was: FallenRates) -> Plateaus {
        let mut optim = stepwell_settings::Config::default().optim;
        (optim.rows.schedule, optim.rows.plateau_patience) = (ScheduleKind::Plateau, 1);
        (optim.dense.schedule, optim.dense.plateau_patience) = (ScheduleKind::Plateau, 2);
        Plateaus::new(&optim, BestKind::None, 7, was)
    }

    #[test]
    fn rates_fall_after_their_patience_and_then_wait_again() {
        let mut plateaus = plateaus(FallenRates::default());
        let losses = [0.5, 0.4, 0.41, 0.4, 0.39, 0.5, 0.5, 0.5];
        let expected = [(0, 0), (0, 0), (1, 0), (2, 1), (2, 1), (3, 1), (4, 2), (5, 2)];
        for ((step, loss), (rows, dense)) in (1..).zip(losses).zip(expected) {
            let metrics = Metrics { logloss: Some(loss), ..Metrics::default() };
            // The second evaluation of the same model doesn't count.
            (0..2).for_each(|_| plateaus.evaluated(step, &metrics));
            assert_eq!(plateaus.falls(), Falls { rows, dense }, "step {step}");
            let state = plateaus.state();
            plateaus = self::plateaus(state);
            assert_eq!(plateaus.state(), state);
        }
    }

    #[test]
    fn constant_rates_never_fall() {
        let optim = stepwell_settings::Config::default().optim;
        let was = FallenRate { falls: 3, waited: None };
        let was = FallenRates { rows: was, dense: was };
        let plateaus = Plateaus::new(&optim, BestKind::None, 7, was);
        assert!(!plateaus.are_any());
        assert_eq!(plateaus.falls(), Falls::default());
    }

    #[test]
    fn verdicts_are_read_as_they_were_put() {
        let verdict = Verdict { ends: true, falls: Falls { rows: 2, dense: 1 << 40 } };
        let mut message = Message::new();
        verdict.put(&mut message);
        assert_eq!(Verdict::read(&mut message.reader()), Ok(verdict));
        let mut message = Message::new();
        message.put(&[7u64, 0, 0]);
        assert!(Verdict::read(&mut message.reader()).is_err());
    }
}
