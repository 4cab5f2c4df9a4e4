//! Ends a run whose index is full as a signal would, with a checkpoint.

use std::sync::Arc;

use stepwell_engine::{Error as EngineError, Group, IndexWatch};

use super::surroundings::Surroundings;
use crate::{Error, Result};

/// Makes a full index stop the run if it `saves` checkpoints.
pub(super) fn watch(around: &Surroundings, groups: &[Arc<Group>], saves: bool) {
    let stop = around.machine.ranks.as_ref().map_or(&around.stop, |ranks| &ranks.stop);
    for group in groups {
        let (note, stop) = (Arc::clone(&around.on_note), saves.then(|| stop.clone()));
        group.watch_index(IndexWatch { note, stop });
    }
}

/// Fails if a full index stopped the run; `saved` is the step of the last checkpoint.
pub(super) fn check(groups: &[Arc<Group>], saved: Option<u64>) -> Result<()> {
    let full = groups.iter().find_map(|group| group.index_full());
    full.map_or(Ok(()), |full| Err(Error::IndexFull { full: Box::new(full.clone()), saved }))
}

/// Adds to a full-index error that the run saved nothing.
pub(super) fn not_kept(error: Error) -> Error {
    match error {
        Error::Engine(EngineError::IndexFull(full)) => Error::IndexFull { full, saved: None },
        other => other,
    }
}
