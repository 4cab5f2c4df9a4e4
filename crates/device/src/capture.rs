//! Operations of a stream that are captured for a graph.

use crate::access::Access;
use crate::check::Place;
use crate::driver::{Keeps, What};

/// Operations being captured.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    pub(crate) operations: Vec<(What, Keeps, Vec<Access>, Place)>,
}

impl Capture {
    /// Adds an operation.
    ///
    /// # Panics
    /// If it copies from or to the host.
    pub(crate) fn add(&mut self, what: What, keeps: Keeps, accesses: &[Access], place: Place) {
        let is_within = !matches!(what, What::Up { .. } | What::Down { .. });
        assert!(is_within, "{place}: a captured operation must stay on the device");
        self.operations.push((what, keeps, accesses.to_vec(), place));
    }
}
