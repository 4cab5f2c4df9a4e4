//! Stepwell's row store, as the trainer has it.
//!
//! - **How.** Segments of 64 MiB, direct I/O through io_uring, a compaction thread of its own; no
//!   page is cached. The index is told how many rows to expect, as a trainer tells it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use stepwell_base::Key as RowKey;
use stepwell_disk::FileDisk;
use stepwell_ssd::{Lookup, Reader, Store as Rows, StoreOptions, Ticket};

use super::{Queries, Setup, Store, missing};
use crate::Result;
use crate::workload::{Batch, Key};

pub(super) const SETTING: &str = "segments of 64 MiB, space of 1.5 times the rows, direct I/O, \
    io_uring, 128 reads of a thread in flight, checksums, nothing cached";

/// A store.
pub(super) struct Stepwell(Rows);

impl Stepwell {
    pub(super) fn create(path: &Path, setup: &Setup) -> Result<Self> {
        let cannot = |error: &dyn std::fmt::Display| {
            format!("cannot make a store in {}: {error}", path.display())
        };
        let disk = FileDisk::create(&path.join("rows")).map_err(|error| cannot(&error))?;
        let options = StoreOptions {
            rows_hint: setup.rows,
            index_bytes_max: setup.memory_bytes as u64,
            ..StoreOptions::new(0, setup.row_bytes)
        };
        Ok(Self(Rows::create(Arc::new(disk), options).map_err(|error| cannot(&error))?))
    }
}

fn row_key(key: &Key) -> RowKey {
    RowKey(u64::from_be_bytes(*key))
}

impl Store for Stepwell {
    fn put(&mut self, batch: &Batch) -> Result<()> {
        let keys: Vec<RowKey> = batch.keys().iter().map(row_key).collect();
        let used = vec![0; keys.len()];
        let put = self.0.put_many(&keys, &used, batch.rows());
        put.map_err(|error| format!("stepwell cannot write: {error}"))
    }

    fn commit(&mut self) -> Result<()> {
        self.0.commit().map(drop).map_err(|error| format!("stepwell cannot commit: {error}"))
    }

    /// A commit alone brings space within its bound; what is half stale is merged too.
    fn settle(&mut self) -> Result<()> {
        let cannot = |error| format!("stepwell cannot compact: {error}");
        while self.0.compact().map_err(cannot)? > 0 {}
        self.commit()
    }

    fn get(&self, keys: &[Key], row: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let row_bytes = self.0.options().row_bytes;
        let wanted: Vec<RowKey> = keys.iter().map(row_key).collect();
        let (mut rows, mut found) = (vec![0; keys.len() * row_bytes], vec![false; keys.len()]);
        let got = self.0.get_many(&wanted, &mut rows, &mut found);
        got.map_err(|error| format!("stepwell cannot read: {error}"))?;
        show(keys, &found, rows.chunks_exact(row_bytes), row)
    }

    fn answer(&self, queries: &mut dyn Queries, in_flight: usize) -> Result<()> {
        let cannot = |error| format!("stepwell cannot read: {error}");
        let reader = self.0.reader().map_err(cannot)?;
        let row_bytes = self.0.options().row_bytes;
        let mut flight = Flight { reader, row_bytes, waiting: VecDeque::new(), spare: Vec::new() };
        loop {
            while flight.waiting.len() < in_flight && flight.submit(queries)? {}
            if !flight.wait(queries)? {
                return Ok(());
            }
        }
    }
}

/// Batches in flight, oldest first, with their keys.
struct Flight {
    reader: Reader,
    row_bytes: usize,
    waiting: VecDeque<(Ticket, Vec<Key>)>,
    spare: Vec<(Lookup, Vec<Key>)>,
}

impl Flight {
    /// Submits a batch; false once there is none.
    fn submit(&mut self, queries: &mut dyn Queries) -> Result<bool> {
        let (mut lookup, mut keys) = self.spare.pop().unwrap_or_default();
        if !queries.next(&mut keys) {
            return Ok(false);
        }
        lookup.keys.clear();
        lookup.keys.extend(keys.iter().map(row_key));
        let ticket = self.reader.submit(lookup);
        let ticket = ticket.map_err(|error| format!("stepwell cannot read: {error}"))?;
        self.waiting.push_back((ticket, keys));
        Ok(true)
    }

    /// Waits for the oldest batch; false where there is none.
    fn wait(&mut self, queries: &mut dyn Queries) -> Result<bool> {
        let Some((ticket, keys)) = self.waiting.pop_front() else { return Ok(false) };
        let lookup = self.reader.wait(ticket);
        let lookup = lookup.map_err(|error| format!("stepwell cannot read: {error}"))?;
        let rows = lookup.rows.chunks_exact(self.row_bytes);
        show(&keys, &lookup.found, rows, &mut |at, row| queries.found(&keys[at], row))?;
        queries.answered(keys.len());
        self.spare.push((lookup, keys));
        Ok(true)
    }
}

fn show<'a>(
    keys: &[Key],
    found: &[bool],
    rows: impl Iterator<Item = &'a [u8]>,
    row: &mut dyn FnMut(usize, &[u8]),
) -> Result<()> {
    for (position, ((key, found), bytes)) in keys.iter().zip(found).zip(rows).enumerate() {
        if !found {
            return Err(missing("stepwell", key));
        }
        row(position, bytes);
    }
    Ok(())
}
