//! Footers: the keys and deletions of a segment; all of them, or only those that count.
//!
//! ```text
//! [ keys by key shard: 8 B a row ][ deletions ][ key shard of each row ][ sums of keys ]
//!   read and checked by 4 KiB       read and checked together
//! ```
//!
//! If few key shards count, only the blocks with their keys are read. A short footer is always read
//! at once.

use stepwell_base::{Key, hash};
use stepwell_disk::{BLOCK_BYTES, Buffer};

use super::READ_BYTES;
use super::draft::{Run, first_of_shards};
use super::header_and_tail::Tail;
use super::page::{u32_and_rest, u64_and_rest};
use super::reader::SegmentFile;
use crate::Result;
use crate::key_shard::KeyShardSet;
use crate::layout::{DELETION_BYTES, KEY_BYTES, KEYS_PER_SUM, KEYS_SUM_BYTES, RUN_BYTES, Version};
use crate::numbers::{Birth, Births};
use crate::row_versions::{Deletion, Provenance, ROW_UNMOVED};
use crate::stats::Counters;

/// A footer whose checksum was right.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footer {
    /// Keys of all rows, in order.
    pub(crate) keys: Vec<Key>,
    /// Runs of rows of one birth; empty except in version 2.
    runs: Vec<Run>,
    pub(crate) deletions: Vec<Deletion>,
}

impl Footer {
    /// The births of rows, in order, if the footer lists them: in version 2.
    pub(crate) fn births(&self) -> impl Iterator<Item = Birth> {
        self.runs.iter().flat_map(|run| std::iter::repeat_n(run.birth, run.rows as usize))
    }

    /// Births of all rows.
    fn births_bounds(&self) -> Births {
        let births = || self.runs.iter().map(|run| run.birth);
        match births().min().zip(births().max()) {
            Some((least, greatest)) => Births { least, greatest },
            None => Births::NONE,
        }
    }
}

/// The part of a footer that counts; every part that was read had its checksum.
#[derive(Clone, Debug)]
pub(crate) struct Counting {
    /// Numbers and keys of the rows whose key shards count, in order.
    pub(crate) rows: Vec<(u32, Key)>,
    /// Deletions of keys that count.
    pub(crate) deletions: Vec<Deletion>,
    pub(crate) provenance: Provenance,
}

/// The part of a footer of version 3 after the keys.
struct Lists {
    deletions: Vec<Deletion>,
    key_shards: Vec<u8>,
    /// Sum of each block of keys.
    sums: Vec<u64>,
    /// The bytes of the keys, if the footer is short and read at once.
    keys: Option<Vec<u8>>,
}

/// The most bytes of a footer that is read at once.
const SHORT_BYTES: usize = 64 << 10;

/// Error text for a damaged footer.
const FOOTER_NOT_WHOLE: &str = "the footer has a wrong checksum";

impl SegmentFile {
    /// Reads the whole footer into memory, whatever counts.
    pub(crate) fn footer(&self, tail: &Tail, counters: &Counters) -> Result<Footer> {
        let start = self.layout.footer_offset(tail.counts.rows);
        let bytes = self.layout.footer_bytes(&tail.counts) as usize;
        match self.layout.version {
            Version::Two => {
                let whole = self.read_long(start, bytes, counters)?;
                if hash::checksum(&whole) != tail.footer_sum {
                    return Err(self.damaged(start, FOOTER_NOT_WHOLE));
                }
                decode_old(&whole, tail).map_err(|why| self.damaged(start, why))
            }
            Version::Three => {
                let lists = self.lists(tail, counters)?;
                let keys = self.key_blocks(tail, &lists, &|_| true, counters)?;
                let keys = rows_of(&keys, &lists.key_shards).map(|(_, key)| key).collect();
                Ok(Footer { keys, runs: Vec::new(), deletions: lists.deletions })
            }
        }
    }

