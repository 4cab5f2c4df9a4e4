//! Queues that move between threads, and queues that are dropped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use super::direct::direct;
use super::fixtures::pattern;
use super::queues::{all, queue, read_at_random};
use crate::buffer::{BLOCK_BYTES, Buffer};
use crate::disk::Disk;
use crate::file::File;
use crate::queue::{Done, Wait};

const BLOCK: u64 = BLOCK_BYTES as u64;

pub(super) fn run(disk: &dyn Disk) {
    without_waiting_all_is_handed_back_in_the_end(disk);
    a_queue_goes_to_other_threads(disk);
    a_queue_outlives_files_and_names(disk);
    a_queue_goes_with_reads_in_flight(disk);
    a_queue_goes_with_writes_in_flight(disk);
}

fn without_waiting_all_is_handed_back_in_the_end(disk: &dyn Disk) {
    let (file, _) = direct(disk, "a", 40);
    let mut queue = queue(disk, 64, 64);
    assert_eq!(queue.complete(Wait::No, &mut |_| panic!("nothing was started")).unwrap(), 0);
    for token in 0..40 {
        assert!(queue.read(token, &file, token * BLOCK, BLOCK_BYTES).unwrap());
    }
    let mut seen = BTreeSet::new();
    while seen.len() < 40 {
        let handed = queue.complete(Wait::No, &mut |done| {
            done.outcome.unwrap();
            assert!(seen.insert(done.token), "handed back once");
        });
        if handed.unwrap() == 0 {
            thread::yield_now();
        }
    }
    assert_eq!(queue.in_flight(), 0);
    disk.remove("a").unwrap();
}

fn a_queue_goes_to_other_threads(disk: &dyn Disk) {
    let (file, bytes) = direct(disk, "a", 100);
    let mut queue = queue(disk, 64, 128);
    for round in 0..5 {
        // A thread starts reads, has the system begin them, and ends.
        let (back, handed) = thread::scope(|scope| {
            let file = &file;
            let starts = scope.spawn(move || {
                for token in 0..64 {
                    assert!(queue.read(token, file, token * BLOCK, 2 * BLOCK_BYTES).unwrap());
                }
                let mut handed = BTreeSet::new();
                let note = &mut |done: Done<'_>| {
                    done.outcome.unwrap();
                    handed.insert(done.token);
                };
                queue.complete(Wait::No, note).unwrap();
                (queue, handed)
            });
            starts.join().unwrap()
        });
        queue = back;
        let mut seen = handed;
        all(&mut *queue, &mut |token, outcome| {
            let start = token as usize * BLOCK_BYTES;
            assert!(outcome.unwrap() == &bytes[start..start + 2 * BLOCK_BYTES], "round {round}");
            assert!(seen.insert(token), "handed back once");
        });
        assert_eq!(seen.len(), 64);
    }
    disk.remove("a").unwrap();
}

fn a_queue_outlives_files_and_names(disk: &dyn Disk) {
    let (file, bytes) = direct(disk, "a", 50);
    let mut queue = queue(disk, 64, 64);
    for token in 0..50 {
        assert!(queue.read(token, &file, token * BLOCK, BLOCK_BYTES).unwrap());
    }
    drop(file);
    disk.remove("a").unwrap();
    all(&mut *queue, &mut |token, outcome| {
        assert_eq!(outcome.unwrap(), &bytes[token as usize * BLOCK_BYTES..][..BLOCK_BYTES]);
    });
}

fn a_queue_goes_with_reads_in_flight(disk: &dyn Disk) {
    let (file, bytes) = direct(disk, "a", 100);
    for round in 0..20u64 {
        let mut going = queue(disk, 100, 200);
        for token in 0..round * 4 {
            assert!(going.read(token, &file, token * BLOCK, BLOCK_BYTES).unwrap());
        }
        if round % 2 == 0 {
            going.complete(Wait::No, &mut |_| ()).unwrap();
        }
        drop(going);
        // The memory may be reused immediately.
        read_at_random(&mut *queue(disk, 16, 16), (&file, &bytes), (20, 4, round));
    }
    disk.remove("a").unwrap();
}

fn a_queue_goes_with_writes_in_flight(disk: &dyn Disk) {
    let file: Arc<dyn File> = disk.create_direct("a", 100 * BLOCK).unwrap();
    let zeros = vec![0; 100 * BLOCK_BYTES];
    file.write_at(0, &zeros).unwrap();
    let mut buffer = Buffer::new(100 * BLOCK_BYTES);
    buffer.copy_from_slice(&pattern(100 * BLOCK_BYTES));
    let buffer = Arc::new(buffer);
    let mut going = queue(disk, 100, 0);
    for block in 0..100 {
        let offset = block * BLOCK;
        assert!(going.write(block, &file, offset, &buffer, BLOCK_BYTES).unwrap());
    }
    let mut check = |done: Done<'_>| assert_eq!(done.outcome.unwrap(), b"");
    going.complete(Wait::No, &mut check).unwrap();
    drop(going);
    assert_eq!(Arc::strong_count(&buffer), 1, "nothing of it is in flight");
    assert_eq!(Arc::strong_count(&file), 1);
    let after = disk.read("a", 100 * BLOCK).unwrap();
    for block in after.chunks(BLOCK_BYTES) {
        assert_eq!(block, &buffer[..BLOCK_BYTES], "what was pushed is written before it goes");
    }
    disk.remove("a").unwrap();
}
