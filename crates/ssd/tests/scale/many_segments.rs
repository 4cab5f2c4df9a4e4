//! A store of far more segments than a process may have files open.
//!
//! A child that may have 256 files open (`ulimit -n`) performs every operation that accesses the
//! segments: 1,200 of them by default, 100,000 if `STEPWELL_LONG` is set.

use std::path::Path;
use std::sync::Arc;

use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::{Compaction, Store, StoreOptions, Verify, check};

use crate::child;
use crate::watch::{Watch, assert_holds, put};

const LIMIT: u64 = 256;
const SEGMENTS: [u64; 2] = [1_200, 100_000];
const ROW_BYTES: usize = 600;

fn options() -> StoreOptions {
    let options = StoreOptions {
        buffer_bytes: 8 << 10,
        index_bytes_max: 64 << 20,
        // Segments keep their size.
        segments_many: u64::MAX,
        // Only requested merges.
        compaction: Compaction::Inline,
        space_max: 2.0,
        ..StoreOptions::new(1, ROW_BYTES)
    };
    StoreOptions { segment_bytes: 16 << 10, ..options }
}

fn work(path: &Path, segments: u64) {
    let disk = FileDisk::create(&path.join("store")).unwrap();
    let mut watch = Watch::start(&disk, LIMIT);
    let shared = || -> Arc<dyn Disk> { Arc::new(disk.clone()) };
    let keys = segments * u64::from(options().segment_rows());

    let store = Store::create(shared(), options()).unwrap();
    put(&store, 0..keys, 1);
    watch.lap("put");
    store.commit().unwrap();
    assert!(store.stats().segments >= segments, "{:?}", store.stats());
    watch.lap("commit");
    assert_holds(&store, keys, 0, 1);
    watch.lap("get");
    drop(store);

    let store = Store::open(shared(), options()).unwrap();
    watch.lap("open");
    assert_holds(&store, keys, 0, 2);
    let changed = keys / 10;
    put(&store, 0..changed, 2);
    let mut merged = 0;
    while merged < 100 {
        let some = store.compact().unwrap();
        assert!(some > 0, "there is something to merge after {merged}");
        merged += some;
    }
    store.commit().unwrap();
    assert_holds(&store, keys, changed, 3);
    watch.lap("merge");

    let to = disk.create_directory(&path.join("snapshot")).unwrap();
    store.snapshot(to.path()).unwrap();
    watch.lap("snapshot");
    drop(store);
    let checked = check(&[shared()]).unwrap();
    assert!(checked.damages.is_empty() && checked.segments >= segments * 9 / 10, "{checked:?}");
    watch.lap("check");
    let restored = disk.create_directory(&path.join("restored")).unwrap();
    let store = Store::restore(restored, to.path(), Verify::Everything, options()).unwrap();
    watch.lap("restore");
    assert_eq!(store.len(), keys);
    assert_holds(&store, keys, changed, 4);
    watch.lap("get again");
}

#[test]
fn a_store_of_many_segments_needs_few_open_files() {
    const NAME: &str = "many_segments::a_store_of_many_segments_needs_few_open_files";
    match child::is_child(NAME) {
        Some(path) => work(&path, SEGMENTS[usize::from(child::is_long())]),
        None => child::run(NAME, tempfile::tempdir().unwrap().path(), LIMIT, "get again"),
    }
}
