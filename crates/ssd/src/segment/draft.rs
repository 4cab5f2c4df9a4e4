//! What a segment's footer and tail will say, collected while its rows are written.
//!
//! Bounds   8 bytes for each row, 8 for each run, 16 for each deletion, a sample of
//!          [`SAMPLE_ROWS`] uses; and once, at the end, the footer as it will lie in the file.

use stepwell_base::{Key, hash};
use stepwell_disk::Buffer;

use super::marks::{Tail, USED_PARTS};
use crate::layout::{Counts, Layout, TAIL_BYTES};

/// Rows whose last use goes into the sample, or up to twice as many.
const SAMPLE_ROWS: u32 = 1024;

/// Neighbouring rows of one birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) birth: u32,
    pub(crate) rows: u32,
}

/// A deleted key: older versions of it do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    pub(crate) key: Key,
    /// Number of the segment that was open then.
    pub(crate) birth: u32,
    /// Rows that this segment had then; once the deletion lies in another segment 0 or, where rows
    /// of its birth may still lie in theirs, the largest number.
    pub(crate) row: u32,
}

#[derive(Debug)]
pub(crate) struct Draft {
    keys: Vec<Key>,
    runs: Vec<Run>,
    deletions: Vec<Deletion>,
    generation: u32,
    sample: Vec<u32>,
    sample_every: u32,
}

impl Draft {
    /// A segment of at most `rows_max` rows.
    pub(crate) fn new(rows_max: u32, generation: u32) -> Self {
        let sample_every = (rows_max / SAMPLE_ROWS).max(1);
        let keys = Vec::with_capacity(rows_max as usize);
        let (runs, deletions, sample) = (Vec::new(), Vec::new(), Vec::new());
        Self { keys, runs, deletions, generation, sample, sample_every }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            rows: self.keys.len() as u32,
            runs: self.runs.len() as u32,
            deletions: self.deletions.len() as u32,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.deletions.is_empty()
    }

    pub(crate) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The earliest birth of its rows, the largest number where there is none.
    pub(crate) fn birth_min(&self) -> u32 {
        self.runs.iter().map(|run| run.birth).min().unwrap_or(u32::MAX)
    }

    /// The latest birth that one of its deletions has, 0 where there is none.
    pub(crate) fn deleted_last(&self) -> u32 {
        self.deletions.iter().map(|deletion| deletion.birth).max().unwrap_or(0)
    }

    /// Notes the next row.
    #[inline]
    pub(crate) fn note(&mut self, key: Key, birth: u32, used: u32) {
        match self.runs.last_mut() {
            Some(run) if run.birth == birth => run.rows += 1,
            _ => self.runs.push(Run { birth, rows: 1 }),
        }
        if (self.keys.len() as u32).is_multiple_of(self.sample_every) {
            self.sample.push(used);
        }
        self.keys.push(key);
    }

    /// Notes a deletion.
    pub(crate) fn delete(&mut self, deletion: Deletion) {
        self.deletions.push(deletion);
    }

    /// What the tail will say; all pages are sealed.
    pub(crate) fn tail(&mut self, pages_sum: u64, footer_sum: u64) -> Tail {
        self.sample.sort_unstable();
        let last = self.sample.len().saturating_sub(1);
        let part = |part: usize| self.sample.get(last * (part + 1) / USED_PARTS).copied();
        let used = std::array::from_fn(|number| part(number).unwrap_or(0));
        let (counts, generation) = (self.counts(), self.generation);
        Tail { counts, generation, footer_sum, pages_sum, used }
    }

    /// Footer, padding and tail as they will lie in the file, and the tail.
    pub(crate) fn finish(
        &mut self,
        layout: &Layout,
        segment: u64,
        pages_sum: u64,
    ) -> (Buffer, Tail) {
        let counts = self.counts();
        let bytes = layout.file_bytes(&counts) - layout.footer_offset(counts.rows);
        let mut buffer = Buffer::new(bytes as usize);
        let footer = counts.footer_bytes() as usize;
        let mut rest = &mut buffer[..footer];
        let mut put = |bytes: &[u8]| {
            let (place, after) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            place.copy_from_slice(bytes);
            rest = after;
        };
        self.keys.iter().for_each(|key| put(&key.0.to_le_bytes()));
        for Run { birth, rows } in &self.runs {
            put(&birth.to_le_bytes());
            put(&rows.to_le_bytes());
        }
        for Deletion { key, birth, row } in &self.deletions {
            put(&key.0.to_le_bytes());
            put(&birth.to_le_bytes());
            put(&row.to_le_bytes());
        }
        let tail = self.tail(pages_sum, hash::checksum(&buffer[..footer]));
        let at = buffer.len() - TAIL_BYTES;
        buffer[at..].copy_from_slice(&tail.encode(layout, segment));
        (buffer, tail)
    }
}
