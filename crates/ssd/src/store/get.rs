//! Looking rows up.

use std::sync::Arc;

use stepwell_base::Key;

use super::{State, Store};
use crate::Result;
use crate::fetch::{Fetch, Wanted};
use crate::segment::SegmentFile;
use crate::stats::add;

const NO_FILE: u32 = u32::MAX;

/// What a look under the lock found of many keys.
struct Located {
    files: Vec<Arc<SegmentFile>>,
    wanted: Vec<Wanted>,
    /// Number in `files` of each slot's segment, or [`NO_FILE`].
    file_of_slot: Vec<u32>,
    buffered: u64,
    absent: u64,
}

impl Store {
    /// Reads the rows of `keys`, in any order, with any number of duplicates: `found` says which
    /// there are, and `rows` holds those; the places of others are left as they were.
    ///
    /// Holds 24 bytes for each key that is not in the write buffer, and the read windows.
    ///
    /// # Errors
    /// When a page cannot be read or is damaged; `rows` and `found` are worth nothing then.
    ///
    /// # Panics
    /// When the lengths do not fit each other.
    pub fn get_many(&self, keys: &[Key], rows: &mut [u8], found: &mut [bool]) -> Result<()> {
        let row_bytes = self.layout.row_bytes;
        assert!(found.len() == keys.len(), "a place in `found` for every key");
        assert!(rows.len() == keys.len() * row_bytes, "{row_bytes} bytes for every key");
        assert!(u32::try_from(keys.len()).is_ok(), "at most 2^32 keys at once");
        let mut located = self.locate(keys, rows, found);
        let files = std::mem::take(&mut located.files);
        let fetched = self.fetch(&files).rows(&mut located.wanted, &mut |wanted, _, payload| {
            let start = wanted.at as usize * row_bytes;
            rows[start..start + row_bytes].copy_from_slice(payload);
            Ok(())
        })?;
        add(&self.counters.lookups, keys.len() as u64);
        add(&self.counters.lookups_absent, located.absent);
        add(&self.counters.lookups_buffered, located.buffered);
        add(&self.counters.lookups_merged, located.wanted.len() as u64 - fetched.pages);
        add(&self.counters.reads, fetched.reads);
        add(&self.counters.pages_read, fetched.pages);
        Ok(())
    }

    /// Finds all places at one moment; rows in the write buffer are copied at once.
    fn locate(&self, keys: &[Key], rows: &mut [u8], found: &mut [bool]) -> Located {
        let state = self.state();
        let file_of_slot = vec![NO_FILE; state.table.slots()];
        let (files, wanted) = (Vec::new(), Vec::new());
        let mut located = Located { files, wanted, file_of_slot, buffered: 0, absent: 0 };
        let rows = rows.chunks_exact_mut(self.layout.row_bytes);
        for (at, ((key, row), found)) in keys.iter().zip(rows).zip(found).enumerate() {
            *found = located.locate(&state, at as u32, *key, row);
        }
        located
    }

    /// What rows of `files` are read with.
    pub(super) fn fetch<'a>(&'a self, files: &'a [Arc<SegmentFile>]) -> Fetch<'a> {
        Fetch { disk: &*self.disk, layout: &self.layout, counters: &self.counters, files }
    }
}

impl Located {
    /// Finds one key; returns whether the store has it.
    fn locate(&mut self, state: &State, at: u32, key: Key, row: &mut [u8]) -> bool {
        let Some(place) = state.index.get(key) else {
            self.absent += 1;
            return false;
        };
        let open = state.open.as_ref().filter(|open| open.slot == place.slot);
        if let Some(buffered) = open.and_then(|open| open.pages.row(place.row)) {
            assert!(buffered.key == key, "I2: the index and the buffer agree");
            row.copy_from_slice(buffered.payload);
            self.buffered += 1;
            return true;
        }
        let file = &mut self.file_of_slot[place.slot as usize];
        if *file == NO_FILE {
            *file = self.files.len() as u32;
            self.files.push(Arc::clone(&state.table.get(place.slot).file));
        }
        self.wanted.push(Wanted { file: *file, row: place.row, at, key });
        true
    }
}
