//! Directories survive a crash once their names are synced, and every operation that promises this
//! syncs them.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_disk::{
    Disk, EntryKind, Failure, Faults, FaultyDisk, Lasting, MemDisk, Operation, Survival,
};

fn write_synced(disk: &dyn Disk, name: &str, bytes: &[u8]) {
    let file = disk.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
}

/// Every kind of crash, including some random ones.
fn survivals() -> impl Iterator<Item = Survival> {
    [Survival::SyncedAlone, Survival::Everything].into_iter().chain((0..20).map(Survival::Torn))
}

/// Cuts the power after every change that `work` makes in a new world, and judges the result of
/// every kind of crash: the world, and whether the work was done. Returns the number of cuts.
fn cut_each(
    before: &dyn Fn(&dyn Disk),
    work: &dyn Fn(&dyn Disk) -> stepwell_disk::Result<()>,
    judge: &dyn Fn(&MemDisk, bool),
) -> u64 {
    for cut_after in 0.. {
        let world = MemDisk::new();
        before(&world);
        let faults = Faults { cut_after: Some(cut_after), ..Faults::default() };
        let done = work(&FaultyDisk::new(Arc::new(world.clone()), faults)).is_ok();
        survivals().for_each(|survival| judge(&world.crash(survival), done));
        if done {
            return cut_after;
        }
    }
    unreachable!("work ends")
}

#[test]
fn a_directory_without_a_synced_name_is_lost_with_all_below() {
    let disk = MemDisk::new();
    let path = disk.path().join("new");
    disk.make_directory(&path).unwrap();
    let inside = disk.directory(&path).unwrap();
    inside.make_directory(&path.join("below")).unwrap();
    write_synced(&*inside.directory(&path.join("below")).unwrap(), "a", b"a");
    write_synced(&*inside, "b", b"b");
    inside.directory(&path.join("below")).unwrap().sync_directory().unwrap();
    inside.sync_directory().unwrap();
    assert_eq!(disk.crash(Survival::SyncedAlone).entries().unwrap(), []);
    let all = disk.crash(Survival::Everything);
    assert_eq!(all.entries().unwrap(), [("new".to_owned(), EntryKind::Directory)]);
    let mut left = [0; 2];
    for seed in 0..50 {
        let torn = disk.crash(Survival::Torn(seed));
        left[usize::from(torn.exists("new/below/a").unwrap())] += 1;
        assert_eq!(torn.exists("new").unwrap(), torn.exists("new/below/a").unwrap());
    }
    assert!(left.iter().all(|count| *count > 10), "{left:?}");
    disk.sync_directory().unwrap();
    let after = disk.crash(Survival::SyncedAlone);
    assert_eq!(after.directory(&path.join("below")).unwrap().read("a", 9).unwrap(), b"a");
}

#[test]
fn the_removal_of_a_directory_is_durable_once_synced() {
    let disk = MemDisk::new();
    let path = disk.path().join("old");
    let inside = disk.create_directory(&path).unwrap();
    write_synced(&*inside, "a", b"a");
    inside.sync_directory().unwrap();
    disk.remove_tree(&path).unwrap();
    let after = disk.crash(Survival::SyncedAlone);
    assert_eq!(after.directory(&path).unwrap().read("a", 9).unwrap(), b"a");
    disk.sync_directory().unwrap();
    assert!(!disk.crash(Survival::SyncedAlone).exists("old").unwrap());
}

#[test]
fn a_directory_keeps_its_identity_through_crashes_and_names() {
    let disk = MemDisk::new();
    let (one, other) = (disk.path().join("one"), disk.path().join("other"));
    disk.create_directory(&one).unwrap();
    let identity = disk.identity(&one).unwrap();
    disk.rename("one", "other").unwrap();
    let after = disk.crash(Survival::SyncedAlone);
    assert_eq!(after.identity(&other).unwrap(), identity);
    after.create_directory(&one).unwrap();
    assert_ne!(after.identity(&one).unwrap(), identity, "no number is given twice");
}

/// A directory made with its parents exists after a crash, with everything synced below it.
#[test]
fn what_is_made_with_its_parents_is_durable() {
    let path = PathBuf::from("/made/with/parents");
    let work = |disk: &dyn Disk| {
        let inside = disk.create_directory(&path)?;
        let file = inside.create("a")?;
        file.write_at(0, b"a")?;
        file.sync()?;
        inside.sync_directory()
    };
    let cuts = cut_each(&|_| (), &work, &|world, done| {
        let found = world.directory(&path).and_then(|inside| inside.read("a", 9));
        assert!(!done || found.unwrap() == b"a");
        // The directory can be made again, whatever part of its path exists.
        world.create_directory(&path).unwrap();
    });
    assert_eq!(cuts, 3 * 2 + 4);
}

/// A name moves to another directory, made for it, and is always in one of the two.
#[test]
fn what_is_set_aside_is_there_or_there() {
    let before = |disk: &dyn Disk| {
        write_synced(disk, "file", b"a");
        let path = disk.path().join("directory");
        write_synced(&*disk.create_directory(&path).unwrap(), "file", b"a");
        disk.directory(&path).unwrap().sync_directory().unwrap();
        disk.sync_directory().unwrap();
    };
    for (name, file) in [("file", ""), ("directory", "/file")] {
        let to = format!("set/aside/{name}");
        let work = |disk: &dyn Disk| disk.rename(name, &to);
        let cuts = cut_each(&before, &work, &|world, done| {
            let whole = |name: &str| world.read(&format!("{name}{file}"), 9).is_ok();
            assert!(whole(name) != whole(&to), "{name} is in one place");
            assert!(!done || whole(&to));
        });
        assert_eq!(cuts, 2 * 2 + 1);
        let back = |disk: &dyn Disk| disk.rename(&to, name);
        let aside = |disk: &dyn Disk| {
            before(disk);
            disk.rename(name, &to).unwrap();
        };
        let cuts = cut_each(&aside, &back, &|world, done| {
            let whole = |name: &str| world.read(&format!("{name}{file}"), 9).is_ok();
            assert!(whole(name) != whole(&to) && (!done || whole(name)));
        });
        assert_eq!(cuts, 1);
    }
}

/// A directory whose name could not be synced is not considered durable by the next attempt.
#[test]
fn a_directory_that_could_not_be_synced_is_made_again() {
    let world = MemDisk::new();
    let path = Path::new("/a/b");
    for after in 0..2 {
        let (kind, lasting) = (ErrorKind::Other, Lasting::Once);
        let operation = Some(Operation::SyncDirectory);
        let failure = Some(Failure { operation, after, kind, lasting });
        let faults = Faults { failure, ..Faults::default() };
        let disk = FaultyDisk::new(Arc::new(world.clone()), faults);
        assert_eq!(disk.create_directory(path).unwrap_err().kind(), ErrorKind::Other);
        assert!(world.directory(path).is_err());
    }
    world.create_directory(path).unwrap();
    assert!(world.crash(Survival::SyncedAlone).directory(path).is_ok());
}
