//! A merge: the live rows of some segments go into a new one.
//!
//! How      Rows are copied as they are, with their births and last uses, in the order of their
//!          segments; expired ones are left out. The index follows when all of them are in the new
//!          file, and only where it still points at the old place: puts go on meanwhile. The
//!          merged segments are retired: readers that found a row there before go on reading it,
//!          and the files are removed after a commit that no longer names them.
//!          Deletions go along while an older version of a row may still lie in a segment, and so
//!          does one for each expired row.
//! Failure  What cannot be read changes nothing, and its segment is left alone from then on.
//! Bounds   One chunk being read, those being written, and the lists of the new segment's rows.

use std::sync::Arc;
use std::time::Instant;

use stepwell_base::Key;
use stepwell_disk::{Queue, QueueOptions};

use super::compactor::Pace;
use super::{Core, Retired, write};
use crate::index::{Ahead, Place};
use crate::layout::Counts;
use crate::options::WRITES_MAX;
use crate::segment::page::Row;
use crate::segment::{self, Deletion, Draft, PageBuffer, SegmentFile, Tail};
use crate::stats::add;
use crate::table::{Sealed, Segment};
use crate::victims::{self, Plan};
use crate::{Error, Result};

/// Rows that one hold of the state's lock moves at most.
const MOVES_MAX: usize = 1024;
/// The highest generation: rows that went through as many merges are all the same.
const GENERATION_MAX: u32 = 15;

/// The new segment of a merge.
struct Merge {
    queue: Box<dyn Queue>,
    file: Arc<SegmentFile>,
    draft: Draft,
    pages: PageBuffer,
    /// Where each row was.
    moves: Vec<(Key, Place)>,
    /// Expired rows and where they are.
    expired: Vec<(Key, Place)>,
}

/// What a merge made.
struct Merged {
    /// The new segment, if it holds anything.
    new: Option<(Merge, Tail)>,
    expired: Vec<(Key, Place)>,
}

/// Why a merge came to nothing.
struct Failed {
    victim: u32,
    error: Error,
    /// Whether a write failed, and not a read.
    write: bool,
}

impl Core {
    /// Merges what `plan` says; the caller holds `merging`.
    pub(super) fn merge(&self, plan: &Plan, pace: Pace) -> Result<()> {
        let victims = &plan.victims;
        let mut merge = None;
        match self.copy(plan, &mut merge, pace) {
            Ok(tail) => {
                let of = |tail: Tail| {
                    victims::weight(self.layout.file_bytes(&tail.counts), tail.counts.rows)
                };
                assert!(plan.guess || tail.map_or(0, of) < plan.weight, "a merge frees something");
                let merged = self.merged(merge, tail);
                if let Some((merge, tail)) = merged.new {
                    self.finish_merge(merge, tail).inspect_err(|_| self.leave_alone(victims))?;
                }
                self.retire(victims, &merged.expired)
            }
            Err(Failed { victim, error, write }) => {
                if let Some(merge) = merge {
                    self.abandon(merge);
                }
                if write {
                    return self.writer()?.guard(Err(error));
                }
                self.leave_alone(&[victim]);
                Err(error)
            }
        }
    }

    /// What came of a merge; a segment without a row or deletion is none.
    fn merged(&self, merge: Option<Merge>, tail: Option<Tail>) -> Merged {
        let Some(mut merge) = merge else { return Merged { new: None, expired: Vec::new() } };
        let expired = std::mem::take(&mut merge.expired);
        match tail {
            Some(tail) => Merged { new: Some((merge, tail)), expired },
            None => {
                self.abandon(merge);
                Merged { new: None, expired }
            }
        }
    }

    /// Merges pass over these from now on: what came to nothing would do so again.
    fn leave_alone(&self, slots: &[u32]) {
        let mut state = self.state_mut();
        slots.iter().for_each(|slot| state.table.leave_alone(*slot));
    }

