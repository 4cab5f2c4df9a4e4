//! Rows of pages that were read for others: those among them that are wanted soon.
//!
//! - **Why.** A cold row costs a whole page. Rows that left memory together lie together, and tend
//!   to be needed together again; a page that is here anyway yields them for a copy.
//! - **How.** Where a page was read, the keys of all its rows are shown to whoever knows what is
//!   wanted ([`Wanted`]); what is goes onto a list with the place where it was found. It counts
//!   once [`Reader::live`](crate::Reader::live) says that the index still names that place:
//!   anything else is an older version. Where pages have many such rows, those around them are read
//!   with them, as many as pay ([`ReadUnit`]).
//! - **Cost.** A look at each key of a page; a copy and a look into the index for each row taken.
//! - **Bounds.** [`ROWS_MAX`] rows on the list; what finds no room there is passed over.

use std::fmt::Debug;
use std::sync::Arc;

use stepwell_base::Key;

use crate::layout::Layout;
use crate::read_unit::ReadUnit;
use crate::segment::page;

/// Rows that wait to be taken at most.
const ROWS_MAX: usize = 2048;

/// Who knows which rows are wanted soon.
pub trait Wanted: Debug + Send + Sync {
    /// Tells `found` which of `keys` are wanted, by number.
    fn look(&self, keys: &[Key], found: &mut dyn FnMut(usize));
}

/// Where a row was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundAt {
    /// The slot of its segment in the table, and that segment's number, which no other ever has.
    pub(crate) slot: u32,
    pub(crate) segment: u64,
    pub(crate) page: u32,
    /// Whether its page was read for the sake of its neighbours.
    pub(crate) is_around: bool,
}

/// Rows that were found beside others.
#[derive(Clone, Debug, Default)]
pub struct Harvest {
    /// Their keys.
    pub keys: Vec<Key>,
    /// The rows. // (keys, row_bytes)
    pub rows: Vec<u8>,
    pub(crate) places: Vec<FoundAt>,
}

impl Harvest {
    /// Whether a row's page was read for the sake of its neighbours.
    pub fn is_around(&self, at: usize) -> bool {
        self.places[at].is_around
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.rows.clear();
        self.places.clear();
    }

    /// Most bytes of a reader's list and of the one that it is taken into, with rows of so many.
    pub fn bytes_max(row_bytes: usize) -> u64 {
        (2 * ROWS_MAX * (row_bytes + size_of::<Key>() + size_of::<FoundAt>())) as u64
    }
}

/// Rows that were of no use to whoever took them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wasted {
    /// Of pages of which rows were asked for: older versions, or here already.
    pub asked: u32,
    /// The same of the pages around them.
    pub around: u32,
    /// Rows of whatever page that found no room, or gave it to others.
    pub dropped: u32,
}

/// What a reader does with the other rows of its pages.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) wanted: Option<Arc<dyn Wanted>>,
    pub(crate) unit: ReadUnit,
    pub(crate) found: Harvest,
    /// Keys of the page at hand.
    keys: Vec<Key>,
}

impl Beside {
    /// Looks at the `rows` rows of a page, but for the keys of `own`, which were asked for: none
    /// where the page was read for the sake of its neighbours. Says how many it took, if it looked.
    pub(crate) fn look(
        &mut self,
        (page, layout, rows): (&[u8], &Layout, u32),
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
        keys.extend((0..rows).map(|at| page::row(page, layout, at).key));
        wanted.look(keys, &mut |at| {
            let row = page::row(page, layout, at as u32);
            // Put again after a deletion, a key may be there twice: the last one counts.
            let is_last = || {
                page::find(page, layout, rows, row.key).is_some_and(|(last, _)| last as usize == at)
            };
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
