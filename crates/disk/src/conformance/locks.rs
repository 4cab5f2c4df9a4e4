//! Locks: exclusive or shared, and when they are released.

use crate::disk::Disk;

const NAME: &str = "a.lock";

pub(super) fn run(disk: &dyn Disk) {
    one_holder_keeps_all_others_out(disk);
    those_who_share_keep_out_who_would_be_alone(disk);
    a_lock_is_of_its_name_and_directory(disk);
    sharing_makes_no_file(disk);
}

fn free(disk: &dyn Disk) -> bool {
    disk.lock(NAME).unwrap().is_some()
}

/// The file may exist or not.
fn clean_up(disk: &dyn Disk) {
    if disk.exists(NAME).unwrap() {
        disk.remove(NAME).unwrap();
    }
}

fn one_holder_keeps_all_others_out(disk: &dyn Disk) {
    let held = disk.lock(NAME).unwrap();
    assert!(held.is_some());
    let again = disk.directory(disk.path()).unwrap();
    for disk in [disk, &*again] {
        assert!(disk.lock(NAME).unwrap().is_none());
        assert!(disk.lock_shared(NAME).unwrap().is_none());
    }
    // Only dropping the holder releases it.
    assert!(disk.lock(NAME).unwrap().is_none());
    drop(held);
    assert!(free(disk) && free(&*again), "what was left of it is no obstacle");
    clean_up(disk);
}

fn those_who_share_keep_out_who_would_be_alone(disk: &dyn Disk) {
    drop(disk.lock(NAME).unwrap());
    if !disk.exists(NAME).unwrap() {
        // Some disks have locks without files.
        disk.create(NAME).unwrap();
    }
    let first = disk.lock_shared(NAME).unwrap();
    let second = disk.lock_shared(NAME).unwrap();
    assert!(first.is_some() && second.is_some() && !free(disk));
    drop(first);
    assert!(!free(disk));
    drop(second);
    assert!(free(disk));
    clean_up(disk);
}

fn a_lock_is_of_its_name_and_directory(disk: &dyn Disk) {
    let other = disk.create_directory(&disk.path().join("other")).unwrap();
    let held = disk.lock(NAME).unwrap();
    assert!(free(&*other) && disk.lock("b.lock").unwrap().is_some());
    let held_there = other.lock(NAME).unwrap();
    assert!(held.is_some() && held_there.is_some());
    drop(held);
    assert!(free(disk) && !free(&*other));
    drop(held_there);
    clean_up(disk);
    clean_up(&*other);
    if disk.exists("b.lock").unwrap() {
        disk.remove("b.lock").unwrap();
    }
    assert!(disk.lock("../a.lock").is_err() && disk.lock_shared("").is_err());
}

fn sharing_makes_no_file(disk: &dyn Disk) {
    let shared = disk.lock_shared(NAME).unwrap();
    assert!(shared.is_some() && !disk.exists(NAME).unwrap());
}