    fn copy(
        &self,
        plan: &Plan,
        merge: &mut Option<Merge>,
        pace: Pace,
    ) -> std::result::Result<Option<Tail>, Failed> {
        let Plan { victims, oldest, .. } = plan;
        let (first, oldest) = (victims.first().copied().unwrap_or_default(), *oldest);
        let failed = |victim, error, write| Failed { victim, error, write };
        let mut lives = Vec::new();
        for victim in victims {
            lives.push(self.live(*victim, None).map_err(|error| failed(*victim, error, false))?);
        }
        let rows = lives.iter().map(|live| live.rows.len()).sum::<usize>() as u32;
        let deletions: Vec<_> =
            lives.iter().flat_map(|live| live.deletions_since(oldest)).collect();
        if rows == 0 && deletions.is_empty() {
            return Ok(None);
        }
        let counts = Counts { rows, runs: rows, deletions: deletions.len() as u32 };
        let started = self.start_merge(victims, &counts);
        let merge = merge.insert(started.map_err(|error| failed(first, error, true))?);
        deletions.into_iter().for_each(|deletion| merge.draft.delete(deletion));
        let expire_before = self.state().expire_before;
        for live in lives {
            let mut failed_write = false;
            let mut since = Instant::now();
            let copied = self.visit(&live, &mut |place, row| {
                if row.used < expire_before {
                    merge.expire(place, row, oldest, live.number());
                    return Ok(());
                }
                let pushed = self.push_merged(merge, place, row);
                failed_write |= pushed.is_err();
                if merge.pages.room() == 0 {
                    self.rest(pace, since);
                    since = Instant::now();
                }
                pushed
            });
            copied.map_err(|error| failed(live.slot, error, failed_write))?;
        }
        if merge.draft.is_empty() {
            return Ok(None);
        }
        let ended = self.end_merge(merge);
        ended.map(Some).map_err(|error| failed(first, error, true))
    }

    fn start_merge(&self, victims: &[u32], counts: &Counts) -> Result<Merge> {
        let number = self.writer()?.number()?;
        let generation = {
            let state = self.state();
            let of = |slot: &u32| state.table.get(*slot).sealed.map(|s| s.tail.generation);
            victims.iter().filter_map(of).max().unwrap_or(0)
        };
        let file = self.create_file(number, counts)?;
        let options = QueueOptions { depth: WRITES_MAX, read_bytes: self.layout.page_bytes };
        Ok(Merge {
            queue: self.home().queue(options)?,
            file,
            draft: Draft::new(counts.rows, generation.saturating_add(1).min(GENERATION_MAX)),
            pages: PageBuffer::new(
                Vec::new(),
                self.layout,
                number.into(),
                self.options.chunk_pages(),
            ),
            moves: Vec::with_capacity(counts.rows as usize),
            expired: Vec::new(),
        })
    }

    fn push_merged(&self, merge: &mut Merge, place: Place, row: &Row<'_>) -> Result<()> {
        if merge.pages.room() == 0 {
            self.flush_merge(merge)?;
        }
        merge.draft.note(row.key, row.birth, row.used);
        merge.moves.push((row.key, place));
        merge.pages.push(row);
        Ok(())
    }

    fn flush_merge(&self, merge: &mut Merge) -> Result<()> {
        let Some(chunk) = merge.pages.take() else { return Ok(()) };
        let offset = self.layout.page_offset(chunk.first_page);
        let (token, file) = (u64::from(chunk.first_page), Arc::clone(&merge.file));
        while !merge.queue.write(token, &file.file, offset, &chunk.buffer, chunk.bytes)? {
            merge.reap(true)?;
        }
        self.counters.wrote(file.directory, chunk.bytes);
        merge.reap(false)
    }

    /// Writes what is left of the new segment, and waits for it.
    fn end_merge(&self, merge: &mut Merge) -> Result<Tail> {
        self.flush_merge(merge)?;
        while merge.queue.in_flight() > 0 {
            merge.reap(true)?;
        }
        let sum = merge.pages.pages_sum();
        let (footer, tail) = merge.draft.finish(&self.layout, merge.file.number, sum);
        let offset = self.layout.footer_offset(tail.counts.rows);
        merge.file.file.write_at(offset, &footer)?;
        self.counters.wrote(merge.file.directory, footer.len());
        write::cut_to(&merge.file, self.layout.file_bytes(&tail.counts))?;
        Ok(tail)
    }

