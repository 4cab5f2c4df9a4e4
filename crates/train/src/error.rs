//! Errors that can end a run.

use std::path::{Path, PathBuf};

use stepwell_engine::{IndexFull, OLDER};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operating error of a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] stepwell_data::DataError),
    /// The data cannot be read, as reported by the first rank that noticed; it ends all ranks.
    #[error("{0}")]
    DataOfRanks(String),
    /// Rows or checkpoints cannot be read or written, or do not fit.
    #[error(transparent)]
    Engine(#[from] stepwell_engine::Error),
    /// Ranks cannot continue together.
    #[error(transparent)]
    Fabric(#[from] stepwell_fabric::Error),
    /// The store cannot be created.
    #[error(transparent)]
    Store(#[from] stepwell_ssd::Error),
    /// A row that came from a checkpoint cannot be read.
    #[error(
        "checkpoint {}: its rows are damaged: {source}; {}, or {OLDER}",
        checkpoint.display(), repair_hint(source)
    )]
    Rows {
        /// The damage.
        source: Box<Error>,
        /// The directory of the checkpoint.
        checkpoint: PathBuf,
    },
    /// A stop was requested before there was anything to report.
    #[error("interrupted before anything was done")]
    Interrupted,
    /// Invalid settings.
    #[error("{0}")]
    Config(String),
    /// A device failed.
    #[error("{source}; {}", after_device(*saves))]
    Device {
        /// The device's error.
        source: stepwell_device::Error,
        /// Whether the run writes checkpoints.
        saves: bool,
    },
    /// The loss is no longer finite.
    #[error(
        "the loss of step {step} is {loss}: training diverged; {}lower optim.rows.lr or \
         optim.dense.lr, or check the data for huge labels and weights{}",
        unscaled_hint(unscaled), last_checkpoint_hint(*saved)
    )]
    Diverged {
        /// The step.
        step: u64,
        /// Loss of that step.
        loss: f64,
        /// Step of the last checkpoint, if any.
        saved: Option<u64>,
        /// Dense columns with large, unscaled values.
        unscaled: Vec<String>,
    },
    /// A gradient is so large that the optimizer state would soon be infinite.
    #[error(
        "the gradient of an example of step {step} is {gradient:.1e}, too large for an optimizer \
         to sum its square: scale numeric labels or weights down{}",
        last_checkpoint_hint(*saved)
    )]
    HugeGradient {
        /// The step.
        step: u64,
        /// The gradient.
        gradient: f64,
        /// Step of the last checkpoint, if any.
        saved: Option<u64>,
    },
    /// The index of a table's rows on disk is full.
    #[error("{full}; {}", after_full_index(*saved))]
    IndexFull {
        /// Size of the index, and the proposed size.
        full: Box<IndexFull>,
        /// Step of the checkpoint that contains all training so far, if the run saves any.
        saved: Option<u64>,
    },
    /// Row histories cannot count further steps.
    #[error(
        "training cannot continue after step {step}: rows with a history (rows.history, \
         rows.expire_after, rows.admit_after, rows.admit_probability) count at most {last} steps; \
         train from scratch without these settings or with a larger data.mini_batch"
    )]
    LastStep {
        /// The step of the model.
        step: u64,
        /// The last step that can be counted.
        last: u64,
    },
    /// The training part of the data is empty.
    #[error("the training part of the data has no example ({}", nothing_left(*skipped, *left_out))]
    NothingToTrain {
        /// Number of malformed lines skipped.
        skipped: u64,
        /// Number of negatives left out.
        left_out: u64,
    },
    /// The data to score is empty.
    #[error(
        "the data to score has no example ({skipped} malformed lines were skipped); choose data \
         with --data"
    )]
    NothingToEvaluate {
        /// Number of malformed lines skipped.
        skipped: u64,
    },
    /// A checkpoint does not fit this run.
    #[error("checkpoint {}: {why}", path.display())]
    Resume {
        /// The checkpoint.
        path: PathBuf,
        /// The reason, and how to fix it.
        why: String,
    },
    /// Measured limits cannot be used.
    #[error("limits {}: {why}", path.display())]
    Limits {
        /// The file.
        path: PathBuf,
        /// The reason, and how to fix it.
        why: String,
    },
    /// A directory or file cannot be created or read.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The attempted action.
        action: &'static str,
        /// Path of the directory or file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A stage panicked: a broken invariant, not a user error.
    #[error("stage '{0}' panicked; this is a bug in stepwell")]
    Panicked(&'static str),
}

