//! Reads and writes of queues, and their bounds.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use stepwell_base::random::Stream;

use super::direct::direct;
use super::fixtures::{filled, pattern};
use crate::buffer::{BLOCK_BYTES, Buffer};
use crate::disk::Disk;
use crate::file::File;
use crate::queue::{Queue, QueueOptions, Wait};

const BLOCK: u64 = BLOCK_BYTES as u64;

pub(super) fn run(disk: &dyn Disk) {
    reads_of_mixed_sizes(disk);
    plain_files_are_read_anywhere(disk);
    writes_then_reads(disk);
    depth_bounds_operations(disk);
    the_arena_bounds_reads(disk);
    an_operation_fails_alone(disk);
    two_queues_of_two_threads(disk);
}

pub(super) fn queue(disk: &dyn Disk, depth: usize, blocks: usize) -> Box<dyn Queue> {
    disk.queue(QueueOptions { depth, read_bytes: blocks * BLOCK_BYTES }).unwrap()
}

/// Completes at least one operation.
pub(super) fn some(queue: &mut dyn Queue, done: &mut dyn FnMut(u64, crate::Result<&[u8]>)) {
    let before = queue.in_flight();
    let mut calls = 0;
    let handed = queue.complete(Wait::ForOne, &mut |it| {
        calls += 1;
        done(it.token, it.outcome);
    });
    let handed = handed.unwrap();
    assert!(handed == calls && (handed > 0 || before == 0), "{handed} of {before}");
    assert_eq!(queue.in_flight(), before - handed);
}

/// Completes all operations.
pub(super) fn all(queue: &mut dyn Queue, done: &mut dyn FnMut(u64, crate::Result<&[u8]>)) {
    while queue.in_flight() > 0 {
        some(queue, done);
    }
    assert_eq!(queue.complete(Wait::ForOne, &mut |_| panic!("nothing is in flight")).unwrap(), 0);
}

/// Reads 1 to `blocks_max` blocks at random places of a file and compares them.
pub(super) fn read_at_random(
    queue: &mut dyn Queue,
    (file, bytes): (&Arc<dyn File>, &[u8]),
    (count, blocks_max, seed): (u64, u64, u64),
) {
    let mut dice = Stream::from_state(seed);
    let mut places = BTreeMap::new();
    let check = |places: &mut BTreeMap<u64, (usize, usize)>, queue: &mut dyn Queue| {
        some(queue, &mut |token, outcome| {
            let (start, length) = places.remove(&token).unwrap();
            assert!(outcome.unwrap() == &bytes[start..start + length], "{length} from {start}");
        });
    };
    for token in 0..count {
        let blocks = dice.next_u64() % blocks_max + 1;
        let first = dice.next_u64() % (bytes.len() as u64 / BLOCK - blocks + 1);
        let length = blocks as usize * BLOCK_BYTES;
        while !queue.read(token << 32 | 5, file, first * BLOCK, length).unwrap() {
            check(&mut places, queue);
        }
        places.insert(token << 32 | 5, (first as usize * BLOCK_BYTES, length));
    }
    while !places.is_empty() {
        check(&mut places, queue);
    }
    assert_eq!(queue.in_flight(), 0);
}

fn reads_of_mixed_sizes(disk: &dyn Disk) {
    let (file, bytes) = direct(disk, "a", 100);
    let reader = disk.open_direct("a").unwrap();
    for (depth, blocks, blocks_max) in [(1, 1, 1), (7, 40, 32), (128, 64, 8), (64, 1_000, 32)] {
        let mut queue = queue(disk, depth, blocks);
        read_at_random(&mut *queue, (&file, &bytes), (150, blocks_max, 1));
        read_at_random(&mut *queue, (&reader, &bytes), (150, blocks_max, 2));
    }
    disk.remove("a").unwrap();
}

fn plain_files_are_read_anywhere(disk: &dyn Disk) {
    let bytes = pattern(10 * BLOCK_BYTES + 100);
    let file = filled(disk, "a", &bytes);
    let mut queue = queue(disk, 16, 16);
    for offset in [0, 1, 99, 100, 5_000] {
        assert!(queue.read(offset, &file, offset, 2 * BLOCK_BYTES).unwrap());
    }
    all(&mut *queue, &mut |offset, outcome| {
        let start = offset as usize;
        assert_eq!(outcome.unwrap(), &bytes[start..start + 2 * BLOCK_BYTES]);
    });
    let buffer = Arc::new(Buffer::new(BLOCK_BYTES));
    assert!(queue.write(1, &file, 3, &buffer, 50).unwrap());
    all(&mut *queue, &mut |_, outcome| assert_eq!(outcome.unwrap(), b""));
    let after = disk.read("a", 1 << 20).unwrap();
    assert!(after[..3] == bytes[..3] && after[3..53] == [0; 50] && after[53..] == bytes[53..]);
    disk.remove("a").unwrap();
}

