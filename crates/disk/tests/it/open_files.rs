//! Files that are closed and reopened, as the system sees them.

#![expect(clippy::unwrap_used, reason = "a test's helpers panic like the test")]

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use stepwell_disk::{
    BLOCK_BYTES, Disk, Engine, Error, File, FileDisk, OpenFiles, Operation, QueueOptions, Wait,
};

fn disk(path: &Path, bound: usize) -> FileDisk {
    FileDisk::with_open_files(path, Engine::Auto, OpenFiles::new(bound)).unwrap()
}

/// Opens other files until the first ones are closed.
fn use_others(disk: &FileDisk) {
    let bound = disk.open_files().unwrap().bound;
    let others: Vec<_> = (0..3 * bound).map(|_| disk.open("other").unwrap()).collect();
    others.iter().for_each(|file| assert_eq!(file.len().unwrap(), 5));
}

fn with_files(bound: usize) -> (tempfile::TempDir, FileDisk, Arc<dyn File>) {
    let directory = tempfile::tempdir().unwrap();
    let disk = disk(directory.path(), bound);
    for name in ["a", "other"] {
        disk.create(name).unwrap().write_at(0, name.repeat(5).as_bytes()).unwrap();
    }
    disk.create_direct("other-1", 0).unwrap();
    fs::write(directory.path().join("other"), b"other").unwrap();
    let file = disk.open("a").unwrap();
    (directory, disk, file)
}

fn reason(file: &Arc<dyn File>) -> (Operation, ErrorKind, String) {
    let error = file.read_at(0, &mut [0; 5]).unwrap_err();
    let message = error.to_string();
    let Error::Io { operation, source, .. } = error else { panic!("{message}") };
    (operation, source.kind(), message)
}

#[test]
fn a_file_that_somebody_else_replaced_is_an_error_that_says_so() {
    let (directory, disk, file) = with_files(2);
    // The new file probably gets the same inode number, but must differ in its time of birth.
    thread::sleep(Duration::from_millis(20));
    use_others(&disk);
    fs::remove_file(directory.path().join("a")).unwrap();
    fs::write(directory.path().join("a"), b"bbbbb").unwrap();
    let (operation, _, message) = reason(&file);
    assert_eq!(operation, Operation::Open);
    assert!(message.contains("another file in its place") && message.contains("/a:"), "{message}");
    assert!(file.len().is_err());
    // A queue reports the same for this operation only.
    let mut queue = disk.queue(QueueOptions { depth: 4, read_bytes: 1 << 16 }).unwrap();
    let whole = disk.open("other").unwrap();
    assert!(queue.read(1, &file, 0, BLOCK_BYTES).unwrap());
    assert!(queue.read(2, &whole, 0, BLOCK_BYTES).unwrap());
    let mut messages = Vec::new();
    while queue.in_flight() > 0 {
        let note = &mut |done: stepwell_disk::Done<'_>| {
            messages.push((done.token, done.outcome.unwrap_err().to_string()));
        };
        queue.complete(Wait::ForOne, note).unwrap();
    }
    messages.sort_unstable();
    assert!(messages[0].1.contains("another file in its place"), "{messages:?}");
    assert!(!messages[1].1.contains("another file"), "{messages:?}");
}

#[test]
fn a_file_that_somebody_else_removed_or_moved_is_one_too() {
    let (directory, disk, file) = with_files(2);
    use_others(&disk);
    fs::rename(directory.path().join("a"), directory.path().join("b")).unwrap();
    let (operation, kind, message) = reason(&file);
    assert_eq!((operation, kind), (Operation::Open, ErrorKind::NotFound));
    assert!(message.contains("another process removed or moved it"), "{message}");
    fs::rename(directory.path().join("b"), directory.path().join("a")).unwrap();
    file.read_at(0, &mut [0; 5]).unwrap();
    // While it is open, this is not noticed.
    fs::remove_file(directory.path().join("a")).unwrap();
    file.read_at(0, &mut [0; 5]).unwrap();
}

#[test]
fn the_bound_holds_whatever_is_held() {
    let (_directory, disk, _) = with_files(10);
    let files: Vec<_> = (0..500).map(|n| disk.create(&format!("file-{n}")).unwrap()).collect();
    for file in &files {
        file.write_at(0, b"some").unwrap();
    }
    files.iter().for_each(|file| file.sync().unwrap());
    let stats = disk.open_files().unwrap();
    assert_eq!((stats.bound, stats.most, stats.handles), (10, 10, 501 - 1));
    assert!(stats.opened_again >= 490, "{stats}");
    assert!(stats.to_string().contains("at most 10 at once (above 10 only while"), "{stats}");
    let held = open_here(disk.path());
    assert!(held <= 10, "the system knows of {held}");
}

/// Number of files below `path` that this process has open.
fn open_here(path: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
    links.filter(|link| fs::read_link(link.path()).is_ok_and(|to| to.starts_with(path))).count()
}

#[test]
fn disks_that_share_their_open_files_know_each_others_handles() {
    let directory = tempfile::tempdir().unwrap();
    let shared = OpenFiles::new(2);
    let open = |path: &Path| FileDisk::with_open_files(path, Engine::Pool, shared.clone()).unwrap();
    let (one, two) = (open(directory.path()), open(&directory.path().join(".")));
    one.create("other").unwrap().write_at(0, b"other").unwrap();
    one.create("a").unwrap().write_at(0, b"there").unwrap();
    let file = two.open("a").unwrap();
    use_others(&one);
    one.remove("a").unwrap();
    use_others(&one);
    file.read_at(0, &mut [0; 5]).unwrap();
    assert_eq!(shared.stats().kept, 1);
    drop(file);
    assert_eq!((shared.stats().kept, shared.stats().open), (0, 0));
}

#[test]
fn a_snapshots_files_are_not_kept_open_when_the_store_loses_its_own() {
    let (directory, disk, _) = with_files(2);
    let snapshot = disk.create_directory(&directory.path().join("snapshot")).unwrap();
    disk.link_into("a", snapshot.path()).unwrap();
    let file = snapshot.open("a").unwrap();
    disk.remove("a").unwrap();
    assert_eq!(disk.open_files().unwrap().kept, 0);
    use_others(&disk);
    file.read_at(0, &mut [0; 5]).unwrap();
}
