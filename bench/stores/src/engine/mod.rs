//! The engines compared, behind one trait.
//!
//! How       An engine takes batches of rows, settles (everything on disk and durable, nothing left
//!           to compact), and gives the rows of a batch of keys. Calls are per batch: an engine
//!           that can look many keys up at once does so.
//! Failure   A row that is missing or wrong is an error: a fast answer that is not the row written
//!           is no answer.

mod fjall;
mod rocks;

use std::path::Path;

use serde::Serialize;

use crate::Result;
use crate::workload::{Batch, Key};

/// Memory an engine may cache blocks in, where it has such a cache.
pub(crate) const CACHE_BYTES: usize = 64 << 20;

/// Memory for rows not yet on disk: what one buffer of RocksDB holds, of which it has two.
pub(crate) const WRITE_BUFFER_BYTES: usize = 256 << 20;

/// An open store.
pub(crate) trait Store: Sync {
    /// Writes rows; they need not be durable yet.
    fn put(&self, batch: &Batch) -> Result<()>;

    /// Returns once all rows are durable and no compaction is running or due.
    fn settle(&self) -> Result<()>;

    /// Shows the row of each of `keys` with its position, in any order; a missing one is an error.
    fn get(&self, keys: &[Key], row: &mut dyn FnMut(usize, &[u8])) -> Result<()>;
}

/// An engine in one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Engine {
    RocksdbFbgemm,
    RocksdbLevel,
    Fjall,
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RocksdbFbgemm => "rocksdb-fbgemm",
            Self::RocksdbLevel => "rocksdb-level",
            Self::Fjall => "fjall",
        }
    }

    pub(crate) fn is_rocksdb(self) -> bool {
        matches!(self, Self::RocksdbFbgemm | Self::RocksdbLevel)
    }

    /// Whether its reads leave their pages in the system's page cache.
    pub(crate) fn reads_through_page_cache(self) -> bool {
        self == Self::Fjall
    }

    /// What it is and how it is set, in a line.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::RocksdbFbgemm => rocks::FBGEMM,
            Self::RocksdbLevel => rocks::LEVEL,
            Self::Fjall => fjall::SETTING,
        }
    }

    /// Opens a new store in the empty directory `path`.
    pub(crate) fn open(self, path: &Path) -> Result<Box<dyn Store>> {
        Ok(match self {
            Self::RocksdbFbgemm => Box::new(rocks::Rocks::fbgemm(path)?),
            Self::RocksdbLevel => Box::new(rocks::Rocks::level(path)?),
            Self::Fjall => Box::new(fjall::Fjall::open(path)?),
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

    const ROW_BYTES: usize = 100;

    /// Every engine holds a map's promises: last value wins, nothing is lost, absent is an error.
    #[test]
    fn all_engines_give_back_what_was_written_last() {
        for engine in [Engine::RocksdbFbgemm, Engine::RocksdbLevel, Engine::Fjall] {
            let scratch = Scratch::of_test(engine.name());
            let store = engine.open(scratch.path()).unwrap();
            let order = workload::shuffled(5000, 3);
            let mut batch = Batch::new(ROW_BYTES);
            for numbers in order.chunks(700) {
                batch.draw(numbers, 0);
                store.put(&batch).unwrap();
            }
            store.settle().unwrap();
            batch.draw(&order[..2000], 1);
            store.put(&batch).unwrap();
            check(&*store, &order[..2000], 1);
            store.settle().unwrap();
            check(&*store, &order[..2000], 1);
            check(&*store, &order[2000..], 0);
            store.settle().unwrap();
            let refusal = store.get(&[workload::key(5000)], &mut |_, _| {}).unwrap_err();
            assert!(refusal.contains("has no row for key"), "{refusal}");
            store.get(&[], &mut |_, _| panic!("no key, no row")).unwrap();
            drop(store);
        }
    }

    fn check(store: &dyn Store, numbers: &[u32], generation: u64) {
        let mut keys: Vec<Key> = numbers.iter().map(|n| workload::key(u64::from(*n))).collect();
        keys.push(keys[0]);
        let mut seen = vec![0; keys.len()];
        let mut wrong = 0;
        store
            .get(&keys, &mut |position, row| {
                seen[position] += 1;
                let right = workload::is_row(&keys[position], generation, row, ROW_BYTES);
                wrong += usize::from(!right);
            })
            .unwrap();
        assert_eq!(wrong, 0);
        assert!(seen.iter().all(|times| *times == 1));
    }
}
