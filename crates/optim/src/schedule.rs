//! Learning rates that change over the steps of a model.
//!
//! A rate is a function of the step alone, or of the falls that evaluations decide and checkpoints
//! record, so a resumed run has the rates of one without a pause.

use std::f64::consts::PI;

use crate::adam::power;

/// A learning rate over time, as a factor of an optimizer's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Schedule {
    /// Steps in which the factor rises linearly to 1.
    pub warmup: u64,
    /// The factor after that.
    pub course: Course,
}

/// The factor of a learning rate after `t` steps, not counting a warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Course {
    /// Always 1.
    #[default]
    Constant,
    /// From 1 to `end` in a line over `steps` steps, and `end` from then on.
    Linear {
        /// Number of steps, at least 1.
        steps: u64,
        /// The last factor.
        end: f64,
    },
    /// From 1 to `end` in half a period of a cosine over `steps` steps, and `end` from then on.
    Cosine {
        /// Number of steps, at least 1.
        steps: u64,
        /// The last factor.
        end: f64,
    },
    /// Times `factor` after each `every` steps.
    Step {
        /// Number of steps, at least 1.
        every: u64,
        /// Factor each time.
        factor: f64,
    },
    /// The root of `steps / (steps + t)`.
    InverseSqrt {
        /// Number of steps, at least 1; after 3 times as many, the factor is 1/2.
        steps: u64,
    },
    /// Times `factor` for each fall, which evaluations decide.
    Plateau {
        /// Factor each time.
        factor: f64,
        /// Number of falls so far.
        falls: u64,
    },
}

impl Schedule {
    /// The same schedule after `falls` falls; only a plateau has any.
    #[must_use]
    pub fn fallen(self, falls: u64) -> Self {
        match self.course {
            Course::Plateau { factor, .. } => {
                Self { course: Course::Plateau { factor, falls }, ..self }
            }
            _ => self,
        }
    }

    /// Factor of the learning rate in the step after `steps` steps.
    pub fn factor(&self, steps: u64) -> f64 {
        match steps.checked_sub(self.warmup) {
            None => (steps + 1) as f64 / self.warmup as f64,
            Some(steps) => self.course.factor(steps),
        }
    }
}

impl Course {
    fn factor(self, t: u64) -> f64 {
        let part = |steps: u64| t.min(steps) as f64 / steps as f64;
        match self {
            Self::Constant => 1.0,
            Self::Linear { steps, end } => 1.0 + (end - 1.0) * part(steps),
            Self::Cosine { steps, end } => {
                end + (1.0 - end) * (1.0 + libm::cos(PI * part(steps))) / 2.0
            }
            Self::Step { every, factor } => power(factor, t / every),
            Self::InverseSqrt { steps } => (steps as f64 / (steps as f64 + t as f64)).sqrt(),
            Self::Plateau { factor, falls } => power(factor, falls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors<const N: usize>(warmup: u64, course: Course, steps: [u64; N]) -> [f64; N] {
        let schedule = Schedule { warmup, course };
        steps.map(|step| (schedule.factor(step) * 1e6).round() / 1e6)
    }

    #[test]
    fn rates_by_hand() {
        assert_eq!(Schedule::default().factor(u64::MAX), 1.0);
        assert_eq!(factors(4, Course::Constant, [0, 1, 3, 4, 9]), [0.25, 0.5, 1.0, 1.0, 1.0]);
        let linear = Course::Linear { steps: 10, end: 0.2 };
        assert_eq!(factors(2, linear, [0, 1, 2, 7, 12, 99]), [0.5, 1.0, 1.0, 0.6, 0.2, 0.2]);
        let cosine = Course::Cosine { steps: 4, end: 0.0 };
        assert_eq!(factors(0, cosine, [0, 1, 2, 4, 5]), [1.0, 0.853_553, 0.5, 0.0, 0.0]);
        let step = Course::Step { every: 3, factor: 0.1 };
        assert_eq!(factors(0, step, [0, 2, 3, 5, 6]), [1.0, 1.0, 0.1, 0.1, 0.01]);
        let root = Course::InverseSqrt { steps: 5 };
        assert_eq!(factors(0, root, [0, 15, 120]), [1.0, 0.5, 0.2]);
        let plateau = Schedule { warmup: 2, course: Course::Plateau { factor: 0.5, falls: 0 } };
        let rates = |falls| [0, 2, 99].map(|steps| plateau.fallen(falls).factor(steps));
        assert_eq!([rates(0), rates(3)], [[0.5, 1.0, 1.0], [0.5, 0.125, 0.125]]);
        assert_eq!(Schedule::default().fallen(3), Schedule::default());
    }
}
