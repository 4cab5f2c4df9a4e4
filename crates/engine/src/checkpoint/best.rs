//! The checkpoint of a directory that evaluated best: `best.json` next to the checkpoints.
//!
//! - **How.** The file has the step, the metric and its value, the job, and the checksum of the
//!   checkpoint's description, so that it doesn't apply to another checkpoint of that step. It is
//!   replaced as a whole.

use std::io::ErrorKind;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stepwell_base::hash;
use stepwell_disk::Disk;

use super::{META_FILE, files, name_of};
use crate::{Error, Result};

/// Name of the file.
const BEST_FILE: &str = "best.json";
/// Name of the file until it is complete.
const UNFINISHED: &str = ".best.json.unfinished";

/// A metric of an evaluated model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the metric, as in the setting `checkpoint.best`.
    pub by: String,
    /// Value of the metric.
    pub value: f64,
    /// Whether higher is better.
    pub rises: bool,
}

impl Figure {
    /// Whether this figure is better than `other`.
    fn is_better(&self, other: &Self) -> bool {
        if self.rises { self.value > other.value } else { self.value < other.value }
    }
}

/// The best checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Step of the checkpoint.
    pub step: u64,
    /// Metric of the checkpoint's model.
    #[serde(flatten)]
    pub figure: Figure,
    job: Value,
    meta: String,
}

impl Best {
    /// Name of the checkpoint's directory.
    pub(super) fn name(&self) -> String {
        name_of(self.step)
    }
}

/// The best checkpoint in `directory` and its path, if it is known and still exists.
///
/// # Errors
/// If the directory cannot be read.
pub fn best(directory: &dyn Disk) -> Result<Option<(Best, PathBuf)>> {
    if !directory.exists(BEST_FILE)? {
        return Ok(None);
    }
    let text = files::read(directory, BEST_FILE)?;
    let Ok(best) = serde_json::from_slice::<Best>(&text) else { return Ok(None) };
    let path = directory.path().join(best.name());
    match meta_of(directory, &best.name()) {
        Ok(meta) => Ok((meta == best.meta).then_some((best, path))),
        Err(Error::Disk(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Best checkpoint of the run with state `run`; a record of another run is removed.
pub(super) fn of_run(directory: &dyn Disk, run: &Value) -> Result<Option<Best>> {
    let by = run["config"]["checkpoint.best"].as_str();
    let known = best(directory)?.map(|(best, _)| best);
    let own = known.filter(|best| best.job == run["job"] && Some(&*best.figure.by) == by);
    if own.is_none() && directory.exists(BEST_FILE)? {
        directory.remove(BEST_FILE)?;
    }
    Ok(own)
}

/// Records the figure of the checkpoint of `step` if it is the best so far; returns whether it is.
pub(super) fn note(directory: &dyn Disk, step: u64, figure: &Figure, run: &Value) -> Result<bool> {
    let before = of_run(directory, run)?;
    if before.is_some_and(|before| before.step != step && !figure.is_better(&before.figure)) {
        return Ok(false);
    }
    let meta = meta_of(directory, &name_of(step))?;
    let best = Best { step, figure: figure.clone(), job: run["job"].clone(), meta };
    let text = serde_json::to_string_pretty(&best).map_err(|error| Error::Checkpoint {
        path: directory.path().join(BEST_FILE),
        why: error.to_string(),
    })?;
    if directory.exists(UNFINISHED)? {
        directory.remove(UNFINISHED)?;
    }
    files::write_synced(directory, UNFINISHED, (text + "\n").as_bytes())?;
    directory.rename(UNFINISHED, BEST_FILE)?;
    directory.sync_directory()?;
    Ok(true)
}

/// Checksum of the description of a checkpoint.
fn meta_of(directory: &dyn Disk, name: &str) -> Result<String> {
    let inside = directory.directory(&directory.path().join(name))?;
    Ok(format!("{:016x}", hash::checksum(&files::read(&*inside, META_FILE)?)))
}
