//! Planners and devices, returned by stages that ran to their end.

use std::sync::{Arc, Mutex, PoisonError};

use crate::planner::Planner;

/// The planners of finished stages.
#[derive(Clone, Debug, Default)]
pub struct Finished(Arc<Mutex<Option<Vec<Planner>>>>);

impl Finished {
    /// Sets the planners, when the stages end.
    pub(super) fn put(&self, planners: Vec<Planner>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(planners);
    }

    /// Returns the planners, if the stages ran to their end.
    ///
    /// # Panics
    /// If rows are still pinned.
    pub fn take(&self) -> Option<Vec<Planner>> {
        let planners = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        for planner in &planners {
            assert_eq!(planner.pinned(), 0, "rows are pinned although nothing is in flight");
        }
        Some(planners)
    }
}
