//! The stores compared, each in its settings, behind one interface.
//!
//! - **How.** A thread that reads is handed to the engine with a stream of batches ([`Queries`]):
//!   an engine that keeps several batches of one thread in flight may do so, the others answer one
//!   after the other. How many threads, and batches in flight, are tried for an engine is its
//!   [`Way`]s.
//! - **Failure.** A row that is missing or wrong is an error: a fast answer that is not the row
//!   written is no answer.

mod fjall;
mod rocks;
mod stepwell;

use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::workload::{Batch, Key};

/// Batches of keys to be looked up, and whoever looks at the rows found.
pub(crate) trait Queries {
    /// Draws the next batch; false once there is none.
    fn next(&mut self, keys: &mut Vec<Key>) -> bool;

    /// Looks at the row found of a key.
    fn found(&mut self, key: &Key, row: &[u8]);

    /// Says that all rows of a batch were found.
    fn answered(&mut self, rows: usize);
}

/// An open store.
///
/// What is put before the first [`Store::settle`] is a bulk load, and known to be one; rows need
/// not be readable before that.
pub(crate) trait Store: Sync {
    /// Writes rows; they need not be durable yet.
    fn put(&mut self, batch: &Batch) -> Result<()>;

    /// Returns once all rows put so far are durable.
    fn commit(&mut self) -> Result<()>;

    /// Returns once all rows are durable and no compaction is running or due.
    fn settle(&mut self) -> Result<()>;

    /// Shows the row of each of `keys` with its position, in any order; a missing one is an error.
    fn get(&self, keys: &[Key], row: &mut dyn FnMut(usize, &[u8])) -> Result<()>;

    /// Answers all of `queries` in this thread, at most `in_flight` of them at once.
    fn answer(&self, queries: &mut dyn Queries, _in_flight: usize) -> Result<()> {
        let mut keys = Vec::new();
        while queries.next(&mut keys) {
            self.get(&keys, &mut |position, row| queries.found(&keys[position], row))?;
            queries.answered(keys.len());
        }
        Ok(())
    }
}

/// Threads that read, and batches of each in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Way {
    pub(crate) threads: usize,
    pub(crate) in_flight: usize,
}

/// What is known of the rows before the first one comes, and the memory for all of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) rows: u64,
    pub(crate) row_bytes: usize,
    pub(crate) memory_bytes: usize,
}

/// An engine in one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Engine {
    Stepwell,
    RocksdbLevel,
    RocksdbUniversal,
    RocksdbBlob,
    Fjall,
    FjallBlob,
}

/// How a thread answers batches one after the other, and how many threads may do better.
const BLOCKING: [Way; 4] = [
    Way { threads: 1, in_flight: 1 },
    Way { threads: 8, in_flight: 1 },
    Way { threads: 16, in_flight: 1 },
    Way { threads: 32, in_flight: 1 },
];

/// A thread of ours has its batches' reads in flight together.
const IN_FLIGHT: [Way; 4] = [
    Way { threads: 1, in_flight: 1 },
    Way { threads: 1, in_flight: 4 },
    Way { threads: 1, in_flight: 16 },
    Way { threads: 2, in_flight: 4 },
];

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stepwell => "stepwell",
            Self::RocksdbLevel => "rocksdb-level",
            Self::RocksdbUniversal => "rocksdb-universal",
            Self::RocksdbBlob => "rocksdb-blob",
            Self::Fjall => "fjall",
            Self::FjallBlob => "fjall-blob",
        }
    }

    /// Whether its files go through the system's page cache.
    pub(crate) fn reads_through_page_cache(self) -> bool {
        matches!(self, Self::Fjall | Self::FjallBlob)
    }

    /// The ways of reading that are tried, of which the best counts.
    pub(crate) fn ways(self) -> &'static [Way] {
        if self == Self::Stepwell { &IN_FLIGHT } else { &BLOCKING }
    }

    /// What it is and how it is set, in a line.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::Stepwell => stepwell::SETTING,
            Self::RocksdbLevel => rocks::LEVEL,
            Self::RocksdbUniversal => rocks::UNIVERSAL,
            Self::RocksdbBlob => rocks::BLOB,
            Self::Fjall => fjall::TREE,
            Self::FjallBlob => fjall::BLOB,
        }
    }

    /// Opens a new store in the empty directory `path`.
    pub(crate) fn open(self, path: &Path, setup: &Setup) -> Result<Box<dyn Store>> {
        let rocks = |kind| rocks::Rocks::create(path, kind, setup);
        let fjall = |separate| fjall::Fjall::create(path, separate, setup);
        Ok(match self {
            Self::Stepwell => Box::new(stepwell::Stepwell::create(path, setup)?),
            Self::RocksdbLevel => Box::new(rocks(rocks::Kind::Level)?),
            Self::RocksdbUniversal => Box::new(rocks(rocks::Kind::Universal)?),
            Self::RocksdbBlob => Box::new(rocks(rocks::Kind::Blob)?),
            Self::Fjall => Box::new(fjall(false)?),
            Self::FjallBlob => Box::new(fjall(true)?),
        })
    }
}

