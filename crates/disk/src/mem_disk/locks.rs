//! Holders of the locks of a world in memory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::disk::Lock;
use crate::mutex::lock;

/// The locks of a world; clones refer to the same ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    held: Vec<Held>,
    taken: u64,
}

/// Whether others may hold a lock, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    Alone,
    Shared,
}

/// A lock that is held, with a unique number.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    sharing: Sharing,
    number: u64,
}

impl Locks {
    pub(super) fn take(&self, path: &Path, sharing: Sharing) -> Option<Box<dyn Lock>> {
        let mut state = lock(&self.0);
        let excludes = |held: &Held| [held.sharing, sharing].contains(&Sharing::Alone);
        if state.held.iter().any(|held| held.path == path && excludes(held)) {
            return None;
        }
        state.taken += 1;
        let number = state.taken;
        state.held.push(Held { path: path.to_owned(), sharing, number });
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
