//! Direct files.

use std::io::ErrorKind;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::fixtures::{filled, pattern};
use crate::buffer::{BLOCK_BYTES, Buffer};
use crate::disk::Disk;
use crate::file::File;

const BLOCK: u64 = BLOCK_BYTES as u64;

pub(super) fn run(disk: &dyn Disk) {
    room_is_set_aside(disk);
    blocks_come_back(disk);
    memory_need_not_be_aligned(disk);
    a_direct_file_ends_anywhere(disk);
    only_whole_blocks_are_admitted(disk);
    too_much_room_is_refused(disk);
}

/// Makes a direct file of `blocks` blocks of [`pattern`]; returns it and its bytes.
pub(super) fn direct(disk: &dyn Disk, name: &str, blocks: usize) -> (Arc<dyn File>, Vec<u8>) {
    let bytes = pattern(blocks * BLOCK_BYTES);
    let file = disk.create_direct(name, bytes.len() as u64).unwrap();
    let mut buffer = Buffer::new(bytes.len());
    buffer.copy_from_slice(&bytes);
    file.write_at(0, &buffer).unwrap();
    (file, bytes)
}

fn room_is_set_aside(disk: &dyn Disk) {
    let file = disk.create_direct("a", 3 * BLOCK).unwrap();
    assert!(file.is_direct());
    let length = file.len().unwrap();
    assert!(length == 3 * BLOCK || length == 0, "{length}");
    let mut buffer = Buffer::new(BLOCK_BYTES);
    if length > 0 {
        buffer.fill(1);
        file.read_at(BLOCK, &mut buffer).unwrap();
        assert!(buffer.iter().all(|byte| *byte == 0));
    }
    buffer.fill(7);
    file.write_at(4 * BLOCK, &buffer).unwrap();
    assert_eq!(file.len().unwrap(), 5 * BLOCK, "it grows beyond");
    let taken = disk.create_direct("a", 0).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.open_direct("b").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.create_direct("../b", 0).unwrap_err().kind(), ErrorKind::InvalidInput);
    disk.remove("a").unwrap();
    let empty = disk.create_direct("a", 0).unwrap();
    assert_eq!(empty.len().unwrap(), 0);
    disk.remove("a").unwrap();
}

fn blocks_come_back(disk: &dyn Disk) {
    let (file, mut bytes) = direct(disk, "a", 40);
    let mut block = Buffer::new(2 * BLOCK_BYTES);
    block.fill(9);
    file.write_at(5 * BLOCK, &block).unwrap();
    bytes[5 * BLOCK_BYTES..7 * BLOCK_BYTES].fill(9);
    file.sync().unwrap();
    let reader = disk.open_direct("a").unwrap();
    assert!(reader.is_direct() && !disk.open("a").unwrap().is_direct());
    assert!(reader.write_at(0, &block).is_err(), "it was opened for reading");
    for (start, blocks) in [(0, 40), (39, 1), (4, 4), (7, 0)] {
        let mut part = Buffer::new(blocks * BLOCK_BYTES);
        reader.read_at(start as u64 * BLOCK, &mut part).unwrap();
        assert_eq!(part[..], bytes[start * BLOCK_BYTES..(start + blocks) * BLOCK_BYTES]);
    }
    assert_eq!(disk.read("a", 40 * BLOCK).unwrap(), bytes, "the same for who reads it plainly");
    disk.remove("a").unwrap();
    reader.read_at(5 * BLOCK, &mut block[..BLOCK_BYTES]).unwrap();
}

fn memory_need_not_be_aligned(disk: &dyn Disk) {
    // Larger than the buffer for unaligned memory.
    let bytes = pattern(300 * BLOCK_BYTES + 1);
    let file = disk.create_direct("a", 300 * BLOCK).unwrap();
    file.write_at(0, &bytes[1..]).unwrap();
    let mut read = vec![0; bytes.len()];
    file.read_at(0, &mut read[1..]).unwrap();
    assert_eq!(read[1..], bytes[1..]);
    disk.remove("a").unwrap();
}

fn a_direct_file_ends_anywhere(disk: &dyn Disk) {
    let (file, bytes) = direct(disk, "a", 4);
    let end = 3 * BLOCK_BYTES + 777;
    file.truncate(end as u64).unwrap();
    file.sync().unwrap();
    assert_eq!(file.len().unwrap(), end as u64);
    assert_eq!(disk.read("a", 4 * BLOCK).unwrap(), bytes[..end]);
    let reader = disk.open_direct("a").unwrap();
    let mut buffer = Buffer::new(4 * BLOCK_BYTES);
    reader.read_at(0, &mut buffer[..3 * BLOCK_BYTES]).unwrap();
    assert_eq!(buffer[..3 * BLOCK_BYTES], bytes[..3 * BLOCK_BYTES]);
    for start in [0, 3, 4, 9] {
        let rest = (4 - start.min(3)) * BLOCK_BYTES;
        let short = reader.read_at(start as u64 * BLOCK, &mut buffer[..rest]).unwrap_err();
        assert_eq!(short.kind(), ErrorKind::UnexpectedEof, "from block {start}: {short}");
    }
    disk.remove("a").unwrap();
}

fn only_whole_blocks_are_admitted(disk: &dyn Disk) {
    let (file, bytes) = direct(disk, "a", 2);
    let plain = filled(disk, "b", &bytes);
    let panics = |call: &mut dyn FnMut()| panic::catch_unwind(AssertUnwindSafe(call)).is_err();
    let mut buffer = Buffer::new(BLOCK_BYTES);
    for (offset, length) in [(1, BLOCK_BYTES), (0, 512), (512, BLOCK_BYTES)] {
        assert!(panics(&mut || drop(file.read_at(offset, &mut buffer[..length]))));
        assert!(panics(&mut || drop(file.write_at(offset, &buffer[..length]))));
        plain.read_at(offset, &mut buffer[..length]).unwrap();
    }
    assert_eq!(disk.read("a", 2 * BLOCK).unwrap(), bytes);
    ["a", "b"].iter().for_each(|name| disk.remove(name).unwrap());
}

fn too_much_room_is_refused(disk: &dyn Disk) {
    let error = disk.create_direct("a", 1 << 60).unwrap_err();
    let message = error.to_string();
    assert!(message.contains(&format!("{} bytes", 1u64 << 60)), "{message}");
    assert!(message.contains(&disk.path().join("a").display().to_string()), "{message}");
    assert!(!disk.exists("a").unwrap(), "the name is free again");
}
