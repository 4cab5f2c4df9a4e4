//! Who keeps the model as of a step.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stepwell_ssd::Manifest;

use super::{Dense, DenseView, Figure};
use crate::{Group, Result};

/// Keeps the model after exactly one step, whole or not at all.
///
/// Scenario: nothing is in flight and every dirty row is in its group's store, on every rank that
/// has some; the run goes on when all is kept.
///
/// Of several ranks, rank 0 begins; then each keeps its part, in any order and at the same time;
/// when all have, rank 0 ends. What was kept before is the last one until then, and where anything
/// fails.
pub trait Keep: Send {
    /// Makes room for the model after `step` steps, or finds that it is kept already: then what
    /// keeps it, by name.
    ///
    /// # Errors
    /// On any I/O error, and when something else is in its place.
    fn begin(&mut self, step: u64, run: &Value) -> Result<Option<PathBuf>>;

    /// Keeps the part of one rank.
    ///
    /// # Errors
    /// On any I/O error; nothing is begun any more then.
    fn keep(&mut self, part: &ModelPart<'_>) -> Result<KeptPart>;

    /// Makes one of all `parts`, by rank; what keeps it, by name.
    ///
    /// # Errors
    /// On any I/O error; nothing is begun any more then.
    fn end(&mut self, whole: &WholeModel<'_>, parts: &[KeptPart]) -> Result<PathBuf>;

    /// Says that the run ended with what `kept` keeps, the model after `step` steps: all of its
    /// data is trained. Called by rank 0.
    ///
    /// # Errors
    /// On any I/O error; the model stays kept.
    fn ended(&mut self, _kept: &Path, _step: u64, _run: &Value) -> Result<()> {
        Ok(())
    }

    /// Notes how good the model after `step` steps is, which is kept: the best one stays.
    ///
    /// # Errors
    /// On any I/O error.
    fn note_figure(&mut self, _step: u64, _figure: &Figure, _run: &Value) -> Result<()> {
        Ok(())
    }

    /// Keeps the model of one rank after `step` steps; what keeps it, by name.
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
    ) -> Result<PathBuf> {
        if let Some(kept) = self.begin(step, run)? {
            return Ok(kept);
        }
        let part = self.keep(&ModelPart { step, of: (0, 1), groups, past: Dense::default() })?;
        self.end(&WholeModel { step, run, dense, groups }, &[part])
    }
}

/// What one rank has of a model.
#[derive(Debug)]
pub struct ModelPart<'a> {
    /// Steps trained.
    pub step: u64,
    /// The rank, and how many there are.
    pub of: (usize, usize),
    /// Its rows.
    pub groups: &'a [Arc<Group>],
    /// What it needs beside rows to go on; empty where one rank has all, in the dense part.
    pub past: Dense,
}

/// What all ranks have alike.
#[derive(Clone, Copy, Debug)]
pub struct WholeModel<'a> {
    /// Steps trained.
    pub step: u64,
    /// What the trainer wants back on resuming.
    pub run: &'a Value,
    /// The dense part.
    pub dense: &'a DenseView<'a>,
    /// What the rows mean.
    pub groups: &'a [Arc<Group>],
}

/// What was kept of a part: the keeper's own, for ranks to tell each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPart {
    /// Name, checksum and length of each file that binds others or stands alone.
    pub(super) files: Vec<(String, u64, u64)>,
    /// Sections of what the rank needs beside rows, and how many values each has.
    pub(super) past: Vec<(String, usize)>,
}

impl KeptPart {
    /// As text, for another rank.
    pub fn to_text(&self) -> String {
        #[expect(clippy::expect_used, reason = "names and numbers always serialize")]
        serde_json::to_string(self).expect("a part is plain data")
    }

    /// What [`KeptPart::to_text`] gave; none where it did not.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }
}

impl Group {
    /// Puts the rows as they are in the store now into `to`, a directory that exists and holds no
    /// store. It says before which step rows are expired, as the stores of all ranks say it.
    ///
    /// # Errors
    /// Those of [`stepwell_ssd::Store::snapshot`].
    pub fn snapshot(&self, to: &Path) -> Result<Manifest> {
        self.expire()?;
        Ok(self.store.snapshot(to)?)
    }
}
