//! Disks that refuse: the call fails with the reason, nothing is lost, and the store works again
//! once the cause is gone.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Faults, FaultyDisk, Lasting, MemDisk, Operation, Reason, Refusal};
use stepwell_ssd::{Compaction, Error, Result, Store, StoreOptions, View, WRITES_MAX};

use crate::common::{assert_whole, get, keys, new_store, options, payload, put, reopen};
use crate::harness::{Told, bytes_of, in_threads, is_long, shared};
use crate::history::{History, manifest};

fn failing(operation: Operation, after: u64, lasting: Lasting) -> Faults {
    refusing(operation, after, lasting, Reason::DiskFull)
}

pub(crate) fn refusing(
    operation: Operation,
    after: u64,
    lasting: Lasting,
    reason: Reason,
) -> Faults {
    let refusal = Refusal { operation: Some(operation), after, reason, lasting };
    Faults { refusal: Some(refusal), ..Faults::default() }
}

/// A disk that does not fail yet, and the one below it.
fn faulty() -> (MemDisk, FaultyDisk) {
    let memory = MemDisk::new();
    (memory.clone(), FaultyDisk::new(Arc::new(memory), Faults::default()))
}

/// A run of puts, deletions, merges, commits, an expiry and openings, which continues after
/// failures.
struct Run<'a> {
    disk: &'a FaultyDisk,
    store: Option<Store>,
    history: History,
    failures: u32,
    /// Number of failures after which the cause is gone.
    failures_max: u32,
}

impl<'a> Run<'a> {
    fn new(disk: &'a FaultyDisk, failures_max: u32) -> Self {
        Self { disk, store: None, history: History::default(), failures: 0, failures_max }
    }

    /// Retries `attempt` until it succeeds.
    fn until_done(&mut self, attempt: &mut dyn FnMut(&mut History, &Store) -> Result<()>) {
        let Some(store) = self.store.take() else { return };
        while let Err(error) = attempt(&mut self.history, &store) {
            self.history.stop(&store);
            self.failed(&error);
        }
        self.store = Some(store);
    }

    fn failed(&mut self, error: &Error) {
        let message = error.to_string();
        assert!(message.contains("cannot") && !message.contains('\n'), "{message}");
        self.failures += 1;
        if self.failures == self.failures_max {
            self.disk.inflict(Faults::default());
        }
        assert!(self.failures < 40, "it does not go on: {message}");
    }

    /// Commits, and reopens the store.
    fn reopen(&mut self) {
        self.until_done(&mut |history, store| history.commit(store).map(drop));
        drop(self.store.take());
        while self.store.is_none() {
            match Store::open(Arc::new(self.disk.clone()), options()) {
                Ok(store) => self.store = Some(store),
                Err(error) => self.failed(&error),
            }
        }
        let changes = self.history.len();
        self.until_done(&mut |history, store| {
            assert_eq!(store.next_seq(), changes);
            history.check_held(store)
        });
    }

    fn create(&mut self) {
        while self.store.is_none() {
            match Store::create(Arc::new(self.disk.clone()), options()) {
                Ok(store) => self.store = Some(store),
                Err(error) => {
                    self.failures += 1;
                    // The store may have been made before the failure.
                    if matches!(error, Error::Exists { .. }) {
                        self.store = Store::open(Arc::new(self.disk.clone()), options()).ok();
                    }
                    self.disk.inflict(Faults::default());
                }
            }
        }
    }

    fn go(&mut self) {
        self.create();
        let mut dice = Stream::from_state(8);
        for round in 0..11 {
            // In pieces, so that a part may be put before a failure.
            for piece in keys(&mut dice, 70).chunks(30) {
                let rows: Vec<(u64, u32)> = piece.iter().map(|key| (*key, round)).collect();
                self.until_done(&mut |history, store| history.put(store, &rows));
            }
            let deleted = keys(&mut dice, 6);
            self.until_done(&mut |history, store| history.delete(store, &deleted));
            self.until_done(&mut |_, store| store.compact().map(drop));
            if round == 9 {
                self.until_done(&mut |history, store| history.expire(store, 3));
            }
            if round % 5 == 3 {
                self.until_done(&mut |history, store| history.commit(store).map(drop));
            }
            if round % 4 == 1 {
                self.until_done(&mut |history, store| history.check_held(store));
            }
            if round % 8 == 6 {
                self.reopen();
            }
        }
        self.until_done(&mut |history, store| history.commit(store).map(drop));
    }

