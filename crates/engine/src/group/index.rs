//! The index of a table group's store as it fills: a note in time, and an end that keeps the model.
//!
//! - **How.** Once nine tenths of the index are taken, that is noted. Where a row finds no room in
//!   it, the run is asked to stop, as by a signal, if it writes checkpoints. The index then grows
//!   beyond its bound until the last checkpoint is written: by rows that are in memory or on their
//!   way down, no more.

use std::fmt;
use std::sync::{Arc, OnceLock};

use stepwell_base::ByteCount;
use stepwell_base::stop::StopRequest;
use stepwell_ssd::{Error as StoreError, IndexFill};

use crate::{Error, Group, Result, StagedRows};

/// The part of an index in tenths of which somebody is told.
const TENTHS_NOTED: u64 = 9;
/// The rows that a larger index is to hold, in terms of those that are there.
const TIMES_MORE: u64 = 2;
/// Bytes of which a proposed index is a multiple.
const ROUND: u64 = 1 << 16;

/// Who is told of an index that fills.
#[derive(Clone)]
pub struct IndexWatch {
    /// Told once what somebody should know.
    pub note: Arc<dyn Fn(&str) + Send + Sync>,
    /// Asks the run to stop where the index is full; none where that would keep nothing.
    pub stop: Option<StopRequest>,
}

impl fmt::Debug for IndexWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexWatch").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// The index of a table, and how large another one would be that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexFull {
    table: String,
    fill: IndexFill,
    /// Bytes of the index of all tables.
    of_all: u64,
    /// Rows that a larger one is to hold, and its bytes for all tables.
    wanted: (u64, u64),
}

impl IndexFull {
    /// Of the index of the tables `names`, which has a share of `of_all` bytes, or is all; for the
    /// rows that `bytes_for` is asked for.
    pub(crate) fn new(
        (names, of_all): (&str, u64),
        fill: IndexFill,
        bytes_for: impl FnOnce(u64) -> u64,
    ) -> Self {
        let (share, of_all) = (fill.bytes_max, of_all.max(fill.bytes_max));
        let rows = fill.rows.saturating_mul(TIMES_MORE);
        let bytes = u128::from(bytes_for(rows)) * u128::from(of_all);
        let bytes = u64::try_from(bytes.div_ceil(u128::from(share.max(1)))).unwrap_or(u64::MAX);
        // In any case more than there is, and a round number.
        let bytes = bytes.max(of_all.saturating_add(of_all / 4));
        let wanted = (rows, bytes.checked_next_multiple_of(ROUND).unwrap_or(bytes));
        Self { table: names.to_owned(), fill, of_all, wanted }
    }

    /// Rows, bytes, and what would do.
    fn figures(&self) -> String {
        let IndexFill { rows, bytes, bytes_max } = self.fill;
        let (wanted_rows, wanted) = self.wanted;
        let of = match bytes_max < self.of_all {
            true => format!("its {} of ", ByteCount(bytes_max)),
            false => String::new(),
        };
        format!(
            "{rows} rows on disk take {} of {of}tiers.index = {}; raise tiers.index to {wanted} \
             or more ({}), which holds {wanted_rows} rows",
            ByteCount(bytes),
            ByteCount(self.of_all),
            ByteCount(wanted)
        )
    }
}

impl fmt::Display for IndexFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the index of table '{}' is full: {}", self.table, self.figures())
    }
}

/// What a table group has of the index, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct IndexShare {
    /// Bytes of the index of all groups' stores; 0 where this one's is all.
    pub(crate) of_all: u64,
    watch: OnceLock<IndexWatch>,
    noted: OnceLock<()>,
    full: OnceLock<IndexFull>,
}

impl Group {
    /// Has `watch` told of an index that fills.
    pub fn watch_index(&self, watch: IndexWatch) {
        let _ = self.index.watch.set(watch);
    }

    /// The index, where it was full and the run was asked to stop.
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

    /// Notes once that most of the index is taken.
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
        IndexFull::new((&self.names(), self.index.of_all), fill, bytes_for)
    }
}

/// What a store of `rows` rows says that was opened with a share of an index, in terms of the
/// whole.
pub(crate) fn index_of_all(
    error: StoreError,
    names: (&str, u64),
    rows: u64,
    bytes_for: impl Fn(u64) -> u64,
) -> Error {
    match error {
        StoreError::IndexFull { rows: indexed, bytes_max, .. } => {
            let rows = rows.max(indexed);
            let fill = IndexFill { rows, bytes: bytes_for(rows), bytes_max };
            Error::IndexFull(Box::new(IndexFull::new(names, fill, bytes_for)))
        }
        other => Error::Store(other),
    }
}
