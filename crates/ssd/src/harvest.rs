//! Rows wanted soon, found on pages that were read for other rows.
//!
//! - **Why.** A cold row costs the read of a whole page. Rows that left memory together are stored
//!   together and tend to be needed together again; a page that is read anyway yields them for a
//!   copy.
//! - **How.** After a page is read, the keys of all its rows are passed to [`Wanted`]; wanted rows
//!   are put on a list with the place where they were found. A row on it counts if
//!   [`Reader::live`](crate::Reader::live) finds that the index still has its place: otherwise it
//!   is an older version. If pages have many such rows, their neighbours are read with them, as
//!   many as pay off ([`ReadUnit`]).
//! - **Cost.** A check of each key on a page; a copy and an index look-up for each row taken.
//! - **Bounds.** [`ROWS_MAX`] rows on the list; further rows are ignored.

use std::fmt::Debug;
use std::sync::Arc;

use stepwell_base::Key;

use crate::layout::Layout;
use crate::numbers::{SegmentNumber, SlotPage};
use crate::read_unit::ReadUnit;
use crate::segment::page;

/// The most rows that wait to be taken.
const ROWS_MAX: usize = 2048;

/// Knows which rows are wanted soon.
pub trait Wanted: Debug + Send + Sync {
    /// Calls `found` with the position in `keys` of each wanted key.
    fn look(&self, keys: &[Key], found: &mut dyn FnMut(usize));
}

/// Place where a row was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundAt {
    pub(crate) at: SlotPage,
    /// Number of the segment, since slots are reused.
    pub(crate) segment: SegmentNumber,
    /// Whether the row's page was read only as a neighbour of a requested one.
    pub(crate) is_around: bool,
}

/// Wanted rows found on pages that were read for other rows.
#[derive(Clone, Debug, Default)]
pub struct Harvest {
    /// Keys of the rows.
    pub keys: Vec<Key>,
    /// Payloads of the rows. // (keys, row_bytes)
    pub rows: Vec<u8>,
    pub(crate) places: Vec<FoundAt>,
}

impl Harvest {
    /// Whether a row's page was read only as a neighbour of a requested one.
    pub fn is_around(&self, at: usize) -> bool {
        self.places[at].is_around
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.rows.clear();
        self.places.clear();
    }

    /// The most bytes of a reader's list and of the list it is moved to.
    pub fn bytes_max(row_bytes: usize) -> u64 {
        (2 * ROWS_MAX * (row_bytes + size_of::<Key>() + size_of::<FoundAt>())) as u64
    }
}

/// A page that was read, and the number of rows on it.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) layout: &'a Layout,
    pub(crate) rows: u32,
}

/// A reader's harvest: rows that it was not asked for, from the pages that it reads.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) wanted: Option<Arc<dyn Wanted>>,
    pub(crate) unit: ReadUnit,
    pub(crate) found: Harvest,
    /// Keys of the current page.
    keys: Vec<Key>,
}

impl Beside {
    /// Takes a page's wanted rows, except requested ones, for which `own` is true (never on a
    /// neighbouring page). Returns how many, or `None` if it did not look.
    pub(crate) fn look(
        &mut self,
        Page { bytes, layout, rows }: Page<'_>,
        place: FoundAt,
        expire_before: u32,
        own: impl Fn(Key) -> bool,
    ) -> Option<u32> {
        let Self { wanted: Some(wanted), found, keys, unit } = self else { return None };
        if found.keys.len() >= ROWS_MAX {
            unit.learn(!place.is_around, 0);
            return None;
        }
        let before = found.keys.len();
        keys.clear();
        keys.extend((0..rows).map(|at| page::row(bytes, layout, at).key));
        wanted.look(keys, &mut |at| {
            let row = page::row(bytes, layout, at as u32);
            // A key put again after a deletion may be on the page twice: the last one counts.
            // Without an early exit, the comparison is vectorized.
            let is_last = || !keys[at + 1..].iter().fold(false, |any, key| any | (*key == row.key));
            let takes = found.keys.len() < ROWS_MAX && row.used >= expire_before;
            if takes && !own(row.key) && is_last() {
                found.keys.push(row.key);
                found.rows.extend_from_slice(row.payload);
                found.places.push(place);
            }
        });
        let taken = (found.keys.len() - before) as u32;
        unit.learn(!place.is_around, taken);
        Some(taken)
    }
}
