//! Files that were set aside are counted, and removed on request, but nothing else.

use std::path::Path;
use std::sync::Arc;

use stepwell_disk::{Disk, FileDisk, MemDisk};
use stepwell_ssd::{Aside, Error, LOCK_NAME, MANIFEST_NAME, Store, check};

use crate::common::{get, names, options, payload, put, reopen};
use crate::harness::shared;

const ASIDE: &str = "set-aside";

/// A store over two directories, with unnamed segments set aside in both.
fn with_unnamed(world: &dyn Disk) -> Vec<Arc<dyn Disk>> {
    let made = |path: &str| world.create_directory(&world.path().join(path)).unwrap();
    let disks = vec![made("home"), made("second")];
    let store = Store::create_over(disks.clone(), options()).unwrap();
    put(&store, &(0..100).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    store.commit().unwrap();
    put(&store, &(100..400).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    drop(store);
    drop(Store::open_over(disks.clone(), options()).unwrap());
    disks
}

fn write(disk: &dyn Disk, name: &str) {
    disk.create(name).unwrap().write_at(0, b"12345").unwrap();
}

#[test]
fn what_was_set_aside_is_counted_and_goes_when_asked() {
    let world = MemDisk::new();
    let disks = with_unnamed(&world);
    let aside: Vec<String> = disks.iter().flat_map(|disk| names(&**disk, ASIDE)).collect();
    assert!(aside.len() > 4 && disks.iter().all(|disk| !names(&**disk, ASIDE).is_empty()));
    let before: Vec<Vec<String>> = disks.iter().map(|disk| disk.list().unwrap()).collect();
    let checked = check(&disks).unwrap().aside;
    let store = Store::open_over(disks.clone(), options()).unwrap();
    let stats = store.stats();
    assert_eq!(stats.files_set_aside, aside.len() as u64);
    assert!(stats.bytes_set_aside > 4096);
    let counted =
        Aside { files: stats.files_set_aside, bytes: stats.bytes_set_aside, others: Vec::new() };
    assert_eq!(checked, counted);
    let refused = Store::purge(&disks);
    assert!(matches!(refused, Err(Error::InUse { .. })), "{refused:?}");
    drop(store);
    assert_eq!(Store::purge(&disks).unwrap(), counted);
    assert_eq!(Store::purge(&disks).unwrap(), Aside::default());
    assert!(disks.iter().all(|disk| names(&**disk, ASIDE).is_empty()));
    let after: Vec<Vec<String>> = disks.iter().map(|disk| disk.list().unwrap()).collect();
    assert_eq!(after, before, "nothing else is touched");
    assert_eq!(check(&disks).unwrap().damages, []);
    let store = Store::open_over(disks, options()).unwrap();
    assert_eq!((store.stats().files_set_aside, store.stats().bytes_set_aside), (0, 0));
    assert_eq!(get(&store, &[7]).unwrap(), [Some(payload(7, 7))]);
}

#[test]
fn what_others_put_there_is_named_and_stays() {
    let world = MemDisk::new();
    drop(Store::create(shared(&world), options()).unwrap());
    let aside = world.create_directory(&world.path().join(ASIDE)).unwrap();
    let ours = [
        "manifest.json",
        "manifest.json.2",
        "segment-000000000017.rows",
        "segment-000000000017.rows.12",
    ];
    let others = [
        "manifest.json-mine",
        "manifest.json.old",
        "notes",
        "segment-000000000017.rows-mine",
        "segment-000000000017.rows.",
        "segment-000000000017.rows.tar",
    ];
    ours.iter().chain(&others).for_each(|name| write(&*aside, name));
    let below = "segment-000000000018.rows";
    aside.create_directory(&aside.path().join(below)).unwrap();
    let purged = Store::purge(&[shared(&world)]).unwrap();
    assert_eq!((purged.files, purged.bytes), (4, 20));
    let mut named = purged.others;
    named.sort();
    let mut expected = [&others[..], &[below]].concat();
    expected.sort_unstable();
    assert_eq!(named, expected);
    assert_eq!(aside.list().unwrap(), others);
    reopen(&world).unwrap();
}

#[test]
fn what_a_link_leads_to_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(directory.path()).unwrap();
    let disks = with_unnamed(&disk);
    let home = directory.path().join("home");
    std::fs::remove_dir_all(home.join(ASIDE)).unwrap();
    std::os::unix::fs::symlink(&home, home.join(ASIDE)).unwrap();
    let before = disks[0].list().unwrap();
    let error = Store::purge(&disks).unwrap_err().to_string();
    assert!(error.contains("set-aside is a link,") && !error.contains('\n'), "{error}");
    assert_eq!(disks[0].list().unwrap(), before);
    assert!(!names(&*disks[1], ASIDE).is_empty(), "nothing of it is done");
}

#[test]
fn where_there_is_no_store_nothing_is_removed() {
    let world = MemDisk::new();
    let empty = world.create_directory(Path::new("/empty")).unwrap();
    let missing = Store::purge(&[empty]);
    assert!(matches!(missing, Err(Error::Missing { .. })), "{missing:?}");
    // A store of which only the manifest was set aside, because of a crash.
    let store = Store::create(shared(&world), options()).unwrap();
    put(&store, &(0..100).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    store.commit().unwrap();
    drop(store);
    world.rename(MANIFEST_NAME, &format!("{ASIDE}/{MANIFEST_NAME}")).unwrap();
    let missing = Store::purge(&[shared(&world)]);
    assert!(matches!(missing, Err(Error::Missing { .. })), "{missing:?}");
    assert_eq!(names(&world, ASIDE), [MANIFEST_NAME]);
    // Once the rest is set aside, all of it may be removed.
    let moved = Store::set_aside(&world).unwrap();
    assert!(moved > 2);
    assert_eq!(Store::purge(&[shared(&world)]).unwrap().files, moved as u64 + 1);
    let twice = Store::purge(&[shared(&world), shared(&world)]);
    assert!(matches!(twice, Err(Error::Options(_))), "{twice:?}");
}

#[test]
fn a_snapshot_gets_no_lock() {
    let world = MemDisk::new();
    let store = Store::create(shared(&world), options()).unwrap();
    put(&store, &[(1, 1)]).unwrap();
    let snapshot = world.create_directory(Path::new("/snapshot")).unwrap();
    store.snapshot(snapshot.path()).unwrap();
    assert_eq!(Store::purge(&[Arc::clone(&snapshot)]).unwrap(), Aside::default());
    assert!(!snapshot.exists(LOCK_NAME).unwrap());
}