/// The refusal of a store that has lost a row.
fn missing(engine: &str, key: &Key) -> String {
    format!("{engine} has no row for key {:016x}, which was written", u64::from_be_bytes(*key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::workload;

    const SETUP: Setup = Setup { rows: 5000, row_bytes: 100, memory_bytes: 512 << 20 };

    /// Every engine holds a map's promises: last value wins, nothing is lost, absent is an error.
    #[test]
    fn all_engines_give_back_what_was_written_last() {
        for engine in Engine::value_variants() {
            let scratch = Scratch::of_test(engine.name());
            let others = rings();
            let mut store = engine.open(scratch.path(), &SETUP).unwrap();
            let order = workload::shuffled(5000, 3);
            let mut batch = Batch::new(SETUP.row_bytes);
            for (number, numbers) in order.chunks(700).enumerate() {
                batch.draw(numbers, 0);
                store.put(&batch).unwrap();
                if number == 3 {
                    store.commit().unwrap();
                }
            }
            store.settle().unwrap();
            check(&*store, &order, 0);
            batch.draw(&order[..2000], 1);
            store.put(&batch).unwrap();
            check(&*store, &order[..2000], 1);
            store.commit().unwrap();
            check(&*store, &order[..2000], 1);
            store.settle().unwrap();
            check(&*store, &order[..2000], 1);
            check(&*store, &order[2000..], 0);
            let refusal = store.get(&[workload::key(5000)], &mut |_, _| {}).unwrap_err();
            assert!(refusal.contains("has no row for key"), "{refusal}");
            store.get(&[], &mut |_, _| panic!("no key, no row")).unwrap();
            answers(&*store, *engine);
            assert!(engine.reads_through_page_cache() || rings() > others, "{engine:?}");
            drop(store);
        }
    }

    /// Queues of io_uring that this process has: an engine that is said to read by it must.
    fn rings() -> usize {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let files = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        files.filter(|file| file.to_string_lossy().contains("io_uring")).count()
    }

    fn check(store: &dyn Store, numbers: &[u32], generation: u64) {
        let mut keys: Vec<Key> = numbers.iter().map(|n| workload::key(u64::from(*n))).collect();
        keys.push(keys[0]);
        let mut seen = vec![0; keys.len()];
        let mut wrong = 0;
        store
            .get(&keys, &mut |position, row| {
                seen[position] += 1;
                let right = workload::is_row(&keys[position], generation, row, SETUP.row_bytes);
                wrong += usize::from(!right);
            })
            .unwrap();
        assert_eq!(wrong, 0);
        assert!(seen.iter().all(|times| *times == 1));
    }

    /// Ten batches of a hundred keys.
    #[derive(Default)]
    struct Counted {
        asked: u64,
        found: usize,
        answered: usize,
    }

    impl Queries for Counted {
        fn next(&mut self, keys: &mut Vec<Key>) -> bool {
            keys.clear();
            keys.extend((self.asked..self.asked + 100).map(workload::key));
            self.asked += 100;
            self.asked <= 1000
        }

        fn found(&mut self, key: &Key, row: &[u8]) {
            let is_row = |generation| workload::is_row(key, generation, row, SETUP.row_bytes);
            self.found += usize::from(is_row(0) || is_row(1));
        }

        fn answered(&mut self, rows: usize) {
            self.answered += rows;
        }
    }

    fn answers(store: &dyn Store, engine: Engine) {
        for way in engine.ways() {
            let mut queries = Counted::default();
            store.answer(&mut queries, way.in_flight).unwrap();
            assert_eq!((queries.found, queries.answered), (1000, 1000), "{engine:?} {way:?}");
        }
    }
}
