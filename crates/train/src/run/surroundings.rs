//! Everything that a run is given besides its settings.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use stepwell_base::stop::StopRequest;
use stepwell_engine::Placement;

use crate::capacity::Capacity;
use crate::machine::{Machine, OnNote};
use crate::pipeline::Observer;
use crate::warm_start::WarmStart;

/// Everything around a run.
pub struct Surroundings {
    /// Observes the run's progress.
    pub observer: Arc<dyn Observer>,
    /// The machine that the run uses.
    pub machine: Machine,
    /// Asks the run to end soon, with a checkpoint if it saves any.
    pub stop: StopRequest,
    /// Treatment of existing checkpoints and rows.
    pub placement: Placement,
    /// The model that a warm start begins with; unused if `placement` finds a checkpoint to resume.
    pub from: Option<WarmStart>,
    /// Rows that the model begins with.
    pub rows: RowsAtStart,
    /// Whether to accept rows that differ from those saved with a checkpoint because `store repair`
    /// wrote them.
    pub repaired_rows: bool,
    /// Whether to compute a digest of the model at the end, which reads every row.
    pub digest: bool,
    /// The settings by key, for reports and checkpoints.
    pub settings: Value,
    /// Receives the capacity plan before any large allocation.
    pub on_plan: Arc<dyn Fn(&Capacity) + Send + Sync>,
    /// Receives notes that no result can carry.
    pub on_note: OnNote,
    /// Receives warnings, which even a quiet run prints.
    pub on_warning: OnNote,
}

/// Rows that a model begins with.
#[derive(Clone, Debug, Default)]
pub struct RowsAtStart {
    /// Snapshots of stores, by table group, with rows of the same shape; empty for no rows. Unused
    /// if the run resumes from a checkpoint.
    pub from: Vec<PathBuf>,
    /// Whether to load as many rows as fit into memory before the first step.
    pub in_memory: bool,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("placement", &self.placement).finish_non_exhaustive()
    }
}
