//! Visiting live rows, of a segment or of all, in the order in which they lie.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use stepwell_base::Key;
use stepwell_disk::Buffer;

use super::{Core, Store, Writer};
use crate::index::Place;
use crate::rule::ROW_UNMOVED;
use crate::segment::page::{self, Row};
use crate::segment::{CHUNK_BYTES, Deletion, SegmentFile};
use crate::{Error, Result};

/// What is done with a row: its key, the step of its last use, and its payload.
pub type Visit<'a> = dyn FnMut(Key, u32, &[u8]) -> Result<()> + 'a;

/// What is done with a row and its place.
pub(super) type VisitRow<'a> = dyn FnMut(Place, &Row<'_>) -> Result<()> + 'a;

/// Keys that are looked up under one hold of the state's lock.
const LOOKS_MAX: usize = 4096;

/// The live rows of a segment, in order.
pub(super) struct Live {
    pub(super) slot: u32,
    file: Arc<SegmentFile>,
    /// Page and key of each.
    pub(super) rows: Vec<(u32, Key)>,
    /// Rows of the whole segment.
    count: u32,
    /// Whether a key may lie on a page twice, since it was deleted in between.
    repeats: bool,
    /// Deletions in a sealed segment.
    deletions: Vec<Deletion>,
}

impl Store {
    /// Visits every live row once: key, step of its last use, payload; expired ones are passed
    /// over. Segments in order of their numbers, rows in the order in which they were written;
    /// pages are read in that order, and only those with live rows. Writers wait; the visitor
    /// must not write to this store.
    ///
    /// # Errors
    /// The visitor's, at once; and when a page cannot be read or is damaged.
    pub fn scan_live(&self, visit: &mut Visit<'_>) -> Result<()> {
        let core = &self.core;
        let _merging = core.hold_merges();
        // Reading goes on where writes are refused.
        let writer = core.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (slots, expire_before) = {
            let state = core.state();
            (state.table.in_order(), state.expire_before)
        };
        for slot in slots {
            let live = core.live(slot, Some(&writer))?;
            core.visit(&live, &mut |_, row| {
                if row.used < expire_before {
                    return Ok(());
                }
                visit(row.key, row.used, row.payload)
            })?;
        }
        Ok(())
    }
}

impl Core {
    /// The rows of a segment that the index points at, in order; of one that is being written
    /// only with the writer at hand.
    pub(super) fn live(&self, slot: u32, writer: Option<&Writer>) -> Result<Live> {
        let (file, sealed, mut live) = {
            let state = self.state();
            let segment = state.table.get(slot);
            let file = Arc::clone(&segment.file);
            let rows = Vec::with_capacity(segment.live as usize);
            let live = Live {
                slot,
                file: Arc::clone(&file),
                rows,
                count: segment.rows,
                repeats: false,
                deletions: Vec::new(),
            };
            (file, segment.sealed, live)
        };
        live.repeats = match (sealed, writer) {
            (Some(sealed), _) => sealed.tail.counts.deletions > 0,
            (None, Some(writer)) => {
                writer.draft(slot).is_some_and(|draft| draft.counts().deletions > 0)
            }
            (None, None) => false,
        };
        let mut looks = Vec::with_capacity(LOOKS_MAX);
        let mut look = |row: u32, key: Key| {
            looks.push((self.layout.page_of(row), key));
            if looks.len() == LOOKS_MAX {
                live.settle(self, &mut looks);
            }
        };
        match (sealed, writer) {
            (Some(sealed), _) => {
                let footer = file.footer(&sealed.tail, &self.counters)?;
                footer.keys.iter().zip(0..).for_each(|(key, row)| look(row, *key));
                live.deletions = footer.deletions;
            }
            (None, Some(writer)) => {
                let draft = writer.draft(slot);
                assert!(draft.is_some(), "a segment is sealed, or its keys are listed");
                let keys = draft.map_or(&[][..], |draft| draft.keys());
                keys.iter().zip(0..).for_each(|(key, row)| look(row, *key));
            }
            (None, None) => unreachable!("only sealed segments are merged"),
        }
        live.settle(self, &mut looks);
        Ok(live)
    }

