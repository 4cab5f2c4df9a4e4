//! Compaction: the live rows of mostly stale segments go into a new one.
//!
//! One call merges at most a full segment's worth of live rows. They are copied as they are, with
//! their old sequence numbers; the index follows when all of them are in the new file, and only
//! where it still points at the old place. The merged segments are retired: readers that found a
//! row there before go on reading it, and the files are removed after a commit that no longer
//! names them. Commits seal the open segment, so several merges share one where space allows.

use std::sync::Arc;

use super::{Store, Writer};
use crate::Result;
use crate::index::RowPlace;
use crate::segment::page::Row;
use crate::segment::{Builder, PageBuffer};
use crate::stats::add;
use crate::table::{Move, Segment};

/// Retired segments that wait for a commit at most.
const RETIRED_MAX: usize = 4;
/// Rows that one hold of the state's lock moves at most.
const MOVES_MAX: usize = 1024;

/// A merge's new segment.
struct Merge {
    builder: Builder,
    pages: PageBuffer,
    moves: Vec<Move>,
}

impl Store {
    /// Merges sealed segments that are more than half stale, the most stale first, and small ones
    /// where there are many: one bounded piece of work. Returns how many were merged away; none
    /// where there is nothing to do.
    ///
    /// # Errors
    /// When a page cannot be read or is damaged, which changes nothing; or when the disk refuses a
    /// write, after which all writes are refused.
    pub fn compact(&self) -> Result<usize> {
        let mut writer = self.writer()?;
        self.merge_once(&mut writer)
    }

    pub(super) fn merge_once(&self, writer: &mut Writer) -> Result<usize> {
        let victims = self.state().table.victims(self.options.segment_rows());
        if victims.is_empty() {
            return Ok(0);
        }
        if let Some(merge) = self.copy_live(writer, &victims)? {
            self.finish_merge(writer, merge)?;
        }
        self.retire(writer, &victims);
        add(&self.counters.compactions, 1);
        add(&self.counters.segments_merged, victims.len() as u64);
        if writer.retired.len() >= RETIRED_MAX {
            self.commit_locked(writer)?;
        }
        Ok(victims.len())
    }

    /// Copies the live rows into a new segment, if there are any.
    fn copy_live(&self, writer: &mut Writer, victims: &[u32]) -> Result<Option<Merge>> {
        let mut merge = None;
        // The number is spent even if there is no live row.
        let number = writer.number();
        let mut failed_write = false;
        for victim in victims {
            let outcome = self.visit_live(writer, *victim, &mut |place, key, seq, payload| {
                let row = Row { key, seq, payload };
                let pushed = self.push_merged(&mut merge, number, place, row);
                failed_write |= pushed.is_err();
                pushed
            });
            if failed_write {
                return writer.guard(outcome.map(|()| None));
            }
            if let Err(error) = outcome {
                self.abandon(merge);
                return Err(error);
            }
        }
        Ok(merge)
    }

    fn push_merged(
        &self,
        merge: &mut Option<Merge>,
        number: u64,
        place: RowPlace,
        row: Row<'_>,
    ) -> Result<()> {
        let merge = match merge {
            Some(merge) => merge,
            None => merge.insert(self.start_merge(number)?),
        };
        if merge.pages.room() == 0 {
            self.flush_merge(merge)?;
        }
        merge.builder.note(row.key, row.seq);
        merge.moves.push((row.key, place));
        merge.pages.push(row);
        Ok(())
    }

    fn start_merge(&self, number: u64) -> Result<Merge> {
        let builder = self.start_builder(number)?;
        let pages = PageBuffer::new(self.layout, number, self.options.buffer_pages());
        Ok(Merge {
            builder,
            pages,
            moves: Vec::with_capacity(self.options.segment_rows() as usize),
        })
    }

    fn flush_merge(&self, merge: &mut Merge) -> Result<()> {
        let flush = merge.pages.begin_flush();
        merge.builder.write(&flush.bytes, &self.counters)?;
        merge.pages.end_flush(flush);
        Ok(())
    }

    /// Removes the file of a merge that could not read its rows; nothing points at it.
    fn abandon(&self, merge: Option<Merge>) {
        if let Some(merge) = merge {
            // The read's error is the one to report; a file that stays is set aside some day.
            let _ = self.disk.remove(&crate::segment::name(merge.builder.file().number));
        }
    }

    /// Seals the new segment and points the index at it.
    fn finish_merge(&self, writer: &mut Writer, mut merge: Merge) -> Result<()> {
        let sealed = self.flush_merge(&mut merge);
        let sealed = sealed.and_then(|()| merge.builder.finish(&self.counters));
        let sealed = Some(writer.guard(sealed)?);
        let file = Arc::clone(merge.builder.file());
        writer.unsynced.push(Arc::clone(&file));
        let seq_max = merge.builder.seq_max();
        let segment = Segment { file, rows: 0, live: 0, seq_max, sealed };
        let slot = self.state_mut().table.insert(segment);
        for (piece, first) in merge.moves.chunks(MOVES_MAX).zip((0..).step_by(MOVES_MAX)) {
            let mut state = self.state_mut();
            for ((key, from), row) in piece.iter().zip(first..) {
                state.table.appended(slot, 0);
                let moved = state.index.move_row(*key, *from, RowPlace { slot, row });
                state.table.went_stale(if moved { from.slot } else { slot });
            }
        }
        add(&self.counters.rows_moved, merge.moves.len() as u64);
        Ok(())
    }

    /// Takes merged segments out of use; the next commit removes their files.
    fn retire(&self, writer: &mut Writer, victims: &[u32]) {
        writer.changed = true;
        let mut state = self.state_mut();
        for victim in victims {
            let segment = state.table.remove(*victim);
            state.retired.segments += 1;
            state.retired.rows += u64::from(segment.rows);
            writer.retired.push((segment.file.number, segment.rows));
        }
    }
}
