//! Puts rows: into the current buffer of the open segment, in order.

use pulp::{Arch, Simd, WithSimd};
use stepwell_base::Key;

use crate::index::Ahead;
use crate::segment::page::Row;
use crate::stats::add;
use crate::store::core::{Core, State, Store, Writer};
use crate::{Error, Result};

/// The most rows that are appended under one lock of the state.
const PIECE_ROWS: u32 = 1024;
/// Number of rows put before space is checked again.
const PORTION_ROWS: usize = 32 << 10;
/// The most merged segments that may wait for removal before a commit is made.
const RETIRED_MAX: usize = 4;

/// Number of rows that a batch puts at once.
const BATCH_ROWS: usize = 4096;

/// Rows that are put into a store one by one.
pub(crate) struct Batch<'a> {
    store: &'a Store,
    keys: Vec<Key>,
    used: Vec<u32>,
    rows: Vec<u8>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        Self { store, keys: Vec::new(), used: Vec::new(), rows: Vec::new() }
    }

    pub(crate) fn push(&mut self, key: Key, used: u32, payload: &[u8]) -> Result<()> {
        self.keys.push(key);
        self.used.push(used);
        self.rows.extend_from_slice(payload);
        if self.keys.len() == BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    /// Puts the rows that were pushed since the last flush.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.store.put_many(&self.keys, &self.used, &self.rows)?;
        self.keys.clear();
        self.used.clear();
        self.rows.clear();
        Ok(())
    }
}

/// Rows to put.
struct Piece<'a> {
    keys: &'a [Key],
    used: &'a [u32],
    rows: &'a [u8], // (keys, row_bytes)
}

impl Store {
    /// Appends rows in the given order; each becomes its key's current version. `used` is the step
    /// of each row's last use, for [`Store::expire_before`].
    ///
    /// While the store takes more than twice the space of its live rows, waits until compaction has
    /// made room. Rows before a failure may have been put: [`Store::put_some`] returns how many.
    ///
    /// # Errors
    /// If the index is full or the disk fails; calls may succeed again later. If any key is in a
    /// key shard that the store does not have, nothing is put.
    ///
    /// # Panics
    /// If the lengths do not match.
    pub fn put_many(&self, keys: &[Key], used: &[u32], rows: &[u8]) -> Result<()> {
        self.put_some(keys, used, rows).1
    }

    /// [`Store::put_many`], which also returns how many rows, counted from the first, were put: all
    /// unless it failed. The others can be put again.
    ///
    /// # Panics
    /// If the lengths do not match.
    pub fn put_some(&self, keys: &[Key], used: &[u32], rows: &[u8]) -> (usize, Result<()>) {
        let mut put = 0;
        let outcome = self.put_counted(keys, used, rows, &mut put);
        (put, outcome)
    }

    fn put_counted(&self, keys: &[Key], used: &[u32], rows: &[u8], put: &mut usize) -> Result<()> {
        let row_bytes = self.core.layout.row_bytes;
        assert!(keys.len() == used.len(), "`used` needs a step for every key");
        assert!(rows.len() == keys.len() * row_bytes, "{row_bytes} bytes for every key");
        self.core.refuse_others(keys)?;
        let mut start = 0;
        while start < keys.len() {
            let end = keys.len().min(start + PORTION_ROWS);
            let rows = &rows[start * row_bytes..end * row_bytes];
            let portion = Piece { keys: &keys[start..end], used: &used[start..end], rows };
            self.core.make_space()?;
            self.core.put_portion(&portion, put)?;
            start = end;
        }
        Ok(())
    }
}

impl Core {
    /// Refuses keys that belong to another store.
    fn refuse_others(&self, keys: &[Key]) -> Result<()> {
        let shards = self.key_shards;
        match keys.iter().find(|key| !shards.contains_key(**key)) {
            None => Ok(()),
            Some(key) => {
                Err(Error::OtherShard { path: self.home().path().to_owned(), key: *key, shards })
            }
        }
    }

