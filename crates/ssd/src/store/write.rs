//! Writing the open segment: chunks of pages, then footer and tail, all under way while rows are
//! being put already into the next one.

use std::sync::Arc;

use super::{Core, Ending, OpenPages, OpenSegment, State, Write, Writer};
use crate::identity::Origin;
use crate::layout::Counts;
use crate::segment::pages::Chunk;
use crate::segment::{Draft, PageBuffer, SegmentFile, Spot};
use crate::table::{InDirectory, Sealed, Segment};
use crate::versions::Provenance;
use crate::{Error, Result, SEGMENTS_MAX};

/// Stands for the footer where writes have the first page of their chunk.
const FOOTER: u32 = u32::MAX;

impl Core {
    /// Makes a file for a segment of at most `counts`, in the directory that is the emptiest of
    /// those that take it. Where it fails nothing was written.
    pub(super) fn create_file(&self, number: u32, counts: &Counts) -> Result<Arc<SegmentFile>> {
        let bytes = self.layout.file_bytes(counts);
        let (cached, segments) = {
            let state = self.state();
            let cached = state.table.cached_bytes() + bytes <= self.options.cached_bytes;
            (cached, state.table.len())
        };
        if segments >= SEGMENTS_MAX {
            return Err(Error::Options(format!(
                "a store of {SEGMENTS_MAX} segments begins no other: copy it into one of larger \
                 segments (tiers.segment)"
            )));
        }
        let origin = Origin { store: self.id, number: number.into() };
        let mut outcome = None;
        for directory in self.directories(bytes) {
            let (number, layout) = (number.into(), self.layout);
            let counting = self.key_shards;
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

    /// The directories by how full they are; those that have less than `bytes` left come last.
    fn directories(&self, bytes: u64) -> Vec<usize> {
        if self.disks.len() == 1 {
            return vec![0];
        }
        let held = self.state().table.directories().to_vec();
        let fullness = |directory: &usize| {
            let InDirectory { segments, bytes: ours } = held[*directory];
            // Where the system cannot tell, creating will.
            let free = self.disks[*directory].bytes_free().unwrap_or(u64::MAX);
            let part = ours as f64 / (ours as f64 + free as f64).max(1.0);
            // In thousandths: files of other programs on one disk are no reason to choose another.
            (free < bytes, (part * 1e3) as u64, segments)
        };
        let mut directories: Vec<usize> = (0..self.disks.len()).collect();
        directories.sort_by_cached_key(fullness);
        directories
    }

    /// Starts a segment that rows are put into.
    pub(super) fn start_segment(&self, writer: &mut Writer) -> Result<()> {
        // The last chunk of the segment before may be one too many.
        while self.executor.has_too_much_under_way() && writer.queue.in_flight() > 0 {
            self.reap(writer, true)?;
        }
        let birth = writer.number()?;
        let size = self.size(&self.state()).clone();
        let rows = size.rows;
        let counts = Counts { rows, ..Counts::default() };
        let file = match self.create_file(birth, &counts) {
            // What was merged away is only waiting for a commit.
            Err(error) if error.is_no_room() && !self.state().retiring.is_empty() => {
                self.commit_locked(writer)?;
                self.create_file(birth, &counts)?
            }
            made => made?,
        };
        let chunk = self.executor.own_chunk(self.options.chunk_bytes());
        let pages = PageBuffer::new(chunk, self.layout, file.origin);
        let segment = Segment::new(Arc::clone(&file), Provenance::put(birth));
        let mut state = self.state_mut();
        let slot = state.table.insert(segment, self.layout.pages(rows));
        state.open.push(OpenPages { slot, pages });
        let draft = match writer.spare.take() {
            Some(spare) => spare.again(rows, 0),
            None => Draft::new(rows, 0),
        };
        writer.open = Some(OpenSegment { slot, birth, file, draft, size });
        Ok(())
    }

    /// Starts writing the current chunk, if there is anything in it.
    pub(super) fn flush(&self, writer: &mut Writer) -> Result<()> {
        let Some(open) = &writer.open else { return Ok(()) };
        let (slot, file) = (open.slot, Arc::clone(&open.file));
        if self.state_mut().pages_mut(slot).is_taken() {
            return self.write_on(writer);
        }
        loop {
            if let Some(next) = self.executor.next_chunk(self.options.chunk_bytes()) {
                let chunk = self.state_mut().pages_mut(slot).take(Some(next));
                writer.unwritten.extend(chunk.map(|chunk| self.write_of(slot, &file, chunk)));
                return self.write_on(writer);
            }
            if writer.queue.in_flight() == 0 && writer.unwritten.is_empty() {
                return self.write_at_once(slot, &file);
            }
            self.write_again(writer)?;
            self.reap(writer, true)?;
        }
    }

    /// Writes the current chunk and goes on in its memory: others have all there is.
    fn write_at_once(&self, slot: u32, file: &Arc<SegmentFile>) -> Result<()> {
        let chunk = self.state_mut().pages_mut(slot).take(None);
        let Some(chunk) = chunk else { return Ok(()) };
        let written = self.write_now(file, &chunk);
        self.state_mut().pages_mut(slot).come_back(chunk, written.is_ok());
        written
    }

    /// Writes a chunk and waits for it.
    pub(super) fn write_now(&self, file: &SegmentFile, chunk: &Chunk) -> Result<()> {
        let offset = self.layout.page_offset(chunk.first_page);
        file.file.write_at(offset, &chunk.buffer[..chunk.bytes])?;
        self.counters.wrote(file.directory, chunk.bytes);
        Ok(())
    }

    fn write_of(&self, slot: u32, file: &Arc<SegmentFile>, chunk: Chunk) -> Write {
        let Chunk { first_page, buffer, bytes } = chunk;
        let offset = self.layout.page_offset(first_page);
        Write { slot, first_page, file: Arc::clone(file), offset, buffer, bytes }
    }

    /// Starts what is to be written, and takes note of what is: that makes room for the next one.
    fn write_on(&self, writer: &mut Writer) -> Result<()> {
        self.write_again(writer)?;
        self.reap(writer, false)
    }

    /// Starts the writes that have not been, or that failed, in order.
    pub(super) fn write_again(&self, writer: &mut Writer) -> Result<()> {
        while let Some(write) = writer.unwritten.first() {
            let Write { slot, first_page, file, offset, buffer, bytes } = write;
            let token = u64::from(*slot) << 32 | u64::from(*first_page);
            if !writer.queue.write(token, &file.file, *offset, buffer, *bytes)? {
                self.reap(writer, true)?;
                continue;
            }
            self.counters.wrote(file.directory, *bytes);
            let write = writer.unwritten.remove(0);
            writer.writing.push(write);
        }
        Ok(())
    }

    /// Takes note of finished writes; waits for one where asked and any is under way.
    fn reap(&self, writer: &mut Writer, wait: bool) -> Result<()> {
        let mut finished = Vec::new();
        let completed = writer.queue.complete(wait, &mut |done| {
            finished.push((done.token, done.outcome.map(|_| ())));
        });
        let mut outcome = completed.map(drop).map_err(Error::from);
        for (token, written) in finished {
            let (slot, first_page) = ((token >> 32) as u32, token as u32);
            let of = |write: &Write| (write.slot, write.first_page) == (slot, first_page);
            let at = writer.writing.iter().position(of);
            let write = at.map(|at| writer.writing.swap_remove(at));
            if let Err(error) = written {
                // Its bytes stay readable in memory, and are written again.
                writer.unwritten.extend(write);
                outcome = outcome.and(Err(error.into()));
                continue;
            }
            drop(write);
            if first_page != FOOTER {
                let landed = self.state_mut().pages_mut(slot).landed(first_page);
                self.executor.landed(landed, self.options.chunk_bytes());
            }
            if let Some(ending) = writer.ending.iter_mut().find(|ending| ending.slot == slot) {
                ending.writes_left -= 1;
            }
        }
        outcome?;
        while let Some(ending) = writer.ending.front().filter(|ending| ending.writes_left == 0) {
            // Its list of keys is needed for as long as it is not sealed.
            cut_to(&ending.file, self.layout.file_bytes(&ending.tail.counts))?;
            if let Some(ending) = writer.ending.pop_front() {
                self.end(writer, ending);
            }
        }
        Ok(())
    }

    /// A segment is in its file.
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
        // Lists in memory that was never touched cost a page fault for every 4 KiB.
        writer.spare = Some(ending.draft);
        self.executor.notify();
    }

    /// Starts the last writes of the open segment, if it holds anything. Where that fails, no row
    /// is put into it any more, and they are tried again.
    pub(super) fn seal(&self, writer: &mut Writer) -> Result<()> {
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
                self.executor.last_chunk(pages.chunk_bytes());
            }
            (last, pages.pages_sum(), pages.in_flight())
        };
        writer.unwritten.extend(last.map(|chunk| self.write_of(slot, &file, chunk)));
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
        // The footer and the chunks, those among them whose writes failed before.
        let writes_left = in_flight + 1;
        writer.ending.push_back(Ending { slot, file, draft: open.draft, tail, writes_left });
        self.write_on(writer)
    }

    /// Waits for all writes that are under way.
    pub(super) fn drain(&self, writer: &mut Writer) -> Result<()> {
        // What failed before this call is tried again, and only told of if it fails again.
        for _ in 0..writer.queue.in_flight() {
            let _ = self.reap(writer, true);
        }
        self.write_again(writer)?;
        while writer.queue.in_flight() > 0 {
            self.reap(writer, true)?;
        }
        // Those that could not be cut to their lengths before.
        self.reap(writer, false)?;
        assert!(writer.ending.is_empty(), "a segment whose writes are done has ended");
        Ok(())
    }
}

/// Makes the file as long as what was written; room for more was set aside perhaps.
pub(super) fn cut_to(file: &SegmentFile, bytes: u64) -> Result<()> {
    if file.file.len()? != bytes {
        file.file.truncate(bytes)?;
    }
    Ok(())
}

impl Writer {
    /// What was noted of the rows of a segment that is being written.
    pub(super) fn draft(&self, slot: u32) -> Option<&Draft> {
        let open = self.open.iter().map(|open| (open.slot, &open.draft));
        let ending = self.ending.iter().map(|ending| (ending.slot, &ending.draft));
        open.chain(ending).find(|(of, _)| *of == slot).map(|(_, draft)| draft)
    }
}

impl State {
    pub(super) fn pages_mut(&mut self, slot: u32) -> &mut PageBuffer {
        let open = self.open.iter_mut().find(|open| open.slot == slot);
        #[expect(clippy::expect_used, reason = "a segment has pages in memory until it is sealed")]
        &mut open.expect("a segment being written").pages
    }

    /// The pages of a slot's segment, while not all of them are in its file.
    pub(super) fn pages(&self, slot: u32) -> Option<&PageBuffer> {
        self.open.iter().find(|open| open.slot == slot).map(|open| &open.pages)
    }
}
