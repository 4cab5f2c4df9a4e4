//! Disks that refuse: writes stop, reads go on, and reopening gives a commit.

use std::io::ErrorKind;
use std::sync::Arc;

use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, Lasting, MemDisk, Operation};
use stepwell_ssd::{Error, Result, Store, StoreOptions, verify};

use crate::common::{Oracle, assert_holds, get, keys, learn, options, payload, put, reopen};

fn failing(operation: Operation, after: u64, lasting: Lasting) -> Faults {
    let failure =
        Failure { operation: Some(operation), after, kind: ErrorKind::StorageFull, lasting };
    Faults { failure: Some(failure), ..Faults::default() }
}

/// A run of puts, merges and commits; keeps what is known to be in the store.
#[derive(Default)]
struct Run {
    store: Option<Store>,
    log: Vec<u64>,
    acknowledged: usize,
    promised: u64,
}

impl Run {
    fn go(&mut self, disk: &FaultyDisk) -> Result<()> {
        let store = self.store.insert(Store::create(Arc::new(disk.clone()), options())?);
        let mut dice = Stream::from_state(8);
        for round in 0..16 {
            let keys = keys(&mut dice, 70);
            let rows: Vec<(u64, u64)> = keys.iter().copied().zip(self.log.len() as u64..).collect();
            self.log.extend(keys);
            put(store, &rows)?;
            self.acknowledged = self.log.len();
            store.compact()?;
            if round % 5 == 3 {
                self.promised = store.commit()?.next_seq;
            }
        }
        Ok(())
    }

    fn oracle(&self, rows: usize) -> Oracle {
        let mut oracle = Oracle::new();
        let rows: Vec<(u64, u64)> = self.log[..rows].iter().copied().zip(0..).collect();
        learn(&mut oracle, &rows);
        oracle
    }

    /// The store refuses writes and serves what it had; the disk holds a commit.
    fn check(&self, memory: &MemDisk) {
        if let Some(store) = &self.store {
            let rows = store.next_seq() as usize;
            assert!(rows >= self.acknowledged);
            assert_holds(store, &self.oracle(rows));
            for outcome in [
                put(store, &[(1, 1_000_000)]),
                store.commit().map(drop),
                store.compact().map(drop),
                store.snapshot(memory.path()).map(drop),
            ] {
                let Err(Error::Refused { why, .. }) = outcome else { panic!("{outcome:?}") };
                assert!(why.contains("cannot"), "the first failure is named: {why}");
            }
            let reopened = reopen(memory).unwrap();
            let rows = reopened.next_seq();
            assert!(rows >= self.promised);
            assert_holds(&reopened, &self.oracle(rows as usize));
            verify(memory).unwrap();
        }
    }
}

#[test]
fn wherever_the_disk_refuses_a_change() {
    let kinds = [
        Operation::Write,
        Operation::Create,
        Operation::Sync,
        Operation::SyncDirectory,
        Operation::Rename,
    ];
    for operation in kinds {
        let whole = FaultyDisk::new(Arc::new(MemDisk::new()), Faults::default());
        Run::default().go(&whole).unwrap();
        let count = whole.count(operation);
        assert!(count > 3, "{operation}: {count}");
        for after in 0..count {
            let lasting = if after % 2 == 0 { Lasting::Once } else { Lasting::FromThenOn };
            let memory = MemDisk::new();
            let disk =
                FaultyDisk::new(Arc::new(memory.clone()), failing(operation, after, lasting));
            let mut run = Run::default();
            let message = run.go(&disk).unwrap_err().to_string();
            assert!(message.contains(&operation.to_string()), "{operation}: {message}");
            disk.inflict(Faults::default());
            run.check(&memory);
        }
    }
}

