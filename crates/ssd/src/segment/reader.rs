//! Reading a segment's file back; nothing in it is trusted before its checksum was.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::hash::Checksum;
use stepwell_disk::{Disk, File};

use super::marks::{self, Fault, Tail};
use super::page::u64_and_rest;
use super::{CHUNK_BYTES, name};
use crate::layout::{ENTRY_BYTES, Layout, TAIL_BYTES};
use crate::stats::Counters;
use crate::{Error, FORMAT_VERSION, Result, SegmentEntry};

/// An open segment's file and its number.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn File>,
}

impl SegmentFile {
    pub(crate) fn create(disk: &dyn Disk, number: u64) -> Result<Self> {
        Ok(Self { number, file: disk.create(&name(number))? })
    }

    pub(crate) fn open(disk: &dyn Disk, number: u64) -> Result<Self> {
        Ok(Self { number, file: disk.open(&name(number))? })
    }

    pub(crate) fn damaged(&self, offset: u64, why: impl Into<String>) -> Error {
        Error::Damaged { path: self.file.path().to_owned(), offset, why: why.into() }
    }

    fn fault(&self, offset: u64, fault: Fault) -> Error {
        match fault {
            Fault::Damage(why) => self.damaged(offset, why),
            Fault::Version(found) => {
                let path = self.file.path().to_owned();
                Error::Version { path, found, known: FORMAT_VERSION }
            }
        }
    }

    /// Checks header, length and tail against each other and the manifest.
    pub(crate) fn check(
        &self,
        layout: &Layout,
        entry: &SegmentEntry,
        counters: &Counters,
    ) -> Result<Tail> {
        let bytes = self.file.len()?;
        if bytes != entry.bytes || bytes != layout.file_bytes(entry.rows) {
            let why = format!(
                "the file has {bytes} bytes, the manifest says {} ({} rows)",
                entry.bytes, entry.rows
            );
            return Err(self.damaged(bytes, why));
        }
        let mut header = vec![0; layout.page_bytes];
        self.file.read_at(0, &mut header)?;
        counters.read(header.len());
        marks::check_header(&header, layout, self.number).map_err(|f| self.fault(0, f))?;
        let tail = self.tail(layout, bytes, counters)?;
        if tail.rows != entry.rows {
            let why = format!("{} rows, the manifest says {}", tail.rows, entry.rows);
            return Err(self.damaged(bytes - TAIL_BYTES as u64, why));
        }
        Ok(tail)
    }

    /// The tail of a file of so many bytes.
    pub(crate) fn tail(&self, layout: &Layout, bytes: u64, counters: &Counters) -> Result<Tail> {
        let mut tail = [0; TAIL_BYTES];
        let offset = bytes - TAIL_BYTES as u64;
        self.file.read_at(offset, &mut tail)?;
        counters.read(TAIL_BYTES);
        Tail::decode(&tail, layout, self.number).map_err(|fault| self.fault(offset, fault))
    }

    /// Visits row number, key and sequence number of every row, in order.
    ///
    /// Rows are visited before the footer's checksum is known: on an error all of them are void.
    pub(crate) fn for_each_entry(
        &self,
        layout: &Layout,
        tail: &Tail,
        counters: &Counters,
        visit: &mut dyn FnMut(u32, Key, u64) -> Result<()>,
    ) -> Result<()> {
        let start = layout.footer_offset(tail.rows);
        let mut left = u64::from(tail.rows) * ENTRY_BYTES;
        let mut chunk = vec![0; left.min(CHUNK_BYTES) as usize];
        let mut sum = Checksum::new();
        let (mut offset, mut row) = (start, 0);
        while left > 0 {
            chunk.truncate(left.min(CHUNK_BYTES) as usize);
            self.file.read_at(offset, &mut chunk)?;
            counters.read(chunk.len());
            sum.update(&chunk);
            for entry in chunk.chunks_exact(ENTRY_BYTES as usize) {
                let (key, rest) = u64_and_rest(entry);
                visit(row, Key(key), u64_and_rest(rest).0)?;
                row += 1;
            }
            offset += chunk.len() as u64;
            left -= chunk.len() as u64;
        }
        if sum.value() != tail.footer_sum {
            return Err(self.damaged(start, "the list of keys does not have its checksum"));
        }
        Ok(())
    }

    /// The checksum of the whole file, which is `bytes` long.
    pub(crate) fn checksum(&self, bytes: u64, counters: &Counters) -> Result<u64> {
        let mut sum = Checksum::new();
        let mut chunk = vec![0; bytes.min(CHUNK_BYTES) as usize];
        let mut offset = 0;
        while offset < bytes {
            chunk.truncate((bytes - offset).min(CHUNK_BYTES) as usize);
            self.file.read_at(offset, &mut chunk)?;
            counters.read(chunk.len());
            sum.update(&chunk);
            offset += chunk.len() as u64;
        }
        Ok(sum.value())
    }
}
