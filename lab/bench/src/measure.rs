//! Times, medians, ratios, and serialization of names.

use std::time::{Duration, Instant};

use serde::Serializer;
use stepwell_settings::ModelKind;

use crate::machine::cpu_time;

/// Wall and processor time since its start.
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { cpu: cpu_time(), wall: Instant::now() }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.wall.elapsed().as_secs_f64()
    }

    /// Processor seconds of all threads.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        (cpu_time() - self.cpu).as_secs_f64()
    }
}

/// Runs both; the first goes first in even rounds, last in odd ones.
pub(crate) fn in_turns<T, E>(
    round: usize,
    first: impl FnOnce() -> Result<T, E>,
    second: impl FnOnce() -> Result<T, E>,
) -> Result<(T, T), E> {
    if round.is_multiple_of(2) {
        return Ok((first()?, second()?));
    }
    let second = second()?;
    Ok((first()?, second))
}

/// The median; of an even number, the upper of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The largest of some results; `None` without any.
pub(crate) fn most(figures: impl Iterator<Item = f64>) -> Option<f64> {
    figures.max_by(f64::total_cmp)
}

/// A ratio; 0 if the denominator is 0.
pub(crate) fn over(above: f64, below: f64) -> f64 {
    if below > 0.0 { above / below } else { 0.0 }
}

/// Serializes models by name.
pub(crate) fn names<S: Serializer>(models: &[ModelKind], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(models.iter().map(|kind| kind.name()))
}
