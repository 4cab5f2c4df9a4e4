//! Snapshots that cannot be links, as on another file system.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, Lasting, MemDisk, Operation};
use stepwell_ssd::{Store, View, check};

use crate::common::{options, reopen};
use crate::harness::shared;
use crate::history::History;

/// A store of many segments on a disk without links, and its history.
fn without_links() -> (MemDisk, FaultyDisk, Store, History) {
    let memory = MemDisk::new();
    let faults = Faults { no_links: true, ..Faults::default() };
    let disk = FaultyDisk::new(Arc::new(memory.clone()), faults);
    let store = Store::create(Arc::new(disk.clone()), options()).unwrap();
    let mut history = History::default();
    let rows: Vec<(u64, u32)> = (0..400).map(|key| (key, 1)).collect();
    history.put(&store, &rows).unwrap();
    history.commit(&store).unwrap();
    (memory, disk, store, history)
}

fn target(disk: &dyn Disk, name: &str) -> PathBuf {
    let path = disk.path().join(name);
    disk.create_directory(&path).unwrap();
    path
}

#[test]
fn the_store_is_written_and_merged_while_its_snapshot_is_copied() {
    let (memory, disk, store, mut history) = without_links();
    let path = target(&disk, "snapshot");
    let before = history.clone();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Each operation is slow, and a segment takes many of them.
            disk.inflict(Faults {
                no_links: true,
                delay: Duration::from_millis(10),
                ..Faults::default()
            });
            store.snapshot(&path).unwrap();
            ended.store(true, Ordering::SeqCst);
        });
        let there = memory.directory(&path).unwrap();
        while there.list().unwrap().is_empty() {
            thread::yield_now();
        }
        // No put waits for the snapshot; then all its segments are removed.
        history.put(&store, &[(0, 2)]).unwrap();
        assert!(!ended.load(Ordering::SeqCst));
        disk.inflict(Faults { no_links: true, ..Faults::default() });
        let rows: Vec<(u64, u32)> = (0..400).map(|key| (key, 2)).collect();
        history.put(&store, &rows).unwrap();
        history.commit(&store).unwrap();
        let stats = store.stats();
        if !ended.load(Ordering::SeqCst) {
            assert!(stats.segments_pinned > 0 && stats.bytes_pinned > 0, "{stats:?}");
        }
        history.assert_held(&store);
    });
    let stats = store.stats();
    assert_eq!((stats.segments_pinned, stats.bytes_pinned), (0, 0));
    let restored = MemDisk::new();
    let snapshot = memory.directory(&path).unwrap();
    assert_eq!(check(&[Arc::clone(&snapshot)]).unwrap().damages, []);
    for name in snapshot.list().unwrap() {
        let bytes = snapshot.read(&name, u64::MAX).unwrap();
        restored.create(&name).unwrap().write_at(0, &bytes).unwrap();
    }
    before.assert_held(&Store::open(shared(&restored), options()).unwrap());
    drop(store);
    history.assert_held(&reopen(&memory).unwrap());
}

#[test]
fn a_request_to_stop_ends_no_snapshot() {
    let (memory, disk, store, history) = without_links();
    store.options().stop.make();
    let path = target(&disk, "last");
    store.snapshot(&path).unwrap();
    let there = memory.directory(&path).unwrap();
    let view = View::open(there, options()).unwrap();
    history.assert_held(&view);
}

#[test]
fn a_copy_that_fails_leaves_the_store_as_it_was() {
    let (memory, disk, store, mut history) = without_links();
    for (number, operation) in
        [Operation::Create, Operation::Write, Operation::Sync, Operation::Open]
            .into_iter()
            .enumerate()
    {
        let path = target(&disk, &format!("broken-{number}"));
        store.commit().unwrap();
        let kind = ErrorKind::StorageFull;
        let failure =
            Failure { operation: Some(operation), after: 3, kind, lasting: Lasting::Once };
        disk.inflict(Faults { no_links: true, failure: Some(failure), ..Faults::default() });
        let outcome = store.snapshot(&path);
        // The store's segments are open already.
        assert_eq!(outcome.is_ok(), operation == Operation::Open, "{operation:?}");
        let there = memory.directory(&path).unwrap();
        if outcome.is_err() {
            assert!(!there.list().unwrap().iter().any(|name| name.contains("manifest")));
            assert!(store.snapshot(&path).is_err(), "what lies there is not replaced");
        }
        let stats = store.stats();
        assert_eq!((stats.segments_pinned, stats.bytes_pinned), (0, 0));
        history.put(&store, &[(7, number as u32)]).unwrap();
    }
    disk.inflict(Faults { no_links: true, ..Faults::default() });
    store.snapshot(&target(&disk, "whole")).unwrap();
    history.assert_held(&store);
}
