//! Visits the live rows of a sealed segment, in file order, for merges.

use std::ops::Range;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_disk::Buffer;

use crate::index::Place;
use crate::numbers::{Birth, PageNumber, Slot};
use crate::row_versions::{Deletion, ROW_UNMOVED};
use crate::segment::page::{self, Row};
use crate::segment::{READ_BYTES, SegmentFile};
use crate::store::core::Core;
use crate::{Error, Result};

/// Callback for a row and its place.
pub(super) type VisitRow<'a> = dyn FnMut(Place, &Row<'_>) -> Result<()> + 'a;

/// The most keys that are looked up under one lock of the state.
pub(in crate::store) const LOOKS_MAX: usize = 4096;

/// The live rows of a segment, in order.
pub(super) struct Live {
    pub(in crate::store) slot: Slot,
    file: Arc<SegmentFile>,
    /// Page and key of each row.
    pub(in crate::store) rows: Vec<(PageNumber, Key)>,
    /// Number of rows in the whole segment, live and stale.
    count: u32,
    /// Whether a key may be on a page twice, because it was deleted in between.
    repeats: bool,
    /// Deletions in the segment that count.
    deletions: Vec<Deletion>,
}

impl Core {
    /// The rows of a sealed segment that the index points at, in order.
    pub(super) fn live(&self, slot: Slot) -> Result<Live> {
        let (file, sealed, live) = {
            let state = self.state();
            let segment = state.table.get(slot);
            (Arc::clone(&segment.file), segment.sealed, segment.live)
        };
        let Some(sealed) = sealed else { unreachable!("only sealed segments are merged") };
        let counting = file.counting(&sealed.tail, &self.counters)?;
        let mut live = Live {
            slot,
            file,
            rows: Vec::with_capacity(live as usize),
            count: sealed.tail.counts.rows,
            repeats: sealed.tail.counts.deletions > 0,
            deletions: counting.deletions,
        };
        for rows in counting.rows.chunks(LOOKS_MAX) {
            live.settle(self, rows);
        }
        Ok(live)
    }

    /// Calls `visit` for each row, in order.
    pub(super) fn visit(&self, live: &Live, visit: &mut VisitRow<'_>) -> Result<()> {
        let pages = self.pages_at_once().min(self.layout.pages(live.count));
        let mut buffer = Buffer::new(pages as usize * self.layout.page_bytes);
        let mut next = 0;
        while next < live.rows.len() {
            let rows = self.on_adjacent_pages(live, next);
            next = rows.end;
            self.visit_rows(live, rows, &mut buffer, visit)?;
        }
        Ok(())
    }

    /// The most pages of one read.
    fn pages_at_once(&self) -> u32 {
        (READ_BYTES / self.layout.page_bytes as u64).max(1) as u32
    }

    /// Rows from `start` on whose pages are adjacent.
    fn on_adjacent_pages(&self, live: &Live, start: usize) -> Range<usize> {
        let first = live.rows[start].0;
        let pages_max = self.pages_at_once();
        let mut last = first;
        let mut end = start + 1;
        for (page, _) in &live.rows[start + 1..] {
            if *page > last + 1 || *page - first >= pages_max {
                break;
            }
            last = *page;
            end += 1;
        }
        start..end
    }

    /// Reads the pages of `rows`, which are adjacent, into `buffer` and visits the rows.
    fn visit_rows(
        &self,
        live: &Live,
        rows: Range<usize>,
        buffer: &mut Buffer,
        visit: &mut VisitRow<'_>,
    ) -> Result<()> {
        let rows = &live.rows[rows];
        let (Some((first, _)), Some((last, _))) = (rows.first(), rows.last()) else {
            return Ok(());
        };
        let (layout, file) = (&self.layout, &live.file);
        let buffer = &mut buffer[..(*last - *first + 1) as usize * layout.page_bytes];
        file.file.read_at(layout.page_offset(*first), buffer)?;
        self.counters.read(file.directory, buffer.len());
        for on_page in rows.chunk_by(|a, b| a.0 == b.0) {
            let number = on_page[0].0;
            let start = (number - *first) as usize * layout.page_bytes;
            let bytes = &buffer[start..start + layout.page_bytes];
            let place = self.state().table.place(live.slot, number);
            let count = layout.rows_on(number, live.count);
            let lost = |why: &str| {
                let keys = on_page.iter().map(|(_, key)| *key).collect();
                Err(self.page_lost(file, number, why, keys))
            };
            if !page::is_whole(bytes, layout.table, &file.origin, number) {
                return lost(NOT_WHOLE);
            }
            for (_, key) in on_page {
                let Some((_, row)) = page::find(bytes, layout, count, *key) else {
                    return lost(NOT_THERE);
                };
                visit(place, &row)?;
            }
        }
        Ok(())
    }

    /// Error for a page whose rows are lost.
    pub(in crate::store) fn page_lost(
        &self,
        file: &SegmentFile,
        page: PageNumber,
        why: &str,
        keys: Vec<Key>,
    ) -> Error {
        let (path, offset) = (file.file.path().to_owned(), self.layout.page_offset(page));
        let (table, page) = (self.layout.table, page.0);
        Error::Page { path, offset, table, page, why: why.to_owned(), keys }
    }
}

/// Error text for a page that is damaged or misplaced.
pub(in crate::store) const NOT_WHOLE: &str = "it has a wrong checksum";
/// Error text for an intact page without a row that should be on it.
pub(super) const NOT_THERE: &str = "a row is missing from it";

impl Live {
    /// Deletions that may still be needed if `oldest` is the earliest stale birth in other
    /// segments.
    pub(super) fn deletions_since(&self, oldest: Birth) -> impl Iterator<Item = Deletion> {
        let needed = self.deletions.iter().filter(move |deletion| oldest <= deletion.birth);
        // Rows in the segment of its birth go away with it, or its own deletions cover them.
        let row = |deletion: &Deletion| if deletion.row < ROW_UNMOVED { 0 } else { deletion.row };
        needed.map(move |deletion| Deletion { row: row(deletion), ..*deletion })
    }

    /// Keeps the rows that the index points at.
    fn settle(&mut self, core: &Core, rows: &[(u32, Key)]) {
        let state = core.state();
        let keys: Vec<Key> = rows.iter().map(|(_, key)| *key).collect();
        state.index.get_many(&keys, |at, place| {
            let (row, key) = rows[at];
            let page = core.layout.page_of(row);
            if place != Some(state.table.place(self.slot, page)) {
                return;
            }
            let mut on_page = self.rows.iter().rev().take_while(|(of, _)| *of == page);
            if !self.repeats || on_page.all(|(_, of)| *of != key) {
                self.rows.push((page, key));
            }
        });
    }
}
