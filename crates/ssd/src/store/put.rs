//! Putting rows: into the current chunk of the open segment, in order.

use pulp::{Arch, Simd, WithSimd};
use stepwell_base::Key;

use super::{Core, State, Store, Writer};
use crate::index::Ahead;
use crate::segment::page::Row;
use crate::stats::add;
use crate::{Error, Result};

/// Rows that one hold of the state's lock appends at most.
const PIECE_ROWS: u32 = 1024;
/// Rows that are put before space is looked at again.
const PORTION_ROWS: usize = 32 << 10;
/// Merged segments that wait to be removed at most before a commit is made for them.
const RETIRED_MAX: usize = 4;

/// Rows to put.
struct Piece<'a> {
    keys: &'a [Key],
    used: &'a [u32],
    rows: &'a [u8], // (keys, row_bytes)
}

impl Store {
    /// Appends rows in the given order; each becomes what its key's look-ups find. `used` is the
    /// step of each row's last use: what [`Store::expire_before`] goes by.
    ///
    /// Waits where more than twice the space of the live rows is taken, until compaction has made
    /// room. Rows before a failure may have been put: [`Store::put_some`] says how many.
    ///
    /// # Errors
    /// When the index is full or the disk refuses; the store goes on once it does not. When any key
    /// is in a key shard that the store does not have: nothing is put then.
    ///
    /// # Panics
    /// When the lengths do not fit each other.
    pub fn put_many(&self, keys: &[Key], used: &[u32], rows: &[u8]) -> Result<()> {
        self.put_some(keys, used, rows).1
    }

    /// [`Store::put_many`], which also says how many rows were put, the first ones: all, unless it
    /// failed. What is left can be put again.
    ///
    /// # Panics
    /// When the lengths do not fit each other.
    pub fn put_some(&self, keys: &[Key], used: &[u32], rows: &[u8]) -> (usize, Result<()>) {
        let mut put = 0;
        let outcome = self.put_counted(keys, used, rows, &mut put);
        (put, outcome)
    }

    fn put_counted(&self, keys: &[Key], used: &[u32], rows: &[u8], put: &mut usize) -> Result<()> {
        let row_bytes = self.core.layout.row_bytes;
        assert!(keys.len() == used.len(), "a step of last use for every key");
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
    /// Refuses keys that another store has.
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

    /// Rows that can be appended next, at least one; flushes, seals and starts what it must.
    pub(super) fn room(&self, writer: &mut Writer) -> Result<u32> {
        // What could not be written is in memory, and comes first: so no more than that is there.
        self.write_again(writer)?;
        loop {
            let Some(open) = &writer.open else {
                if self.state().retiring.len() >= RETIRED_MAX {
                    // No segment is open: this commit costs no small one.
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

/// [`State::append`], built for what vectors the processor has: a bucket of the index is one or two
/// of the wider ones, and four of those that every processor has.
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
                // I6: the page is still being filled, so the row goes over its older version.
                assert!(open.pages.replace(&row), "the index names the unfinished page");
                replaced += 1;
                continue;
            }
            segment.draft.note(*key, birth, *used);
            open.pages.push(&row);
            appended += 1;
            if let Some(old) = old {
                let (old, page) = self.table.page(old);
                self.watch.note(old, page, *key);
                if old == slot {
                    // Of this very piece, perhaps.
                    self.table.appended(slot, appended);
                    add(&core.counters.rows_put, appended.into());
                    self.next_seq += u64::from(appended);
                    appended = 0;
                }
                self.table.went_stale(old);
            }
        }
        self.table.appended(slot, appended);
        self.next_seq += u64::from(appended) + u64::from(replaced);
        add(&core.counters.rows_put, (appended + replaced).into());
        add(&core.counters.rows_replaced, replaced.into());
        outcome
    }
}
