//! Writes the open segment: buffers of pages, then footer and tail, while rows are already put into
//! the next segment.

use std::sync::Arc;

use stepwell_disk::Wait;

use crate::identity::Origin;
use crate::layout::Counts;
use crate::manifest::SEGMENTS_MAX;
use crate::numbers::{PageNumber, SegmentNumber, Slot};
use crate::row_versions::Provenance;
use crate::segment::pages::TakenPages;
use crate::segment::{Draft, PageBuffer, SegmentFile, Spot};
use crate::segment_table::{InDirectory, Sealed, Segment};
use crate::store::core::{Core, Ending, OpenPages, OpenSegment, State, Write, Writer};
use crate::{Error, Result};

/// First page of a write of the footer.
const FOOTER: PageNumber = PageNumber(u32::MAX);

impl Core {
    /// Makes a file for a segment of at most `counts`, in the emptiest directory that accepts it.
    /// If it fails, nothing was written.
    pub(in crate::store) fn create_file(
        &self,
        number: SegmentNumber,
        counts: &Counts,
    ) -> Result<Arc<SegmentFile>> {
        let bytes = self.layout.file_bytes(counts);
        let (cached, segments) = {
            let state = self.state();
            let cached = state.table.cached_bytes() + bytes <= self.options.cached_bytes;
            (cached, state.table.len())
        };
        if segments >= SEGMENTS_MAX {
            return Err(Error::Options(format!(
                "a store has at most {SEGMENTS_MAX} segments: copy it into one of larger \
                 segments (tiers.segment)"
            )));
        }
        let origin = Origin { store: self.id, number };
        let mut outcome = None;
        for directory in self.directories(bytes) {
            let (layout, counting) = (self.layout, self.key_shards);
            let spot = Spot { directory, number, cached, layout, origin, counting };
            match SegmentFile::create(&*self.disks[directory], &spot, bytes) {
                Ok(file) => return Ok(Arc::new(file)),
                Err(error) => {
                    outcome.get_or_insert(error);
                }
            }
        }
        Err(outcome.unwrap_or_else(|| self.refusal("it has no directory")))
    }

    /// The directories by how full they are; those with less than `bytes` free come last.
    fn directories(&self, bytes: u64) -> Vec<usize> {
        if self.disks.len() == 1 {
            return vec![0];
        }
        let held = self.state().table.directories().to_vec();
        let fullness = |directory: &usize| {
            let InDirectory { segments, bytes: ours } = held[*directory];
            // If the system does not report free space, creating the file will show it.
            let free = self.disks[*directory].bytes_free().unwrap_or(u64::MAX);
            let part = ours as f64 / (ours as f64 + free as f64).max(1.0);
            // In thousandths, so that small differences, as from other files on the disk, do not
            // matter.
            (free < bytes, (part * 1e3) as u64, segments)
        };
        let mut directories: Vec<usize> = (0..self.disks.len()).collect();
        directories.sort_by_cached_key(fullness);
        directories
    }

    /// Starts a segment to put rows into.
    pub(super) fn start_segment(&self, writer: &mut Writer) -> Result<()> {
        // The last buffer of the previous segment may exceed the bound.
        while self.executor.has_too_much_under_way() && writer.queue.in_flight() > 0 {
            self.reap(writer, Wait::ForOne)?;
        }
        let number = writer.number()?;
        let size = self.size(&self.state()).clone();
        let rows = size.rows;
        let counts = Counts { rows, ..Counts::default() };
        let file = match self.create_file(number, &counts) {
            // A commit can free the space of merged segments.
            Err(error) if error.is_no_room() && !self.state().retiring.is_empty() => {
                self.commit_locked(writer)?;
                self.create_file(number, &counts)?
            }
            made => made?,
        };
        let buffer = self.executor.own_buffer(self.options.write_buffer_bytes());
        let pages = PageBuffer::new(buffer, self.layout, file.origin);
        let segment = Segment::new(Arc::clone(&file), Provenance::put(number));
        let mut state = self.state_mut();
        let slot = state.table.insert(segment, self.layout.pages(rows));
        state.open.push(OpenPages { slot, pages });
        let draft = match writer.spare.take() {
            Some(spare) => spare.again(rows, 0),
            None => Draft::new(rows, 0),
        };
        writer.open = Some(OpenSegment { slot, birth: number.birth(), file, draft, size });
        Ok(())
    }

