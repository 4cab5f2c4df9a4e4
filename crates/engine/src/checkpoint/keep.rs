//! Who keeps the model as of a step.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::DenseView;
use crate::{Group, Result};

/// Keeps the model after exactly one step, whole or not at all.
///
/// Scenario: nothing is in flight and every dirty row is in its group's store when `write` is
/// called; the run goes on when it returns.
pub trait Keep: Send {
    /// Keeps the model after `step` steps; what keeps it, by name.
    ///
    /// `run` is what the trainer wants back on resuming (position, config, scalars).
    ///
    /// # Errors
    /// On any I/O error; what was kept before is the last one then.
    fn write(
        &mut self,
        step: u64,
        run: &Value,
        dense: &DenseView<'_>,
        groups: &[Arc<Group>],
    ) -> Result<PathBuf>;
}