    /// Merges that ran out of descriptors are done as soon as there are some.
    fn assert_merged(&self, reason: Reason) {
        let left_alone = self.store.as_ref().unwrap().stats().segments_left_alone;
        let transient = [Reason::TooManyOpenFiles, Reason::TooManyOpenFilesInAll];
        assert!(left_alone == 0 || !transient.contains(&reason), "{left_alone} are left alone");
    }

    /// Asserts that nothing is lost, in the store and on the disk.
    fn check(mut self, memory: &MemDisk) {
        let Some(store) = self.store.take() else { panic!("it was made") };
        self.history.assert_held(&store);
        drop(store);
        let changes = self.history.len();
        let reopened = reopen(memory).unwrap();
        self.history.resume(&reopened, &shared(memory));
        assert_eq!(self.history.len(), changes, "all of it was committed");
        assert_whole(memory);
    }
}

#[test]
fn wherever_the_disk_refuses_a_change() {
    let kinds = [
        (Operation::Write, 20),
        (Operation::Create, 12),
        (Operation::Truncate, 1),
        (Operation::Sync, 5),
        (Operation::SyncDirectory, 3),
        (Operation::Rename, 3),
        (Operation::Remove, 2),
        (Operation::Measure, 1),
        (Operation::Open, 6),
        (Operation::Read, 30),
        (Operation::List, 3),
        (Operation::Lock, 2),
        (Operation::Submit, 6),
    ];
    let (_, whole) = faulty();
    Run::new(&whole, 1).go();
    let mut cases = Vec::new();
    for (operation, least) in kinds {
        let count = whole.count(operation);
        assert!(count >= least, "{operation}: {count}");
        // There are many reads, which a full disk does not refuse.
        let of_reads = [Reason::TooManyOpenFiles, Reason::DeviceError];
        let reasons = if operation == Operation::Read { &of_reads[..] } else { &Reason::ALL };
        for (number, reason) in reasons.iter().enumerate() {
            cases.extend((0..count).map(|after| (operation, after, *reason, number)));
        }
    }
    let ways = [(Lasting::Once, 1), (Lasting::FromThenOn, 1), (Lasting::FromThenOn, 4)];
    in_threads(&cases, &|(operation, after, reason, number)| {
        // In a long run, in all ways; otherwise alternately.
        let first = (*after as usize + number) % ways.len();
        let chosen = if is_long() { &ways[..] } else { &ways[first..][..1] };
        for (lasting, failures_max) in chosen.iter().copied() {
            let _told = Told(format!("{operation} number {after}, {reason:?}, {lasting:?}"));
            let (memory, disk) = faulty();
            disk.inflict(refusing(*operation, *after, lasting, *reason));
            let mut run = Run::new(&disk, failures_max);
            run.go();
            run.assert_merged(*reason);
            disk.inflict(Faults::default());
            run.check(&memory);
        }
    });
}

#[test]
fn a_file_that_cannot_be_removed_is_tried_again() {
    let (memory, disk) = faulty();
    let store = Store::create(Arc::new(disk.clone()), options()).unwrap();
    for round in 0..2 {
        let rows: Vec<(u64, u64)> = (0..36).map(|key| (key, round * 36 + key)).collect();
        put(&store, &rows).unwrap();
    }
    store.commit().unwrap();
    assert_eq!(store.compact().unwrap(), 1);
    disk.inflict(failing(Operation::Remove, 0, Lasting::Once));
    let message = store.commit().unwrap_err().to_string();
    assert!(message.contains("cannot remove"), "{message}");
    assert_eq!(store.stats().segments_retired, 1);
    assert!(memory.exists("segment-000000000001.rows").unwrap());
    store.commit().unwrap();
    assert_eq!(store.stats().segments_retired, 0);
    assert!(!memory.exists("segment-000000000001.rows").unwrap());
    assert_whole(&memory);
}