    /// Visits rows in order.
    pub(super) fn visit(&self, live: &Live, visit: &mut VisitRow<'_>) -> Result<()> {
        let mut next = 0;
        while next < live.rows.len() {
            if let Some(place) = self.visit_in_memory(live, next, visit)? {
                next = place;
                continue;
            }
            let run = self.run(live, next);
            next = run.end;
            self.visit_run(live, run, visit)?;
        }
        Ok(())
    }

    /// Visits the row number `at` if its page is in memory; returns the number of the next.
    fn visit_in_memory(
        &self,
        live: &Live,
        at: usize,
        visit: &mut VisitRow<'_>,
    ) -> Result<Option<usize>> {
        let (page, key) = live.rows[at];
        let state = self.state();
        let found = state.pages(live.slot).and_then(|pages| pages.find(page, key));
        let Some(Row { birth, used, payload, .. }) = found else { return Ok(None) };
        let (place, payload) = (state.table.place(live.slot, page), payload.to_vec());
        drop(state);
        visit(place, &Row { key, birth, used, payload: &payload })?;
        Ok(Some(at + 1))
    }

    /// Rows from `start` on whose pages lie together and are all in the file.
    fn run(&self, live: &Live, start: usize) -> Range<usize> {
        let first = live.rows[start].0;
        let pages_max = (CHUNK_BYTES / self.layout.page_bytes as u64).max(1) as u32;
        let in_memory = self.state().pages(live.slot).is_some();
        let mut last = first;
        let mut end = start + 1;
        for (page, _) in &live.rows[start + 1..] {
            if *page > last + 1 || *page - first >= pages_max || (in_memory && *page != first) {
                break;
            }
            last = *page;
            end += 1;
        }
        start..end
    }

    fn visit_run(&self, live: &Live, run: Range<usize>, visit: &mut VisitRow<'_>) -> Result<()> {
        let rows = &live.rows[run];
        let (Some((first, _)), Some((last, _))) = (rows.first(), rows.last()) else {
            return Ok(());
        };
        let (layout, file) = (&self.layout, &live.file);
        let mut buffer = Buffer::new((last - first + 1) as usize * layout.page_bytes);
        file.file.read_at(layout.page_offset(*first), &mut buffer)?;
        self.counters.read(file.directory, buffer.len());
        for on_page in rows.chunk_by(|a, b| a.0 == b.0) {
            let number = on_page[0].0;
            let start = (number - first) as usize * layout.page_bytes;
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

    /// What is said of a page whose rows are lost.
    pub(super) fn page_lost(
        &self,
        file: &SegmentFile,
        page: u32,
        why: &str,
        keys: Vec<Key>,
    ) -> Error {
        let (path, offset) = (file.file.path().to_owned(), self.layout.page_offset(page));
        Error::Page { path, offset, table: self.layout.table, page, why: why.to_owned(), keys }
    }
}

/// What is said of a page that lost a byte, or lies in a wrong place.
pub(super) const NOT_WHOLE: &str = "it does not have its checksum";
/// What is said of a whole page that is not the one that was written there.
pub(super) const NOT_THERE: &str = "a row is not on it";

impl Live {
    /// Deletions that a version of such a birth or a later one in another segment may still need.
    pub(super) fn deletions_since(&self, oldest: u32) -> impl Iterator<Item = Deletion> {
        let needed = self.deletions.iter().filter(move |deletion| oldest <= deletion.birth);
        // What lies in its birth's own segment goes with that, or is told by the deletions there.
        let row = |deletion: &Deletion| if deletion.row < ROW_UNMOVED { 0 } else { deletion.row };
        needed.map(move |deletion| Deletion { row: row(deletion), ..*deletion })
    }

    /// Keeps what the index points at.
    fn settle(&mut self, core: &Core, looks: &mut Vec<(u32, Key)>) {
        let state = core.state();
        let keys: Vec<Key> = looks.iter().map(|(_, key)| *key).collect();
        state.index.get_many(&keys, |at, place| {
            let (page, key) = looks[at];
            if place != Some(state.table.place(self.slot, page)) {
                return;
            }
            let mut on_page = self.rows.iter().rev().take_while(|(of, _)| *of == page);
            if !self.repeats || on_page.all(|(_, of)| *of != key) {
                self.rows.push((page, key));
            }
        });
        looks.clear();
    }
}
