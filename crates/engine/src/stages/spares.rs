//! Mini-batches that are over, whose memory the next ones get.
//!
//! Their lists are large, so the allocator would give each back to the system when it is dropped,
//! in one thread, and take fresh pages for the next one, in another.
//!
//! Bounds: [`SPARES`] mini-batches; one more is dropped.

use std::sync::{Mutex, PoisonError};

use super::flow::{Cargo, MiniBatch};
use crate::Part;

/// Mini-batches that are kept.
pub const SPARES: usize = 2;

/// A place for them, between the stage that ends them and the one that fills them.
#[derive(Debug)]
pub struct Spares<C>(Mutex<Vec<MiniBatch<C>>>);

impl<C> Default for Spares<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: Cargo> Spares<C> {
    /// Keeps the memory of `mini`, where there is room.
    pub(super) fn keep(&self, mut mini: MiniBatch<C>) {
        let mut spares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < SPARES {
            mini.parts.iter_mut().for_each(Part::clear);
            mini.cargo.clear();
            spares.push(mini);
        }
    }

    /// An empty mini-batch with the memory of an earlier one, if there is one.
    pub fn take(&self) -> Option<MiniBatch<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}
