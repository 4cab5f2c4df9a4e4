//! Visiting live rows, of a segment or of all.

use std::sync::{Arc, PoisonError};

use stepwell_base::Key;

use super::{Store, Writer};
use crate::Result;
use crate::fetch::Wanted;
use crate::index::RowPlace;
use crate::segment::SegmentFile;

/// What is done with a row: its key, sequence number and payload.
pub type Visit<'a> = dyn FnMut(Key, u64, &[u8]) -> Result<()> + 'a;

/// What is done with a row: its place, key, sequence number and payload.
type VisitRow<'a> = dyn FnMut(RowPlace, Key, u64, &[u8]) -> Result<()> + 'a;

/// Keys that are looked up under one hold of the state's lock.
const LOOKS_MAX: usize = 4096;

impl Store {
    /// Visits every live row once: key, sequence number, payload. Segments in order of their
    /// numbers, rows in the order in which they were written; pages are read in that order, and
    /// only those with live rows. Writers wait; the visitor must not write to this store.
    ///
    /// # Errors
    /// The visitor's, at once; and when a page cannot be read or is damaged.
    pub fn scan_live(&self, visit: &mut Visit<'_>) -> Result<()> {
        // Reading goes on where writes are refused.
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = self.state().table.in_order();
        for slot in slots {
            let visit = &mut |_, key, seq, payload: &[u8]| visit(key, seq, payload);
            self.visit_live(&writer, slot, visit)?;
        }
        Ok(())
    }

    /// Visits the live rows of a segment in order. Nothing changes meanwhile: `writer` is held.
    pub(super) fn visit_live(
        &self,
        writer: &Writer,
        slot: u32,
        visit: &mut VisitRow<'_>,
    ) -> Result<()> {
        let (file, mut wanted) = self.live_rows(writer, slot)?;
        let in_file = wanted.partition_point(|wanted| !self.is_buffered(slot, wanted.row));
        let buffered = wanted.split_off(in_file);
        self.fetch(&[file]).rows(&mut wanted, &mut |wanted, seq, payload| {
            visit(RowPlace { slot, row: wanted.row }, wanted.key, seq, payload)
        })?;
        let mut payload = Vec::new();
        for wanted in buffered {
            let seq = self.copy_buffered(wanted.row, &mut payload);
            visit(RowPlace { slot, row: wanted.row }, wanted.key, seq, &payload)?;
        }
        Ok(())
    }

    fn is_buffered(&self, slot: u32, row: u32) -> bool {
        let state = self.state();
        let open = state.open.as_ref().filter(|open| open.slot == slot);
        open.is_some_and(|open| open.pages.row(row).is_some())
    }

    fn copy_buffered(&self, row: u32, payload: &mut Vec<u8>) -> u64 {
        let state = self.state();
        let Some(row) = state.open.as_ref().and_then(|open| open.pages.row(row)) else {
            unreachable!("what is buffered stays so while the writer is held");
        };
        payload.clear();
        payload.extend_from_slice(row.payload);
        row.seq
    }

    /// The rows of a segment that the index points at, in order.
    fn live_rows(&self, writer: &Writer, slot: u32) -> Result<(Arc<SegmentFile>, Vec<Wanted>)> {
        let (file, sealed, count) = {
            let state = self.state();
            let segment = state.table.get(slot);
            (Arc::clone(&segment.file), segment.sealed, segment.live as usize)
        };
        let (looks, rows) = (Vec::new(), Vec::with_capacity(count));
        let mut live = Live { store: self, slot, looks, rows };
        match (sealed, &writer.open) {
            (Some(sealed), _) => {
                let tail = file.tail(&self.layout, sealed.bytes, &self.counters)?;
                let entry = &mut |row, key, _| {
                    live.look(row, key);
                    Ok(())
                };
                file.for_each_entry(&self.layout, &tail, &self.counters, entry)?;
            }
            (None, Some(open)) => {
                let entries = open.builder.entries().iter().zip(0..);
                entries.for_each(|((key, _), row)| live.look(row, *key));
            }
            (None, None) => unreachable!("a segment is sealed or open"),
        }
        live.settle();
        Ok((file, live.rows))
    }
}

/// Live rows being told from stale ones.
struct Live<'a> {
    store: &'a Store,
    slot: u32,
    looks: Vec<(u32, Key)>,
    rows: Vec<Wanted>,
}

impl Live<'_> {
    fn look(&mut self, row: u32, key: Key) {
        self.looks.push((row, key));
        if self.looks.len() == LOOKS_MAX {
            self.settle();
        }
    }

    fn settle(&mut self) {
        let state = self.store.state();
        for (row, key) in self.looks.drain(..) {
            if state.index.get(key) == Some(RowPlace { slot: self.slot, row }) {
                self.rows.push(Wanted { file: 0, row, at: 0, key });
            }
        }
    }
}
