//! Putting rows: into the page buffer, from there into the open segment.
//!
//! A row that is not newer than what the index points at is not appended. Whether it is newer is
//! known without looking where its number is above all of the other's segment, which is always so
//! when numbers rise from call to call. Where it is not, the other's page is read.

use std::collections::HashMap;
use std::sync::Arc;

use stepwell_base::Key;

use super::{OpenPages, OpenSegment, State, Store, Writer};
use crate::Result;
use crate::fetch::Wanted;
use crate::index::RowPlace;
use crate::segment::page::Row;
use crate::segment::{Builder, PageBuffer};
use crate::stats::add;
use crate::table::Segment;

/// Rows that one hold of the state's lock appends at most.
const PIECE_ROWS: u32 = 1024;
/// Segments that a store may have whatever part of them is stale.
const SEGMENTS_FREE: u64 = 4;

/// Whether so many rows in so many segments are too many for the live ones.
fn is_over(live: u64, segments: u64, rows: u64) -> bool {
    segments > SEGMENTS_FREE && rows > 2 * live
}

/// Rows to put.
struct Piece<'a> {
    keys: &'a [Key],
    seqs: &'a [u64],
    rows: &'a [u8], // (keys, row_bytes)
}

impl Store {
    /// Appends rows in the given order; each becomes what its key's look-ups find, unless what the
    /// store has is as new or newer. Compacts first where too much space is stale.
    ///
    /// Rows before a failure may have been put.
    ///
    /// # Errors
    /// When the index is full or the disk refuses; after the latter all writes are refused.
    ///
    /// # Panics
    /// When the lengths do not fit each other.
    pub fn put_many(&self, keys: &[Key], seqs: &[u64], rows: &[u8]) -> Result<()> {
        let row_bytes = self.layout.row_bytes;
        assert!(keys.len() == seqs.len(), "a sequence number for every key");
        assert!(rows.len() == keys.len() * row_bytes, "{row_bytes} bytes for every key");
        let mut writer = self.writer()?;
        self.keep_space_bound(&mut writer)?;
        let mut start = 0;
        while start < keys.len() {
            let count = (self.room(&mut writer)? as usize).min(keys.len() - start);
            let piece = start..start + count;
            let rows = &rows[piece.start * row_bytes..piece.end * row_bytes];
            let piece = Piece { keys: &keys[piece.clone()], seqs: &seqs[piece], rows };
            self.put_piece(&mut writer, &piece)?;
            start += count;
        }
        Ok(())
    }

    /// Writers wait while more than half of the rows on disk are stale.
    fn keep_space_bound(&self, writer: &mut Writer) -> Result<()> {
        loop {
            let (table, retired) = {
                let state = self.state();
                (state.table_space(), state.retired)
            };
            let live = self.len();
            if !is_over(live, table.segments + retired.segments, table.rows + retired.rows) {
                return Ok(());
            }
            // Removing what was merged already is cheaper than merging more.
            let enough = !is_over(live, table.segments, table.rows);
            if enough || self.merge_once(writer)? == 0 {
                if writer.retired.is_empty() {
                    return Ok(());
                }
                self.commit_locked(writer)?;
            }
        }
    }

    /// Rows that can be appended next, at least one; flushes, seals and starts what it must.
    fn room(&self, writer: &mut Writer) -> Result<u32> {
        loop {
            let Some(open) = &writer.open else {
                self.start_segment(writer)?;
                continue;
            };
            let left = self.options.segment_rows() - open.builder.rows();
            if left == 0 {
                self.seal(writer)?;
                if !writer.retired.is_empty() {
                    // A full segment was sealed just now: this commit costs no small one.
                    self.commit_locked(writer)?;
                }
                continue;
            }
            let buffered = self.state().open.as_ref().map_or(0, |open| open.pages.room());
            if buffered > 0 {
                return Ok(left.min(buffered).min(PIECE_ROWS));
            }
            self.flush(writer)?;
        }
    }

    fn start_segment(&self, writer: &mut Writer) -> Result<()> {
        let number = writer.number();
        let builder = self.start_builder(number);
        let builder = writer.guard(builder)?;
        let file = Arc::clone(builder.file());
        let segment = Segment { file, rows: 0, live: 0, seq_max: 0, sealed: None };
        let pages = PageBuffer::new(self.layout, number, self.options.buffer_pages());
        let mut state = self.state_mut();
        let slot = state.table.insert(segment);
        state.open = Some(OpenPages { slot, pages });
        writer.open = Some(OpenSegment { slot, builder });
        Ok(())
    }

    /// A builder of a segment of the usual size.
    pub(super) fn start_builder(&self, number: u64) -> Result<Builder> {
        let rows = self.options.segment_rows();
        Builder::create(&*self.disk, self.layout, number, rows, &self.counters)
    }

