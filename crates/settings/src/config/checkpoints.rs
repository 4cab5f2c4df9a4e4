//! Settings of checkpoints.

use std::path::PathBuf;

/// Where and when checkpoints are written.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointConfig {
    /// Directory; `None` for no checkpoints.
    pub dir: Option<PathBuf>,
    /// Steps between checkpoints; 0 for off.
    pub every: u64,
    /// Most minutes of training between checkpoints; 0 for off.
    pub minutes: f64,
    /// Whether one is written before the first step.
    pub initial: bool,
    /// Number of this run's checkpoints to keep.
    pub keep: usize,
    /// Metric by which the best evaluated checkpoint is kept, too.
    pub best: BestKind,
}

/// Metric by which a checkpoint is the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BestKind {
    /// No checkpoint is kept as the best.
    #[default]
    None,
    /// The least log loss; for a label that is a number, the least RMSE.
    Logloss,
    /// The largest AUC.
    Auc,
}

impl BestKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::None, Self::Logloss, Self::Auc];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Logloss => "logloss",
            Self::Auc => "auc",
        }
    }
}
