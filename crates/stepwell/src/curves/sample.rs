//! What was counted up to a moment, and what two moments say of the time between them.

use serde::Serialize;
use stepwell_train::Held;

/// All that was counted up to a moment, by this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Since the run began.
    pub(crate) seconds: f64,
    /// Those but for evaluations.
    pub(crate) training_seconds: f64,
    pub(crate) step: u64,
    pub(crate) examples: u64,
    /// Sum of the losses of all examples, each before it was trained on.
    pub(crate) loss_sum: f64,
    /// Mean loss of the epoch at hand.
    pub(crate) loss: Option<f64>,
    /// Whether that is the log loss of one label.
    pub(crate) is_log_loss: bool,
    /// Of the examples since the sample before, up to [`SCORES_MAX`](super::SCORES_MAX).
    pub(crate) auc: Option<f64>,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Part of what was planned whose rows were on their device, where there are devices.
    pub(crate) on_devices: Option<f64>,
    pub(crate) evictions: u64,
    pub(crate) initialized: u64,
    pub(crate) refilled: u64,
    pub(crate) reads: u64,
    pub(crate) pages_read: u64,
    pub(crate) held: Held,
    /// Seconds that each stage was busy.
    pub(crate) busy: Vec<(&'static str, f64)>,
    /// Most memory that the process had.
    pub(crate) peak_bytes: Option<u64>,
}

/// What happened between two samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Recent {
    pub(crate) examples_per_second: Option<f64>,
    pub(crate) loss: Option<f64>,
    /// Of the distinct keys that were planned: those in memory, from disk, and new.
    pub(crate) shares: Option<[f64; 3]>,
    /// Seconds that each stage was busy in a second.
    pub(crate) busy: Vec<(&'static str, f64)>,
}

impl Sample {
    /// Rows in memory, but for those that the run began with.
    pub(crate) fn memory_rows(&self) -> u64 {
        self.misses.saturating_sub(self.evictions)
    }

    /// What happened since `before`.
    pub(crate) fn since(&self, before: &Self) -> Recent {
        let examples = self.examples.saturating_sub(before.examples) as f64;
        let seconds = self.training_seconds - before.training_seconds;
        let elapsed = self.seconds - before.seconds;
        let counts = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before)) as f64;
        let planned = counts(|of| of.hits + of.misses);
        let shares = [counts(|of| of.hits), counts(|of| of.refilled), counts(|of| of.initialized)];
        let busy = self.busy.iter().map(|(name, seconds)| {
            let earlier = before.busy.iter().find(|(known, _)| known == name);
            let seconds = seconds - earlier.map_or(0.0, |(_, seconds)| *seconds);
            (*name, if elapsed > 0.0 { (seconds / elapsed).max(0.0) } else { 0.0 })
        });
        Recent {
            examples_per_second: (seconds > 0.0 && examples > 0.0).then(|| examples / seconds),
            loss: (examples > 0.0).then(|| (self.loss_sum - before.loss_sum) / examples),
            // Rows are counted when they come up, a moment after they were planned.
            shares: (planned > 0.0).then(|| shares.map(|count| (count / planned).min(1.0))),
            busy: busy.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_two_samples_is_a_mean_of_that_time_alone() {
        let before = Sample {
            seconds: 10.0,
            training_seconds: 8.0,
            examples: 1000,
            loss_sum: 600.0,
            hits: 50,
            misses: 50,
            busy: vec![("read", 1.0), ("train", 4.0)],
            ..Sample::default()
        };
        let now = Sample {
            seconds: 14.0,
            training_seconds: 10.0,
            examples: 3000,
            loss_sum: 1400.0,
            hits: 200,
            misses: 100,
            evictions: 30,
            refilled: 20,
            initialized: 30,
            busy: vec![("read", 2.0), ("train", 7.0), ("write", 1.0)],
            ..Sample::default()
        };
        let recent = now.since(&before);
        // Two of the four seconds were an evaluation's.
        assert_eq!(recent.examples_per_second, Some(1000.0));
        assert_eq!(recent.loss, Some(0.4));
        assert_eq!(recent.shares, Some([0.75, 0.1, 0.15]));
        assert_eq!(recent.busy, [("read", 0.25), ("train", 0.75), ("write", 0.25)]);
        assert_eq!(now.memory_rows(), 70);
        // Nothing happened.
        let none = now.since(&now);
        assert_eq!((none.examples_per_second, none.loss, none.shares), (None, None, None));
    }
}
