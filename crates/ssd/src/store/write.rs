//! Writing the open segment: chunks of pages, then footer and tail, all under way while rows are
//! being put already into the next one.

use std::sync::Arc;

use stepwell_disk::Buffer;

use super::{Core, Ending, OpenPages, OpenSegment, State, Writer};
use crate::Result;
use crate::layout::Counts;
use crate::options::WRITES_MAX;
use crate::segment::{Draft, PageBuffer, SegmentFile};
use crate::table::{Sealed, Segment};

/// Stands for the footer where writes have the first page of their chunk.
const FOOTER: u32 = u32::MAX;

impl Core {
    /// Makes a file for a segment of at most `counts`, in the directory with the fewest segments.
    pub(super) fn create_file(&self, number: u32, counts: &Counts) -> Result<Arc<SegmentFile>> {
        let directory = self.emptiest();
        let bytes = self.layout.file_bytes(counts);
        let cached = self.state().cached_bytes() + bytes <= self.options.cached_bytes;
        let disk = &*self.disks[directory];
        Ok(Arc::new(SegmentFile::create(disk, directory, number.into(), bytes, cached)?))
    }

    fn emptiest(&self) -> usize {
        if self.disks.len() == 1 {
            return 0;
        }
        let mut segments = vec![0u64; self.disks.len()];
        let state = self.state();
        for slot in state.table.in_order() {
            segments[state.table.get(slot).file.directory] += 1;
        }
        (0..segments.len()).min_by_key(|directory| segments[*directory]).unwrap_or(0)
    }

    /// Starts a segment that rows are put into.
    pub(super) fn start_segment(&self, writer: &mut Writer) -> Result<()> {
        let birth = writer.number()?;
        let rows = self.options.segment_rows();
        let file = self.create_file(birth, &Counts { rows, runs: 1, deletions: 0 });
        let file = writer.guard(file)?;
        let spare = std::mem::take(&mut writer.spare);
        let chunk_pages = self.options.chunk_pages();
        let pages = PageBuffer::new(spare, self.layout, birth.into(), chunk_pages);
        let segment = Segment::new(Arc::clone(&file), birth);
        let mut state = self.state_mut();
        let slot = state.table.insert(segment);
        state.open.push(OpenPages { slot, pages });
        writer.open = Some(OpenSegment { slot, birth, file, draft: Draft::new(rows, 0) });
        Ok(())
    }

    /// Starts writing the current chunk, if there is anything in it.
    pub(super) fn flush(&self, writer: &mut Writer) -> Result<()> {
        let Some(open) = &writer.open else { return Ok(()) };
        let (slot, file) = (open.slot, Arc::clone(&open.file));
        let Some(chunk) = self.state_mut().pages_mut(slot).take() else { return Ok(()) };
        let offset = self.layout.page_offset(chunk.first_page);
        self.start_write(
            writer,
            (slot, chunk.first_page),
            &file,
            offset,
            &chunk.buffer,
            chunk.bytes,
        )
    }

    fn start_write(
        &self,
        writer: &mut Writer,
        (slot, first_page): (u32, u32),
        file: &SegmentFile,
        offset: u64,
        buffer: &Arc<Buffer>,
        bytes: usize,
    ) -> Result<()> {
        let token = u64::from(slot) << 32 | u64::from(first_page);
        loop {
            let started = writer.queue.write(token, &file.file, offset, buffer, bytes);
            if writer.guard(started.map_err(Into::into))? {
                break;
            }
            self.reap(writer, true)?;
        }
        self.counters.wrote(file.directory, bytes);
        // Whatever is finished makes room for the next one.
        self.reap(writer, false)
    }

    /// Takes note of finished writes; waits for one where asked and any is under way.
    fn reap(&self, writer: &mut Writer, wait: bool) -> Result<()> {
        let mut finished = Vec::new();
        let completed = writer.queue.complete(wait, &mut |done| {
            finished.push((done.token, done.outcome.map(|_| ())));
        });
        writer.guard(completed.map_err(Into::into))?;
        for (token, outcome) in finished {
            // The pages stay readable in memory if this failed.
            writer.guard(outcome.map_err(Into::into))?;
            let (slot, first_page) = ((token >> 32) as u32, token as u32);
            if first_page != FOOTER {
                self.state_mut().pages_mut(slot).landed(first_page);
            }
            if let Some(ending) = writer.ending.iter_mut().find(|ending| ending.slot == slot) {
                ending.writes_left -= 1;
            }
        }
        while let Some(ending) = writer.ending.front().filter(|ending| ending.writes_left == 0) {
            // Its list of keys is needed for as long as it is not sealed.
            let cut = cut_to(&ending.file, self.layout.file_bytes(&ending.tail.counts));
            writer.guard(cut)?;
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
        state.table.seal(ending.slot, sealed, ending.draft.birth_min(), now);
        let pages = state.open.extract_if(.., |open| open.slot == ending.slot).next();
        drop(state);
        writer.spare.extend(pages.into_iter().flat_map(|open| open.pages.into_buffers()));
        writer.spare.truncate(WRITES_MAX);
        writer.unsynced.push(ending.file);
        self.bell.ring();
    }

    /// Starts the last writes of the open segment, if it holds anything.
    pub(super) fn seal(&self, writer: &mut Writer) -> Result<()> {
        if writer.open.as_ref().is_none_or(|open| open.draft.is_empty()) {
            return Ok(());
        }
        self.flush(writer)?;
        let Some(mut open) = writer.open.take() else { return Ok(()) };
        let (pages_sum, in_flight) = {
            let mut state = self.state_mut();
            let pages = state.pages_mut(open.slot);
            (pages.pages_sum(), pages.in_flight())
        };
        let (footer, tail) = open.draft.finish(&self.layout, open.file.number, pages_sum);
        let (slot, file) = (open.slot, open.file);
        let writes_left = in_flight + 1;
        writer.ending.push_back(Ending {
            slot,
            file: Arc::clone(&file),
            draft: open.draft,
            tail,
            writes_left,
        });
        let offset = self.layout.footer_offset(tail.counts.rows);
        let bytes = footer.len();
        self.start_write(writer, (slot, FOOTER), &file, offset, &Arc::new(footer), bytes)
    }

    /// Waits for all writes that are under way.
    pub(super) fn drain(&self, writer: &mut Writer) -> Result<()> {
        while writer.queue.in_flight() > 0 {
            self.reap(writer, true)?;
        }
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
    /// Bytes of the segments that go through the page cache, as far as they are sealed.
    fn cached_bytes(&self) -> u64 {
        let segments = self.table.sealed().into_iter().map(|slot| self.table.get(slot));
        segments.filter(|segment| segment.file.cached).map(|segment| segment.bytes()).sum()
    }

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
