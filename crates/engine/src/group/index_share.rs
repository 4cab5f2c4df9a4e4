//! A table group's share of the index of all stores.

use std::fmt;
use std::sync::{Arc, OnceLock};

use stepwell_base::stop::StopRequest;

use crate::index_full::IndexFull;

/// Receives notes about an index that fills up.
#[derive(Clone)]
pub struct IndexWatch {
    /// Called once, with a note.
    pub note: Arc<dyn Fn(&str) + Send + Sync>,
    /// Stops the run when the index is full; `None` if the run writes no checkpoint.
    pub stop: Option<StopRequest>,
}

impl fmt::Debug for IndexWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexWatch").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// A table group's share of the index, and its state.
#[derive(Debug, Default)]
pub(crate) struct IndexShare {
    /// Bytes of the index of all groups' stores; 0 if this group's index is all of it.
    pub(crate) of_all: u64,
    pub(super) watch: OnceLock<IndexWatch>,
    pub(super) noted: OnceLock<()>,
    pub(super) full: OnceLock<IndexFull>,
}
