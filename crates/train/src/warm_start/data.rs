//! Finds the data that was trained before, that a run had begun, and that is left.

use std::path::{Path, PathBuf};

use stepwell_data::{is_stream, note_recordless};

use crate::batch::RunPosition;
use crate::data_file::DataFile;
use crate::resume::RunState;
use crate::{Error, Result};

/// The data of a run that stopped partway.
pub(super) struct Begun {
    /// The run's files, in order.
    pub(super) files: Vec<Found>,
    /// Files that were never trained and are not among the run's.
    pub(super) later: Vec<Found>,
    /// Whether files that the run had not yet trained have changed since it stopped.
    pub(super) is_changed: bool,
    /// Where the run stopped, in terms of these files.
    pub(super) position: RunPosition,
}

impl Begun {
    /// Finds the data of the run with this `state` among the files `found`, of which `left` were
    /// never trained; `None` if a file is gone, or has changed after it was partly trained.
    pub(super) fn of(state: &RunState, found: &[Found], left: &[Found]) -> Option<Self> {
        let mut position = state.position;
        // Nothing after this file was trained, unless in a previous window or epoch.
        let is_in_order = position.epoch == 0 && position.taken == 0;
        let may_change = |number: usize| {
            let (at, line) = (state.position.file as usize, state.position.line);
            is_in_order && (number > at || (number == at && line == 0))
        };
        let mut files: Vec<Found> = Vec::new();
        let mut is_changed = false;
        for (number, was) in state.files.iter().enumerate() {
            let mut free = found.iter().filter(|(path, _)| files.iter().all(|(of, _)| of != path));
            let is_it = |(_, now): &&Found| was.is_content_of(now);
            let is_there = |(_, now): &&Found| !was.path.is_empty() && was.path == now.path;
            let same = free.clone().find(is_it);
            let changed = || free.find(is_there).filter(|_| may_change(number));
            is_changed |= same.is_none();
            match same.or_else(changed) {
                Some(now) => files.push(now.clone()),
                // The file had no records, so if it is there, it is now a new file.
                None if was.empty => {
                    position.file -= u32::from(number < state.position.file as usize);
                }
                None => return None,
            }
        }
        let is_new = |(path, _): &&Found| files.iter().all(|(of, _)| of != path);
        let later = left.iter().filter(is_new).cloned().collect();
        let is_there = (position.file as usize) < files.len();
        is_there.then_some(Self { files, later, is_changed, position })
    }
}

/// Whether the file in which a run stopped has changed.
pub(super) fn changed_in_the_middle(state: &RunState, found: &[Found]) -> bool {
    let was = state.files.get(state.position.file as usize);
    let is_changed = |was: &DataFile, now: &DataFile| {
        !was.path.is_empty() && was.path == now.path && !was.is_content_of(now)
    };
    was.is_some_and(|was| found.iter().any(|(_, now)| is_changed(was, now)))
}

impl DataFile {
    /// Whether `now` has the content that this file had, as far as both ends show.
    pub(super) fn is_content_of(&self, now: &Self) -> bool {
        // In another folder that is a column, the same bytes are other records. Earlier builds had
        // no such columns.
        let [was, is] =
            [self, now].map(|file| file.name.rsplit_once('/').map(|(folder, _)| folder));
        if was.is_some() && is.is_some() && was != is {
            return false;
        }
        match (self.ends.is_empty(), now.ends.is_empty()) {
            (false, false) => (self.bytes, &self.ends) == (now.bytes, &now.ends),
            (_, true) => false,
            // Name and length, as recorded by an earlier build.
            (true, false) => {
                !is_stream(Path::new(&self.name))
                    && (&self.name, self.bytes) == (&now.name, now.bytes)
            }
        }
    }

    /// Refuses a file that was trained with another content.
    pub(super) fn refuse_changed(&self, trained: &[Self]) -> Result<()> {
        let before =
            trained.iter().find(|before| !self.path.is_empty() && before.path == self.path);
        // A file that was empty then has no trained record.
        let before = before.filter(|before| before.bytes > 0 && !self.ends.is_empty());
        before.map_or(Ok(()), |before| {
            Err(Error::Config(format!(
                "{} was trained when it had {} bytes, and has changed since: it now has {}; put \
                 the new records in a separate file, or give only this file with --again to train \
                 on all of it",
                self.path, before.bytes, self.bytes
            )))
        })
    }
}

/// A data file, and what identifies it.
pub(super) type Found = (PathBuf, DataFile);

/// Note on files without records, unless no file has any.
pub(super) fn recordless(found: &[Found]) -> Option<String> {
    let none = found.iter().filter(|(_, file)| file.empty);
    let names: Vec<String> = none.map(|(_, file)| file.name.clone()).collect();
    (names.len() < found.len()).then(|| note_recordless(&names, found.len(), "files")).flatten()
}

/// Whether two lists are of the same data.
pub(super) fn alike(now: &[DataFile], was: &[DataFile]) -> bool {
    now.len() == was.len() && was.iter().zip(now).all(|(was, now)| was.is_content_of(now))
}

/// Shortens a list of names.
pub(super) fn shortened(names: &[String]) -> String {
    match names {
        [first, _, _, .., last] => format!("{first} to {last}"),
        few => few.join(", "),
    }
}
