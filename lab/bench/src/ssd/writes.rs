//! Measures loading, updating, overwriting, snapshots and opening.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::Disk;
use stepwell_ssd::Store;

use super::bench::Bench;
use super::figures::Figures;
use super::reads::LOAD_SEED;
use super::rows::{Rows, Shuffle, key};
use crate::Result;
use crate::measure::{Stopwatch, over};

/// Rows to change before the snapshot.
const LITTLE_ROWS: u64 = 10_000;

/// Bytes of rows to prepare before timing starts.
const READY_BYTES: u64 = 4 << 30;

/// Rows for one put.
#[derive(Default)]
struct Batch {
    keys: Vec<Key>,
    used: Vec<u32>,
    rows: Vec<u8>,
}

impl Batch {
    fn push(&mut self, rows: &Rows, number: u64) {
        self.keys.push(key(number));
        self.used.push(0);
        rows.write(number, &mut self.rows);
    }

    fn put(&self, store: &Store) -> Result<()> {
        Ok(store.put_many(&self.keys, &self.used, &self.rows)?)
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.used.clear();
        self.rows.clear();
    }
}

impl Bench<'_> {
    /// Loads all rows in random order, in batches, and commits; returns rows per second.
    pub(super) fn load(&self, disk: Arc<dyn Disk>) -> Result<(Store, f64)> {
        let order = Shuffle::new(self.options.rows, LOAD_SEED);
        let store = Store::create(disk, self.store_options())?;
        let mut seconds = 0.0;
        let mut first = 0;
        while first < self.options.rows {
            let end = self.options.rows.min(first + self.ready_rows());
            let batches = self.batches(&mut (first..end).map(|place| order.at(place)));
            let watch = Stopwatch::start();
            batches.iter().try_for_each(|batch| batch.put(&store))?;
            if end == self.options.rows {
                store.commit()?;
            }
            seconds += watch.seconds();
            first = end;
        }
        Ok((store, self.options.rows as f64 / seconds))
    }

    /// Rows to prepare before timing starts.
    fn ready_rows(&self) -> u64 {
        let batch = self.options.batch as u64;
        (READY_BYTES / self.options.row_bytes as u64 / batch).max(1) * batch
    }

    fn batches(&self, numbers: &mut dyn Iterator<Item = u64>) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut batch = Batch::default();
        for number in numbers {
            batch.push(&self.rows, number);
            if batch.keys.len() == self.options.batch {
                batches.push(std::mem::take(&mut batch));
            }
        }
        batches.push(batch);
        batches
    }

    /// Puts `count` rows again, in batches; calls `after` after each batch.
    pub(super) fn put_again(
        &mut self,
        store: &Store,
        numbers: &mut dyn FnMut(&Self, u64) -> u64,
        count: u64,
        after: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut batch = Batch::default();
        for at in 0..count {
            let number = numbers(self, at);
            self.rows.renew(number);
            batch.push(&self.rows, number);
            if batch.keys.len() == self.options.batch || at + 1 == count {
                batch.put(store)?;
                batch.clear();
                after();
            }
        }
        Ok(())
    }

    /// Updates half of the rows; timing ends when all is durable and compacted.
    pub(super) fn updates(
        &mut self,
        store: &Store,
        figures: &mut Figures,
        say: &mut dyn FnMut(&str),
    ) -> Result<()> {
        say("random updates of half of the rows");
        let count = self.options.rows / 2;
        let order = Shuffle::new(self.options.rows, LOAD_SEED + 1);
        let mut seconds = 0.0;
        let mut first = 0;
        while first < count {
            let end = count.min(first + self.ready_rows());
            let numbers: Vec<u64> = (first..end).map(|place| order.at(place)).collect();
            numbers.iter().for_each(|number| self.rows.renew(*number));
            let batches = self.batches(&mut numbers.into_iter());
            let watch = Stopwatch::start();
            batches.iter().try_for_each(|batch| batch.put(store))?;
            if end == count {
                store.commit()?;
            }
            seconds += watch.seconds();
            first = end;
        }
        let rate = count as f64 / seconds;
        figures.update_rows_per_second = rate;
        let bytes = rate * self.options.row_bytes as f64;
        figures.update_over_raw = over(bytes, figures.raw_write_bytes_per_second);
        self.look_up(store, super::reads::Mix::Random, 1).map(drop)
    }

    /// Overwrites as many random rows as the store has, several times.
    pub(super) fn overwrites(
        &mut self,
        store: &Store,
        figures: &mut Figures,
        say: &mut dyn FnMut(&str),
    ) -> Result<()> {
        if self.options.overwrites == 0 {
            return Ok(());
        }
        let count = self.options.rows * self.options.overwrites;
        say(&format!("{count} random overwrites"));
        let before = store.stats();
        let (mut dice, mut most, mut puts) = (Stream::from_state(23), 0.0f64, 0u64);
        let watch = Stopwatch::start();
        self.put_again(store, &mut |bench, _| bench.rows.pick(&mut dice), count, &mut || {
            puts += 1;
            if puts.is_multiple_of(64) {
                most = most.max(store.stats().space_amplification);
            }
        })?;
        store.commit()?;
        figures.overwrite_rows_per_second = count as f64 / watch.seconds();
        let after = store.stats();
        figures.space_amplification = after.space_amplification;
        figures.space_amplification_most = most.max(after.space_amplification);
        let stored = (after.rows_put - before.rows_put) as f64 * after.bytes_live as f64
            / after.rows_live as f64;
        let written = after.bytes_written - before.bytes_written;
        figures.write_amplification = over(written as f64, stored);
        self.look_up(store, super::reads::Mix::Random, 1).map(drop)
    }

    /// Takes a snapshot after few changes, and opens the store again.
    pub(super) fn ends(
        &mut self,
        store: Store,
        figures: &mut Figures,
        say: &mut dyn FnMut(&str),
    ) -> Result<Store> {
        say("snapshot and reopening");
        let little = LITTLE_ROWS.min(self.options.rows);
        let count = self.options.rows;
        let mut dice = Stream::from_state(29);
        let pick = &mut |_: &Self, _| super::rows::scaled(dice.next_u64(), count);
        self.put_again(&store, pick, little, &mut || {})?;
        let to = self.subdirectory("snapshot")?;
        let watch = Stopwatch::start();
        store.snapshot(to.path())?;
        figures.snapshot_seconds = watch.seconds();
        // The snapshot's links would keep files that the store frees.
        let _ = std::fs::remove_dir_all(to.path());
        let disk = self.disk.directory(store.path())?;
        drop(store);
        self.opening(&disk, figures, say)?;
        let watch = Stopwatch::start();
        let store = Store::open(disk, self.store_options())?;
        figures.reopen_seconds = watch.seconds();
        let stats = store.stats();
        figures.index_bytes_per_key_reopened =
            over(stats.index_bytes as f64, stats.rows_live as f64);
        self.refreshes(&store, figures, say)?;
        Ok(store)
    }
}
