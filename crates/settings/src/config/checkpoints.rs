//! What is kept of a run, and when.

use std::path::PathBuf;

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
    /// By which figure one more is kept, the best evaluated one.
    pub best: BestKind,
}

/// By which figure a checkpoint is the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BestKind {
    /// None is.
    #[default]
    None,
    /// The least log loss; of a label that is a number the least RMSE.
    Logloss,
    /// The largest AUC.
    Auc,
}

impl BestKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Logloss, Self::Auc];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Logloss => "logloss",
            Self::Auc => "auc",
        }
    }
}