fn writes_then_reads(disk: &dyn Disk) {
    let files = ["a", "b"].map(|name| disk.create_direct(name, 64 * BLOCK).unwrap());
    let expected = pattern(64 * BLOCK_BYTES);
    let mut queue = queue(disk, 8, 16);
    let mut spare: Vec<Arc<Buffer>> = (0..4).map(|_| Arc::new(Buffer::new(16_384))).collect();
    let mut lent: BTreeMap<u64, Arc<Buffer>> = BTreeMap::new();
    for chunk in 0..32u64 {
        // Chunks of 4 blocks, last ones first, alternating between files.
        let offset = (15 - chunk / 2) * 16_384;
        while spare.is_empty() {
            some(&mut *queue, &mut |token, outcome| {
                assert_eq!(outcome.unwrap(), b"");
                spare.push(lent.remove(&token).unwrap());
            });
        }
        let mut buffer = spare.pop().unwrap();
        // A returned buffer has no other owner.
        let free = Arc::get_mut(&mut buffer).unwrap();
        free.copy_from_slice(&expected[offset as usize..offset as usize + 16_384]);
        let file = &files[chunk as usize % 2];
        assert!(queue.write(chunk, file, offset, &buffer, 16_384).unwrap());
        lent.insert(chunk, buffer);
    }
    all(&mut *queue, &mut |_, outcome| assert_eq!(outcome.unwrap(), b""));
    for (file, name) in files.iter().zip(["a", "b"]) {
        file.sync().unwrap();
        read_at_random(&mut *queue, (file, &expected), (64, 3, 3));
        assert_eq!(disk.read(name, 64 * BLOCK).unwrap(), expected);
        disk.remove(name).unwrap();
    }
}

fn depth_bounds_operations(disk: &dyn Disk) {
    let (file, _) = direct(disk, "a", 8);
    let buffer = Arc::new(Buffer::new(BLOCK_BYTES));
    let mut queue = queue(disk, 4, 100);
    for token in 0..4 {
        assert!(queue.read(token, &file, 0, BLOCK_BYTES).unwrap());
        assert_eq!(queue.in_flight() as u64, token + 1);
    }
    assert!(!queue.read(4, &file, 0, BLOCK_BYTES).unwrap());
    assert!(!queue.write(4, &file, 0, &buffer, BLOCK_BYTES).unwrap());
    assert_eq!(queue.in_flight(), 4);
    let mut seen = 0;
    some(&mut *queue, &mut |token, _| seen |= 1 << token);
    assert!(queue.write(4, &file, 0, &buffer, BLOCK_BYTES).unwrap());
    all(&mut *queue, &mut |token, outcome| {
        outcome.unwrap();
        seen |= 1 << token;
    });
    assert_eq!(seen, 0b11111, "each is handed back");
    disk.remove("a").unwrap();
}

fn the_arena_bounds_reads(disk: &dyn Disk) {
    let (file, bytes) = direct(disk, "a", 8);
    let mut queue = queue(disk, 100, 8);
    assert!(queue.read(1, &file, 0, 5 * BLOCK_BYTES).unwrap());
    assert!(!queue.read(2, &file, 0, 4 * BLOCK_BYTES).unwrap());
    assert!(queue.read(3, &file, BLOCK, 3 * BLOCK_BYTES).unwrap());
    assert!(!queue.read(4, &file, 0, BLOCK_BYTES).unwrap());
    assert_eq!(queue.in_flight(), 2);
    all(&mut *queue, &mut |token, outcome| {
        let place = if token == 1 { 0..5 } else { 1..4 };
        let place = place.start * BLOCK_BYTES..place.end * BLOCK_BYTES;
        assert_eq!(outcome.unwrap(), &bytes[place]);
    });
    assert!(queue.read(5, &file, 0, 8 * BLOCK_BYTES).unwrap(), "the whole arena is free");
    assert!(!queue.read(6, &file, 0, BLOCK_BYTES).unwrap());
    let buffer = Arc::new(Buffer::new(BLOCK_BYTES));
    assert!(queue.write(7, &file, 0, &buffer, BLOCK_BYTES).unwrap(), "writes need no arena");
    all(&mut *queue, &mut |_, outcome| {
        outcome.unwrap();
    });
    disk.remove("a").unwrap();
}

fn an_operation_fails_alone(disk: &dyn Disk) {
    let (file, bytes) = direct(disk, "a", 4);
    file.truncate(3 * BLOCK + 100).unwrap();
    let reader = disk.open_direct("a").unwrap();
    let buffer = Arc::new(Buffer::new(BLOCK_BYTES));
    let mut queue = queue(disk, 100, 100);
    for block in 0..6 {
        assert!(queue.read(block, &reader, block * BLOCK, BLOCK_BYTES).unwrap());
    }
    assert!(queue.read(6, &reader, BLOCK, 3 * BLOCK_BYTES).unwrap());
    assert!(queue.write(7, &reader, 0, &buffer, BLOCK_BYTES).unwrap());
    let mut failed = Vec::new();
    all(&mut *queue, &mut |token, outcome| match outcome {
        Ok(block) => assert_eq!(block, &bytes[token as usize * BLOCK_BYTES..][..BLOCK_BYTES]),
        Err(error) => {
            let (verb, offset) = match token {
                6 => ("read", BLOCK),
                7 => ("write", 0),
                block => ("read", block * BLOCK),
            };
            let place = format!("{} at offset {offset} ", reader.path().display());
            let message = error.to_string();
            assert!(message.contains(&place) && message.contains(verb), "{message}");
            assert!(token == 7 || error.kind() == ErrorKind::UnexpectedEof, "{message}");
            failed.push(token);
        }
    });
    failed.sort_unstable();
    assert_eq!(failed, [3, 4, 5, 6, 7]);
    disk.remove("a").unwrap();
}

fn two_queues_of_two_threads(disk: &dyn Disk) {
    let (file, bytes) = direct(disk, "a", 100);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                let mut queue = queue(disk, 32, 100);
                for round in 0..4 {
                    let seed = thread * 100 + round;
                    read_at_random(&mut *queue, (file, bytes), (100, 10, seed));
                }
            });
        }
    });
    disk.remove("a").unwrap();
}
