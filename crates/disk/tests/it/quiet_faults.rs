//! Silent faults, faults of direct files, and faults in queues.

#![expect(clippy::unwrap_used, reason = "a test's helpers panic like the test")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use stepwell_disk::{
    BLOCK_BYTES, Buffer, Disk, Failure, Faults, FaultyDisk, File, Flip, Lasting, MemDisk,
    Operation, QueueOptions, Survival, Wait,
};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A disk with a direct file of 8 blocks, each filled with its number starting at 1; counts begin
/// after it was made.
fn with_file(faults: Faults) -> (MemDisk, FaultyDisk, Arc<dyn File>) {
    let memory = MemDisk::new();
    let disk = FaultyDisk::new(Arc::new(memory.clone()), Faults::default());
    let file = disk.create_direct("a", 8 * BLOCK).unwrap();
    for block in 0..8u8 {
        file.write_at(u64::from(block) * BLOCK, &[block + 1; BLOCK_BYTES]).unwrap();
    }
    file.sync().unwrap();
    disk.sync_directory().unwrap();
    disk.inflict(faults);
    (memory, disk, file)
}

/// First byte of each 512 bytes of the file.
fn sectors(disk: &dyn Disk) -> Vec<u8> {
    disk.read("a", 64 * BLOCK).unwrap().chunks(512).map(|sector| sector[0]).collect()
}

fn blocks(disk: &dyn Disk) -> Vec<u8> {
    sectors(disk).into_iter().step_by(8).collect()
}

#[test]
fn a_short_read_is_seen_and_happens_once() {
    let (_, disk, file) = with_file(Faults { short_read_after: Some(1), ..Faults::default() });
    let mut buffer = [0; 4 * BLOCK_BYTES];
    file.read_at(0, &mut buffer).unwrap();
    buffer.fill(0);
    let error = file.read_at(BLOCK, &mut buffer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert!(error.to_string().contains("at offset 4096 (16384 bytes)"), "{error}");
    assert_eq!([buffer[0], buffer[BLOCK_BYTES], buffer[2 * BLOCK_BYTES]], [2, 3, 0]);
    file.read_at(0, &mut buffer).unwrap();
    assert_eq!(disk.count(Operation::Read), 3);
}

#[test]
fn a_flipped_bit_is_in_what_is_read_alone() {
    let flip = Some(Flip { after: 1, bit: 8 * 5_000 + 3 });
    let (memory, _, file) = with_file(Faults { flip, ..Faults::default() });
    let mut buffer = [0; 2 * BLOCK_BYTES];
    for (read, expected) in [(0, 2), (1, 2 ^ 8), (2, 2)] {
        file.read_at(0, &mut buffer).unwrap();
        assert_eq!(buffer[5_000], expected, "read {read}");
        assert!(buffer[..4_096].iter().all(|byte| *byte == 1));
        assert!(buffer[5_001..].iter().all(|byte| *byte == 2));
    }
    assert_eq!(blocks(&memory), [1, 2, 3, 4, 5, 6, 7, 8]);
    // A bit beyond the end wraps around; an empty read has no flip.
    let (_, disk, file) = with_file(Faults::default());
    disk.inflict(Faults { flip: Some(Flip { after: 1, bit: 8 * 4_096 }), ..Faults::default() });
    file.read_at(0, &mut []).unwrap();
    file.read_at(0, &mut buffer[..BLOCK_BYTES]).unwrap();
    assert_eq!(buffer[..2], [1 ^ 1, 1]);
}

#[test]
fn a_write_lands_elsewhere_or_nowhere() {
    let faults =
        Faults { misdirected_write_after: Some(1), lost_write_after: Some(2), ..Faults::default() };
    let (memory, disk, file) = with_file(faults);
    for block in [0, 2, 5, 7] {
        file.write_at(block * BLOCK, &[9; BLOCK_BYTES]).unwrap();
    }
    assert_eq!(blocks(&memory), [9, 2, 3, 9, 5, 6, 7, 9]);
    assert_eq!((disk.count(Operation::Write), disk.mutations()), (4, 4));
}

#[test]
fn a_length_is_a_mutation_of_its_own_kind() {
    let failure = Failure {
        operation: Some(Operation::Truncate),
        after: 1,
        kind: ErrorKind::PermissionDenied,
        lasting: Lasting::FromThenOn,
    };
    let (memory, disk, file) = with_file(Faults { failure: Some(failure), ..Faults::default() });
    file.truncate(7 * BLOCK).unwrap();
    let error = file.truncate(6 * BLOCK).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("cannot set the length of /memory/a"), "{error}");
    assert_eq!((disk.count(Operation::Truncate), disk.mutations()), (2, 2));
    assert_eq!(blocks(&memory).len(), 7);
    disk.inflict(Faults { cut_after: Some(0), ..Faults::default() });
    assert!(file.truncate(0).is_err());
    assert!(file.len().is_err(), "the power is gone");
    assert_eq!(blocks(&memory).len(), 7);
    assert_eq!(blocks(&memory.crash(Survival::SyncedAlone)).len(), 8, "it was not synced");
}

