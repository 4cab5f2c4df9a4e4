//! The end of a merge: what it made takes the place of what it was made of.
//!
//! - **How.** Commits wait while the index is pointed at the new segment, row by row, and only
//!   where it still points at the old place; expired rows leave it, and the old segments are
//!   retired (I7). Look-ups and puts go on meanwhile.
//! - **Failure.** Where the index has no room for the new places, rows that moved go back.

use std::sync::Arc;

use stepwell_base::Key;

use super::merge::{Failed, MOVES_MAX, Merge, Merged};
use super::{Core, Retired, State};
use crate::index::{Ahead, Full, Place};
use crate::layout::Layout;
use crate::segment::Tail;
use crate::stats::{Counters, add};
use crate::table::{Sealed, Segment};
use crate::versions::Provenance;

impl Core {
    /// Puts what a merge made in the place of what it was made of, at once for every commit. The
    /// next one removes the old files.
    pub(super) fn settle(&self, victims: &[u32], merged: Merged) -> Result<(), Failed> {
        let mut writer = self.writer()?;
        // Commits wait from here on (I7); puts do not.
        let settling = self.settling.lock();
        let _settling = settling.map_err(|_| self.refusal("a merge panicked"))?;
        writer.changed = true;
        writer.unsynced.extend(merged.new.iter().map(|(merge, _)| Arc::clone(&merge.file)));
        drop(writer);
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
        Ok(())
    }

    /// Points the index at the new segment. Where it has no room for that, all is as it was.
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

    /// Puts the new segment into a slot, all of its rows live.
    fn insert_merged(&self, merge: &Merge, tail: Tail) -> u32 {
        let mut state = self.state_mut();
        let number = merge.file.number as u32;
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
    /// Points the index at rows of the segment of `slot`, the first of which is number `first`,
    /// where it points at their old places still.
    fn move_rows(
        &mut self,
        piece: &[(Key, Place)],
        first: u32,
        slot: u32,
        layout: &Layout,
    ) -> Result<(), Full> {
        let mut ahead = Ahead::new(&self.index, piece.len(), |at| piece[at].0);
        for ((_, from), row) in piece.iter().zip(first..) {
            let asked = ahead.next(&self.index);
            let to = self.table.place(slot, layout.page_of(row));
            let moved = self.index.move_row(&asked, *from, to)?;
            let stale = if moved { self.table.page(*from).0 } else { slot };
            self.table.went_stale(stale);
        }
        Ok(())
    }

    /// Undoes [`State::move_rows`], of which any part was done: no row of the piece is looked for
    /// in `slot` afterwards.
    fn move_back(&mut self, piece: &[(Key, Place)], first: u32, slot: u32, layout: &Layout) {
        let mut ahead = Ahead::new(&self.index, piece.len(), |at| piece[at].0);
        for ((_, from), row) in piece.iter().zip(first..) {
            let asked = ahead.next(&self.index);
            let to = self.table.place(slot, layout.page_of(row));
            // Places only ever get more bits, so those from before have room.
            if self.index.move_row(&asked, to, *from) == Ok(true) {
                self.table.came_back(self.table.page(*from).0);
            }
        }
    }

    fn drop_expired(&mut self, expired: &[(Key, Place)], counters: &Counters) {
        for (key, place) in expired {
            if self.index.get(*key) == Some(*place) {
                self.index.remove(*key);
                self.table.went_stale(self.table.page(*place).0);
                add(&counters.rows_expired, 1);
            }
        }
    }

    /// Takes a merged segment out of use; the next commit but one that fails removes its file.
    fn retire(&mut self, victim: u32) {
        let segment = self.table.remove(victim);
        let (rows, bytes) = (segment.rows, segment.bytes());
        self.retired.segments += 1;
        self.retired.rows += u64::from(rows);
        self.retired.bytes += bytes;
        self.retiring.push(Retired { file: segment.file, rows, bytes });
    }
}
