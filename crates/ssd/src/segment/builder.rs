//! Writing a segment's file: header, pages, footer, tail, front to back.
//!
//! How       Pages come packed from a [`super::PageBuffer`]; the builder writes them one after the
//!           other, keeps the list of keys for the footer, and sums the whole file as it goes.
//! Failure   An error leaves a file that no manifest names; nothing is taken back.
//! Bounds    16 bytes for each row, and a chunk of the footer.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::hash::Checksum;
use stepwell_disk::Disk;

use super::marks::{self, Tail};
use super::{CHUNK_BYTES, SegmentFile};
use crate::Result;
use crate::layout::{ENTRY_BYTES, Layout};
use crate::stats::Counters;

#[derive(Debug)]
pub(crate) struct Builder {
    layout: Layout,
    file: Arc<SegmentFile>,
    /// Key and sequence number of every row, in order.
    entries: Vec<(Key, u64)>,
    seq_max: u64,
    sum: Checksum,
    bytes: u64,
}

/// A finished segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    pub(crate) bytes: u64,
    pub(crate) checksum: u64,
}

impl Builder {
    /// Makes the file, for `rows` rows or so, and writes its header.
    pub(crate) fn create(
        disk: &dyn Disk,
        layout: Layout,
        number: u64,
        rows: u32,
        counters: &Counters,
    ) -> Result<Self> {
        let file = Arc::new(SegmentFile::create(disk, number)?);
        let (entries, sum) = (Vec::with_capacity(rows as usize), Checksum::new());
        let mut builder = Self { layout, file, entries, seq_max: 0, sum, bytes: 0 };
        builder.write(&marks::header(&layout, number), counters)?;
        Ok(builder)
    }

    pub(crate) fn file(&self) -> &Arc<SegmentFile> {
        &self.file
    }

    /// Notes the key of the next row and returns the row's number.
    pub(crate) fn note(&mut self, key: Key, seq: u64) -> u32 {
        let row = self.rows();
        self.entries.push((key, seq));
        self.seq_max = self.seq_max.max(seq);
        row
    }

    /// Rows noted so far.
    pub(crate) fn rows(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Keys and sequence numbers of the rows so far.
    pub(crate) fn entries(&self) -> &[(Key, u64)] {
        &self.entries
    }

    /// Highest sequence number so far.
    pub(crate) fn seq_max(&self) -> u64 {
        self.seq_max
    }

    /// Writes the next pages, or other bytes that come next.
    pub(crate) fn write(&mut self, bytes: &[u8], counters: &Counters) -> Result<()> {
        self.file.file.write_at(self.bytes, bytes)?;
        self.sum.update(bytes);
        self.bytes += bytes.len() as u64;
        counters.wrote(bytes.len());
        Ok(())
    }

    /// Writes footer and tail; all pages were written.
    pub(crate) fn finish(&mut self, counters: &Counters) -> Result<Sealed> {
        let rows = self.rows();
        assert!(self.bytes == self.layout.footer_offset(rows), "the footer follows the last page");
        let footer_sum = self.write_footer(counters)?;
        let tail = Tail { rows, seq_max: self.seq_max, footer_sum };
        self.write(&tail.encode(&self.layout, self.file.number), counters)?;
        assert!(self.bytes == self.layout.file_bytes(rows), "a file is as long as its rows say");
        Ok(Sealed { bytes: self.bytes, checksum: self.sum.value() })
    }

    fn write_footer(&mut self, counters: &Counters) -> Result<u64> {
        let entries = std::mem::take(&mut self.entries);
        let mut sum = Checksum::new();
        let mut bytes = Vec::new();
        let mut outcome = Ok(());
        for chunk in entries.chunks((CHUNK_BYTES / ENTRY_BYTES) as usize) {
            bytes.clear();
            for (key, seq) in chunk {
                bytes.extend_from_slice(&key.0.to_le_bytes());
                bytes.extend_from_slice(&seq.to_le_bytes());
            }
            sum.update(&bytes);
            outcome = self.write(&bytes, counters);
            if outcome.is_err() {
                break;
            }
        }
        self.entries = entries;
        outcome.map(|()| sum.value())
    }
}