    /// Starts writing the current buffer, unless it is empty.
    pub(in crate::store) fn flush(&self, writer: &mut Writer) -> Result<()> {
        let Some(open) = &writer.open else { return Ok(()) };
        let (slot, file) = (open.slot, Arc::clone(&open.file));
        if self.state_mut().pages_mut(slot).is_taken() {
            return self.write_on(writer);
        }
        loop {
            if let Some(next) = self.executor.next_buffer(self.options.write_buffer_bytes()) {
                let taken = self.state_mut().pages_mut(slot).take(Some(next));
                writer.unwritten.extend(taken.map(|taken| self.write_of(slot, &file, taken)));
                return self.write_on(writer);
            }
            if writer.queue.in_flight() == 0 && writer.unwritten.is_empty() {
                return self.write_at_once(slot, &file);
            }
            self.write_again(writer)?;
            self.reap(writer, Wait::ForOne)?;
        }
    }

    /// Writes the current buffer and reuses it: no other one is available.
    fn write_at_once(&self, slot: Slot, file: &Arc<SegmentFile>) -> Result<()> {
        let taken = self.state_mut().pages_mut(slot).take(None);
        let Some(taken) = taken else { return Ok(()) };
        let written = self.write_now(file, &taken);
        self.state_mut().pages_mut(slot).come_back(taken, written.is_ok());
        written
    }

    /// Writes pages synchronously.
    pub(in crate::store) fn write_now(&self, file: &SegmentFile, taken: &TakenPages) -> Result<()> {
        let offset = self.layout.page_offset(taken.first_page);
        file.file.write_at(offset, &taken.buffer[..taken.bytes])?;
        self.counters.wrote(file.directory, taken.bytes);
        Ok(())
    }

    fn write_of(&self, slot: Slot, file: &Arc<SegmentFile>, taken: TakenPages) -> Write {
        let TakenPages { first_page, buffer, bytes } = taken;
        let offset = self.layout.page_offset(first_page);
        Write { slot, first_page, file: Arc::clone(file), offset, buffer, bytes }
    }

    /// Starts pending writes and processes finished ones, which makes room for the next buffer.
    fn write_on(&self, writer: &mut Writer) -> Result<()> {
        self.write_again(writer)?;
        self.reap(writer, Wait::No)
    }

    /// Starts writes that have not started or that failed, in order.
    pub(super) fn write_again(&self, writer: &mut Writer) -> Result<()> {
        while let Some(write) = writer.unwritten.first() {
            let Write { slot, first_page, file, offset, buffer, bytes } = write;
            let token = u64::from(slot.0) << 32 | u64::from(first_page.0);
            if !writer.queue.write(token, &file.file, *offset, buffer, *bytes)? {
                self.reap(writer, Wait::ForOne)?;
                continue;
            }
            self.counters.wrote(file.directory, *bytes);
            let write = writer.unwritten.remove(0);
            writer.writing.push(write);
        }
        Ok(())
    }

    /// Processes finished writes.
    fn reap(&self, writer: &mut Writer, wait: Wait) -> Result<()> {
        let mut finished = Vec::new();
        let completed = writer.queue.complete(wait, &mut |done| {
            finished.push((done.token, done.outcome.map(|_| ())));
        });
        let mut outcome = completed.map(drop).map_err(Error::from);
        for (token, written) in finished {
            let (slot, first_page) = (Slot((token >> 32) as u32), PageNumber(token as u32));
            let of = |write: &Write| (write.slot, write.first_page) == (slot, first_page);
            let at = writer.writing.iter().position(of);
            let write = at.map(|at| writer.writing.swap_remove(at));
            if let Err(error) = written {
                // The write's bytes stay readable in memory, and the write is retried.
                writer.unwritten.extend(write);
                outcome = outcome.and(Err(error.into()));
                continue;
            }
            drop(write);
            if first_page != FOOTER {
                let landed = self.state_mut().pages_mut(slot).landed(first_page);
                self.executor.landed(landed, self.options.write_buffer_bytes());
            }
            if let Some(ending) = writer.ending.iter_mut().find(|ending| ending.slot == slot) {
                ending.writes_left -= 1;
            }
        }
        outcome?;
        while let Some(ending) = writer.ending.front().filter(|ending| ending.writes_left == 0) {
            // The segment's list of keys is needed until it is sealed.
            cut_to(&ending.file, self.layout.file_bytes(&ending.tail.counts))?;
            if let Some(ending) = writer.ending.pop_front() {
                self.end(writer, ending);
            }
        }
        Ok(())
    }

