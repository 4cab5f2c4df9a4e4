//! Interface for saving the model after a step.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stepwell_base::owner::RankOf;
use stepwell_ssd::Manifest;

use super::best::Figure;
use crate::Result;
use crate::dense::{Dense, DenseView};
use crate::group::Group;

/// Saves the model after exactly one step, completely or not at all.
///
/// Nothing is in flight and every dirty row is in its group's store, on every rank with rows; the
/// run continues when everything is saved.
///
/// Among several ranks, rank 0 begins; then each rank keeps its part, in any order or concurrently;
/// then rank 0 ends. Until then, and if anything fails, the previous save remains the last one.
pub trait Keep: Send {
    /// Makes room for the model after `step` steps. If it is already saved, returns its path.
    ///
    /// # Errors
    /// On any I/O error, and if something else is in its place.
    fn begin(&mut self, step: u64, run: &Value) -> Result<Option<PathBuf>>;

    /// Saves the part of one rank.
    ///
    /// # Errors
    /// On any I/O error, which also ends what `begin` began.
    fn keep(&mut self, part: &ModelPart<'_>) -> Result<KeptPart>;

    /// Completes the save from all `parts`, by rank; returns its path.
    ///
    /// # Errors
    /// On any I/O error, which also ends what `begin` began.
    fn end(&mut self, whole: &WholeModel<'_>, parts: &[KeptPart]) -> Result<PathBuf>;

    /// Records that the run ended with the model after `step` steps, saved at `kept`: all of its
    /// data is trained. Called by rank 0.
    ///
    /// # Errors
    /// On any I/O error; the model stays saved.
    fn ended(&mut self, _kept: &Path, _step: u64, _run: &Value) -> Result<()> {
        Ok(())
    }

    /// Records the figure of the saved model after `step` steps; the best model is kept.
    ///
    /// # Errors
    /// On any I/O error.
    fn note_figure(&mut self, _step: u64, _figure: &Figure, _run: &Value) -> Result<()> {
        Ok(())
    }

    /// Saves the model of a single rank after `step` steps; returns its path.
    ///
    /// `run` is the trainer's state for resuming (position, config, scalars).
    ///
    /// # Errors
    /// On any I/O error; the previous save then remains the last one.
    fn write(
        &mut self,
        step: u64,
        run: &Value,
        dense: &DenseView<'_>,
        groups: &[Arc<Group>],
    ) -> Result<PathBuf> {
        if let Some(kept) = self.begin(step, run)? {
            return Ok(kept);
        }
        let part =
            self.keep(&ModelPart { step, of: RankOf::ALONE, groups, past: Dense::default() })?;
        self.end(&WholeModel { step, run, dense, groups }, &[part])
    }
}

/// The part of a model that one rank has.
#[derive(Debug)]
pub struct ModelPart<'a> {
    /// Steps trained.
    pub step: u64,
    /// The rank that writes this part.
    pub of: RankOf,
    /// The rank's rows.
    pub groups: &'a [Arc<Group>],
    /// The rank's other state for resuming; empty for a single rank, whose state is in the dense
    /// part.
    pub past: Dense,
}

/// The part of a model that is the same on all ranks.
#[derive(Clone, Copy, Debug)]
pub struct WholeModel<'a> {
    /// Steps trained.
    pub step: u64,
    /// The trainer's state for resuming.
    pub run: &'a Value,
    /// The dense part.
    pub dense: &'a DenseView<'a>,
    /// The table groups, for the meaning of rows.
    pub groups: &'a [Arc<Group>],
}

/// Record of a saved part; defined by the implementation, and exchanged by ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPart {
    /// Name, checksum and length of each file that vouches for others or for itself.
    pub(super) files: Vec<(String, u64, u64)>,
    /// Sections of the rank's other state, and their numbers of values.
    pub(super) past: Vec<(String, usize)>,
}

impl KeptPart {
    /// Encodes the part as text for another rank.
    pub fn to_text(&self) -> String {
        #[expect(clippy::expect_used, reason = "names and numbers always serialize")]
        serde_json::to_string(self).expect("a part is plain data")
    }

    /// Decodes the text of [`KeptPart::to_text`]; `None` if it is invalid.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }
}

impl Group {
    /// Puts a snapshot of the group's current store into `to`, an existing directory without a
    /// store. It records the step before which rows are expired, as all ranks do.
    ///
    /// # Errors
    /// Errors of [`stepwell_ssd::Store::snapshot`].
    pub fn snapshot(&self, to: &Path) -> Result<Manifest> {
        self.expire()?;
        Ok(self.store.snapshot(to)?)
    }
}
