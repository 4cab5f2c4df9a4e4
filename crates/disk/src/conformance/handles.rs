//! Held files: many of them, and while their names change.

use std::io::ErrorKind;
use std::sync::Arc;
use std::thread;

use stepwell_base::random::Stream;

use super::direct::direct;
use super::fixtures::{filled, pattern};
use super::queues::{all, queue, some};
use crate::buffer::{BLOCK_BYTES, Buffer};
use crate::disk::Disk;
use crate::file::File;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// More than a test's disk has open at once.
const MANY: u64 = 24;

pub(super) fn run(disk: &dyn Disk) {
    many_are_held(disk);
    many_are_written_and_synced(disk);
    a_removed_file_is_kept_by_who_holds_it(disk);
    a_renamed_file_is_kept_by_who_holds_it(disk);
    a_file_in_a_renamed_directory_is_kept_by_who_holds_it(disk);
    a_file_in_a_removed_tree_is_kept_by_who_holds_it(disk);
    a_file_with_two_names_is_kept(disk);
    what_fails_changes_nothing(disk);
    a_queue_reads_many(disk);
    queues_do_not_wait_for_each_other(disk);
    names_come_and_go_under_many_threads(disk);
}

fn name(number: u64) -> String {
    format!("many-{number}")
}

/// Block `block` of file `number`.
fn block(number: u64, block: u64) -> [u8; BLOCK_BYTES] {
    [(number * 7 + block) as u8; BLOCK_BYTES]
}

/// Files of four blocks, every second one reopened only for reading.
fn many(disk: &dyn Disk) -> Vec<Arc<dyn File>> {
    let make = |number| {
        let file = disk.create_direct(&name(number), 4 * BLOCK).unwrap();
        (0..4).for_each(|at| file.write_at(at * BLOCK, &block(number, at)).unwrap());
        let read_alone = || disk.open_direct(&name(number)).unwrap();
        if number % 2 == 0 { file } else { read_alone() }
    };
    (0..MANY).map(make).collect()
}

fn holds(file: &Arc<dyn File>, number: u64, at: u64) {
    let mut buffer = Buffer::new(BLOCK_BYTES);
    file.read_at(at * BLOCK, &mut buffer).unwrap();
    assert!(buffer[..] == block(number, at), "block {at} of file {number}");
}

/// Uses other files, so that a file that need not stay open is closed.
fn use_others(files: &[Arc<dyn File>]) {
    files.iter().zip(0..).for_each(|(file, number)| holds(file, number, number % 4));
}

fn remove(disk: &dyn Disk) {
    (0..MANY).for_each(|number| disk.remove(&name(number)).unwrap());
}

fn many_are_held(disk: &dyn Disk) {
    let files = many(disk);
    let mut dice = Stream::from_state(3);
    for _ in 0..200 {
        let number = dice.next_u64() % MANY;
        holds(&files[number as usize], number, dice.next_u64() % 4);
        assert_eq!(files[number as usize].len().unwrap(), 4 * BLOCK);
    }
    remove(disk);
    use_others(&files);
}

fn many_are_written_and_synced(disk: &dyn Disk) {
    let files: Vec<_> = (0..MANY).map(|number| filled(disk, &name(number), b"first")).collect();
    for round in 1..4u8 {
        for file in &files {
            file.write_at(u64::from(round), &[round]).unwrap();
        }
        for file in files.iter().step_by(usize::from(round)) {
            file.sync().unwrap();
        }
    }
    for (file, number) in files.iter().zip(0..) {
        file.truncate(4 + number).unwrap();
        file.sync().unwrap();
        assert_eq!(disk.read(&name(number), 99).unwrap()[..4], [b'f', 1, 2, 3]);
        assert_eq!(file.len().unwrap(), 4 + number);
    }
    remove(disk);
}

fn a_removed_file_is_kept_by_who_holds_it(disk: &dyn Disk) {
    let others = many(disk);
    let (written, bytes) = direct(disk, "a", 4);
    let held = [written, disk.open_direct("a").unwrap(), disk.open("a").unwrap()];
    use_others(&others);
    disk.remove("a").unwrap();
    // A later file of the same name is not the held one.
    filled(disk, "a", &[1; 4 * BLOCK_BYTES]);
    use_others(&others);
    for file in &held {
        let mut read = Buffer::new(4 * BLOCK_BYTES);
        file.read_at(0, &mut read).unwrap();
        assert_eq!(read[..], bytes);
        assert_eq!(file.len().unwrap(), 4 * BLOCK);
        use_others(&others);
    }
    held[0].write_at(0, &[9; BLOCK_BYTES]).unwrap();
    held[0].sync().unwrap();
    use_others(&others);
    let mut byte = [0];
    held[2].read_at(7, &mut byte).unwrap();
    assert_eq!(byte, [9]);
    disk.remove("a").unwrap();
    remove(disk);
}

