//! The recent rate of progress.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time over which the rate is measured.
const SPAN: Duration = Duration::from_secs(10);
/// Least time between two kept moments, which bounds their number.
const EVERY: Duration = Duration::from_millis(250);

/// Moments of the last seconds, with the work done by then.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<(Instant, u64)>);

impl Recent {
    /// Records the work `done` at `now`.
    pub(super) fn at(&mut self, now: Instant, done: u64) {
        while self.0.len() > 1 && self.0.get(1).is_some_and(|(at, _)| now - *at >= SPAN) {
            self.0.pop_front();
        }
        if self.0.back().is_none_or(|(at, _)| now - *at >= EVERY) {
            self.0.push_back((now, done));
        }
    }

    /// Work per second up to `now`; `None` if there is nothing to compare with.
    pub(super) fn rate(&self, now: Instant, done: u64) -> Option<f64> {
        let (at, before) = self.0.front()?;
        let seconds = (now - *at).as_secs_f64();
        (done > *before && seconds > 0.0).then(|| (done - before) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_long_ago_does_not_count() {
        let (mut recent, begun) = (Recent::default(), Instant::now());
        let at = |seconds: f64| begun + Duration::from_secs_f64(seconds);
        assert_eq!(recent.rate(at(0.0), 0), None);
        let mut done = 0;
        for tenth in 0..600u32 {
            // Ten a second for half a minute, then a hundred.
            done += if tenth < 300 { 1 } else { 10 };
            recent.at(at(f64::from(tenth) / 10.0), done);
            assert!(recent.0.len() < 45, "{}", recent.0.len());
        }
        let rate = recent.rate(at(59.9), done).unwrap();
        assert!((rate - 100.0).abs() < 1.0, "{rate}");
    }
}
