//! A merge: the live rows of some segments are copied into a new one.
//!
//! - **How.** Rows are copied with their births and last uses, in the order of their segments;
//!   expired ones are omitted. Once all are in the new file, the index is updated
//!   ([`merge_end`](super::merge_end)) and the merged segments are retired: readers that found a
//!   row there keep reading it, and the files are removed after a commit that no longer names them.
//!   A deletion is carried along while some segment may have an older version of the key and there
//!   is no newer one; an expired row leaves a deletion under the same condition.
//! - **Failure.** If something cannot be read or written, nothing changes and the new file is
//!   removed. Later merges skip a segment that cannot be read, unless file descriptors ran out. If
//!   the index has no room for the new places, the rows move back, and later merges skip the
//!   segments, too.
//! - **Bounds.** One buffer being read, those being written, and the lists of the new segment's
//!   rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use stepwell_base::Key;
use stepwell_disk::{Buffer, Queue, QueueOptions, Wait};
use tracing::{debug, warn};

use super::pace::Pace;
use crate::index::Place;
use crate::layout::Counts;
use crate::numbers::{Birth, PageNumber, Slot};
use crate::options::WRITES_MAX;
use crate::row_versions::{Deletion, ROW_DROPPED};
use crate::segment::page::Row;
use crate::segment::{self, Draft, PageBuffer, SegmentFile, Tail};
use crate::stats::add;
use crate::store::core::Core;
use crate::store::sweep_result::Sweep;
use crate::store::writing::open_segment::cut_to;
use crate::victims::{self, Plan};
use crate::{Error, Result};

/// The most rows that are moved under one lock of the state.
pub(super) const MOVES_MAX: usize = 1024;
/// The highest generation: rows with this many merges or more are treated alike.
const GENERATION_MAX: u32 = 15;

/// The new segment of a merge.
pub(super) struct Merge {
    queue: Box<dyn Queue>,
    pub(super) file: Arc<SegmentFile>,
    pub(super) draft: Draft,
    pub(super) pages: PageBuffer,
    /// Old place of each row.
    pub(super) moves: Vec<(Key, Place)>,
    /// Expired rows and their places.
    expired: Vec<(Key, Place)>,
}

/// The result of a merge.
pub(super) struct Merged {
    /// The new segment, unless it would be empty.
    pub(super) new: Option<(Merge, Tail)>,
    pub(super) expired: Vec<(Key, Place)>,
}

/// Error of a failed merge.
pub(super) struct Failed {
    pub(super) error: Error,
    /// Segments that later merges skip because of the error; if empty, the next merge tries the
    /// same.
    pub(super) left_alone: Vec<Slot>,
}

impl Failed {
    /// A segment could not be read; without a free file descriptor, it may be readable later.
    fn unreadable(error: Error, slot: Slot) -> Self {
        let left_alone = if error.is_no_descriptor() { Vec::new() } else { vec![slot] };
        Self { error, left_alone }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, left_alone: Vec::new() }
    }
}

impl Core {
    /// Carries out `plan`; the caller holds `merging`.
    pub(super) fn merge(
        &self,
        plan: &Plan,
        sweep: &Sweep,
        pace: Pace,
    ) -> std::result::Result<(), Failed> {
        let victims = &plan.victims;
        let store = self.home().path().display();
        debug!(%store, segments = victims.len(), "merge started");
        let mut merge = None;
        let merged = self.copy(plan, sweep, &mut merge, pace).map(|tail| {
            let of = |tail: Tail| {
                victims::weight(self.layout.file_bytes(&tail.counts), tail.counts.rows)
            };
            assert!(plan.guess || tail.map_or(0, of) < plan.weight, "a merge frees something");
            self.merged(merge.take(), tail)
        });
        let settled = merged.and_then(|merged| self.settle(victims, merged));
        if let Some(merge) = merge {
            self.abandon(merge);
        }
        let outcome = settled.inspect_err(|failed| {
            let mut state = self.state_mut();
            failed.left_alone.iter().for_each(|slot| state.table.leave_alone(*slot));
            drop(state);
            add(&self.counters.merges_failed, 1);
            self.log_failed(failed);
        });
        let is_repeated = |failed: &Failed| failed.left_alone.is_empty();
        self.merge_repeats.store(outcome.as_ref().is_err_and(is_repeated), Ordering::Relaxed);
        outcome
    }

