//! What threads work with, kept from one task to the next, so that a step does not ask for memory
//! that grows with its mini-batch or with the model.

use std::sync::{Mutex, PoisonError};

/// Things that are handed out, one to each task that runs, and taken back.
///
/// There are never more than tasks ran at once. What one task left in a thing must not show.
#[derive(Debug)]
pub struct Workspaces<T>(Mutex<Vec<T>>);

impl<T> Default for Workspaces<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Workspaces<T> {
    /// One that is idle, or a new one.
    pub fn take(&self, make: impl FnOnce() -> T) -> T {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(make)
    }

    /// Gives one back.
    pub fn put_back(&self, workspace: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(workspace);
    }
}

/// Makes `lanes` so many zeros, in memory that is no larger than the most that was ever asked for.
pub(super) fn refill(lanes: &mut Vec<f32>, count: usize) {
    lanes.clear();
    lanes.reserve_exact(count);
    lanes.resize(count, 0.0);
}
