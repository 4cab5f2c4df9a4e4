//! A value that a stage leaves when it ends.

use std::sync::{Arc, Mutex, PoisonError};

/// Holds the value until the pipeline takes it.
pub(super) type Handoff<T> = Arc<Mutex<Option<T>>>;

pub(super) fn take<T>(place: &Handoff<T>) -> Option<T> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}
