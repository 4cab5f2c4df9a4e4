//! Notes of trials, each printed once: most are about the data, which all trials share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::progress::Progress;

/// The notes printed so far.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<BTreeSet<String>>);

impl Notes {
    /// Whether a note is new.
    pub(super) fn is_new(&self, note: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(note.to_owned())
    }

    /// Prints new notes beside `progress`.
    pub(super) fn of(self: &Arc<Self>, progress: &Arc<Progress>) -> impl Fn(&str) + use<> {
        let (notes, progress) = (Arc::clone(self), Arc::clone(progress));
        move |note: &str| {
            if notes.is_new(note) {
                progress.note(note);
            }
        }
    }
}
