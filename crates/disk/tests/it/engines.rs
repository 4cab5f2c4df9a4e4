//! Engines of file disks, and files of other kinds.

#![expect(clippy::unwrap_used, reason = "a test's helpers panic like the test")]

use std::io::ErrorKind;
use std::sync::Arc;

use stepwell_disk::{
    BLOCK_BYTES, Buffer, Disk, Engine, Failure, Faults, FaultyDisk, File, FileDisk, Lasting,
    MemDisk, Operation, Queue, QueueOptions, Wait,
};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Runs `test` with every available engine.
fn for_each_engine(test: impl Fn(FileDisk)) {
    for engine in [Engine::Auto, Engine::Uring, Engine::Pool] {
        let directory = tempfile::tempdir().unwrap();
        match FileDisk::with_engine(directory.path(), engine) {
            Ok(disk) => test(disk),
            Err(error) => stepwell_skip::skipped(error),
        }
    }
}

fn numbered(disk: &dyn Disk, name: &str, blocks: u8) -> Arc<dyn File> {
    let file = disk.create_direct(name, u64::from(blocks) * BLOCK).unwrap();
    for block in 0..blocks {
        file.write_at(u64::from(block) * BLOCK, &[block; BLOCK_BYTES]).unwrap();
    }
    file
}

/// Tokens of failures, sorted; bytes of other outcomes must equal the low byte of their token.
fn failures(queue: &mut dyn Queue) -> Vec<(u64, ErrorKind)> {
    let mut failed = Vec::new();
    while queue.in_flight() > 0 {
        let mut note = |done: stepwell_disk::Done<'_>| match done.outcome {
            Ok(bytes) => assert!(bytes.iter().all(|byte| *byte == done.token as u8)),
            Err(error) => failed.push((done.token, error.kind())),
        };
        assert!(queue.complete(Wait::ForOne, &mut note).unwrap() > 0);
    }
    failed.sort_unstable();
    failed
}

#[test]
fn files_of_other_worlds_are_read_and_written_too() {
    for_each_engine(|disk| {
        let own = numbered(&disk, "own", 16);
        assert!(own.has_descriptor());
        let memory = numbered(&MemDisk::new(), "memory", 16);
        let failure = Failure {
            operation: Some(Operation::Read),
            after: 3,
            kind: ErrorKind::TimedOut,
            lasting: Lasting::Once,
        };
        let faulty = FaultyDisk::new(Arc::new(disk.clone()), Faults::default());
        let wrapped = numbered(&faulty, "wrapped", 16);
        faulty.inflict(Faults { failure: Some(failure), ..Faults::default() });

        let mut queue = disk.queue(QueueOptions { depth: 64, read_bytes: 1 << 20 }).unwrap();
        for block in 0..16 {
            for (world, file) in [&own, &memory, &wrapped].into_iter().enumerate() {
                let token = (world as u64) << 8 | block;
                assert!(queue.read(token, file, block * BLOCK, BLOCK_BYTES).unwrap());
            }
        }
        assert_eq!(queue.in_flight(), 48);
        assert_eq!(failures(&mut *queue), [(2 << 8 | 3, ErrorKind::TimedOut)]);
        assert_eq!(faulty.count(Operation::Read), 16);

        let mut buffer = Buffer::new(BLOCK_BYTES);
        buffer.fill(99);
        let buffer = Arc::new(buffer);
        for (token, file) in [&own, &memory, &wrapped].into_iter().enumerate() {
            assert!(queue.write(token as u64, file, 0, &buffer, BLOCK_BYTES).unwrap());
        }
        assert_eq!(failures(&mut *queue), []);
        for file in [&own, &memory, &wrapped] {
            assert!(queue.read(99, file, 0, BLOCK_BYTES).unwrap());
        }
        assert_eq!(failures(&mut *queue), []);
    });
}

#[test]
fn queues_read_files_of_every_directory_of_their_disk() {
    for_each_engine(|disk| {
        let other = disk.create_directory(&disk.path().join("other")).unwrap();
        let files = [numbered(&disk, "a", 4), numbered(&*other, "a", 4)];
        let mut queue = other.queue(QueueOptions { depth: 8, read_bytes: 1 << 16 }).unwrap();
        for block in 0..4 {
            for file in &files {
                assert!(queue.read(block, file, block * BLOCK, BLOCK_BYTES).unwrap());
            }
        }
        drop(disk);
        drop(other);
        assert_eq!(failures(&mut *queue), []);
    });
}

#[test]
fn a_queue_may_be_deeper_than_the_system_admits() {
    for_each_engine(|disk| {
        let file = numbered(&disk, "a", 1);
        let mut queue = match disk.queue(QueueOptions { depth: 1 << 20, read_bytes: 4096 }) {
            Ok(queue) => queue,
            // Two MiB of locked memory are too much on some systems.
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                return stepwell_skip::skipped(error);
            }
            Err(error) => panic!("{error}"),
        };
        let buffer = Arc::new(Buffer::new(BLOCK_BYTES));
        assert!(queue.read(0, &file, 0, BLOCK_BYTES).unwrap());
        assert!(queue.write(0, &file, 0, &buffer, BLOCK_BYTES).unwrap());
        assert_eq!(failures(&mut *queue), []);
    });
}

#[test]
fn a_queue_without_memory_for_reads_writes() {
    for_each_engine(|disk| {
        let file = numbered(&disk, "a", 1);
        let mut queue = disk.queue(QueueOptions { depth: 1, read_bytes: 0 }).unwrap();
        let buffer = Arc::new(Buffer::new(BLOCK_BYTES));
        for _ in 0..3 {
            assert!(queue.write(0, &file, 0, &buffer, BLOCK_BYTES).unwrap());
            assert!(!queue.write(0, &file, 0, &buffer, BLOCK_BYTES).unwrap());
            assert_eq!(failures(&mut *queue), []);
        }
    });
}