    fn put_piece(&self, writer: &mut Writer, piece: &Piece<'_>) -> Result<()> {
        let known = self.read_doubtful(writer, piece)?;
        writer.changed = true;
        let mut state = self.state_mut();
        let rows = piece.rows.chunks_exact(self.layout.row_bytes);
        for ((key, seq), payload) in piece.keys.iter().zip(piece.seqs).zip(rows) {
            let row = Row { key: *key, seq: *seq, payload };
            if state.is_newer(writer, &known, &row) {
                state.append(writer, row)?;
                add(&self.counters.rows_put, 1);
            } else {
                add(&self.counters.rows_superseded, 1);
            }
        }
        Ok(())
    }

    /// Reads the sequence numbers of sealed rows that may be as new as those of the piece.
    fn read_doubtful(&self, writer: &Writer, piece: &Piece<'_>) -> Result<HashMap<RowPlace, u64>> {
        let mut places = Vec::new();
        let mut files = Vec::new();
        let mut wanted = Vec::new();
        let state = self.state();
        for (key, seq) in piece.keys.iter().zip(piece.seqs) {
            let Some(place) = state.index.get(*key) else { continue };
            let segment = state.table.get(place.slot);
            if segment.seq_max < *seq || writer.is_open(place.slot) {
                continue;
            }
            let at = places.len() as u32;
            places.push(place);
            files.push(Arc::clone(&segment.file));
            wanted.push(Wanted { file: at, row: place.row, at, key: *key });
        }
        drop(state);
        let mut known = HashMap::with_capacity(places.len());
        self.fetch(&files).rows(&mut wanted, &mut |wanted, seq, _| {
            known.insert(places[wanted.at as usize], seq);
            Ok(())
        })?;
        Ok(known)
    }

    /// Writes the full buffer into the open segment's file.
    pub(super) fn flush(&self, writer: &mut Writer) -> Result<()> {
        let Some(flush) = self.state_mut().open.as_mut().map(|open| open.pages.begin_flush())
        else {
            return Ok(());
        };
        if let Some(open) = &mut writer.open {
            // The pages stay readable in memory if this fails.
            let written = open.builder.write(&flush.bytes, &self.counters);
            writer.guard(written)?;
        }
        if let Some(open) = &mut self.state_mut().open {
            open.pages.end_flush(flush);
        }
        Ok(())
    }

    /// Seals the open segment, if there is one with rows.
    pub(super) fn seal(&self, writer: &mut Writer) -> Result<()> {
        if writer.open.as_ref().is_none_or(|open| open.builder.rows() == 0) {
            return Ok(());
        }
        self.flush(writer)?;
        let Some(open) = &mut writer.open else { return Ok(()) };
        // The segment stays the open one, readable as such, if this fails.
        let sealed = open.builder.finish(&self.counters);
        let (slot, file) = (open.slot, Arc::clone(open.builder.file()));
        let sealed = writer.guard(sealed)?;
        let mut state = self.state_mut();
        state.table.get_mut(slot).sealed = Some(sealed);
        state.open = None;
        writer.open = None;
        writer.unsynced.push(file);
        Ok(())
    }
}

impl Writer {
    fn is_open(&self, slot: u32) -> bool {
        self.open.as_ref().is_some_and(|open| open.slot == slot)
    }
}

impl State {
    /// Whether a row is newer than what the index points at.
    fn is_newer(&self, writer: &Writer, known: &HashMap<RowPlace, u64>, row: &Row<'_>) -> bool {
        let Some(place) = self.index.get(row.key) else { return true };
        if self.table.get(place.slot).seq_max < row.seq {
            return true;
        }
        let open = writer.open.as_ref().filter(|open| open.slot == place.slot);
        match open.and_then(|open| open.builder.entries().get(place.row as usize)) {
            Some((_, seq)) => *seq < row.seq,
            None => known[&place] < row.seq,
        }
    }

    /// Appends a row to the open segment and points the index at it.
    fn append(&mut self, writer: &mut Writer, row: Row<'_>) -> Result<()> {
        self.index.make_room(row.key)?;
        let (Some(segment), Some(open)) = (&mut writer.open, &mut self.open) else {
            unreachable!("`room` started a segment");
        };
        let number = segment.builder.note(row.key, row.seq);
        open.pages.push(row);
        self.table.appended(segment.slot, row.seq);
        let place = RowPlace { slot: segment.slot, row: number };
        if let Some(old) = self.index.set(row.key, place) {
            self.table.went_stale(old.slot);
        }
        self.next_seq = self.next_seq.max(row.seq.saturating_add(1));
        Ok(())
    }
}
