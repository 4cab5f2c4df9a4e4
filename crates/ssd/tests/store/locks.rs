//! Locks of an open store, and the errors of others that want it.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_disk::{Disk, FileDisk, MemDisk};
use stepwell_ssd::{Compaction, Error, LOCK_NAME, Store, StoreOptions, View, check, repair};

use crate::common::{get, options, payload, put};
use crate::harness::shared;

fn in_use<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("is in use") && !message.contains('\n'), "{message}");
    message
}

fn salvage(disks: &[Arc<dyn Disk>], into: &Arc<dyn Disk>) -> Result<u64, Error> {
    let of = |table, row_bytes| StoreOptions::new(table, row_bytes);
    repair(disks, Arc::clone(into), of).map(|salvaged| salvaged.rows)
}

/// A store over two directories excludes all others from both while it is open.
fn keeps_all_others_out(disk: &dyn Disk, options: &StoreOptions) {
    let made = |name: &str| disk.create_directory(&disk.path().join(name)).unwrap();
    let (home, second, into) = (made("home"), made("second"), made("into"));
    let disks = [Arc::clone(&home), Arc::clone(&second)];
    let store = Store::create_over(disks.to_vec(), options.clone()).unwrap();
    put(&store, &(0..200).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    store.commit().unwrap();
    let snapshot = made("snapshot");
    store.snapshot(snapshot.path()).unwrap();
    for lone in &disks {
        let message = in_use(check(std::slice::from_ref(lone)));
        assert!(message.contains(&lone.path().display().to_string()), "{message}");
        in_use(Store::set_aside(&**lone));
        in_use(Store::create(Arc::clone(&second), options.clone()));
    }
    in_use(Store::open_over(disks.to_vec(), options.clone()));
    in_use(check(&disks));
    in_use(salvage(&disks, &into));
    in_use(salvage(&[Arc::clone(&into), Arc::clone(&second)], &made("other")));
    // Snapshots are not locked, and several views of one may exist.
    assert_eq!(check(&[Arc::clone(&snapshot)]).unwrap().damages, []);
    let views = [0, 1].map(|_| View::open(Arc::clone(&snapshot), options.clone()).unwrap());
    assert_eq!(check(&[Arc::clone(&snapshot)]).unwrap().damages, []);
    assert!(!snapshot.exists(LOCK_NAME).unwrap(), "it may lie where nothing can be written");
    drop(views);
    // A reader outlives the store, and its files stay unchanged.
    let reader = store.reader().unwrap();
    drop(store);
    in_use(check(&disks));
    drop(reader);
    assert_eq!(check(&disks).unwrap().damages, []);
    assert_eq!(salvage(&disks, &into).unwrap(), 200);
    assert!(!into.exists(LOCK_NAME).unwrap(), "what is salvaged is as a snapshot is");
    let store = Store::open_over(disks.to_vec(), options.clone()).unwrap();
    assert_eq!(get(&store, &[7]).unwrap(), [Some(payload(7, 7))]);
    in_use(check(&disks));
}

#[test]
fn an_open_store_keeps_all_others_out() {
    for compaction in [Compaction::Inline, Compaction::Background] {
        let options = StoreOptions { compaction, ..options() };
        keeps_all_others_out(&MemDisk::new(), &options);
        let directory = tempfile::tempdir().unwrap();
        keeps_all_others_out(&FileDisk::open(directory.path()).unwrap(), &options);
    }
}

#[test]
fn what_a_killed_process_left_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(directory.path()).unwrap());
    let store = Store::create(Arc::clone(&disk), options()).unwrap();
    put(&store, &[(1, 1)]).unwrap();
    store.commit().unwrap();
    drop(store);
    assert!(disk.exists(LOCK_NAME).unwrap(), "the file stays");
    drop(Store::open(Arc::clone(&disk), options()).unwrap());
    // A store of an earlier build has no lock file.
    disk.remove(LOCK_NAME).unwrap();
    assert_eq!(check(&[Arc::clone(&disk)]).unwrap().damages, []);
    assert!(!disk.exists(LOCK_NAME).unwrap(), "checking makes none");
    let store = Store::open(disk, options()).unwrap();
    assert!(store.contains(Key(1)));
}

#[test]
fn no_lock_is_left_where_there_is_no_store() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(directory.path()).unwrap());
    assert!(matches!(Store::open(Arc::clone(&disk), options()), Err(Error::Missing { .. })));
    assert!(matches!(check(&[Arc::clone(&disk)]), Err(Error::Missing { .. })));
    assert_eq!(disk.list().unwrap(), Vec::<String>::new());
    // A store that fails to open releases its lock.
    let world = MemDisk::new();
    drop(Store::create(shared(&world), options()).unwrap());
    let other = StoreOptions { table: 9, ..options() };
    assert!(matches!(Store::open(shared(&world), other), Err(Error::Mismatch { .. })));
    Store::open(shared(&world), options()).unwrap();
}
