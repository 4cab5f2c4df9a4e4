//! One writer, several readers: a reader never sees a wrong, torn, older or missing row.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stepwell_base::random::Stream;
use stepwell_disk::{Disk, FileDisk, MemDisk};
use stepwell_ssd::Store;

use crate::common::{Oracle, assert_holds, get, keys, learn, options, payload, put};

/// Reads until the writer is done; versions of a key only rise.
fn read(store: &Store, seed: u64, done: &AtomicBool) -> u64 {
    let mut newest = Oracle::new();
    let mut dice = Stream::from_state(seed);
    let mut rows_read = 0;
    while !done.load(Ordering::Relaxed) {
        let keys = keys(&mut dice, 100);
        for (key, row) in keys.iter().zip(get(store, &keys).unwrap()) {
            let Some(row) = row else {
                assert!(!newest.contains_key(key), "key {key} went away");
                continue;
            };
            let seq = u64::from_le_bytes(*row.first_chunk().unwrap());
            assert_eq!(row, payload(*key, seq));
            let before = newest.insert(*key, seq).unwrap_or(0);
            assert!(before <= seq, "key {key} went from {before} back to {seq}");
            rows_read += 1;
        }
    }
    rows_read
}

fn write(store: &Store, rounds: u64) -> Oracle {
    let (mut oracle, mut dice) = (Oracle::new(), Stream::from_state(0));
    let mut seq = 0;
    for round in 0..rounds {
        let rows: Vec<(u64, u64)> = keys(&mut dice, 100).into_iter().zip(seq..).collect();
        seq += rows.len() as u64;
        put(store, &rows).unwrap();
        learn(&mut oracle, &rows);
        store.compact().unwrap();
        if round % 20 == 0 {
            store.commit().unwrap();
        }
    }
    oracle
}

fn write_and_read(disk: Arc<dyn Disk>, rounds: u64) {
    let store = Store::create(disk, options()).unwrap();
    let done = AtomicBool::new(false);
    let (oracle, rows_read) = std::thread::scope(|scope| {
        let readers: Vec<_> = (1..4)
            .map(|seed| {
                scope.spawn({
                    let (store, done) = (&store, &done);
                    move || read(store, seed, done)
                })
            })
            .collect();
        let writer = scope.spawn(|| write(&store, rounds));
        let oracle = writer.join();
        done.store(true, Ordering::Relaxed);
        let rows: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        (oracle.unwrap(), rows)
    });
    assert!(rows_read > 0);
    assert_holds(&store, &oracle);
}

#[test]
fn readers_beside_a_writer_in_memory() {
    write_and_read(Arc::new(MemDisk::new()), 400);
}

#[test]
fn readers_beside_a_writer_on_files() {
    let directory = tempfile::tempdir().unwrap();
    write_and_read(Arc::new(FileDisk::open(directory.path()).unwrap()), 60);
}
