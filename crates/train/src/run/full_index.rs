//! What becomes of a run whose index is full: it ends as by a signal, with a checkpoint.

use std::sync::Arc;

use stepwell_engine::{Error as EngineError, Group, IndexWatch};

use super::Surroundings;
use crate::{Error, Result};

/// Has an index that is full stop the run, where it `saves` any checkpoints.
pub(super) fn watch(around: &Surroundings, groups: &[Arc<Group>], saves: bool) {
    let stop = around.machine.ranks.as_ref().map_or(&around.stop, |ranks| &ranks.stop);
    for group in groups {
        let (note, stop) = (Arc::clone(&around.on_note), saves.then(|| stop.clone()));
        group.watch_index(IndexWatch { note, stop });
    }
}

/// Refuses to call a run done that an index has stopped; its last checkpoint is of step `saved`.
pub(super) fn check(groups: &[Arc<Group>], saved: Option<u64>) -> Result<()> {
    let full = groups.iter().find_map(|group| group.index_full());
    full.map_or(Ok(()), |full| Err(Error::IndexFull { full: Box::new(full.clone()), saved }))
}

/// Of a full index, that nothing is kept, since the run saves nothing.
pub(super) fn not_kept(error: Error) -> Error {
    match error {
        Error::Engine(EngineError::IndexFull(full)) => Error::IndexFull { full, saved: None },
        other => other,
    }
}
