//! The end of a merge: its new segment replaces the old ones.
//!
//! - **How.** Commits wait while the index is pointed at the new segment, row by row, where it
//!   still has the old place; expired rows are removed, and the old segments retired (SSD-I7).
//!   Look-ups and puts continue concurrently.
//! - **Failure.** If the index has no room for the new places, the rows move back.

use std::sync::Arc;

use stepwell_base::Key;
use tracing::debug;

use super::merge::{Failed, MOVES_MAX, Merge, Merged};
use crate::index::{Ahead, Full, Place};
use crate::layout::Layout;
use crate::numbers::Slot;
use crate::row_versions::Provenance;
use crate::segment::Tail;
use crate::segment_table::{Sealed, Segment};
use crate::stats::{Counters, add};
use crate::store::core::{Core, Retired, State};

impl Core {
    /// Replaces the inputs of a merge by its result, atomically for commits. The next commit
    /// removes the old files.
    pub(super) fn settle(&self, victims: &[Slot], merged: Merged) -> Result<(), Failed> {
        let mut writer = self.writer()?;
        // Commits wait from here on (SSD-I7); puts do not.
        let settling = self.settling.lock();
        let _settling = settling.map_err(|_| self.refusal("a merge panicked"))?;
        writer.changed = true;
        writer.unsynced.extend(merged.new.iter().map(|(merge, _)| Arc::clone(&merge.file)));
        drop(writer);
        let counts = merged.new.as_ref().map(|(_, tail)| tail.counts);
        if let Some((merge, tail)) = merged.new
            && let Err(refused) = self.install(merge, tail)
        {
            let (merge, full) = *refused;
            self.abandon(merge);
            return Err(Failed { error: full.into(), left_alone: victims.to_vec() });
        }
        let mut state = self.state_mut();
        state.drop_expired(&merged.expired, &self.counters);
        victims.iter().for_each(|victim| state.retire(*victim));
        drop(state);
        debug!(
            store = %self.home().path().display(),
            segments = victims.len(),
            rows = counts.map_or(0, |counts| counts.rows),
            bytes = counts.map_or(0, |counts| self.layout.file_bytes(&counts)),
            rows_expired = merged.expired.len(),
            "merge finished"
        );
        Ok(())
    }

    /// Points the index at the new segment. If there is no room, everything is undone.
    fn install(&self, merge: Merge, tail: Tail) -> Result<(), Box<(Merge, Full)>> {
        let slot = self.insert_merged(&merge, tail);
        let pieces = || merge.moves.chunks(MOVES_MAX).zip((0..).step_by(MOVES_MAX));
        for (number, (piece, first)) in pieces().enumerate() {
            let moved = self.state_mut().move_rows(piece, first, slot, &self.layout);
            let Err(full) = moved else { continue };
            for (piece, first) in pieces().take(number + 1) {
                self.state_mut().move_back(piece, first, slot, &self.layout);
            }
            self.state_mut().table.discard(slot);
            return Err(Box::new((merge, full)));
        }
        add(&self.counters.rows_moved, merge.moves.len() as u64);
        self.executor.end_pages(merge.pages);
        Ok(())
    }

    /// Inserts the new segment with all its rows live.
    fn insert_merged(&self, merge: &Merge, tail: Tail) -> Slot {
        let mut state = self.state_mut();
        let number = merge.file.number;
        let provenance = Provenance { number, merged: true, births: tail.births };
        let pages = self.layout.pages(tail.counts.rows);
        let slot = state.table.insert(Segment::new(Arc::clone(&merge.file), provenance), pages);
        state.table.appended(slot, tail.counts.rows);
        let (bytes, now) = (self.layout.file_bytes(&tail.counts), state.next_seq);
        let sealed = Sealed { bytes, tail, deleted_last: merge.draft.deleted_last() };
        state.table.seal(slot, sealed, provenance, now);
        slot
    }
}

impl State {
    /// Points the index at rows of the segment in `slot`, starting with row `first`, where it still
    /// has their old places.
    fn move_rows(
        &mut self,
        piece: &[(Key, Place)],
        first: u32,
        slot: Slot,
        layout: &Layout,
    ) -> Result<(), Full> {
        let mut ahead = Ahead::new(&self.index, piece.len(), |at| piece[at].0);
        for ((_, from), row) in piece.iter().zip(first..) {
            let asked = ahead.next(&self.index);
            let to = self.table.place(slot, layout.page_of(row));
            let moved = self.index.move_row(&asked, *from, to)?;
            let stale = if moved { self.table.page(*from).slot } else { slot };
            self.table.went_stale(stale);
        }
        Ok(())
    }

    /// Undoes a complete or partial [`State::move_rows`]: afterwards, the index has no row of the
    /// piece in `slot`.
    fn move_back(&mut self, piece: &[(Key, Place)], first: u32, slot: Slot, layout: &Layout) {
        let mut ahead = Ahead::new(&self.index, piece.len(), |at| piece[at].0);
        for ((_, from), row) in piece.iter().zip(first..) {
            let asked = ahead.next(&self.index);
            let to = self.table.place(slot, layout.page_of(row));
            // Places only get more bits, so the old ones fit.
            if self.index.move_row(&asked, to, *from) == Ok(true) {
                self.table.came_back(self.table.page(*from).slot);
            }
        }
    }

    fn drop_expired(&mut self, expired: &[(Key, Place)], counters: &Counters) {
        for (key, place) in expired {
            if self.index.get(*key) == Some(*place) {
                self.index.remove(*key);
                self.table.went_stale(self.table.page(*place).slot);
                add(&counters.rows_expired, 1);
            }
        }
    }

    /// Retires a merged segment; the next successful commit removes its file.
    fn retire(&mut self, victim: Slot) {
        let segment = self.table.remove(victim);
        let (rows, bytes) = (segment.rows, segment.bytes());
        self.retired.segments += 1;
        self.retired.rows += u64::from(rows);
        self.retired.bytes += bytes;
        self.retiring.push(Retired { file: segment.file, rows, bytes });
    }
}
