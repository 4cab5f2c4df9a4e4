//! What every disk promises, as tests that any implementation can run.

#![expect(clippy::unwrap_used, reason = "a suite of tests: a failure is a panic")]

use std::io::ErrorKind;
use std::sync::Arc;

use crate::{Disk, File, Read};

/// Runs the whole suite on `disk`, an empty directory.
///
/// # Panics
/// On the first promise that does not hold.
pub fn run(disk: &dyn Disk) {
    names_come_and_go(disk);
    bytes_come_back(disk);
    a_removed_file_stays_readable(disk);
    a_rename_replaces(disk);
    files_go_into_other_directories(disk);
    reads_are_completed_apart(disk);
    failing_reads_fail_their_ticket_alone(disk);
    tickets_of_several_threads(disk);
    assert_eq!(disk.list().unwrap(), Vec::<String>::new(), "every test cleans up");
}

/// Bytes that differ from place to place.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n.wrapping_mul(2_654_435_761) >> 7) as u8).collect()
}

fn filled(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file
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
    assert_eq!(disk.link_into("b", &path).unwrap_err().kind(), ErrorKind::NotFound);
    disk.remove("a").unwrap();
    assert_eq!(disk.directory(&path).unwrap().read("a", 9).unwrap(), b"linked");
    other.link_into("a", disk.path()).unwrap();
    other.remove("a").unwrap();
    assert_eq!(disk.read("a", 9).unwrap(), b"linked");
    disk.remove("a").unwrap();
}

/// Reads of `bytes` bytes each at the given offsets.
fn reads(file: &Arc<dyn File>, offsets: impl Iterator<Item = u64>, bytes: usize) -> Vec<Read> {
    let read = |offset| Read { file: Arc::clone(file), offset, buffer: vec![0; bytes] };
    offsets.map(read).collect()
}

fn assert_filled(done: &[Read], bytes: &[u8]) {
    for read in done {
        let start = read.offset as usize;
        assert_eq!(read.buffer, bytes[start..start + read.buffer.len()], "offset {start}");
    }
}

fn reads_are_completed_apart(disk: &dyn Disk) {
    let bytes = pattern(100_000);
    let file = filled(disk, "a", &bytes);
    let offsets = |from: u64| (0..500).map(move |n| (n * 7_919 + from) % 99_000);
    let tickets: Vec<_> =
        (0..4).map(|from| disk.submit(reads(&file, offsets(from), 777)).unwrap()).collect();
    for (from, ticket) in tickets.into_iter().enumerate().rev() {
        let done = ticket.wait().unwrap();
        assert!(
            done.iter().map(|read| read.offset).eq(offsets(from as u64)),
            "order of submission"
        );
        assert_filled(&done, &bytes);
    }
    assert!(disk.submit(Vec::new()).unwrap().wait().unwrap().is_empty());
    drop(disk.submit(reads(&file, offsets(9), 100)).unwrap());
    disk.remove("a").unwrap();
}

fn failing_reads_fail_their_ticket_alone(disk: &dyn Disk) {
    let bytes = pattern(5_000);
    let file = filled(disk, "a", &bytes);
    let bad = disk.submit(reads(&file, [0, 4_900, 100, 4_990].into_iter(), 200)).unwrap();
    let good = disk.submit(reads(&file, [0, 4_800, 100].into_iter(), 200)).unwrap();
    let error = bad.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert!(error.to_string().contains("4900"), "the first in order: {error}");
    assert_filled(&good.wait().unwrap(), &bytes);
    disk.remove("a").unwrap();
}

fn tickets_of_several_threads(disk: &dyn Disk) {
    let bytes = pattern(50_000);
    let file = filled(disk, "a", &bytes);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                for round in 0..10 {
                    let offsets = (0..50).map(|n| (n * 911 + thread * 37 + round) % 49_000);
                    let ticket = disk.submit(reads(file, offsets, 512)).unwrap();
                    assert_filled(&ticket.wait().unwrap(), bytes);
                }
            });
        }
    });
    disk.remove("a").unwrap();
}
