//! Times, medians, ratios, and names of what was measured.

use std::time::{Duration, Instant};

use serde::Serializer;
use stepwell_settings::ModelKind;

use crate::machine::cpu_time;

/// Wall and processor time since a moment.
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

    /// Processor seconds, of all threads.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        (cpu_time() - self.cpu).as_secs_f64()
    }
}

/// Both, the first one first in every other round.
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

/// The middle one, the upper of two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A ratio, 0 where there is nothing below.
pub(crate) fn over(above: f64, below: f64) -> f64 {
    if below > 0.0 { above / below } else { 0.0 }
}

/// Models by name, in figures.
pub(crate) fn names<S: Serializer>(models: &[ModelKind], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(models.iter().map(|kind| kind.name()))
}
