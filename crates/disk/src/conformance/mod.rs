//! The promises of every disk, as tests for any implementation.

#![expect(clippy::unwrap_used, reason = "a suite of tests: a failure is a panic")]

mod direct;
mod directories;
mod fixtures;
mod handles;
mod locks;
mod order;
mod queues;

use std::io::ErrorKind;

use self::fixtures::{filled, pattern};
use crate::buffer::Buffer;
use crate::disk::{Disk, copy};

/// Runs the whole suite on `disk`, an empty directory.
///
/// # Panics
/// If a promise is broken.
pub fn run(disk: &dyn Disk) {
    names_come_and_go(disk);
    bytes_come_back(disk);
    a_removed_file_stays_readable(disk);
    a_rename_replaces(disk);
    files_go_into_other_directories(disk);
    a_copy_is_whole_and_never_replaces(disk);
    lengths_are_set(disk);
    directories::run(disk);
    locks::run(disk);
    direct::run(disk);
    queues::run(disk);
    order::run(disk);
    handles::run(disk);
    assert_eq!(disk.list().unwrap(), Vec::<String>::new(), "every test cleans up");
}

fn names_come_and_go(disk: &dyn Disk) {
    assert_eq!(disk.list().unwrap(), Vec::<String>::new());
    assert!(!disk.exists("b").unwrap());
    for name in ["b", "a", "c"] {
        filled(disk, name, name.as_bytes());
    }
    assert_eq!(disk.list().unwrap(), ["a", "b", "c"]);
    assert!(disk.exists("b").unwrap());
    assert_eq!(disk.create("b").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.open("d").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.remove("d").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.rename("d", "e").unwrap_err().kind(), ErrorKind::NotFound);
    for bad in ["", "..", "../x", "/x", "x/.."] {
        assert_eq!(disk.create(bad).unwrap_err().kind(), ErrorKind::InvalidInput, "{bad}");
    }
    disk.sync_directory().unwrap();
    ["a", "b", "c"].iter().for_each(|name| disk.remove(name).unwrap());
}

fn bytes_come_back(disk: &dyn Disk) {
    let bytes = pattern(10_000);
    let file = filled(disk, "a", &bytes);
    file.write_at(4_000, b"in the middle").unwrap();
    file.write_at(12_000, b"beyond the end").unwrap();
    file.sync().unwrap();
    assert_eq!(file.len().unwrap(), 12_014);
    let mut expected = bytes;
    expected[4_000..4_013].copy_from_slice(b"in the middle");
    expected.resize(12_000, 0);
    expected.extend_from_slice(b"beyond the end");
    assert_eq!(disk.read("a", 12_014).unwrap(), expected);
    let too_large = disk.read("a", 12_013).unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::InvalidData);
    let mut part = [0; 14];
    disk.open("a").unwrap().read_at(12_000, &mut part).unwrap();
    assert_eq!(&part, b"beyond the end");
    let short = file.read_at(12_001, &mut part).unwrap_err();
    assert_eq!(short.kind(), ErrorKind::UnexpectedEof);
    let message = short.to_string();
    assert!(message.contains("12001") && message.contains("14 bytes"), "{message}");
    file.read_at(20_000, &mut []).unwrap_or_default();
    disk.remove("a").unwrap();
}

fn a_removed_file_stays_readable(disk: &dyn Disk) {
    filled(disk, "a", b"still there");
    let file = disk.open("a").unwrap();
    disk.remove("a").unwrap();
    let mut bytes = [0; 11];
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"still there");
    assert!(!disk.exists("a").unwrap());
}

fn a_rename_replaces(disk: &dyn Disk) {
    filled(disk, "new", b"new");
    filled(disk, "old", b"older");
    disk.rename("new", "old").unwrap();
    assert_eq!(disk.list().unwrap(), ["old"]);
    assert_eq!(disk.read("old", 9).unwrap(), b"new");
    disk.rename("old", "below/old").unwrap();
    assert_eq!(disk.list().unwrap(), Vec::<String>::new());
    assert!(disk.exists("below/old").unwrap());
    disk.rename("below/old", "back").unwrap();
    assert_eq!(disk.read("back", 9).unwrap(), b"new");
    disk.remove("back").unwrap();
}

fn files_go_into_other_directories(disk: &dyn Disk) {
    let path = disk.path().join("other").join("deeper");
    assert_eq!(disk.directory(&path).unwrap_err().kind(), ErrorKind::NotFound);
    let other = disk.create_directory(&path).unwrap();
    disk.create_directory(&path).unwrap();
    assert_eq!(other.path(), path);
    filled(disk, "a", b"linked").sync().unwrap();
    disk.link_into("a", &path).unwrap();
    other.sync_directory().unwrap();
    assert_eq!(disk.link_into("a", &path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let missing = disk.link_into("b", &path).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let source = disk.path().join("b").display().to_string();
    assert!(missing.to_string().contains(&source), "it is {source} that is missing: {missing}");
    disk.link_as("a", &path, "b").unwrap();
    assert_eq!(disk.link_as("a", &path, "b").unwrap_err().kind(), ErrorKind::AlreadyExists);
    disk.remove("a").unwrap();
    assert_eq!(other.read("b", 9).unwrap(), b"linked");
    other.remove("b").unwrap();
    assert_eq!(disk.directory(&path).unwrap().read("a", 9).unwrap(), b"linked");
    other.link_into("a", disk.path()).unwrap();
    other.remove("a").unwrap();
    assert_eq!(disk.read("a", 9).unwrap(), b"linked");
    disk.remove("a").unwrap();
}

fn a_copy_is_whole_and_never_replaces(disk: &dyn Disk) {
    let bytes = pattern(3 << 20 | 4096);
    let from = disk.create_direct("from", bytes.len() as u64).unwrap();
    let mut buffer = Buffer::new(bytes.len());
    buffer.copy_from_slice(&bytes);
    from.write_at(0, &buffer).unwrap();
    // The source need not have a name any more.
    disk.remove("from").unwrap();
    copy(&*from, disk, "to").unwrap();
    assert!(disk.read("to", u64::MAX).unwrap() == bytes);
    filled(disk, "small", b"small");
    let error = copy(&*disk.open("small").unwrap(), disk, "to").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.open("to").unwrap().len().unwrap(), bytes.len() as u64);
    copy(&*disk.open("small").unwrap(), disk, "third").unwrap();
    assert_eq!(disk.read("third", 9).unwrap(), b"small");
    for name in ["small", "to", "third"] {
        disk.remove(name).unwrap();
    }
}

fn lengths_are_set(disk: &dyn Disk) {
    let bytes = pattern(10_000);
    let file = filled(disk, "a", &bytes);
    file.truncate(5_001).unwrap();
    assert_eq!(file.len().unwrap(), 5_001);
    assert_eq!(disk.read("a", 10_000).unwrap(), bytes[..5_001]);
    file.truncate(9_000).unwrap();
    let grown = disk.read("a", 10_000).unwrap();
    assert_eq!(grown[..5_001], bytes[..5_001]);
    assert!(grown.len() == 9_000 && grown[5_001..].iter().all(|byte| *byte == 0));
    assert!(disk.open("a").unwrap().truncate(1).is_err(), "it was opened for reading");
    file.truncate(0).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.read("a", 0).unwrap(), b"");
    disk.remove("a").unwrap();
}