fn a_renamed_file_is_kept_by_who_holds_it(disk: &dyn Disk) {
    let others = many(disk);
    let moved = [filled(disk, "a", b"moved"), disk.open("a").unwrap()];
    let replaced = [filled(disk, "b", b"other"), disk.open("b").unwrap()];
    let holds_still = |files: &[Arc<dyn File>], expected: &[u8]| {
        use_others(&others);
        for file in files {
            let mut bytes = [0; 5];
            file.read_at(0, &mut bytes).unwrap();
            assert_eq!(bytes, expected);
        }
    };
    use_others(&others);
    disk.rename("a", "b").unwrap();
    filled(disk, "a", b"newer");
    holds_still(&moved, b"moved");
    holds_still(&replaced, b"other");
    disk.rename("b", "below/b").unwrap();
    holds_still(&moved, b"moved");
    disk.rename("below/b", "c").unwrap();
    moved[0].write_at(0, b"wrote").unwrap();
    holds_still(&moved, b"wrote");
    disk.remove("c").unwrap();
    holds_still(&moved, b"wrote");
    holds_still(&replaced, b"other");
    disk.remove("a").unwrap();
    remove(disk);
}

/// Files in a directory and in one below it, made and opened.
fn in_directories(disk: &dyn Disk) -> Vec<Arc<dyn File>> {
    let path = disk.path().join("tree");
    let directories = [&path, &path.join("below")].map(|path| disk.create_directory(path).unwrap());
    let made = directories.iter().map(|directory| filled(&**directory, "a", b"inside"));
    let mut held: Vec<_> = made.collect();
    held.extend(directories.iter().map(|directory| directory.open("a").unwrap()));
    held
}

fn hold_inside(files: &[Arc<dyn File>], others: &[Arc<dyn File>]) {
    use_others(others);
    for file in files {
        let mut bytes = [0; 6];
        file.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"inside");
    }
}

fn a_file_in_a_renamed_directory_is_kept_by_who_holds_it(disk: &dyn Disk) {
    let others = many(disk);
    let held = in_directories(disk);
    use_others(&others);
    disk.rename("tree", "renamed").unwrap();
    hold_inside(&held, &others);
    assert_eq!(disk.rename("none", "other").unwrap_err().kind(), ErrorKind::NotFound);
    disk.rename("renamed", "set/aside").unwrap();
    hold_inside(&held, &others);
    // Names below follow, too: a later removal finds the files.
    let aside = disk.directory(&disk.path().join("set/aside")).unwrap();
    aside.remove("a").unwrap();
    hold_inside(&held, &others);
    disk.remove_tree(&disk.path().join("set")).unwrap();
    hold_inside(&held, &others);
    remove(disk);
}

