//! Holders of the locks of a world in memory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::lock;
use crate::Lock;

/// The locks of a world; clones refer to the same ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    held: Vec<Held>,
    taken: u64,
}

/// A lock that is held, with a unique number.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    alone: bool,
    number: u64,
}

impl Locks {
    pub(super) fn take(&self, path: &Path, alone: bool) -> Option<Box<dyn Lock>> {
        let mut state = lock(&self.0);
        if state.held.iter().any(|held| held.path == path && (held.alone || alone)) {
            return None;
        }
        state.taken += 1;
        let number = state.taken;
        state.held.push(Held { path: path.to_owned(), alone, number });
        Some(Box::new(MemLock { locks: self.clone(), number }))
    }

    /// Releases all locks.
    pub(super) fn free(&self) {
        lock(&self.0).held.clear();
    }
}

/// A lock, identified by its number.
#[derive(Debug)]
struct MemLock {
    locks: Locks,
    number: u64,
}

impl Lock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        lock(&self.locks.0).held.retain(|held| held.number != self.number);
    }
}