#[test]
fn a_file_that_cannot_be_removed_is_tried_again() {
    let memory = MemDisk::new();
    let disk = FaultyDisk::new(Arc::new(memory.clone()), Faults::default());
    let store = Store::create(Arc::new(disk.clone()), options()).unwrap();
    for round in 0..2 {
        let rows: Vec<(u64, u64)> = (0..36).map(|key| (key, round * 36 + key)).collect();
        put(&store, &rows).unwrap();
    }
    assert_eq!(store.compact().unwrap(), 1);
    disk.inflict(failing(Operation::Remove, 0, Lasting::Once));
    let message = store.commit().unwrap_err().to_string();
    assert!(message.contains("cannot remove"), "{message}");
    assert_eq!(store.stats().segments_retired, 1);
    assert!(memory.exists("segment-000000000001.rows").unwrap());
    store.commit().unwrap();
    assert_eq!(store.stats().segments_retired, 0);
    assert!(!memory.exists("segment-000000000001.rows").unwrap());
}

#[test]
fn a_failed_read_fails_its_call_alone() {
    let disk = FaultyDisk::new(Arc::new(MemDisk::new()), Faults::default());
    let store = Store::create(Arc::new(disk.clone()), options()).unwrap();
    let rows: Vec<(u64, u64)> = (0..100).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    disk.inflict(failing(Operation::Read, 1, Lasting::Once));
    let message = get(&store, &[0, 30, 60]).unwrap_err().to_string();
    assert!(message.contains("cannot read") && message.contains("offset"), "{message}");
    assert_eq!(get(&store, &[0, 30]).unwrap(), [Some(payload(0, 0)), Some(payload(30, 30))]);
    put(&store, &[(0, 200)]).unwrap();
}

#[test]
fn a_snapshot_that_fails_leaves_the_store_as_it_was() {
    let disk = FaultyDisk::new(Arc::new(MemDisk::new()), Faults::default());
    let store = Store::create(Arc::new(disk.clone()), options()).unwrap();
    put(&store, &[(1, 1), (2, 2)]).unwrap();
    store.commit().unwrap();
    put(&store, &[(4, 4)]).unwrap();
    let path = disk.path().join("snapshot");
    assert!(store.snapshot(&path).is_err(), "the directory is the caller's to make");
    disk.create_directory(&path).unwrap();
    disk.inflict(failing(Operation::Link, 1, Lasting::Once));
    assert!(store.snapshot(&path).is_err());
    put(&store, &[(3, 3)]).unwrap();
    let message = store.snapshot(&path).unwrap_err().to_string();
    assert!(message.contains("cannot link"), "what lies there is not replaced: {message}");
    let empty = disk.path().join("empty");
    disk.create_directory(&empty).unwrap();
    store.snapshot(&empty).unwrap();
    assert!(matches!(store.snapshot(&empty), Err(Error::Exists { .. })));
}

#[test]
fn a_full_index_is_an_error_with_its_arithmetic() {
    let memory = MemDisk::new();
    let small = StoreOptions { index_bytes_max: 20_000, ..options() };
    let store = Store::create(Arc::new(memory.clone()), small.clone()).unwrap();
    let rows: Vec<(u64, u64)> = (0..2_000).map(|key| (key, key)).collect();
    let error = put(&store, &rows).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, Error::IndexFull { bytes_max: 20_000, .. }), "{message}");
    assert!(message.contains("raise tiers.index to at least"), "{message}");
    // Nothing is lost, what fits goes on, and a larger bound takes the rest.
    let held = store.len();
    assert!(held > 100 && store.next_seq() == held, "{held}");
    assert!(store.stats().index_bytes <= 20_000);
    put(&store, &[(0, 5_000)]).unwrap();
    assert_eq!(get(&store, &[0, held]).unwrap(), [Some(payload(0, 5_000)), None]);
    store.commit().unwrap();
    let smaller = StoreOptions { index_bytes_max: 10_000, ..small };
    let reopened = Store::open(Arc::new(memory.clone()), smaller);
    assert!(matches!(reopened, Err(Error::IndexFull { .. })));
    let store = reopen(&memory).unwrap();
    put(&store, &rows[held as usize..]).unwrap();
    assert_eq!(store.len(), 2_000);
}
