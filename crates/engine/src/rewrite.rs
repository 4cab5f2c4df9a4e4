//! Rewrites a checkpoint's rows for a table with another row layout.
//!
//! - **How.** Scans the checkpoint's snapshots, rank by rank. A row keeps what both layouts have;
//!   the rest is initialized: added lanes, the state of another optimizer, a history (last used at
//!   the checkpoint's step).
//! - **Cost.** One read of each segment and one write of each row, with the snapshot's index in
//!   memory.

use std::path::Path;

use stepwell_base::Key;
use stepwell_base::stop::StopRequest;
use stepwell_disk::FileDisk;
use stepwell_optim::Lanes;
use stepwell_ssd::{KeyShardSet, Manifest, Store, StoreOptions};

use crate::checkpoint::Checkpoint;
use crate::life::History;
use crate::process_limits::{Wants, lacks};
use crate::table_spec::TableSpec;
use crate::{Error, Result};

/// Bytes of rows put at once; one row if it is longer.
const BYTES_AT_ONCE: usize = 1 << 20;

/// One table of a checkpoint, and its new layout.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite<'a> {
    /// The checkpoint.
    pub checkpoint: &'a Checkpoint,
    /// Number of the table in the checkpoint.
    pub table: usize,
    /// Row layout in the checkpoint.
    pub was: &'a TableSpec,
    /// New row layout.
    pub now: &'a TableSpec,
    /// Key shards to take; rows of others are skipped.
    pub key_shards: KeyShardSet,
}

impl Rewrite<'_> {
    /// Puts all existing rows into `store` and returns their number.
    ///
    /// # Errors
    /// If rows cannot be read or written, there is no memory for the index of the snapshot, or a
    /// `stop` is requested.
    pub fn put_into(&self, store: &Store, stop: &StopRequest) -> Result<u64> {
        for rows in self.checkpoint.rows_of(self.table)? {
            refuse_lack(&rows.path)?;
        }
        let at_once = (BYTES_AT_ONCE / self.now.row_bytes()).max(1);
        let (mut batch, mut count) = (Batch::default(), 0);
        self.checkpoint.each_row(self.table, self.was, stop, &mut |key, row| {
            if !self.key_shards.contains_key(key) {
                return Ok(());
            }
            batch.add(self, key, row);
            count += 1;
            if batch.keys.len() < at_once { Ok(()) } else { batch.put(store) }
        })?;
        batch.put(store)?;
        Ok(count)
    }

    /// Builds the new row of `key` from the old one.
    fn make(&self, key: Key, was: &[f32], row: &mut [f32]) {
        let (before, now) = (self.was, self.now);
        now.initial_row(key, row);
        let mut weights = vec![0.0; now.weight_count()];
        now.initial_weights(key, &mut weights);
        let mut known = vec![0.0; before.weight_count()];
        before.weights(was).copy_to(&mut known);
        copy_lanes((before.lanes(), &known), (now.lanes(), &mut weights));
        let weight_lanes = now.weight_lanes();
        let rounding = now.rounding(key, self.checkpoint.step);
        now.storage.encode(&weights, &mut row[..weight_lanes], rounding);
        let rule = now.optimizer.rule();
        if rule.name() == before.optimizer.rule().name() {
            let (mut from, mut to) = (before.weight_lanes(), weight_lanes);
            for vector in rule.state() {
                let (from_lanes, to_lanes) =
                    (vector.lanes(before.lanes()), vector.lanes(now.lanes()));
                let (from_end, to_end) = (from + from_lanes.count(), to + to_lanes.count());
                copy_lanes((from_lanes, &was[from..from_end]), (to_lanes, &mut row[to..to_end]));
                (from, to) = (from_end, to_end);
            }
            if rule.counts_steps() {
                row[to] = was[from];
            }
        }
        if now.life.is_some() {
            let history = match before.life {
                Some(_) => before.history(was),
                None => {
                    let used = u32::try_from(self.checkpoint.step).unwrap_or(u32::MAX);
                    History { used, ..History::default() }
                }
            };
            history.write(&mut row[now.model_lanes()..]);
        }
    }
}

/// Copies the lanes of a vector that both layouts have.
fn copy_lanes((before, from): (Lanes, &[f32]), (now, to): (Lanes, &mut [f32])) {
    let dim = before.dim.min(now.dim);
    to[..dim].copy_from_slice(&from[..dim]);
    let wide = before.wide.min(now.wide);
    to[now.dim..now.dim + wide].copy_from_slice(&from[before.dim..before.dim + wide]);
}

/// Rows to be put together.
#[derive(Default)]
struct Batch {
    keys: Vec<Key>,
    used: Vec<u32>,
    rows: Vec<f32>,
}

impl Batch {
    fn add(&mut self, of: &Rewrite<'_>, key: Key, was: &[f32]) {
        let start = self.rows.len();
        self.rows.resize(start + of.now.row_lanes(), 0.0);
        of.make(key, was, &mut self.rows[start..]);
        self.keys.push(key);
        self.used.push(of.now.history(&self.rows[start..]).used);
    }

    fn put(&mut self, store: &Store) -> Result<()> {
        if !self.keys.is_empty() {
            store.put_many(&self.keys, &self.used, bytemuck::cast_slice(&self.rows))?;
        }
        self.keys.clear();
        self.used.clear();
        self.rows.clear();
        Ok(())
    }
}

/// Rejects a snapshot whose index doesn't fit into memory.
fn refuse_lack(path: &Path) -> Result<()> {
    let manifest = Manifest::load(&FileDisk::open(path)?)?;
    let rows: u64 = manifest.segments.iter().map(|segment| u64::from(segment.rows)).sum();
    let options = StoreOptions::new(manifest.table, manifest.row_bytes as usize);
    // A scan takes a bit per row.
    let bytes = options.index_bytes_of(std::slice::from_ref(&manifest)) + rows / 8;
    let lack = lacks(&Wants { bytes, mapped: 0, threads: 1, processes: 1 });
    lack.map_or(Ok(()), |why| Err(Error::Refused(why)))
}