    /// Logs a failed merge; if the next one tries the same and fails, not as a warning.
    fn log_failed(&self, Failed { error, left_alone }: &Failed) {
        let (store, segments_left_alone) = (self.home().path().display(), left_alone.len());
        if left_alone.is_empty() && self.merge_repeats.load(Ordering::Relaxed) {
            debug!(%store, segments_left_alone, %error, "merge failed again");
        } else {
            warn!(%store, segments_left_alone, %error, "merge failed");
        }
    }

    /// The result of a merge; without a row or deletion, it has no segment.
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

    fn copy(
        &self,
        plan: &Plan,
        sweep: &Sweep,
        merge: &mut Option<Merge>,
        pace: Pace,
    ) -> std::result::Result<Option<Tail>, Failed> {
        let Plan { victims, oldest, .. } = plan;
        let unreadable = |victim: Slot| move |error| Failed::unreadable(error, victim);
        let mut lives = Vec::new();
        for victim in victims {
            lives.push(self.live(*victim).map_err(unreadable(*victim))?);
        }
        let rows = lives.iter().map(|live| live.rows.len()).sum::<usize>() as u32;
        let mut deletions: Vec<_> =
            lives.iter().flat_map(|live| live.deletions_since(*oldest)).collect();
        deletions.retain(|deletion| !sweep.is_unneeded(deletion.key));
        self.drop_superseded(&mut deletions);
        if rows == 0 && deletions.is_empty() {
            return Ok(None);
        }
        let counts = Counts { rows, runs: 0, deletions: deletions.len() as u32 };
        let started = self.start_merge(victims, &counts);
        let merge = merge.insert(started?);
        deletions.into_iter().for_each(|deletion| merge.draft.delete(deletion));
        let expire_before = self.state().expire_before;
        for live in lives {
            let mut failed_write = false;
            let mut since = Instant::now();
            let copied = self.visit(&live, &mut |place, row| {
                if row.used < expire_before {
                    merge.expire(place, row, *oldest);
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
            copied.map_err(|error| match failed_write {
                true => error.into(),
                false => Failed::unreadable(error, live.slot),
            })?;
        }
        if merge.draft.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.end_merge(merge)?))
    }

    /// Drops deletions of keys with a current version: it is newer than the deletion, so versions
    /// older than the deletion do not count anyway.
    fn drop_superseded(&self, deletions: &mut Vec<Deletion>) {
        let mut superseded = Vec::with_capacity(deletions.len());
        for piece in deletions.chunks(MOVES_MAX) {
            let keys: Vec<Key> = piece.iter().map(|deletion| deletion.key).collect();
            self.state().index.get_many(&keys, |_, place| superseded.push(place.is_some()));
        }
        let mut superseded = superseded.into_iter();
        deletions.retain(|_| superseded.next() != Some(true));
    }

    fn start_merge(&self, victims: &[Slot], counts: &Counts) -> Result<Merge> {
        let number = self.writer()?.number()?;
        let generation = {
            let state = self.state();
            let of = |slot: &Slot| state.table.get(*slot).sealed.map(|s| s.tail.generation);
            victims.iter().filter_map(of).max().unwrap_or(0)
        };
        let options = QueueOptions { depth: WRITES_MAX, read_bytes: self.layout.page_bytes };
        // Before the file is created, so that a failure leaves no file.
        let queue = self.home().queue(options)?;
        let file = self.create_file(number, counts)?;
        let origin = file.origin;
        Ok(Merge {
            queue,
            file,
            draft: Draft::new(counts.rows, generation.saturating_add(1).min(GENERATION_MAX)),
            pages: PageBuffer::new(
                self.executor.own_buffer(self.options.write_buffer_bytes()),
                self.layout,
                origin,
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
        while !merge.pages.is_taken() {
            if let Some(next) = self.executor.next_buffer(merge.pages.buffer_bytes()) {
                return self.write_merged(merge, Some(next));
            }
            if merge.queue.in_flight() == 0 {
                return self.write_merged_at_once(merge);
            }
            self.reap_merge(merge, Wait::ForOne)?;
        }
        Ok(())
    }

    /// Starts writing the current buffer and replaces it by `next`, if it is not the last.
    fn write_merged(&self, merge: &mut Merge, next: Option<Buffer>) -> Result<()> {
        let Some(taken) = merge.pages.take(next) else { return Ok(()) };
        let offset = self.layout.page_offset(taken.first_page);
        let (token, file) = (u64::from(taken.first_page.0), Arc::clone(&merge.file));
        while !merge.queue.write(token, &file.file, offset, &taken.buffer, taken.bytes)? {
            self.reap_merge(merge, Wait::ForOne)?;
        }
        drop(taken.buffer);
        self.counters.wrote(file.directory, taken.bytes);
        self.reap_merge(merge, Wait::No)
    }

    /// Writes the current buffer and reuses it: no other one is available.
    fn write_merged_at_once(&self, merge: &mut Merge) -> Result<()> {
        let Some(taken) = merge.pages.take(None) else { return Ok(()) };
        let written = self.write_now(&merge.file, &taken);
        merge.pages.come_back(taken, written.is_ok());
        written
    }

    /// Writes the rest of the new segment, and waits for it.
    fn end_merge(&self, merge: &mut Merge) -> Result<Tail> {
        if !merge.pages.is_taken() {
            self.executor.last_buffer(merge.pages.buffer_bytes());
            self.write_merged(merge, None)?;
        }
        while merge.queue.in_flight() > 0 {
            self.reap_merge(merge, Wait::ForOne)?;
        }
        let sum = merge.pages.pages_sum();
        let (footer, tail) = merge.draft.finish(&self.layout, &merge.file.origin, sum);
        let offset = self.layout.footer_offset(tail.counts.rows);
        merge.file.file.write_at(offset, &footer)?;
        self.counters.wrote(merge.file.directory, footer.len());
        cut_to(&merge.file, self.layout.file_bytes(&tail.counts))?;
        Ok(tail)
    }

    /// Processes finished writes.
    fn reap_merge(&self, merge: &mut Merge, wait: Wait) -> Result<()> {
        let (mut landed, mut outcome) = (Vec::new(), Ok(()));
        merge.queue.complete(wait, &mut |done| match done.outcome {
            Ok(_) => landed.push(PageNumber(done.token as u32)),
            Err(error) => outcome = Err(error.into()),
        })?;
        for first_page in landed {
            let buffer = merge.pages.landed(first_page);
            self.executor.landed(buffer, merge.pages.buffer_bytes());
        }
        outcome
    }

    /// Removes the file of a failed merge; nothing points at it.
    pub(super) fn abandon(&self, merge: Merge) {
        let Merge { queue, file, pages, .. } = merge;
        drop(queue);
        self.executor.end_pages(pages);
        // The first error is the one to report; opening sets a remaining file aside.
        if let Err(error) = self.disks[file.directory].remove(&segment::name(file.number)) {
            warn!(%error, "the file of a failed merge stays");
        }
    }
}

impl Merge {
    /// Omits an expired row; older versions of it stay dead.
    fn expire(&mut self, place: Place, row: &Row<'_>, oldest: Birth) {
        self.expired.push((row.key, place));
        if oldest <= row.birth {
            // No later version has this birth, since only sealed segments are merged.
            let dropped = ROW_DROPPED + u32::from(self.file.number);
            self.draft.delete(Deletion { key: row.key, birth: row.birth, row: dropped });
        }
    }
}