    fn put_portion(&self, portion: &Piece<'_>, put: &mut usize) -> Result<()> {
        let row_bytes = self.layout.row_bytes;
        let mut writer = self.writer()?;
        let mut start = 0;
        while start < portion.keys.len() {
            let count = (self.room(&mut writer)? as usize).min(portion.keys.len() - start);
            let piece = start..start + count;
            let rows = &portion.rows[piece.start * row_bytes..piece.end * row_bytes];
            let (keys, used) = (&portion.keys[piece.clone()], &portion.used[piece]);
            writer.changed = true;
            let mut state = self.state_mut();
            let before = state.next_seq;
            let appended = state.append(&mut writer, &Piece { keys, used, rows }, self);
            *put += (state.next_seq - before) as usize;
            drop(state);
            appended?;
            start += count;
        }
        Ok(())
    }

    /// Number of rows that can be appended next, at least one; flushes, seals and starts segments
    /// as needed.
    pub(in crate::store) fn room(&self, writer: &mut Writer) -> Result<u32> {
        // Rows whose write failed are in memory, and come first: so they do not accumulate.
        self.write_again(writer)?;
        loop {
            let Some(open) = &writer.open else {
                if self.state().retiring.len() >= RETIRED_MAX {
                    // No segment is open, so this commit does not end one early.
                    self.commit_locked(writer)?;
                }
                self.start_segment(writer)?;
                continue;
            };
            let counts = open.draft.counts();
            let left = open.size.rows - counts.rows;
            if left == 0 || counts.deletions > open.size.deletions_before_end() {
                self.seal(writer)?;
                continue;
            }
            let room = self.state().pages(open.slot).map_or(0, |pages| pages.room());
            if room > 0 {
                return Ok(left.min(room).min(PIECE_ROWS));
            }
            self.flush(writer)?;
        }
    }
}

/// [`State::append`], compiled for the processor's vector instructions: a bucket of the index is
/// one or two wide vectors, or four of those that every processor has.
struct Append<'a> {
    state: &'a mut State,
    writer: &'a mut Writer,
    piece: &'a Piece<'a>,
    core: &'a Core,
}

impl WithSimd for Append<'_> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Result<()> {
        self.state.append_each(self.writer, self.piece, self.core)
    }
}

impl State {
    /// Appends rows to the open segment and points the index at them.
    fn append(&mut self, writer: &mut Writer, piece: &Piece<'_>, core: &Core) -> Result<()> {
        Arch::new().dispatch(Append { state: self, writer, piece, core })
    }

    #[inline(always)]
    fn append_each(&mut self, writer: &mut Writer, piece: &Piece<'_>, core: &Core) -> Result<()> {
        let Some(segment) = &mut writer.open else { unreachable!("`room` started a segment") };
        let Some(open) = self.open.last_mut() else { unreachable!("it has pages in memory") };
        let (slot, birth) = (segment.slot, segment.birth);
        let rows = piece.rows.chunks_exact(core.layout.row_bytes);
        let (mut appended, mut replaced, mut outcome) = (0, 0, Ok(()));
        let mut ahead = Ahead::new(&self.index, piece.keys.len(), |at| piece.keys[at]);
        for ((key, used), payload) in piece.keys.iter().zip(piece.used).zip(rows) {
            let asked = ahead.next(&self.index);
            let row = Row { key: *key, birth, used: *used, payload };
            let place = self.table.place(slot, open.pages.next_page());
            let old = match self.index.put_asked(&asked, place) {
                Ok(old) => old,
                Err(full) => {
                    outcome = Err(full.into());
                    break;
                }
            };
            if old == Some(place) {
                // SSD-I6: the page is unfinished, so the row overwrites its older version.
                assert!(open.pages.replace(&row), "the index names the unfinished page");
                replaced += 1;
                continue;
            }
            segment.draft.note(*key, birth, *used);
            open.pages.push(&row);
            appended += 1;
            if let Some(old) = old {
                let old = self.table.page(old);
                self.watch.note(old, *key);
                if old.slot == slot {
                    // The older version may be of this piece.
                    self.table.appended(slot, appended);
                    add(&core.counters.rows_put, appended.into());
                    self.next_seq += u64::from(appended);
                    appended = 0;
                }
                self.table.went_stale(old.slot);
            }
        }
        self.table.appended(slot, appended);
        self.next_seq += u64::from(appended) + u64::from(replaced);
        add(&core.counters.rows_put, (appended + replaced).into());
        add(&core.counters.rows_replaced, replaced.into());
        outcome
    }
}
