//! Where and when checkpoints are written.

use std::path::PathBuf;

/// Most minutes between checkpoints: a year.
const MINUTES_MAX: f64 = 366.0 * 24.0 * 60.0;

/// Where and when checkpoints are written.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointConfig {
    /// Directory; none for no checkpoints.
    pub dir: Option<PathBuf>,
    /// Steps between checkpoints; 0 for one at the end.
    pub every: u64,
    /// Minutes of training between checkpoints at most; 0 where time does not count.
    pub minutes: f64,
    /// Whether one is written before the first step.
    pub initial: bool,
    /// Checkpoints of this run that are kept.
    pub keep: usize,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { dir: None, every: 0, minutes: 10.0, initial: false, keep: 2 }
    }
}

impl CheckpointConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.keep == 0 {
            return Err("checkpoint.keep is 0: give at least 1".to_owned());
        }
        if !(0.0..=MINUTES_MAX).contains(&self.minutes) {
            return Err(format!(
                "checkpoint.minutes is {}: give a number from 0 (off) to {MINUTES_MAX}",
                self.minutes
            ));
        }
        Ok(())
    }
}
