//! Handles an index that fills up: warns in time, and stops the run without losing the model.
//!
//! - **How.** At nine tenths, a note is printed. When a row finds no room and the run writes
//!   checkpoints, the run is asked to stop, as by a signal. Until the last checkpoint is written,
//!   the index may exceed its bound, at most by the rows in memory and in staging.

use std::fmt;
use std::sync::{Arc, OnceLock};

use stepwell_base::ByteCount;
use stepwell_base::stop::StopRequest;
use stepwell_ssd::{Error as StoreError, IndexFill};

use crate::{Error, Group, Result, StagedRows};

/// Tenths of the index at which a note is printed.
const TENTHS_NOTED: u64 = 9;
/// Rows that the proposed index holds, as a multiple of the current rows.
const TIMES_MORE: u64 = 2;
/// The proposed index is a multiple of this many bytes.
const ROUND: u64 = 1 << 16;

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

/// A full index, and the size of one that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexFull {
    table: String,
    fill: IndexFill,
    /// Bytes of the index of all tables.
    of_all: u64,
    /// Rows of the proposed index.
    wanted_rows: u64,
    /// Bytes of the proposed index of all tables.
    wanted_bytes: u64,
}

impl IndexFull {
    /// The index of the tables `names`, which has a share of `of_all` bytes (0 if it has all);
    /// `bytes_for` gives the bytes of an index for a number of rows.
    pub(crate) fn new(
        names: &str,
        of_all: u64,
        fill: IndexFill,
        bytes_for: impl FnOnce(u64) -> u64,
    ) -> Self {
        let (share, of_all) = (fill.bytes_max, of_all.max(fill.bytes_max));
        let wanted_rows = fill.rows.saturating_mul(TIMES_MORE);
        let bytes = u128::from(bytes_for(wanted_rows)) * u128::from(of_all);
        let bytes = u64::try_from(bytes.div_ceil(u128::from(share.max(1)))).unwrap_or(u64::MAX);
        // At least a quarter more than now, rounded up.
        let bytes = bytes.max(of_all.saturating_add(of_all / 4));
        let wanted_bytes = bytes.checked_next_multiple_of(ROUND).unwrap_or(bytes);
        Self { table: names.to_owned(), fill, of_all, wanted_rows, wanted_bytes }
    }

    /// Rows, bytes, and the proposed size.
    fn figures(&self) -> String {
        let IndexFill { rows, bytes, bytes_max } = self.fill;
        let of = match bytes_max < self.of_all {
            true => format!("its {} of ", ByteCount(bytes_max)),
            false => String::new(),
        };
        format!(
            "{rows} rows on disk take {} of {of}tiers.index = {}; raise tiers.index to {} or more \
             ({}), which holds {} rows",
            ByteCount(bytes),
            ByteCount(self.of_all),
            self.wanted_bytes,
            ByteCount(self.wanted_bytes),
            self.wanted_rows
        )
    }
}

impl fmt::Display for IndexFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the index of table '{}' is full: {}", self.table, self.figures())
    }
}

/// A table group's share of the index, and its state.
#[derive(Debug, Default)]
pub(crate) struct IndexShare {
    /// Bytes of the index of all groups' stores; 0 if this group's index is all of it.
    pub(crate) of_all: u64,
    watch: OnceLock<IndexWatch>,
    noted: OnceLock<()>,
    full: OnceLock<IndexFull>,
}

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
    pub(super) fn put(&self, chunk: &StagedRows) -> Result<()> {
        let (keys, used) = (&*chunk.keys, &*chunk.used);
        let rows: &[u8] = bytemuck::cast_slice(&chunk.rows);
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
