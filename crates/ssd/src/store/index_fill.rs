//! How full the index of an open store is, and how to exceed its bound to save rows.

use crate::store::core::Store;

/// Rows of a store's index, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFill {
    /// Number of rows indexed.
    pub rows: u64,
    /// Bytes of the index.
    pub bytes: u64,
    /// The bound on `bytes`.
    pub bytes_max: u64,
}

impl Store {
    /// How full the index is.
    pub fn index_fill(&self) -> IndexFill {
        let state = self.core.state();
        let index = &state.index;
        IndexFill { rows: index.rows(), bytes: index.bytes(), bytes_max: index.bytes_max() }
    }

    /// Bytes of an index that holds any `rows` rows of this store.
    pub fn index_bytes_for(&self, rows: u64) -> u64 {
        self.core.options.index_bytes_for(rows)
    }

    /// Removes the bound on the index, so that a full index can still take the rows in memory
    /// before the store closes.
    pub fn lift_index_bound(&self) {
        self.core.state_mut().index.set_bytes_max(u64::MAX);
    }
}
