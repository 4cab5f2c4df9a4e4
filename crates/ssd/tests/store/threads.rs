//! Several threads at once: a reader never sees a wrong, torn, older or missing row, and a crash at
//! any moment leaves a commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, FileDisk, MemDisk, Survival};
use stepwell_ssd::{Compaction, Lookup, Store, StoreOptions, check};

use crate::common::{KEYS, ROW_BYTES, assert_whole, get, keys, options, payload};
use crate::harness::{Told, is_long, shared};
use crate::history::{History, manifest, version};

/// Number of keys in these tests; small, so that each has many versions.
const SHARED_KEYS: u64 = 120;
/// One in this many changes of a key deletes it.
const DELETES_EVERY: u64 = 5;

fn background() -> StoreOptions {
    StoreOptions { compaction: Compaction::Background, ..options() }
}

/// Numbers of changes begun and done for each key.
struct Progress {
    begun: Vec<AtomicU64>,
    done: Vec<AtomicU64>,
    ended: AtomicBool,
}

impl Progress {
    fn new() -> Self {
        let zeros = || (0..SHARED_KEYS).map(|_| AtomicU64::new(0)).collect();
        Self { begun: zeros(), done: zeros(), ended: AtomicBool::new(false) }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Changes keys: puts the next version of each, or deletes it.
    fn change(&self, store: &Store, changed: &[u64]) {
        let number = |of: &[AtomicU64], key: u64| of[key as usize].load(Ordering::SeqCst);
        let (mut put, mut deleted, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for key in changed {
            let next = number(&self.done, *key) + 1;
            self.begun[*key as usize].store(next, Ordering::SeqCst);
            if next.is_multiple_of(DELETES_EVERY) {
                deleted.push(Key(*key));
            } else {
                put.push(Key(*key));
                rows.extend(payload(*key, next));
            }
        }
        store.put_many(&put, &vec![1; put.len()], &rows).unwrap();
        assert_eq!(store.delete_many(&deleted).unwrap(), deleted.len() as u64);
        for key in changed {
            self.done[*key as usize].fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Asserts that a key's row is from some moment between two counts of changes.
    fn assert_read(key: u64, row: Option<&[u8]>, from: u64, to: u64) {
        let deleted = |number: &u64| number.is_multiple_of(DELETES_EVERY);
        match version(row) {
            None => assert!((from..=to).any(|number| deleted(&number)), "key {key} is missing"),
            Some(seq) => {
                assert!((from..=to).contains(&seq), "key {key}: {seq} is not in {from}..={to}");
                assert!(!deleted(&seq) && row == Some(&payload(key, seq)), "key {key}");
            }
        }
    }
}

/// Reads with several tickets in flight until the writers are done; returns the number of rows.
fn read(store: &Store, progress: &Progress, seed: u64) -> u64 {
    let mut dice = Stream::from_state(seed);
    let mut reader = store.reader().unwrap();
    let mut in_flight = Vec::new();
    let mut count = 0;
    while !progress.has_ended() || !in_flight.is_empty() {
        if !progress.has_ended() && in_flight.len() < 4 {
            let rows = 1 + dice.next_u64() % 80;
            let keys: Vec<u64> = (0..rows).map(|_| dice.next_u64() % SHARED_KEYS).collect();
            let from = keys.iter().map(|key| progress.done[*key as usize].load(Ordering::SeqCst));
            let from: Vec<u64> = from.collect();
            let lookup = Lookup::new(keys.iter().map(|key| Key(*key)).collect());
            let ticket = reader.submit(lookup).unwrap();
            let to = keys.iter().map(|key| progress.begun[*key as usize].load(Ordering::SeqCst));
            in_flight.push((ticket, from, to.collect::<Vec<u64>>()));
            continue;
        }
        let at = dice.next_u64() as usize % in_flight.len();
        let (ticket, from, to) = in_flight.swap_remove(at);
        let lookup = reader.wait(ticket).unwrap();
        let rows = lookup.rows.chunks_exact(ROW_BYTES).zip(&lookup.found);
        for (((key, (row, found)), from), to) in lookup.keys.iter().zip(rows).zip(from).zip(to) {
            Progress::assert_read(key.0, found.then_some(row), from, to);
            count += 1;
        }
    }
    count
}

/// Changes the writer's own keys, `rounds` times.
fn write(store: &Store, progress: &Progress, writer: u64, rounds: u64) {
    let mut dice = Stream::named(writer, b"writer");
    for round in 0..rounds {
        let of_writer = |key: &u64| key % 2 == writer;
        let mut changed: Vec<u64> =
            (0..1 + dice.next_u64() % 60).map(|_| dice.next_u64() % SHARED_KEYS).collect();
        changed.retain(of_writer);
        changed.sort_unstable();
        changed.dedup();
        progress.change(store, &changed);
        match round % 16 {
            3 | 9 => drop(store.compact().unwrap()),
            15 => drop(store.commit().unwrap()),
            _ => {}
        }
    }
}

/// Two writers, three readers, a scanner and, if configured, a compactor.
fn all_at_once(disk: Arc<dyn Disk>, options: &StoreOptions, rounds: u64) {
    let store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
    let progress = Progress::new();
    let rows_read = thread::scope(|scope| {
        let readers: Vec<_> = (1..4)
            .map(|seed| {
                let (store, progress) = (&store, &progress);
                scope.spawn(move || read(store, progress, seed))
            })
            .collect();
        let scanner = scope.spawn(|| {
            let mut scans = 0;
            while !progress.has_ended() {
                let mut seen = std::collections::BTreeSet::new();
                store
                    .scan_live(&mut |key, _, row| {
                        assert_eq!(row, payload(key.0, version(Some(row)).unwrap()));
                        assert!(seen.insert(key), "{key:?} is visited twice");
                        Ok(())
                    })
                    .unwrap();
                scans += 1;
            }
            scans
        });
        let writers = [0, 1].map(|writer| {
            let (store, progress) = (&store, &progress);
            scope.spawn(move || write(store, progress, writer, rounds))
        });
        let outcomes = writers.map(|writer| writer.join());
        progress.ended.store(true, Ordering::SeqCst);
        let rows: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(scanner.join().unwrap() > 0);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
        rows
    });
    assert!(rows_read > 0 && store.stats().segments_merged > 0, "{:?}", store.stats());
    let assert_ended = |store: &Store| {
        let all: Vec<u64> = (0..SHARED_KEYS).collect();
        for (key, row) in all.iter().zip(get(store, &all).unwrap()) {
            let done = progress.done[*key as usize].load(Ordering::SeqCst);
            Progress::assert_read(*key, row.as_deref(), done, done);
        }
    };
    assert_ended(&store);
    store.commit().unwrap();
    assert_ended(&store);
    drop(store);
    assert!(check(&[Arc::clone(&disk)]).unwrap().damages.is_empty());
    assert_ended(&Store::open(disk, options.clone()).unwrap());
}

#[test]
fn readers_and_writers_in_memory() {
    all_at_once(Arc::new(MemDisk::new()), &options(), 300);
}

#[test]
fn readers_writers_and_a_compactor_in_memory() {
    all_at_once(Arc::new(MemDisk::new()), &background(), 600);
}

#[test]
fn readers_writers_and_a_compactor_on_files() {
    let directory = tempfile::tempdir().unwrap();
    all_at_once(Arc::new(FileDisk::open(directory.path()).unwrap()), &background(), 120);
}

#[test]
fn a_crash_at_any_moment_beside_a_compactor_leaves_a_commit() {
    let crashes = if is_long() { 150 } else { 30 };
    let world = MemDisk::new();
    let store = Store::create(shared(&world), background()).unwrap();
    let history = std::sync::Mutex::new(History::default());
    let crashed = AtomicU64::new(0);
    thread::scope(|scope| {
        // A third thread commits, so that commits happen during merges.
        scope.spawn(|| {
            while crashed.load(Ordering::SeqCst) < crashes {
                store.commit().unwrap();
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            let mut dice = Stream::from_state(9);
            let mut round = 0;
            while crashed.load(Ordering::SeqCst) < crashes {
                round += 1;
                let used = |key| (key, round - wobble(key, round));
                let rows: Vec<(u64, u32)> = keys(&mut dice, 60).into_iter().map(used).collect();
                let mut history = history.lock().unwrap();
                history.put(&store, &rows).unwrap();
                history.delete(&store, &keys(&mut dice, 4)).unwrap();
                if round > 30 && round.is_multiple_of(8) {
                    history.expire(&store, round - 30).unwrap();
                }
            }
        });
        // If the test fails, the other threads end, too.
        let _ended = Ended(&crashed, crashes);
        for seed in 0..crashes {
            let survival = match seed % 3 {
                0 => Survival::SyncedAlone,
                1 => Survival::Everything,
                _ => Survival::Torn(seed),
            };
            let _told = Told(format!("crash {seed}, {survival:?}"));
            let after = world.crash(survival);
            let mut history = history.lock().unwrap().clone();
            // Inline, so that the store does not change during the checks.
            let store = Store::open(shared(&after), options()).unwrap();
            history.resume(&store, &shared(&after));
            assert_whole(&after);
            history.put(&store, &[(1, 1_000_000), (KEYS - 1, 1_000_000)]).unwrap();
            while store.compact().unwrap() > 0 {}
            history.commit(&store).unwrap();
            drop(store);
            let store = Store::open(shared(&after), options()).unwrap();
            history.resume(&store, &shared(&after));
            crashed.store(seed + 1, Ordering::SeqCst);
        }
    });
    let stats = store.stats();
    assert!(stats.commits > crashes / 2 && stats.compactions > 10, "{stats:?}");
    assert!(stats.rows_expired > 0 && stats.rows_deleted > 0, "{stats:?}");
    drop(store);
    let mut history = history.into_inner().unwrap();
    let store = Store::open(shared(&world), background()).unwrap();
    history.resume(&store, &shared(&world));
    assert!(manifest(&shared(&world)).commit > 0);
}

/// Sets a count to its end when dropped.
struct Ended<'a>(&'a AtomicU64, u64);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::SeqCst);
    }
}

/// A last use that varies a little in both directions.
fn wobble(key: u64, round: u32) -> u32 {
    ((key ^ u64::from(round)) % 7).min(u64::from(round)) as u32
}
