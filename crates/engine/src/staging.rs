//! Staging: rows copied out of their slots and not yet readable in the store.
//!
//! - **Why.** A slot is reused at once, but the disk is slower. Until the store has a row, requests
//!   for it are served from here and never read an older version below (hazard "refill reads below
//!   before the write-back is visible").
//!
//! - **How.** Rows are written in buffers of fixed size from a bounded pool. `stage` makes a
//!   buffer's rows visible here; the write-back puts them into the store, and only then does
//!   `landed` hide them here. So a row that is missing here is in the store, if it exists at all. A
//!   key staged twice is visible in its newest buffer.
//!
//! ```text
//!   take ──► (puller copies rows in) ──► stage ──► (write-back: store.put) ──► landed ──► pool
//!                                         └───────── forward ─────────┘
//! ```
//!
//! - **Bounds.** `buffers` buffers of `buffer_rows` rows, and one map entry per staged row.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use stepwell_base::Key;

/// Rows written to the store together, in the order in which they left their slots.
#[derive(Debug, Default)]
pub struct StagedRows {
    /// Number of the buffer, the same each time it is used.
    number: u32,
    /// Keys of the rows. // (rows)
    pub keys: Vec<Key>,
    /// Steps of last use, from which the store finds expired rows to drop. // (rows)
    pub used: Vec<u32>,
    /// Lanes of the rows. // (rows, row_lanes)
    pub rows: Vec<f32>,
}

/// The newest version of a staged row.
#[derive(Clone, Copy, Debug)]
struct Staged {
    /// Number of its buffer.
    buffer: u32,
    row: u32,
}

#[derive(Debug, Default)]
struct State {
    pool: Vec<StagedRows>,
    /// By number, the buffers that were staged and have not landed.
    staged: Vec<Option<Arc<StagedRows>>>,
    by_key: HashMap<Key, Staged>,
}

/// The pool of buffers, and the rows visible in them.
#[derive(Debug)]
pub struct Staging {
    row_lanes: usize,
    buffer_rows: usize,
    buffers: usize,
    state: Mutex<State>,
}

impl Staging {
    /// A pool of `buffers` buffers of `buffer_rows` rows of `row_lanes` f32.
    pub fn new(row_lanes: usize, buffer_rows: usize, buffers: usize) -> Self {
        assert!(buffer_rows > 0 && buffers > 0, "staging holds at least one row");
        let buffer = |number| StagedRows { number, ..StagedRows::default() };
        let state = State {
            pool: (0..buffers as u32).rev().map(buffer).collect(),
            staged: vec![None; buffers],
            by_key: HashMap::new(),
        };
        Self { row_lanes, buffer_rows, buffers, state: Mutex::new(state) }
    }

    /// Maximum bytes of a pool of this shape.
    pub fn bytes_max(row_lanes: usize, buffer_rows: usize, buffers: usize) -> u64 {
        let row = row_lanes * size_of::<f32>() + size_of::<Key>() + size_of::<u32>();
        let entries = ((buffer_rows * buffers * 16).div_ceil(7)).next_power_of_two();
        (row * buffer_rows * buffers + entries * (size_of::<(Key, Staged)>() + 1)) as u64
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of rows of a full buffer.
    pub fn buffer_rows(&self) -> usize {
        self.buffer_rows
    }

    /// Number of buffers.
    pub fn buffers(&self) -> usize {
        self.buffers
    }

    /// Returns an empty buffer; `None` while all are in use.
    pub fn take(&self) -> Option<StagedRows> {
        let mut buffer = self.lock().pool.pop()?;
        buffer.rows.reserve_exact(self.buffer_rows * self.row_lanes);
        Some(buffer)
    }

    /// Makes the rows of `buffer` visible; the returned buffer goes to the write-back.
    pub fn stage(&self, buffer: StagedRows) -> Arc<StagedRows> {
        let buffer = Arc::new(buffer);
        let mut state = self.lock();
        for (row, key) in buffer.keys.iter().enumerate() {
            state.by_key.insert(*key, Staged { buffer: buffer.number, row: row as u32 });
        }
        state.staged[buffer.number as usize] = Some(Arc::clone(&buffer));
        drop(state);
        buffer
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
            let Some(Staged { buffer, row }) = state.by_key.get(key) else { continue };
            let buffer = state.staged[*buffer as usize].as_deref();
            assert!(buffer.is_some(), "a staged row is in a buffer that has not landed");
            let start = *row as usize * self.row_lanes;
            serve(place, &buffer.map_or(&[][..], |of| &of.rows)[start..start + self.row_lanes]);
        }
    }

    /// Hides the rows of `buffer`, so that look-ups go to the store, which has them.
    pub fn forget(&self, buffer: &StagedRows) {
        let mut state = self.lock();
        for key in &buffer.keys {
            if let Entry::Occupied(staged) = state.by_key.entry(*key)
                && staged.get().buffer == buffer.number
            {
                staged.remove();
            }
        }
    }

    /// Records that the store has the rows of `buffer`.
    pub fn landed(&self, buffer: Arc<StagedRows>) {
        self.forget(&buffer);
        let mut state = self.lock();
        state.staged[buffer.number as usize] = None;
        let number = buffer.number;
        let mut buffer = Arc::into_inner(buffer).unwrap_or_default();
        buffer.number = number;
        buffer.keys.clear();
        buffer.used.clear();
        buffer.rows.clear();
        state.pool.push(buffer);
    }

    /// Whether everything staged is in the store.
    pub fn is_idle(&self) -> bool {
        self.lock().staged.iter().all(Option::is_none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(staging: &Staging, rows: &[(u64, f32)]) -> Arc<StagedRows> {
        let mut buffer = staging.take().expect("a buffer is free");
        for (key, value) in rows {
            buffer.keys.push(Key(*key));
            buffer.used.push(1);
            buffer.rows.extend([*value, -*value]);
        }
        staging.stage(buffer)
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
        let first = buffer(&staging, &[(1, 1.0), (2, 2.0)]);
        let second = buffer(&staging, &[(1, 10.0)]);
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
        let first = buffer(&staging, &[(1, 1.0)]);
        let second = staging.take().expect("one is left");
        assert!(staging.take().is_none());
        staging.landed(first);
        let third = staging.take().expect("the first came back");
        assert!(third.keys.is_empty() && third.rows.is_empty());
        assert_ne!(third.number, second.number);
    }
}
