//! Counts up to a moment, and figures of the time between two moments.

use serde::Serialize;
use stepwell_train::Held;

/// All counts of this process up to a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Seconds since the run began.
    pub(crate) seconds: f64,
    /// Seconds without evaluations.
    pub(crate) training_seconds: f64,
    pub(crate) step: u64,
    pub(crate) examples: u64,
    /// Sum of the losses of all examples, each before it was trained on.
    pub(crate) loss_sum: f64,
    /// Mean loss of the current epoch.
    pub(crate) loss: Option<f64>,
    /// Whether `loss` is the log loss of one label.
    pub(crate) is_log_loss: bool,
    /// AUC of the examples since the previous sample, up to [`SCORES_MAX`](super::SCORES_MAX).
    pub(crate) auc: Option<f64>,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Share of planned keys with their rows on their device; `None` without devices.
    pub(crate) on_devices: Option<f64>,
    pub(crate) evictions: u64,
    pub(crate) initialized: u64,
    pub(crate) refilled: u64,
    pub(crate) reads: u64,
    pub(crate) pages_read: u64,
    pub(crate) held: Held,
    /// Seconds that each stage was busy.
    pub(crate) busy: Vec<(&'static str, f64)>,
    /// Peak memory of the process.
    pub(crate) peak_bytes: Option<u64>,
}

/// Figures of the time between two samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Recent {
    pub(crate) examples_per_second: Option<f64>,
    pub(crate) loss: Option<f64>,
    /// Shares of the planned distinct keys: in memory, from disk, new.
    pub(crate) shares: Option<[f64; 3]>,
    /// Busy seconds of each stage per second.
    pub(crate) busy: Vec<(&'static str, f64)>,
}

impl Sample {
    /// Rows that came into memory during the run, less the evicted ones.
    pub(crate) fn memory_rows(&self) -> u64 {
        self.misses.saturating_sub(self.evictions)
    }

    /// Figures of the time since `before`.
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
            // Rows are counted when they are loaded, a moment after they are planned.
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
        // An evaluation took two of the four seconds.
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