#[test]
fn a_failed_read_fails_its_call_alone() {
    let (_, disk) = faulty();
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
    let (memory, disk) = faulty();
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
    for (number, operation) in
        [Operation::Create, Operation::Write, Operation::SyncDirectory, Operation::Rename]
            .into_iter()
            .enumerate()
    {
        let path = disk.path().join(format!("broken-{number}"));
        disk.create_directory(&path).unwrap();
        // Commits without changes, so that the failures are the snapshot's own.
        store.commit().unwrap();
        disk.inflict(failing(operation, 0, Lasting::Once));
        let message = store.snapshot(&path).unwrap_err().to_string();
        assert!(message.contains("cannot"), "{message}");
        put(&store, &[(5, 5)]).unwrap();
    }
    let empty = disk.path().join("empty");
    disk.create_directory(&empty).unwrap();
    store.snapshot(&empty).unwrap();
    assert!(matches!(store.snapshot(&empty), Err(Error::Exists { .. })));
    assert_whole(&memory);
}

#[test]
fn what_a_compactor_meets_loses_nothing() {
    for operation in [Operation::Write, Operation::Create, Operation::Read] {
        for after in [0, 1, 3, 10] {
            let _told = Told(format!("{operation} number {after}"));
            let (memory, disk) = faulty();
            let options = StoreOptions { compaction: Compaction::Background, ..options() };
            let store = Store::create(Arc::new(disk.clone()), options).unwrap();
            let mut history = History::default();
            let mut dice = Stream::from_state(after);
            let mut rows =
                || keys(&mut dice, 70).into_iter().map(|key| (key, 1)).collect::<Vec<_>>();
            for _ in 0..8 {
                history.put(&store, &rows()).unwrap();
            }
            history.commit(&store).unwrap();
            disk.inflict(failing(operation, after, Lasting::FromThenOn));
            // Puts must not wait for space that cannot be reclaimed.
            let outcome = (0..60).try_for_each(|_| history.put(&store, &rows()));
            if operation == Operation::Read {
                // Merges skip the unreadable segment.
                outcome.unwrap();
                assert!(store.stats().segments_left_alone > 0 || after > 3);
            } else {
                assert!(outcome.unwrap_err().to_string().contains("cannot"));
                history.stop(&store);
                // If the last commit names everything, there is nothing to write.
                let committed = manifest(&shared(&memory)).next_seq;
                assert!(store.commit().is_err() || store.next_seq() == committed);
            }
            disk.inflict(Faults::default());
            history.assert_held(&store);
            // Earlier failed writes may be reported only now: as many as may be in flight.
            let mut told = 0;
            while history.put(&store, &rows()).is_err() {
                history.stop(&store);
                told += 1;
            }
            while history.commit(&store).is_err() {
                told += 1;
                assert!(told <= WRITES_MAX, "{told}");
            }
            assert!(told <= WRITES_MAX, "{told}");
            drop(store);
            history.resume(&reopen(&memory).unwrap(), &shared(&memory));
        }
    }
}

#[test]
fn a_store_that_is_looked_at_stays_as_it_is() {
    let (disk, store) = new_store();
    let mut history = History::default();
    history.put(&store, &(0..60).map(|key| (key, 1)).collect::<Vec<_>>()).unwrap();
    history.commit(&store).unwrap();
    drop(store);
    let stray = "segment-000000000077.rows";
    disk.create(stray).unwrap().write_at(0, b"of nobody").unwrap();
    let listed = || {
        let mut names = disk.list().unwrap();
        names.sort();
        names.into_iter().map(|name| (bytes_of(&disk, &name), name)).collect::<Vec<_>>()
    };
    let before = listed();
    let store = View::open(shared(&disk), options()).unwrap();
    history.assert_held(&store);
    for refused in [
        put(&store, &[(1, 2)]),
        store.delete_many(&[Key(1)]).map(drop),
        store.expire_before(5),
        store.commit().map(drop),
        store.compact().map(drop),
        store.snapshot(disk.path()).map(drop),
    ] {
        let Err(error @ Error::Refused { .. }) = refused else { panic!("{refused:?}") };
        let error = error.to_string();
        assert!(error.ends_with("read-only view; to write, open it with `Store::open`"), "{error}");
    }
    history.assert_held(&store);
    drop(store);
    assert_eq!(listed(), before);
}
