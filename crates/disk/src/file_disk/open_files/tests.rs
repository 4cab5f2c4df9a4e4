use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::*;

fn make(files: &OpenFiles, path: PathBuf) -> Holder {
    files.open_with(path, Mode::NEW, |path| fs::File::create_new(path)).unwrap()
}

/// A file that accepts writes but cannot be synced.
fn unsyncable(files: &OpenFiles) -> Holder {
    let open = |_: &Path| UnixStream::pair().map(|(one, _)| OwnedFd::from(one).into());
    files.open_with(PathBuf::from("unsyncable"), Mode::NEW, open).unwrap()
}

#[test]
fn the_bound_is_a_part_of_the_limit() {
    assert_eq!([24, 64, 256, 20_000].map(|limit| part_of(Some(limit))), [8, 21, 85, 4096]);
    assert_eq!((part_of(Some(0)), part_of(None)), (8, 4096));
    assert!(OpenFiles::of_process().stats().bound >= 8);
}

#[test]
fn a_failed_sync_at_closing_is_told_by_the_next_sync() {
    let directory = tempfile::tempdir().unwrap();
    let files = OpenFiles::new(1);
    let file = unsyncable(&files);
    drop(file.descriptor(Access::Write).unwrap());
    // Opening another file forces this one to be synced and closed.
    let other = make(&files, directory.path().join("other"));
    assert_eq!(files.stats().open, 1);
    let error = file.sync().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    file.sync().unwrap();
    other.sync().unwrap();
}

#[test]
fn a_failed_sync_is_not_forgotten_when_it_is_closed_later() {
    let directory = tempfile::tempdir().unwrap();
    let files = OpenFiles::new(1);
    let file = unsyncable(&files);
    assert!(file.sync().is_err());
    drop(make(&files, directory.path().join("other")));
    assert!(file.sync().is_err(), "it was never synced");
}

#[test]
fn what_is_synced_goes_before_what_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let files = OpenFiles::new(3);
    let file = |name: &str| make(&files, directory.path().join(name));
    let held = ["a", "b", "c"].map(file);
    held[1].sync().unwrap();
    let before = files.stats();
    let fourth = file("d");
    assert!(held[1].handle.lock().opened.is_none() && held[0].handle.lock().opened.is_some());
    assert_eq!((before.open, files.stats().open, files.stats().most), (3, 3, 3));
    drop((held, fourth));
    assert_eq!((files.stats().open, files.stats().handles), (0, 0));
}

#[test]
fn a_file_in_use_stays_open_and_those_who_can_wait_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let files = OpenFiles::new(2);
    let file = |name: &str| make(&files, directory.path().join(name));
    let (a, b) = (file("a"), file("b"));
    let in_use = [&a, &b].map(|file| file.descriptor(Access::Read).unwrap());
    let c = file("c");
    let third = c.descriptor_if_idle(Access::Read).unwrap();
    assert!(third.is_some() && files.stats().open == 3, "it was opened to be made");
    drop(third);
    let d = file("d");
    assert_eq!(files.stats().open, 3, "of those that are idle none is beyond the bound");
    assert!(c.descriptor_if_idle(Access::Read).unwrap().is_none());
    drop(c.descriptor(Access::Read).unwrap());
    drop(in_use);
    assert!(c.descriptor_if_idle(Access::Read).unwrap().is_some());
    drop(d.descriptor(Access::Read).unwrap());
    assert_eq!(files.stats().open, 2);
}

#[test]
fn no_handle_is_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let files = OpenFiles::new(4);
    for round in 0..1000 {
        let path = directory.path().join("a");
        let file = make(&files, path.clone());
        if round % 2 == 0 {
            files.rename(&path, &directory.path().join("b")).unwrap();
        } else {
            files.remove(&path).unwrap();
        }
        drop(file);
    }
    let OpenFilesStats { open, kept, handles, most, .. } = files.stats();
    assert_eq!((open, kept, handles, most), (0, 0, 0, 1));
    assert!(lock(&files.0.circle).idle().is_none());
}

#[test]
fn a_write_counts_as_unsynced_from_its_end_to_a_sync() {
    let directory = tempfile::tempdir().unwrap();
    let files = OpenFiles::new(2);
    let path = directory.path().join("a");
    let file = make(&files, path.clone());
    let is_unsynced = |file: &Holder| file.handle.lock().opened.as_ref().unwrap().is_unsynced();
    assert!(is_unsynced(&file), "it is new");
    file.sync().unwrap();
    assert!(!is_unsynced(&file));
    let writing = file.descriptor(Access::Write).unwrap();
    // A concurrent sync may miss it.
    file.sync().unwrap();
    drop(writing);
    assert!(is_unsynced(&file));
    file.sync().unwrap();
    drop(file.descriptor(Access::Read).unwrap());
    assert!(!is_unsynced(&file));
    let reader = files.open_with(path, Mode::READ, |path| fs::File::open(path)).unwrap();
    drop(reader.descriptor(Access::Write).unwrap());
    assert!(!is_unsynced(&reader), "nothing can be written through it");
}

#[test]
fn a_number_that_is_given_again_makes_no_other_file_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let file = make(&OpenFiles::new(1), path.clone());
    let mut found = Identity::at(&path).unwrap();
    assert!(
        found == file.handle.identity && found.born == fs::metadata(path).unwrap().created().ok()
    );
    found.born = Some(std::time::SystemTime::UNIX_EPOCH);
    assert!(found != file.handle.identity);
}
