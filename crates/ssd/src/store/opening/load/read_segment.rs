//! Segments whose footers were read.

use std::collections::HashMap;
use std::sync::Arc;

use stepwell_base::Key;

use crate::Result;
use crate::index::Index;
use crate::numbers::Slot;
use crate::row_versions::{Deletion, Provenance, ROW_UNMOVED};
use crate::segment::SegmentFile;
use crate::segment::entry::SegmentEntry;
use crate::segment::footer::Counting;
use crate::segment_table::{Sealed, Segment, Table};
use crate::stats::Counters;

/// Contents of the segments, as an open store holds them in memory.
pub(in crate::store) struct Loaded {
    pub(in crate::store) index: Index,
    pub(in crate::store) table: Table,
}

/// Facts about a segment from its footer.
#[derive(Debug)]
pub(in crate::store) struct Known {
    pub(in crate::store) file: Arc<SegmentFile>,
    pub(in crate::store) provenance: Provenance,
    pub(in crate::store) sealed: Sealed,
    /// Rows that don't count here: rows of other key shards, and, if the listing left them out,
    /// rows killed by a deletion in the same segment.
    pub(super) uncounted: u32,
}

impl Known {
    /// Puts the segment into a slot; `stale` of the rows that count are stale.
    pub(in crate::store) fn insert_into(self, table: &mut Table, stale: u32) -> Slot {
        let Self { file, provenance, sealed, uncounted } = self;
        let (rows, pages) = (sealed.tail.counts.rows, file.layout.pages(sealed.tail.counts.rows));
        let segment =
            Segment { rows, live: rows - uncounted - stale, ..Segment::new(file, provenance) };
        let slot = table.insert(segment, pages);
        table.seal(slot, sealed, provenance, 0);
        slot
    }
}

/// A segment that was read.
pub(in crate::store) struct Read {
    pub(in crate::store) known: Known,
    /// Rows that count, with their numbers, in order.
    pub(in crate::store) rows: Vec<(u32, Key)>,
    /// Deletions that count.
    pub(in crate::store) deletions: Vec<Deletion>,
}

/// Reads a segment and checks it against its entry.
pub(in crate::store) fn read_segment(
    file: Arc<SegmentFile>,
    entry: &SegmentEntry,
    counters: &Counters,
) -> Result<Read> {
    let tail = file.check(entry, counters)?;
    let Counting { rows, deletions, provenance } = file.counting(&tail, counters)?;
    let deleted_last = deletions.iter().map(|deletion| deletion.birth).max();
    let sealed = Sealed { bytes: entry.bytes, tail, deleted_last };
    let uncounted = tail.counts.rows - rows.len() as u32;
    Ok(Read { known: Known { file, provenance, sealed, uncounted }, rows, deletions })
}

/// For each key with a deletion in the segment its rows were put into, the row number below which
/// the deletion kills them.
pub(in crate::store) fn own_deletions(
    deletions: &[Deletion],
    provenance: &Provenance,
) -> HashMap<Key, u32> {
    let mut own: HashMap<Key, u32> = HashMap::new();
    for Deletion { key, birth, row } in deletions {
        if !provenance.merged && *birth == provenance.number.birth() && *row < ROW_UNMOVED {
            let before = own.entry(*key).or_insert(*row);
            *before = (*before).max(*row);
        }
    }
    own
}
