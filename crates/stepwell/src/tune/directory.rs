//! The directory of a search: what it searches, its trials, and their checkpoints.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Failure;
use crate::outputs;

/// What is searched; a search that goes on must have the same.
const SEARCH: &str = "search.json";
/// A trial's file.
const TRIAL: &str = "trial.json";
/// A trial's directory of checkpoints.
const SAVED: &str = "saved";
/// A trial's directory of rows.
const ROWS: &str = "rows";

/// The directory, held by this process alone.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Locked until the search ends.
    _lock: File,
}

impl Directory {
    /// Creates the directory of a `search`, or opens that of the same search.
    pub(super) fn open(path: &Path, search: &Value) -> Result<Self, Failure> {
        let refuse = |why: &str| Failure::Usage(format!("--out {}: {why}", path.display()));
        let file = path.join(SEARCH);
        if !file.is_file() {
            outputs::check_directory("--out", path)?;
            if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
                return Err(refuse("has other files, and no search: name a new directory"));
            }
            create(path)?;
            outputs::write(Some(&file), search)?;
        }
        let lock = File::open(&file).map_err(|error| unreadable(&file, &error))?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(refuse("another `stepwell tune` searches there: name another directory"));
        }
        let was: Value = read(&file)?.unwrap_or_default();
        match difference(&was, search) {
            None => Ok(Self { path: path.to_owned(), _lock: lock }),
            Some(what) => Err(refuse(&format!(
                "has a search with other {what}: give the same, or name a new directory"
            ))),
        }
    }

    /// A file of the search.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn of_trial(&self, trial: u64) -> PathBuf {
        self.path.join(name(trial))
    }

    /// A trial's directory of checkpoints.
    pub(super) fn saved(&self, trial: u64) -> PathBuf {
        self.of_trial(trial).join(SAVED)
    }

    /// A trial's directory of rows, while it trains.
    pub(super) fn rows(&self, trial: u64) -> PathBuf {
        self.of_trial(trial).join(ROWS)
    }

    /// The trial as it was last written, if it has begun.
    pub(super) fn load<T: DeserializeOwned>(&self, trial: u64) -> Result<Option<T>, Failure> {
        read(&self.of_trial(trial).join(TRIAL))
    }

    /// Writes what is known of a trial.
    pub(super) fn save(&self, trial: u64, known: &impl Serialize) -> Result<(), Failure> {
        let directory = self.of_trial(trial);
        create(&directory)?;
        Ok(outputs::write(Some(&directory.join(TRIAL)), known)?)
    }

    /// Removes a trial's checkpoints.
    pub(super) fn drop_saved(&self, trial: u64) -> Result<(), Failure> {
        Ok(remove(&self.saved(trial))?)
    }
}

/// The name of a trial's directory.
pub(super) fn name(trial: u64) -> String {
    format!("trial-{trial:03}")
}

/// What differs between two searches: a part, and the setting or file in it.
fn difference(was: &Value, now: &Value) -> Option<String> {
    let now = now.as_object()?;
    let (part, now) = now.iter().find(|(part, now)| was[*part] != **now)?;
    let Some(now) = now.as_object() else { return Some(part.clone()) };
    let was = was[part].as_object();
    let other = |key: &&String| was.and_then(|was| was.get(*key)) != now.get(*key);
    let mut keys = now.keys().chain(was.into_iter().flat_map(|was| was.keys()));
    Some(keys.find(other).map_or(part.clone(), |key| format!("{part} ({key})")))
}

fn create(path: &Path) -> Result<(), String> {
    let fail = |error| format!("cannot create {}: {error}", path.display());
    match fs::create_dir(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(fail(error)),
        _ => Ok(()),
    }
}

/// Removes a directory that the search made.
pub(super) fn remove(path: &Path) -> Result<(), String> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    let path = path.display();
    Failure::Error(format!("cannot read {path}: {why}; remove it to begin anew"))
}

/// Reads JSON; `None` if there is no file.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|why| unreadable(path, &why)),
    }
}
