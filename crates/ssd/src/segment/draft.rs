//! The contents of a segment's footer and tail, collected while its rows are written.
//!
//! - **Bounds.** 9 bytes for each row, 16 for each deletion, a sample of [`SAMPLE_ROWS`] uses; and
//!   once, at the end, the footer as it is written.

use stepwell_base::{Key, hash};
use stepwell_disk::Buffer;

use super::header_and_tail::{Tail, USED_PARTS};
use crate::identity::Origin;
use crate::key_shard::{KEY_SHARDS, key_shard};
use crate::layout::{
    Counts, DELETION_BYTES, KEY_BYTES, KEYS_PER_SUM, KEYS_SUM_BYTES, Layout, TAIL_BYTES,
};
use crate::numbers::{Birth, Births};
use crate::row_versions::Deletion;

/// Number of rows whose last use is sampled, or up to twice as many.
const SAMPLE_ROWS: u32 = 1024;

/// Adjacent rows of one birth, in version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) birth: Birth,
    pub(crate) rows: u32,
}

#[derive(Debug)]
pub(crate) struct Draft {
    keys: Vec<Key>,
    /// Key shard of each key.
    key_shards: Vec<u8>,
    /// Births so far.
    births: Births,
    deletions: Vec<Deletion>,
    generation: u32,
    sample: Vec<u32>,
    sample_every: u32,
    /// Number of rows until the next one in the sample.
    sample_in: u32,
}

impl Draft {
    /// A draft of a segment of at most `rows_max` rows.
    pub(crate) fn new(rows_max: u32, generation: u32) -> Self {
        Self::within(Vec::new(), Vec::new(), rows_max, generation)
    }

    /// A new draft that reuses this one's memory.
    pub(crate) fn again(self, rows_max: u32, generation: u32) -> Self {
        Self::within(self.keys, self.key_shards, rows_max, generation)
    }

    fn within(mut keys: Vec<Key>, mut key_shards: Vec<u8>, rows_max: u32, generation: u32) -> Self {
        keys.clear();
        keys.reserve_exact(rows_max as usize);
        key_shards.clear();
        key_shards.reserve_exact(rows_max as usize);
        Self {
            keys,
            key_shards,
            births: Births { least: Birth::MAX, greatest: Birth::MIN },
            deletions: Vec::new(),
            generation,
            sample: Vec::new(),
            sample_every: (rows_max / SAMPLE_ROWS).max(1),
            sample_in: 1,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let (rows, deletions) = (self.keys.len() as u32, self.deletions.len() as u32);
        Counts { rows, runs: 0, deletions }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.deletions.is_empty()
    }

    pub(crate) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The latest birth in a deletion.
    pub(crate) fn deleted_last(&self) -> Option<Birth> {
        self.deletions.iter().map(|deletion| deletion.birth).max()
    }

    /// Adds a row.
    #[inline]
    pub(crate) fn note(&mut self, key: Key, birth: Birth, used: u32) {
        // A countdown: a division would cost as much as the rest of this function.
        self.sample_in -= 1;
        if self.sample_in == 0 {
            self.sample_in = self.sample_every;
            self.sample.push(used);
        }
        let Births { least, greatest } = self.births;
        self.births = Births { least: least.min(birth), greatest: greatest.max(birth) };
        self.key_shards.push(key_shard(key));
        self.keys.push(key);
    }

    /// Adds a deletion.
    pub(crate) fn delete(&mut self, deletion: Deletion) {
        self.deletions.push(deletion);
    }

    /// Returns the tail, after all pages are sealed.
    pub(crate) fn tail(&mut self, pages_sum: u64, footer_sum: u64) -> Tail {
        self.sample.sort_unstable();
        let last = self.sample.len().saturating_sub(1);
        let part = |part: usize| self.sample.get(last * (part + 1) / USED_PARTS).copied();
        let used = std::array::from_fn(|number| part(number).unwrap_or(0));
        let (counts, generation) = (self.counts(), self.generation);
        let births = if counts.rows == 0 { Births::NONE } else { self.births };
        Tail { counts, births, generation, footer_sum, pages_sum, used }
    }

    /// Returns footer, padding and tail as they are in the file, and the tail.
    pub(crate) fn finish(
        &mut self,
        layout: &Layout,
        origin: &Origin,
        pages_sum: u64,
    ) -> (Buffer, Tail) {
        let counts = self.counts();
        let bytes = layout.file_bytes(&counts) - layout.footer_offset(counts.rows);
        let mut buffer = Buffer::new(bytes as usize);
        let footer = layout.footer_bytes(&counts) as usize;
        let (keys, rest) = buffer[..footer].split_at_mut(self.keys.len() * KEY_BYTES as usize);
        let (deletions, rest) =
            rest.split_at_mut(counts.deletions as usize * DELETION_BYTES as usize);
        let (key_shards, sums) = rest.split_at_mut(self.keys.len());
        self.put_keys(keys);
        let blocks = keys.chunks(KEYS_PER_SUM * KEY_BYTES as usize);
        for (sum, block) in sums.chunks_exact_mut(KEYS_SUM_BYTES as usize).zip(blocks) {
            sum.copy_from_slice(&hash::checksum(block).to_le_bytes());
        }
        let places = deletions.chunks_exact_mut(DELETION_BYTES as usize);
        for (place, Deletion { key, birth, row }) in places.zip(&self.deletions) {
            place[..8].copy_from_slice(&key.0.to_le_bytes());
            place[8..12].copy_from_slice(&birth.0.to_le_bytes());
            place[12..].copy_from_slice(&row.to_le_bytes());
        }
        key_shards.copy_from_slice(&self.key_shards);
        let after_keys = self.keys.len() * KEY_BYTES as usize;
        let tail = self.tail(pages_sum, hash::checksum(&buffer[after_keys..footer]));
        let at = buffer.len() - TAIL_BYTES;
        buffer[at..].copy_from_slice(&tail.encode(layout, origin));
        (buffer, tail)
    }

    /// Writes the keys, grouped by key shard.
    fn put_keys(&self, bytes: &mut [u8]) {
        let (places, _) = bytes.as_chunks_mut::<{ KEY_BYTES as usize }>();
        let mut next = first_of_shards(&self.key_shards);
        for (key, shard) in self.keys.iter().zip(&self.key_shards) {
            let next = &mut next[usize::from(*shard)];
            places[*next] = key.0.to_le_bytes();
            *next += 1;
        }
    }
}

/// Start of each key shard's keys in a list grouped by key shard.
pub(crate) fn first_of_shards(key_shards: &[u8]) -> [usize; KEY_SHARDS] {
    let mut counts = [0; KEY_SHARDS];
    key_shards.iter().for_each(|shard| counts[usize::from(*shard)] += 1);
    let mut first = 0;
    counts.map(|count| {
        first += count;
        first - count
    })
}
