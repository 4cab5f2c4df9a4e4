//! What is expected of the tables before a run.

use stepwell_engine::Checkpoint;

use crate::models::Model;

/// Expectations about the tables, for a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected<'a> {
    /// The checkpoint whose model the run begins with.
    pub from: Option<&'a Checkpoint>,
    /// Final number of rows, over all tables and ranks.
    pub rows: Option<u64>,
}

/// Rows of each table group in a checkpoint, over all ranks; `None` if a store doesn't record them.
pub(crate) fn rows_by_group(from: &Checkpoint, model: &Model) -> Option<Vec<u64>> {
    let rows = |number| {
        let stores = from.manifests_of_group(number)?;
        Some(stores.iter().map(|store| store.rows).sum())
    };
    (0..model.groups().len()).map(rows).collect()
}