    /// Removes the file of a merge that failed; nothing points at it.
    fn abandon(&self, merge: Merge) {
        let Merge { queue, file, .. } = merge;
        drop(queue);
        // The first error is the one to report; a file that stays is set aside some day.
        let _ = self.disks[file.directory].remove(&segment::name(file.number));
    }

    /// Points the index at the new segment. Where the index has no room for a place, its row stays
    /// where it was, and the merged segments are left alone: each try would leave one more file.
    fn finish_merge(&self, merge: Merge, tail: Tail) -> Result<()> {
        let mut writer = self.writer()?;
        writer.unsynced.push(Arc::clone(&merge.file));
        writer.changed = true;
        let birth_min = merge.draft.birth_min();
        let slot = {
            let mut state = self.state_mut();
            let file = Arc::clone(&merge.file);
            let segment = Segment::new(file, birth_min);
            let slot = state.table.insert(segment);
            state.table.appended(slot, tail.counts.rows);
            let (bytes, now) = (self.layout.file_bytes(&tail.counts), state.next_seq);
            let sealed = Sealed { bytes, tail, deleted_last: merge.draft.deleted_last() };
            state.table.seal(slot, sealed, birth_min, now);
            slot
        };
        // A commit from here on names the new segment and the old ones: the same rows twice.
        drop(writer);
        let mut full = Ok(());
        for (piece, first) in merge.moves.chunks(MOVES_MAX).zip((0..).step_by(MOVES_MAX)) {
            let mut state = self.state_mut();
            let mut ahead = Ahead::new(&state.index, piece.len(), |at| piece[at].0);
            for ((_, from), row) in piece.iter().zip(first..) {
                let asked = ahead.next(&state.index);
                let to = state.table.place(slot, self.layout.page_of(row));
                let moved = state.index.move_row(&asked, *from, to);
                let stale = if moved == Ok(true) { state.table.page(*from).0 } else { slot };
                state.table.went_stale(stale);
                full = full.and(moved.map(drop));
            }
        }
        add(&self.counters.rows_moved, merge.moves.len() as u64);
        // Rows that could not be moved are where they were.
        Ok(full?)
    }

    /// Takes merged segments and expired rows out of use, at once for every commit; the next one
    /// removes the files.
    fn retire(&self, victims: &[u32], expired: &[(Key, Place)]) -> Result<()> {
        let mut writer = self.writer()?;
        writer.changed = true;
        let mut state = self.state_mut();
        for (key, place) in expired {
            if state.index.get(*key) == Some(*place) {
                state.index.remove(*key);
                let slot = state.table.page(*place).0;
                state.table.went_stale(slot);
                add(&self.counters.rows_expired, 1);
            }
        }
        for victim in victims {
            let segment = state.table.remove(*victim);
            let (rows, bytes) = (segment.rows, segment.bytes());
            state.retired.segments += 1;
            state.retired.rows += u64::from(rows);
            state.retired.bytes += bytes;
            writer.retired.push(Retired { file: segment.file, rows, bytes });
        }
        Ok(())
    }
}

impl Merge {
    /// Leaves an expired row of a segment out; older versions of it stay as dead as they are.
    fn expire(&mut self, place: Place, row: &Row<'_>, oldest: u32, segment: u64) {
        self.expired.push((row.key, place));
        if oldest <= row.birth {
            // After a crash in the middle of a merge the row may still lie where it was born, too.
            let moved = segment != u64::from(row.birth);
            let born = if moved { u32::MAX } else { 0 };
            self.draft.delete(Deletion { key: row.key, birth: row.birth, row: born });
        }
    }

    /// Takes note of finished writes; waits for one where asked.
    fn reap(&mut self, wait: bool) -> Result<()> {
        let (mut landed, mut outcome) = (Vec::new(), Ok(()));
        self.queue.complete(wait, &mut |done| match done.outcome {
            Ok(_) => landed.push(done.token as u32),
            Err(error) => outcome = Err(error.into()),
        })?;
        landed.into_iter().for_each(|first_page| self.pages.landed(first_page));
        outcome
    }
}