/// A failed device is reported the same way whether the engine used it or not.
impl From<stepwell_device::Error> for Error {
    fn from(error: stepwell_device::Error) -> Self {
        Self::Engine(error.into())
    }
}

impl Error {
    /// Returns the error with these dense columns as a possible cause, if it is a divergence.
    pub(crate) fn naming(mut self, columns: &[(String, f32)]) -> Self {
        if let Self::Diverged { unscaled, .. } = &mut self {
            *unscaled = columns.iter().map(|(name, _)| name.clone()).collect();
        }
        self
    }

    /// Returns the error with the checkpoint that the run started from, if rows are damaged: the
    /// run's files are links to the checkpoint's.
    pub(crate) fn of_rows_from(self, checkpoint: Option<&Path>) -> Self {
        match checkpoint {
            Some(path) if self.is_of_store() && self.is_damage() => {
                Self::Rows { source: Box::new(self), checkpoint: path.to_owned() }
            }
            _ => self,
        }
    }

    /// Converts an error about rows that ranks update; another rank's message may be the cause.
    pub(crate) fn of_shared_rows(error: stepwell_engine::Error) -> Self {
        match error {
            stepwell_engine::Error::Fabric(error) => error.into(),
            other => other.into(),
        }
    }

    /// Out of memory for rows that ranks exchange.
    pub(crate) fn no_memory_of_ranks(error: std::io::Error) -> Self {
        Self::Config(format!("no memory for rows of other ranks: {error}; lower data.mini_batch"))
    }

    /// Whether files differ from what was written, so that repair or an older copy helps.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Data(error) => error.is_damage(),
            Self::Engine(error) => error.is_damage(),
            Self::Store(error) => error.is_damage(),
            Self::Rows { .. } => true,
            _ => false,
        }
    }

    /// Whether the settings are invalid, for any data or for this checkpoint.
    pub fn is_of_settings(&self) -> bool {
        use stepwell_engine::Error as EngineError;
        use stepwell_ssd::Error::Options;
        if let Self::Data(error) = self {
            return error.is_of_settings();
        }
        matches!(
            self,
            Self::Config(_)
                | Self::Resume { .. }
                | Self::Store(Options(_))
                | Self::Engine(
                    EngineError::Settings(_)
                        | EngineError::NoCheckpoint { .. }
                        | EngineError::NoRowOnDevice { .. }
                        | EngineError::Store(Options(_))
                )
        )
    }

    /// Whether a store or one of its files failed.
    pub(crate) fn is_of_store(&self) -> bool {
        use stepwell_engine::Error as EngineError;
        let is_full = matches!(self, Self::Engine(EngineError::IndexFull(_)));
        is_full || matches!(self, Self::Store(_) | Self::Engine(EngineError::Store(_)))
    }
}

fn nothing_left(skipped: u64, left_out: u64) -> String {
    match left_out {
        0 => format!(
            "{skipped} malformed lines were skipped); lower data.eval_fraction or check the data"
        ),
        _ => format!(
            "{left_out} negatives were left out, and there is no positive); check the label, or \
             raise data.negative_rate if it is below 1"
        ),
    }
}

fn after_full_index(saved: Option<u64>) -> String {
    saved.map_or_else(
        || "nothing was saved, because checkpoint.dir is not set".to_owned(),
        |step| {
            format!(
                "the model after step {step} is saved: continue with that setting and --resume or, \
                 if `train --from` started the run, with the same command"
            )
        },
    )
}

fn after_device(saves: bool) -> &'static str {
    match saves {
        true => {
            "checkpoints are not affected: continue from the last one with --resume, on other \
             devices or with --device host"
        }
        false => "there is no checkpoint to continue from, because checkpoint.dir is not set",
    }
}

fn unscaled_hint(columns: &[String]) -> String {
    match columns {
        [] => String::new(),
        columns => format!(
            "give the dense columns without a scale ({}) transform = \"standardise\", or ",
            columns.join(", ")
        ),
    }
}

fn last_checkpoint_hint(saved: Option<u64>) -> String {
    saved.map_or_else(String::new, |step| format!("; the last checkpoint is at step {step}"))
}

/// How to continue with the remaining rows; omits what the error already suggests.
fn repair_hint(error: &Error) -> &'static str {
    match error.to_string().contains("store repair") {
        true => "--repaired accepts the result",
        false => "`stepwell store repair` salvages the rest, which --repaired accepts",
    }
}