    /// Reads the part of the footer that counts; in version 3, no more than needed.
    pub(crate) fn counting(&self, tail: &Tail, counters: &Counters) -> Result<Counting> {
        let counts = self.counting;
        if self.layout.version == Version::Two {
            let Footer { keys, runs, mut deletions } = self.footer(tail, counters)?;
            let provenance = self.provenance(tail, &Footer { runs, ..Footer::default() });
            deletions.retain(|deletion| counts.contains_key(deletion.key));
            let rows = (0..).zip(keys).filter(|(_, key)| counts.contains_key(*key)).collect();
            return Ok(Counting { rows, deletions, provenance });
        }
        let mut lists = self.lists(tail, counters)?;
        let blocks = blocks_of(&lists.key_shards, &counts);
        let keys = self.key_blocks(tail, &lists, &|block| blocks[block], counters)?;
        let is_counted = |shard: &u8| counts.contains(*shard);
        let count = lists.key_shards.iter().filter(|shard| is_counted(shard)).count();
        let mut rows = Vec::with_capacity(count);
        let all = rows_of(&keys, &lists.key_shards).zip(&lists.key_shards);
        rows.extend(all.filter(|(_, shard)| is_counted(shard)).map(|(row, _)| row));
        lists.deletions.retain(|deletion| counts.contains_key(deletion.key));
        let provenance = self.provenance(tail, &Footer::default());
        Ok(Counting { rows, deletions: lists.deletions, provenance })
    }

    /// Whether any row or deletion may count, by the lists without the keys.
    pub(crate) fn may_count(&self, tail: &Tail, counters: &Counters) -> Result<bool> {
        if self.layout.version == Version::Two {
            return Ok(!self.counting.is_empty());
        }
        let Lists { deletions, key_shards, .. } = self.lists(tail, counters)?;
        let counts = self.counting;
        Ok(key_shards.iter().any(|shard| counts.contains(*shard))
            || deletions.iter().any(|deletion| counts.contains_key(deletion.key)))
    }

    /// Reads any number of bytes, in several reads if needed.
    fn read_long(&self, start: u64, bytes: usize, counters: &Counters) -> Result<Vec<u8>> {
        let mut whole = Vec::with_capacity(bytes);
        let mut buffer = Buffer::new(bytes.min(READ_BYTES as usize));
        while whole.len() < bytes {
            let count = (bytes - whole.len()).min(READ_BYTES as usize);
            let part = self.read_into(start + whole.len() as u64, count, &mut buffer, counters)?;
            whole.extend_from_slice(part);
        }
        Ok(whole)
    }

    /// Reads the lists of a footer of version 3, except the keys.
    fn lists(&self, tail: &Tail, counters: &Counters) -> Result<Lists> {
        let start = self.layout.footer_offset(tail.counts.rows);
        let (rows, bytes) = (tail.counts.rows as usize, self.layout.footer_bytes(&tail.counts));
        // Reads start at a block, which may also have the last keys.
        let at = rows * KEY_BYTES as usize;
        let is_short = bytes as usize <= SHORT_BYTES;
        let from = if is_short { 0 } else { at / BLOCK_BYTES * BLOCK_BYTES };
        let read = self.read_long(start + from as u64, bytes as usize - from, counters)?;
        let lists = &read[at - from..];
        if hash::checksum(lists) != tail.footer_sum {
            return Err(self.damaged(start + at as u64, FOOTER_NOT_WHOLE));
        }
        let deletions = tail.counts.deletions as usize * DELETION_BYTES as usize;
        let (deletions, rest) = lists.split_at(deletions);
        let (key_shards, sums) = rest.split_at(rows);
        Ok(Lists {
            deletions: decode_deletions(deletions).collect(),
            key_shards: key_shards.to_vec(),
            sums: sums
                .chunks_exact(KEYS_SUM_BYTES as usize)
                .map(|sum| u64_and_rest(sum).0)
                .collect(),
            keys: is_short.then(|| read[..at].to_vec()),
        })
    }

    /// Reads the bytes of all keys, grouped by key shard; blocks that are not wanted are zeros.
    fn key_blocks(
        &self,
        tail: &Tail,
        lists: &Lists,
        wanted: &dyn Fn(usize) -> bool,
        counters: &Counters,
    ) -> Result<Vec<u8>> {
        let start = self.layout.footer_offset(tail.counts.rows);
        let mut keys = vec![0; tail.counts.rows as usize * KEY_BYTES as usize];
        let is_read = lists.keys.is_none();
        let mut buffer = Buffer::new(if is_read { keys.len().min(READ_BYTES as usize) } else { 0 });
        let mut blocks = (0..lists.sums.len()).filter(|block| wanted(*block)).peekable();
        while let Some(first) = blocks.next() {
            let mut end = first + 1;
            while end - first < READ_BYTES as usize / BLOCK_BYTES
                && blocks.next_if_eq(&end).is_some()
            {
                end += 1;
            }
            let at = first * BLOCK_BYTES;
            let until = (end * BLOCK_BYTES).min(keys.len());
            let run = &mut keys[at..until];
            match &lists.keys {
                Some(keys) => run.copy_from_slice(&keys[at..until]),
                None => {
                    let read =
                        self.read_into(start + at as u64, run.len(), &mut buffer, counters)?;
                    run.copy_from_slice(read);
                }
            }
            let sums = run.chunks(BLOCK_BYTES).map(hash::checksum);
            let differs = sums.zip(&lists.sums[first..]).position(|(found, sum)| found != *sum);
            if let Some(block) = differs {
                let offset = start + (at + block * BLOCK_BYTES) as u64;
                return Err(self.damaged(offset, FOOTER_NOT_WHOLE));
            }
        }
        Ok(keys)
    }