fn a_file_in_a_removed_tree_is_kept_by_who_holds_it(disk: &dyn Disk) {
    let others = many(disk);
    let held = in_directories(disk);
    use_others(&others);
    disk.remove_tree(&disk.path().join("tree")).unwrap();
    // Later files of the same names are not the held ones.
    let later = in_directories(disk);
    later.iter().for_each(|file| file.write_at(0, b"second").unwrap_or_default());
    hold_inside(&held, &others);
    drop(later);
    disk.remove_tree(&disk.path().join("tree")).unwrap();
    assert_eq!(
        disk.remove_tree(&disk.path().join("tree")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    remove(disk);
}

fn a_file_with_two_names_is_kept(disk: &dyn Disk) {
    let others = many(disk);
    let path = disk.path().join("other");
    let other = disk.create_directory(&path).unwrap();
    let file = filled(disk, "a", b"one of two");
    file.sync().unwrap();
    disk.link_into("a", &path).unwrap();
    let held = [file, disk.open("a").unwrap(), other.open("a").unwrap()];
    let holds_still = || {
        use_others(&others);
        for file in &held {
            let mut bytes = [0; 10];
            file.read_at(0, &mut bytes).unwrap();
            assert_eq!(&bytes, b"one of two");
        }
    };
    holds_still();
    disk.remove("a").unwrap();
    holds_still();
    filled(disk, "a", b"another");
    other.remove("a").unwrap();
    holds_still();
    disk.remove("a").unwrap();
    remove(disk);
}

fn what_fails_changes_nothing(disk: &dyn Disk) {
    let others = many(disk);
    let file = filled(disk, "a", b"unchanged");
    use_others(&others);
    assert_eq!(disk.rename("none", "a").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.remove("none").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.create("a").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.create_direct("a", BLOCK).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(disk.create_direct("b", 1 << 60).is_err());
    use_others(&others);
    let mut bytes = [0; 9];
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"unchanged");
    disk.remove("a").unwrap();
    remove(disk);
}

fn a_queue_reads_many(disk: &dyn Disk) {
    let files = many(disk);
    let mut queue = queue(disk, 64, 64);
    let mut check = |token: u64, outcome: crate::Result<&[u8]>| {
        assert!(outcome.unwrap() == block(token >> 8, token & 255), "{token:x}");
    };
    for at in 0..4 {
        for (file, number) in files.iter().zip(0..) {
            while !queue.read(number << 8 | at, file, at * BLOCK, BLOCK_BYTES).unwrap() {
                some(&mut *queue, &mut check);
            }
        }
    }
    all(&mut *queue, &mut check);
    let mut buffer = Buffer::new(BLOCK_BYTES);
    buffer.fill(250);
    let buffer = Arc::new(buffer);
    for file in files.iter().step_by(2) {
        while !queue.write(0, file, BLOCK, &buffer, BLOCK_BYTES).unwrap() {
            some(&mut *queue, &mut |_, outcome| assert!(outcome.is_ok()));
        }
    }
    all(&mut *queue, &mut |_, outcome| assert!(outcome.is_ok()));
    for (file, number) in files.iter().zip(0..).step_by(2) {
        let mut read = [0; BLOCK_BYTES];
        file.read_at(BLOCK, &mut read).unwrap();
        assert!(read.iter().all(|byte| *byte == 250), "{number}");
        file.sync().unwrap();
    }
    remove(disk);
}

/// One thread fills several queues and completes the first one last.
fn queues_do_not_wait_for_each_other(disk: &dyn Disk) {
    let files = many(disk);
    let mut queues: Vec<_> = (0..3).map(|_| queue(disk, 16, 16)).collect();
    for (queue, files) in queues.iter_mut().zip(files.chunks(8)) {
        assert!(queue.read(0, &files[0], 0, BLOCK_BYTES).unwrap(), "there is always room for one");
        for file in &files[1..] {
            let _ = queue.read(0, file, 0, BLOCK_BYTES).unwrap();
        }
    }
    let mut byte = [0; BLOCK_BYTES];
    files[23].read_at(0, &mut byte).unwrap();
    for queue in queues.iter_mut().rev() {
        all(&mut **queue, &mut |_, outcome| assert!(outcome.is_ok()));
    }
    remove(disk);
}

fn names_come_and_go_under_many_threads(disk: &dyn Disk) {
    let files = many(disk);
    let bytes = pattern(5_000);
    thread::scope(|scope| {
        for seed in 0..3 {
            let files = &files;
            scope.spawn(move || {
                let mut dice = Stream::from_state(seed);
                for _ in 0..300 {
                    let number = dice.next_u64() % MANY;
                    holds(&files[number as usize], number, dice.next_u64() % 4);
                }
            });
        }
        for thread in 0..3 {
            let bytes = &bytes;
            scope.spawn(move || {
                let mut held = Vec::new();
                for round in 0..20 {
                    let (old, new) = (format!("old-{thread}"), format!("new-{thread}"));
                    filled(disk, &old, bytes);
                    held.push(disk.open(&old).unwrap());
                    disk.rename(&old, &new).unwrap();
                    held.push(disk.open(&new).unwrap());
                    if round % 2 == 0 {
                        disk.remove(&new).unwrap();
                    }
                    for file in &held {
                        let mut read = vec![0; bytes.len()];
                        file.read_at(0, &mut read).unwrap();
                        assert!(read == *bytes, "round {round}");
                    }
                    held.drain(..held.len().saturating_sub(6));
                }
                disk.remove(&format!("new-{thread}")).unwrap();
            });
        }
    });
    remove(disk);
}
