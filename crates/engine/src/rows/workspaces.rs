//! Pools of workspaces that tasks reuse, so that a step doesn't allocate memory that grows with its
//! mini-batch or the model.

use std::sync::{Mutex, PoisonError};

/// A pool of workspaces, each used by one task at a time.
///
/// Contains at most as many workspaces as tasks ran at once. Contents that a task leaves must have
/// no effect.
#[derive(Debug)]
pub struct Workspaces<T>(Mutex<Vec<T>>);

impl<T> Default for Workspaces<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Workspaces<T> {
    /// Returns an idle workspace, or makes a new one.
    pub fn take(&self, make: impl FnOnce() -> T) -> T {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(make)
    }

    /// Returns a workspace to the pool.
    pub fn put_back(&self, workspace: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(workspace);
    }
}

/// Sets `lanes` to `count` zeros, with capacity for no more than the largest `count` so far.
pub(super) fn refill(lanes: &mut Vec<f32>, count: usize) {
    lanes.clear();
    lanes.reserve_exact(count);
    lanes.resize(count, 0.0);
}
