//! Handles an index that fills up: warns in time, and stops the run without losing the model.
//!
//! - **How.** At nine tenths, a note is printed. When a row finds no room and the run writes
//!   checkpoints, the run is asked to stop, as by a signal. Until the last checkpoint is written,
//!   the index may exceed its bound, at most by the rows in memory and in staging.

use stepwell_ssd::{Error as StoreError, IndexFill};

use super::Group;
use super::index_share::IndexWatch;
use crate::index_full::IndexFull;
use crate::staging::StagedRows;
use crate::{Error, Result};

/// Tenths of the index at which a note is printed.
const TENTHS_NOTED: u64 = 9;

impl Group {
    /// Sets the receiver of notes about the index; only the first call counts.
    pub fn watch_index(&self, watch: IndexWatch) {
        let _ = self.index.watch.set(watch);
    }

    /// Figures of the index, if it was full and stopped the run.
    pub fn index_full(&self) -> Option<&IndexFull> {
        self.index.full.get()
    }

    /// Puts rows into the store.
    pub(super) fn put(&self, buffer: &StagedRows) -> Result<()> {
        let (keys, used) = (&*buffer.keys, &*buffer.used);
        let rows: &[u8] = bytemuck::cast_slice(&buffer.rows);
        let (put, outcome) = self.store.put_some(keys, used, rows);
        match outcome {
            Err(StoreError::IndexFull { rows: indexed, bytes, bytes_max, .. }) => {
                let full = self.fill(IndexFill { rows: indexed, bytes, bytes_max });
                let Some(stop) = self.index.watch.get().and_then(|watch| watch.stop.as_ref())
                else {
                    return Err(Error::IndexFull(Box::new(full)));
                };
                let _ = self.index.full.set(full);
                stop.make();
                self.store.lift_index_bound();
                let rest = &rows[put * self.spec().row_bytes()..];
                self.store.put_many(&keys[put..], &used[put..], rest)?;
            }
            outcome => outcome?,
        }
        self.note_fill();
        Ok(())
    }

    /// Prints a note, once, when most of the index is taken.
    fn note_fill(&self) {
        let Some(watch) = self.index.watch.get() else { return };
        let fill = self.store.index_fill();
        let is_noted = fill.bytes / TENTHS_NOTED >= fill.bytes_max / 10;
        if is_noted && self.index.noted.set(()).is_ok() {
            let full = self.fill(fill);
            let (table, figures) = (&full.table, full.figures());
            (watch.note)(&format!(
                "the index of table '{table}' is nine tenths full, and the run ends once it is \
                 full: {figures}"
            ));
        }
    }

    fn fill(&self, fill: IndexFill) -> IndexFull {
        let bytes_for = |rows| self.store.index_bytes_for(rows);
        IndexFull::new(&self.names(), self.index.of_all, fill, bytes_for)
    }
}

/// Translates a full-index error of a store with a share of the index into figures of the whole.
pub(crate) fn index_of_all(
    error: StoreError,
    names: &str,
    of_all: u64,
    rows: u64,
    bytes_for: impl Fn(u64) -> u64,
) -> Error {
    match error {
        StoreError::IndexFull { rows: indexed, bytes_max, .. } => {
            let rows = rows.max(indexed);
            let fill = IndexFill { rows, bytes: bytes_for(rows), bytes_max };
            Error::IndexFull(Box::new(IndexFull::new(names, of_all, fill, bytes_for)))
        }
        other => Error::Store(other),
    }
}