#[test]
fn a_cut_tears_a_direct_write_at_a_sector() {
    for (blocks_written, torn) in [(1, 4), (2, 8), (3, 12)] {
        let (memory, _, file) = with_file(Faults { cut_after: Some(1), ..Faults::default() });
        file.write_at(7 * BLOCK, &[8; BLOCK_BYTES]).unwrap();
        let bytes = vec![9; blocks_written * BLOCK_BYTES];
        assert!(file.write_at(BLOCK, &bytes).is_err());
        let mut expected: Vec<u8> = (0..64).map(|sector| sector / 8 + 1).collect();
        expected[8..8 + torn].fill(9);
        assert_eq!(sectors(&memory), expected);
    }
    // Beyond the end, there are no bytes to keep.
    let (memory, _, file) = with_file(Faults { cut_after: Some(0), ..Faults::default() });
    assert!(file.write_at(8 * BLOCK, &[9; BLOCK_BYTES]).is_err());
    assert_eq!(sectors(&memory)[64..], [9, 9, 9, 9, 0, 0, 0, 0]);
}

#[test]
fn direct_files_are_made_and_opened_as_others_are() {
    let failing = |operation| {
        let failure = Failure {
            operation: Some(operation),
            after: 0,
            kind: ErrorKind::StorageFull,
            lasting: Lasting::Once,
        };
        Faults { failure: Some(failure), ..Faults::default() }
    };
    let (memory, disk, _) = with_file(failing(Operation::Create));
    let error = disk.create_direct("b", BLOCK).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(!memory.exists("b").unwrap());
    disk.inflict(failing(Operation::Open));
    assert!(disk.open_direct("a").is_err());
    let file = disk.open_direct("a").unwrap();
    assert!(file.is_direct() && !file.has_descriptor());
}

#[test]
fn operations_of_queues_meet_their_fate() {
    let failure = Failure {
        operation: Some(Operation::Read),
        after: 2,
        kind: ErrorKind::TimedOut,
        lasting: Lasting::Once,
    };
    let faults = Faults {
        failure: Some(failure),
        flip: Some(Flip { after: 1, bit: 0 }),
        short_read_after: Some(4),
        lost_write_after: Some(0),
        ..Faults::default()
    };
    let (memory, disk, file) = with_file(faults);
    let mut queue = disk.queue(QueueOptions { depth: 16, read_bytes: 1 << 20 }).unwrap();
    for token in 0..8 {
        assert!(queue.read(token, &file, token * BLOCK, BLOCK_BYTES).unwrap());
    }
    let mut buffer = Buffer::new(BLOCK_BYTES);
    buffer.fill(9);
    let buffer = Arc::new(buffer);
    for token in [8, 9] {
        assert!(queue.write(token, &file, (token - 8) * BLOCK, &buffer, BLOCK_BYTES).unwrap());
    }
    let mut outcomes = BTreeMap::new();
    while queue.in_flight() > 0 {
        let mut note = |done: stepwell_disk::Done<'_>| {
            let outcome = done.outcome.map(|bytes| bytes.first().copied());
            outcomes.insert(done.token, outcome.map_err(|error| error.kind()));
        };
        queue.complete(Wait::ForOne, &mut note).unwrap();
    }
    let expected = [
        Ok(Some(1)),
        Ok(Some(2 ^ 1)),
        Err(ErrorKind::TimedOut),
        Ok(Some(4)),
        Err(ErrorKind::UnexpectedEof),
        Ok(Some(6)),
        Ok(Some(7)),
        Ok(Some(8)),
        Ok(None),
        Ok(None),
    ];
    assert!(outcomes.into_values().eq(expected), "in the order in which they were started");
    assert_eq!(blocks(&memory), [1, 9, 3, 4, 5, 6, 7, 8]);
    assert_eq!((disk.count(Operation::Read), disk.count(Operation::Write)), (8, 2));
}

#[test]
fn queues_of_memory_hand_back_out_of_order() {
    let (memory, _, _) = with_file(Faults::default());
    let file = memory.open_direct("a").unwrap();
    let orders = |disk: &MemDisk| -> Vec<Vec<u64>> {
        let order = |_| {
            let mut queue = disk.queue(QueueOptions { depth: 8, read_bytes: 1 << 16 }).unwrap();
            (0..8).for_each(|token| assert!(queue.read(token, &file, 0, BLOCK_BYTES).unwrap()));
            let mut order = Vec::new();
            while queue.in_flight() > 0 {
                queue.complete(Wait::ForOne, &mut |done| order.push(done.token)).unwrap();
            }
            order
        };
        (0..5).map(order).collect()
    };
    let first = orders(&memory.crash(Survival::Everything));
    assert!(first.iter().all(|order| !order.is_sorted()) && first[0] != first[1], "{first:?}");
    assert_eq!(orders(&memory.crash(Survival::Everything)), first, "the same in every run");
}