    /// Seals a segment that is in its file.
    fn end(&self, writer: &mut Writer, ending: Ending) {
        let bytes = self.layout.file_bytes(&ending.tail.counts);
        let mut state = self.state_mut();
        let deleted_last = ending.draft.deleted_last();
        let sealed = Sealed { bytes, tail: ending.tail, deleted_last };
        let now = state.next_seq;
        let provenance = state.table.get(ending.slot).provenance;
        state.table.seal(ending.slot, sealed, provenance, now);
        let pages = state.open.extract_if(.., |open| open.slot == ending.slot).next();
        drop(state);
        pages.into_iter().for_each(|open| self.executor.end_pages(open.pages));
        writer.unsynced.push(ending.file);
        // Reused, since memory that was never touched costs a page fault for every 4 KiB.
        writer.spare = Some(ending.draft);
        self.executor.notify();
    }

    /// Starts the last writes of the open segment, unless it is empty. If that fails, the segment
    /// takes no more rows, and the writes are retried.
    pub(in crate::store) fn seal(&self, writer: &mut Writer) -> Result<()> {
        if writer.open.as_ref().is_none_or(|open| open.draft.is_empty()) {
            return Ok(());
        }
        let Some(mut open) = writer.open.take() else { return Ok(()) };
        let (slot, file) = (open.slot, open.file);
        let (last, pages_sum, in_flight) = {
            let mut state = self.state_mut();
            let pages = state.pages_mut(slot);
            let last = pages.take(None);
            if last.is_some() {
                self.executor.last_buffer(pages.buffer_bytes());
            }
            (last, pages.pages_sum(), pages.in_flight())
        };
        writer.unwritten.extend(last.map(|taken| self.write_of(slot, &file, taken)));
        let (footer, tail) = open.draft.finish(&self.layout, &file.origin, pages_sum);
        let (offset, bytes) = (self.layout.footer_offset(tail.counts.rows), footer.len());
        writer.unwritten.push(Write {
            slot,
            first_page: FOOTER,
            file: Arc::clone(&file),
            offset,
            buffer: Arc::new(footer),
            bytes,
        });
        // The footer and the buffers, including those whose writes failed.
        let writes_left = in_flight + 1;
        writer.ending.push_back(Ending { slot, file, draft: open.draft, tail, writes_left });
        self.write_on(writer)
    }

    /// Waits for all writes in flight.
    pub(super) fn drain(&self, writer: &mut Writer) -> Result<()> {
        // Writes that failed before this call are retried, and errors returned only if they fail
        // again.
        for _ in 0..writer.queue.in_flight() {
            let _ = self.reap(writer, Wait::ForOne);
        }
        self.write_again(writer)?;
        while writer.queue.in_flight() > 0 {
            self.reap(writer, Wait::ForOne)?;
        }
        // Segments that could not be cut to their length earlier.
        self.reap(writer, Wait::No)?;
        assert!(writer.ending.is_empty(), "segments have ended once their writes are done");
        Ok(())
    }
}

/// Cuts the file to the `bytes` that were written; more space may have been allocated.
pub(in crate::store) fn cut_to(file: &SegmentFile, bytes: u64) -> Result<()> {
    if file.file.len()? != bytes {
        file.file.truncate(bytes)?;
    }
    Ok(())
}

impl Writer {
    /// The draft of a segment that is being written.
    pub(in crate::store) fn draft(&self, slot: Slot) -> Option<&Draft> {
        let open = self.open.iter().map(|open| (open.slot, &open.draft));
        let ending = self.ending.iter().map(|ending| (ending.slot, &ending.draft));
        open.chain(ending).find(|(of, _)| *of == slot).map(|(_, draft)| draft)
    }
}

impl State {
    pub(super) fn pages_mut(&mut self, slot: Slot) -> &mut PageBuffer {
        let open = self.open.iter_mut().find(|open| open.slot == slot);
        #[expect(clippy::expect_used, reason = "a segment has pages in memory until it is sealed")]
        &mut open.expect("a segment being written").pages
    }

    /// The pages of a slot's segment until all are in its file.
    pub(in crate::store) fn pages(&self, slot: Slot) -> Option<&PageBuffer> {
        self.open.iter().find(|open| open.slot == slot).map(|open| &open.pages)
    }
}