    /// Reads the deletions that count, from a footer that was read before.
    pub(crate) fn deletions(&self, tail: &Tail, counters: &Counters) -> Result<Vec<Deletion>> {
        if tail.counts.deletions == 0 {
            return Ok(Vec::new());
        }
        let mut deletions = match self.layout.version {
            Version::Two => self.footer(tail, counters)?.deletions,
            Version::Three => self.lists(tail, counters)?.deletions,
        };
        deletions.retain(|deletion| self.counting.contains_key(deletion.key));
        Ok(deletions)
    }

    /// Provenance of the segment, whose footer is `footer`.
    pub(crate) fn provenance(&self, tail: &Tail, footer: &Footer) -> Provenance {
        let births = match self.layout.version {
            Version::Two => footer.births_bounds(),
            Version::Three => tail.births,
        };
        let number = self.origin.number;
        Provenance { number, merged: births != Births::all(number.birth()), births }
    }
}

/// Rows and their keys in order, from keys grouped by key shard.
fn rows_of(by_shard: &[u8], key_shards: &[u8]) -> impl Iterator<Item = (u32, Key)> {
    let mut next = first_of_shards(key_shards);
    (0..).zip(key_shards).map(move |(row, shard)| {
        let next = &mut next[usize::from(*shard)];
        let key = u64_and_rest(&by_shard[*next * KEY_BYTES as usize..]).0;
        *next += 1;
        (row, Key(key))
    })
}

/// Whether each block of keys, grouped by key shard, has keys of the `wanted` shards.
fn blocks_of(key_shards: &[u8], wanted: &KeyShardSet) -> Vec<bool> {
    let first = first_of_shards(key_shards);
    let mut blocks = vec![false; key_shards.len().div_ceil(KEYS_PER_SUM)];
    for shard in wanted.iter().map(usize::from) {
        let end = first.get(shard + 1).copied().unwrap_or(key_shards.len());
        let of_shard = first[shard] / KEYS_PER_SUM..end.div_ceil(KEYS_PER_SUM);
        if first[shard] < end {
            blocks[of_shard].fill(true);
        }
    }
    blocks
}

/// Decodes a footer of version 2.
fn decode_old(bytes: &[u8], tail: &Tail) -> std::result::Result<Footer, String> {
    let (keys, rest) = bytes.split_at(tail.counts.rows as usize * KEY_BYTES as usize);
    let (runs, deletions) = rest.split_at(tail.counts.runs as usize * RUN_BYTES as usize);
    let runs: Vec<Run> = runs.chunks_exact(RUN_BYTES as usize).map(decode_run).collect();
    let rows: u64 = runs.iter().map(|run| u64::from(run.rows)).sum();
    if rows != u64::from(tail.counts.rows) {
        return Err(format!("the runs have {rows} rows in total"));
    }
    let unmoved = |deletion: Deletion| match deletion.row {
        u32::MAX => Deletion { row: ROW_UNMOVED, ..deletion },
        _ => deletion,
    };
    let keys = keys.chunks_exact(KEY_BYTES as usize).map(|key| Key(u64_and_rest(key).0)).collect();
    Ok(Footer { keys, runs, deletions: decode_deletions(deletions).map(unmoved).collect() })
}

fn decode_run(bytes: &[u8]) -> Run {
    let (birth, rest) = u32_and_rest(bytes);
    Run { birth: Birth(birth), rows: u32_and_rest(rest).0 }
}

fn decode_deletions(bytes: &[u8]) -> impl Iterator<Item = Deletion> {
    bytes.chunks_exact(DELETION_BYTES as usize).map(|bytes| {
        let (key, rest) = u64_and_rest(bytes);
        let (birth, rest) = u32_and_rest(rest);
        Deletion { key: Key(key), birth: Birth(birth), row: u32_and_rest(rest).0 }
    })
}
