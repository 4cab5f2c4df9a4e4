//! Staging: rows copied out of their slots and not yet readable in the store.
//!
//! - **Why.** A slot is reused at once, but the disk is slower. Until the store has a row, requests
//!   for it are served from here and never read an older version below (hazard "refill reads below
//!   before the write-back is visible").
//!
//! - **How.** Rows are written in chunks of fixed size from a bounded pool. `stage` makes a chunk's
//!   rows visible here; the write-back puts them into the store, and only then does `landed` hide
//!   them here. So a row that is missing here is in the store, if it exists at all. A key staged
//!   twice is visible in its newest chunk.
//!
//! ```text
//!   take ──► (puller copies rows in) ──► stage ──► (write-back: store.put) ──► landed ──► pool
//!                                         └───────── forward ─────────┘
//! ```
//!
//! - **Bounds.** `chunks` buffers of `chunk_rows` rows, and one map entry per staged row.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use stepwell_base::Key;

/// Rows written to the store together, in the order in which they left their slots.
#[derive(Debug, Default)]
pub struct StagedRows {
    number: u64,
    /// Keys of the rows. // (rows)
    pub keys: Vec<Key>,
    /// Steps of last use, from which the store finds expired rows to drop. // (rows)
    pub used: Vec<u32>,
    /// Lanes of the rows. // (rows, row_lanes)
    pub rows: Vec<f32>,
}

#[derive(Debug)]
struct Staged {
    chunk: Arc<StagedRows>,
    row: u32,
}

#[derive(Debug, Default)]
struct State {
    pool: Vec<StagedRows>,
    /// Chunks that are not in the pool.
    out: usize,
    staged_chunks: usize,
    by_key: HashMap<Key, Staged>,
    next_number: u64,
}

/// The pool of chunks, and the rows visible in them.
#[derive(Debug)]
pub struct Staging {
    row_lanes: usize,
    chunk_rows: usize,
    chunks: usize,
    state: Mutex<State>,
}

impl Staging {
    /// A pool of `chunks` chunks of `chunk_rows` rows of `row_lanes` f32.
    pub fn new(row_lanes: usize, chunk_rows: usize, chunks: usize) -> Self {
        assert!(chunk_rows > 0 && chunks > 0, "staging holds at least one row");
        Self { row_lanes, chunk_rows, chunks, state: Mutex::default() }
    }

    /// Maximum bytes of a pool of this shape.
    pub fn bytes_max(row_lanes: usize, chunk_rows: usize, chunks: usize) -> u64 {
        let row = row_lanes * size_of::<f32>() + size_of::<Key>() + size_of::<u32>();
        let entries = ((chunk_rows * chunks * 16).div_ceil(7)).next_power_of_two();
        (row * chunk_rows * chunks + entries * (size_of::<(Key, Staged)>() + 1)) as u64
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of rows of a full chunk.
    pub fn chunk_rows(&self) -> usize {
        self.chunk_rows
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// Returns an empty chunk; `None` while all are in use.
    pub fn take(&self) -> Option<StagedRows> {
        let mut state = self.lock();
        if state.out == self.chunks {
            return None;
        }
        state.out += 1;
        let number = state.next_number;
        state.next_number += 1;
        let mut chunk = state.pool.pop().unwrap_or_default();
        drop(state);
        chunk.number = number;
        chunk.rows.reserve_exact(self.chunk_rows * self.row_lanes);
        Some(chunk)
    }

    /// Makes the rows of `chunk` visible; the returned chunk goes to the write-back.
    pub fn stage(&self, chunk: StagedRows) -> Arc<StagedRows> {
        let chunk = Arc::new(chunk);
        let mut state = self.lock();
        state.staged_chunks += 1;
        for (row, key) in chunk.keys.iter().enumerate() {
            let staged = Staged { chunk: Arc::clone(&chunk), row: row as u32 };
            state.by_key.insert(*key, staged);
        }
        drop(state);
        chunk
    }

    /// Calls `serve` with the newest staged row of each of `keys` that has one, and the key's
    /// position in `keys`.
    pub fn forward<'k>(
        &self,
        keys: impl Iterator<Item = &'k Key>,
        mut serve: impl FnMut(usize, &[f32]),
    ) {
        let state = self.lock();
        if state.by_key.is_empty() {
            return;
        }
        for (place, key) in keys.enumerate() {
            if let Some(staged) = state.by_key.get(key) {
                let start = staged.row as usize * self.row_lanes;
                serve(place, &staged.chunk.rows[start..start + self.row_lanes]);
            }
        }
    }

    /// Stops serving the rows of `chunk`; from now on the store serves them.
    pub fn forget(&self, chunk: &StagedRows) {
        let mut state = self.lock();
        for key in &chunk.keys {
            let here = state.by_key.get(key).is_some_and(|s| s.chunk.number == chunk.number);
            if here {
                state.by_key.remove(key);
            }
        }
    }

    /// Records that the store has the rows of `chunk`.
    pub fn landed(&self, chunk: Arc<StagedRows>) {
        self.forget(&chunk);
        let mut state = self.lock();
        state.staged_chunks -= 1;
        state.out -= 1;
        if let Some(mut chunk) = Arc::into_inner(chunk) {
            chunk.keys.clear();
            chunk.used.clear();
            chunk.rows.clear();
            state.pool.push(chunk);
        }
    }

    /// Whether everything staged is in the store.
    pub fn is_idle(&self) -> bool {
        self.lock().staged_chunks == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(staging: &Staging, rows: &[(u64, f32)]) -> Arc<StagedRows> {
        let mut chunk = staging.take().expect("a chunk is free");
        for (key, value) in rows {
            chunk.keys.push(Key(*key));
            chunk.used.push(1);
            chunk.rows.extend([*value, -*value]);
        }
        staging.stage(chunk)
    }

    fn seen(staging: &Staging, key: u64) -> Option<f32> {
        let mut found = None;
        staging.forward([Key(key)].iter(), |_, row| {
            assert_eq!(row[1], -row[0]);
            found = Some(row[0]);
        });
        found
    }

    #[test]
    fn the_newest_version_is_served_until_it_landed() {
        let staging = Staging::new(2, 4, 3);
        let first = chunk(&staging, &[(1, 1.0), (2, 2.0)]);
        let second = chunk(&staging, &[(1, 10.0)]);
        assert_eq!((seen(&staging, 1), seen(&staging, 2)), (Some(10.0), Some(2.0)));
        staging.landed(first);
        assert_eq!((seen(&staging, 1), seen(&staging, 2)), (Some(10.0), None));
        assert!(!staging.is_idle());
        staging.landed(second);
        assert_eq!(seen(&staging, 1), None);
        assert!(staging.is_idle());
    }

    #[test]
    fn the_pool_is_bounded_and_reused() {
        let staging = Staging::new(2, 1, 2);
        let first = chunk(&staging, &[(1, 1.0)]);
        let second = staging.take().expect("one is left");
        assert!(staging.take().is_none());
        staging.landed(first);
        let third = staging.take().expect("the first came back");
        assert!(third.keys.is_empty() && third.rows.is_empty());
        assert_ne!(third.number, second.number);
    }
}
