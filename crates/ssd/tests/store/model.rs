//! Random operations against a plain map.

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{
    Oracle, assert_holds, assert_whole, get, keys, learn, new_store, options, payload, put, reopen,
};
use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, FileDisk, MemDisk};
use stepwell_ssd::{Store, Verify, check};

/// A change of one key.
#[derive(Clone, Copy)]
enum Change {
    Put(u64),
    Delete(u64),
}

struct Model {
    disk: MemDisk,
    store: Store,
    dice: Stream,
    /// Everything that was put or deleted, in order; versions are indices in it.
    log: Vec<Change>,
    oracle: Oracle,
    /// Number of rows that an explicit commit promised.
    promised: u64,
    snapshots: Vec<(PathBuf, u64)>,
    snapshots_taken: u64,
}

impl Model {
    fn new(seed: u64) -> Self {
        let (disk, store) = new_store();
        let (log, oracle, snapshots) = (Vec::new(), Oracle::new(), Vec::new());
        let dice = Stream::from_state(seed);
        Self { disk, store, dice, log, oracle, promised: 0, snapshots, snapshots_taken: 0 }
    }

    fn step(&mut self) {
        match self.dice.next_u64() % 20 {
            0..9 => self.put(),
            9 => self.delete(),
            10..13 => self.get(),
            13..15 => drop(self.store.compact().unwrap()),
            15 => self.commit(),
            16 => self.reopen(),
            17 => self.snapshot(),
            18 => self.restore(),
            _ => assert_holds(&self.store, &self.oracle),
        }
    }

    fn put(&mut self) {
        let keys = keys(&mut self.dice, 60);
        let rows: Vec<(u64, u64)> = keys.iter().copied().zip(self.log.len() as u64..).collect();
        self.log.extend(keys.into_iter().map(Change::Put));
        put(&self.store, &rows).unwrap();
        learn(&mut self.oracle, &rows);
        assert_eq!(self.store.next_seq(), self.log.len() as u64);
    }

    fn delete(&mut self) {
        let keys = keys(&mut self.dice, 20);
        let mut deleted = 0;
        for key in &keys {
            if self.oracle.remove(key).is_some() {
                self.log.push(Change::Delete(*key));
                deleted += 1;
            }
        }
        let keys: Vec<Key> = keys.into_iter().map(Key).collect();
        assert_eq!(self.store.delete_many(&keys).unwrap(), deleted);
    }

    fn get(&mut self) {
        let keys = keys(&mut self.dice, 200);
        let rows = get(&self.store, &keys).unwrap();
        for (key, row) in keys.iter().zip(rows) {
            assert_eq!(row, self.oracle.get(key).map(|seq| payload(*key, *seq)), "key {key}");
            assert_eq!(self.store.contains(Key(*key)), self.oracle.contains_key(key));
        }
    }

    fn commit(&mut self) {
        let manifest = self.store.commit().unwrap();
        self.promised = self.log.len() as u64;
        assert_eq!((manifest.next_seq, manifest.rows), (self.promised, self.oracle.len() as u64));
        assert_eq!(assert_whole(&self.disk).segments, manifest.segments.len() as u64);
    }

    /// Continues from the part of the log that the store has.
    fn cut_log(&mut self) {
        let rows = self.store.next_seq();
        assert!(rows >= self.promised && rows <= self.log.len() as u64);
        self.log.truncate(rows as usize);
        self.promised = rows;
        self.oracle = Oracle::new();
        for (change, seq) in self.log.iter().zip(0..) {
            match change {
                Change::Put(key) => learn(&mut self.oracle, &[(*key, seq)]),
                Change::Delete(key) => drop(self.oracle.remove(key)),
            }
        }
        assert_holds(&self.store, &self.oracle);
    }

    fn reopen(&mut self) {
        self.store = reopen(&self.disk).unwrap();
        self.cut_log();
    }

    fn snapshot(&mut self) {
        let path = self.disk.path().join(format!("snapshot-{}", self.snapshots_taken));
        self.snapshots_taken += 1;
        self.disk.create_directory(&path).unwrap();
        self.store.snapshot(&path).unwrap();
        self.promised = self.log.len() as u64;
        self.snapshots.push((path, self.promised));
    }

    fn restore(&mut self) {
        let Some((path, rows)) = self.snapshots.pop() else { return };
        if rows > self.log.len() as u64 {
            return;
        }
        self.disk.free_locks();
        Store::set_aside(&self.disk).unwrap();
        self.store =
            Store::restore(Arc::new(self.disk.clone()), &path, Verify::Everything, options())
                .unwrap();
        assert_eq!(self.store.next_seq(), rows);
        self.promised = rows;
        // Later snapshots have rows that no longer exist.
        self.snapshots.clear();
        self.cut_log();
    }
}

#[test]
fn any_order_of_operations() {
    let mut totals = [0; 5];
    for seed in 0..12 {
        let mut model = Model::new(seed);
        for _ in 0..400 {
            model.step();
        }
        assert_holds(&model.store, &model.oracle);
        let stats = model.store.stats();
        let counts = [
            stats.compactions,
            stats.lookups_merged,
            stats.lookups_buffered,
            stats.rows_moved,
            stats.segments_merged,
        ];
        totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
    }
    assert!(totals.iter().all(|total| *total > 0), "every path was taken: {totals:?}");
}

#[test]
fn on_files() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk::create(&directory.path().join("store")).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut store = Store::create(Arc::clone(&disk), options()).unwrap();
    let (mut oracle, mut dice) = (Oracle::new(), Stream::from_state(5));
    let mut seq = 0;
    for round in 0..40 {
        let rows: Vec<(u64, u64)> = keys(&mut dice, 80).into_iter().zip(seq..).collect();
        seq += rows.len() as u64;
        put(&store, &rows).unwrap();
        learn(&mut oracle, &rows);
        store.compact().unwrap();
        if round % 10 == 9 {
            assert_holds(&store, &oracle);
            store.commit().unwrap();
            drop(store);
            store = Store::open(Arc::clone(&disk), options()).unwrap();
        }
    }
    assert_holds(&store, &oracle);
    let snapshot = directory.path().join("snapshot");
    disk.create_directory(&snapshot).unwrap();
    store.snapshot(&snapshot).unwrap();
    put(&store, &[(1, seq)]).unwrap();
    store.commit().unwrap();
    drop(store);
    let checked = check(&[disk.directory(&snapshot).unwrap()]).unwrap();
    assert!(checked.damages.is_empty());
    let other = Arc::new(FileDisk::create(&directory.path().join("other")).unwrap());
    let store = Store::restore(other, &snapshot, Verify::Everything, options()).unwrap();
    assert_holds(&store, &oracle);
}
