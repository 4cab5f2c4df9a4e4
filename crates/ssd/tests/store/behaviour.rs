//! Promises of the store beyond correct rows: few reads, bounded space, no unrequested removal.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{Error, Store, StoreId, StoreOptions, Verify};

use crate::common::{
    KEYS, Oracle, PAGE_BYTES, ROW_BYTES, ROWS_PER_PAGE, assert_holds, get, keys, learn, names,
    new_store, options, payload, put, reopen,
};
use crate::harness::shared;

fn put_range(store: &Store, keys: std::ops::Range<u64>, first_seq: u64) {
    let rows: Vec<(u64, u64)> = keys.zip(first_seq..).collect();
    put(store, &rows).unwrap();
}

#[test]
fn an_empty_store_answers() {
    let (disk, store) = new_store();
    assert!(store.is_empty() && store.next_seq() == 0 && !store.contains(Key(0)));
    put(&store, &[]).unwrap();
    assert_eq!(get(&store, &[]).unwrap(), Vec::<Option<Vec<u8>>>::new());
    assert_eq!(get(&store, &[1, 1]).unwrap(), [None, None]);
    assert_eq!(store.compact().unwrap(), 0);
    assert_eq!(store.commit().unwrap().commit, 0);
    assert_holds(&reopen(&disk).unwrap(), &Oracle::new());
}

#[test]
fn absent_rows_leave_their_places_alone() {
    let (_, store) = new_store();
    put(&store, &[(1, 1)]).unwrap();
    let mut rows = vec![0x55; 3 * ROW_BYTES];
    let mut found = [true, false, true];
    store.get_many(&[Key(9), Key(1), Key(8)], &mut rows, &mut found).unwrap();
    assert_eq!(found, [false, true, false]);
    assert!(rows[..ROW_BYTES].iter().chain(&rows[2 * ROW_BYTES..]).all(|byte| *byte == 0x55));
    assert_eq!(rows[ROW_BYTES..2 * ROW_BYTES], payload(1, 1));
}

#[test]
fn rows_of_a_page_share_its_read_and_neighbours_theirs() {
    let (disk, store) = new_store();
    put_range(&store, 0..72, 0);
    store.commit().unwrap();
    let store = reopen(&disk).unwrap();
    let after = |keys: &[u64]| {
        let before = store.stats();
        get(&store, keys).unwrap();
        let now = store.stats();
        let counts = [
            now.reads - before.reads,
            now.pages_read - before.pages_read,
            now.lookups_merged - before.lookups_merged,
        ];
        assert_eq!(now.bytes_read - before.bytes_read, counts[1] * PAGE_BYTES);
        counts
    };
    assert_eq!(after(&[5]), [1, 1, 0]);
    assert_eq!(after(&[5, 5, 0, 11, 5]), [1, 1, 4]);
    assert_eq!(after(&[13, 5]), [1, 2, 0], "neighbouring pages are one read");
    assert_eq!(after(&[30, 5]), [2, 2, 0], "others are not");
    assert_eq!(after(&[35, 36]), [2, 2, 0], "nor are those of two files");
    let all: Vec<u64> = (0..72).rev().collect();
    assert_eq!(after(&all), [2, 6, 72 - 6]);
}

#[test]
fn rows_in_the_write_buffer_cost_no_read() {
    let (_, store) = new_store();
    put_range(&store, 0..ROWS_PER_PAGE as u64, 0);
    get(&store, &[0, 5, 11]).unwrap();
    let stats = store.stats();
    assert_eq!((stats.bytes_read, stats.lookups_buffered, stats.lookups), (0, 3, 3));
    put_range(&store, 12..36, 12);
    get(&store, &[0, 35]).unwrap();
    assert_eq!(store.stats().pages_read, 1);
}

#[test]
fn opening_reads_no_payload() {
    let (disk, store) = new_store();
    put_range(&store, 0..360, 0);
    let manifest = store.commit().unwrap();
    let store = reopen(&disk).unwrap();
    // A header, the block with the tail, and the footer, which is one block here.
    let ends = manifest.segments.len() as u64 * 3 * PAGE_BYTES;
    assert_eq!(store.stats().bytes_read, ends);
}

#[test]
fn compaction_takes_what_is_half_stale() {
    let (disk, store) = new_store();
    put_range(&store, 0..36, 0);
    put_range(&store, 0..18, 36);
    store.commit().unwrap();
    put_range(&store, 0..0, 36);
    assert_eq!(store.compact().unwrap(), 1, "half is enough");
    assert_eq!(store.compact().unwrap(), 0);
    let stats = store.stats();
    assert_eq!((stats.rows_moved, stats.segments_merged, stats.segments_retired), (18, 1, 1));
    let first = "segment-000000000001.rows";
    assert!(disk.exists(first).unwrap(), "the last commit may name it");
    store.commit().unwrap();
    assert!(!disk.exists(first).unwrap());
    let mut oracle = Oracle::new();
    learn(&mut oracle, &(0..36).map(|key| (key, key)).collect::<Vec<_>>());
    learn(&mut oracle, &(0..18).map(|key| (key, key + 36)).collect::<Vec<_>>());
    assert_holds(&store, &oracle);
    assert_holds(&reopen(&disk).unwrap(), &oracle);
}

#[test]
fn small_segments_do_not_pile_up() {
    let (disk, store) = new_store();
    let mut oracle = Oracle::new();
    for key in 0..200 {
        put(&store, &[(key, key)]).unwrap();
        learn(&mut oracle, &[(key, key)]);
        store.commit().unwrap();
        store.compact().unwrap();
        assert!(store.stats().segments <= 8 + key / 18 + 1, "{:?}", store.stats());
    }
    store.commit().unwrap();
    assert_holds(&reopen(&disk).unwrap(), &oracle);
    let stats = store.stats();
    assert!(stats.rows_moved < 200 * 12, "rows are not merged again and again: {stats:?}");
}

#[test]
fn what_no_manifest_names_is_set_aside_and_kept() {
    let (disk, store) = new_store();
    put_range(&store, 0..36, 0);
    store.commit().unwrap();
    put_range(&store, 0..80, 100);
    let unnamed = "segment-000000000002.rows";
    let before = disk.read(unnamed, 1 << 20).unwrap();
    for round in 1..=2 {
        let store = reopen(&disk).unwrap();
        assert_eq!(store.next_seq(), 36);
        put_range(&store, 0..80, 100);
        assert_eq!(names(&disk, "set-aside").len(), 3 * round, "under names of their own");
    }
    let aside = disk.directory(&disk.path().join("set-aside")).unwrap();
    assert_eq!(aside.read(unnamed, 1 << 20).unwrap(), before);
    disk.create("notes.txt").unwrap();
    reopen(&disk).unwrap();
    assert!(disk.exists("notes.txt").unwrap(), "files of others are left alone");
}

#[test]
fn a_store_is_made_where_there_is_none() {
    let (disk, store) = new_store();
    put_range(&store, 0..50, 0);
    store.commit().unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let again = Store::create(Arc::clone(&shared), options()).unwrap_err();
    assert!(matches!(again, Error::Exists { .. }) && again.to_string().contains("/memory"));
    let restored = Store::restore(Arc::clone(&shared), disk.path(), Verify::Everything, options());
    assert!(matches!(restored, Err(Error::Exists { .. })));
    assert!(matches!(Store::set_aside(&disk), Err(Error::InUse { .. })));
    drop(store);
    assert_eq!(Store::set_aside(&disk).unwrap(), 3);
    assert!(matches!(reopen(&disk), Err(Error::Missing { .. })));
    let store = Store::create(shared, options()).unwrap();
    assert!(store.is_empty());
    put_range(&store, 0..50, 0);
    assert_eq!(names(&disk, "set-aside").len(), 3);
}

#[test]
fn the_same_puts_write_the_same_bytes() {
    let write = || {
        let disk = MemDisk::new();
        let options = StoreOptions { id: Some(StoreId::from_number(9)), ..options() };
        let store = Store::create(Arc::new(disk.clone()), options).unwrap();
        let mut dice = Stream::from_state(4);
        for round in 0..30 {
            let rows: Vec<(u64, u64)> = keys(&mut dice, 60).into_iter().zip(round * 60..).collect();
            put(&store, &rows).unwrap();
            store.compact().unwrap();
        }
        store.commit().unwrap();
        let read = |disk: &MemDisk, name: &String| disk.read(name, 1 << 20).unwrap();
        let names = disk.list().unwrap();
        names.iter().map(|name| (name.clone(), read(&disk, name))).collect::<Vec<_>>()
    };
    assert!(write() == write());
}

#[test]
fn every_written_byte_is_counted() {
    let (disk, store) = new_store();
    put_range(&store, 0..100, 0);
    store.commit().unwrap();
    let files = disk.list().unwrap();
    let bytes: u64 = files.iter().map(|name| disk.open(name).unwrap().len().unwrap()).sum();
    let empty = {
        let (disk, _) = new_store();
        disk.open("manifest.json").unwrap().len().unwrap()
    };
    assert_eq!(store.stats().bytes_written, bytes + empty);
}

#[test]
fn an_index_that_held_the_rows_holds_them_again() {
    for (count, seed) in [300, 1500, 4000, 8224, 9000].into_iter().zip(1..) {
        let disk = MemDisk::new();
        let store = Store::create(Arc::new(disk.clone()), options()).unwrap();
        let mut dice = Stream::from_state(seed);
        let mut oracle = Oracle::new();
        for seq in 0..count {
            let rows = [(dice.next_u64(), seq)];
            put(&store, &rows).unwrap();
            learn(&mut oracle, &rows);
        }
        store.commit().unwrap();
        let taken = store.stats().index_bytes_peak;
        drop(store);
        // One step of growth more than it took, as the next row might have needed.
        let least = StoreOptions { index_bytes_max: taken + 256, ..options() };
        let store = Store::open(Arc::new(disk), least).unwrap();
        assert_eq!(store.len(), oracle.len() as u64, "{count} rows");
    }
}

#[test]
fn no_file_and_no_row_depends_on_the_secret_of_the_index() {
    let made = |index_seed| {
        let disk = MemDisk::new();
        let id = Some(StoreId::from_number(7));
        let options = StoreOptions { index_seed, id, ..options() };
        let store = Store::create(Arc::new(disk.clone()), options.clone()).unwrap();
        let (mut dice, mut oracle) = (Stream::from_state(11), Oracle::new());
        for seq in 0..40 {
            let rows: Vec<(u64, u64)> = (0..90).map(|_| (dice.next_u64() % 900, seq)).collect();
            put(&store, &rows).unwrap();
            learn(&mut oracle, &rows);
            if seq % 7 == 0 {
                store.delete_many(&[Key(seq), Key(seq + 1)]).unwrap();
                oracle.remove(&seq);
                oracle.remove(&(seq + 1));
                store.commit().unwrap();
            }
        }
        store.commit().unwrap();
        drop(store);
        // Opened under a random secret, and merged further.
        let store = Store::open(Arc::new(disk.clone()), options).unwrap();
        for first in (0..900).step_by(90) {
            let rows: Vec<(u64, u64)> = (first..first + 90).map(|key| (key, 50)).collect();
            put(&store, &rows).unwrap();
            learn(&mut oracle, &rows);
        }
        store.commit().unwrap();
        let keys: Vec<u64> = oracle.keys().copied().collect();
        let rows = get(&store, &keys).unwrap();
        assert_eq!(store.len(), oracle.len() as u64);
        drop(store);
        let files = disk.list().unwrap().into_iter().map(|name| {
            let file = disk.open(&name).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_at(0, &mut bytes).unwrap();
            (name, bytes)
        });
        (files.collect::<Vec<_>>(), rows)
    };
    let first = made(Some(1));
    assert!(first.0.len() > 3);
    assert!([Some(2), Some(3), None, None].into_iter().all(|seed| made(seed) == first));
}

#[test]
fn an_index_that_held_the_rows_holds_them_under_any_secret() {
    for count in [1500, 9000] {
        let disk = MemDisk::new();
        let any = StoreOptions { index_seed: None, ..options() };
        let store = Store::create(Arc::new(disk.clone()), any.clone()).unwrap();
        put_range(&store, 0..count, 0);
        store.commit().unwrap();
        let taken = store.stats().index_bytes_peak;
        drop(store);
        // Secrets make little difference: a few percent if shards have few rows.
        let least = StoreOptions { index_bytes_max: taken + taken / 16, ..any };
        for _ in 0..20 {
            let store = Store::open(Arc::new(disk.clone()), least.clone()).unwrap();
            assert_eq!(store.len(), count);
        }
    }
}

#[test]
fn segments_grow_with_the_store() {
    let disk = MemDisk::new();
    let grows = StoreOptions { segments_many: 8, ..options() };
    let store = Store::create(shared(&disk), grows.clone()).unwrap();
    let mut oracle = Oracle::new();
    for round in 0..12 {
        let rows: Vec<(u64, u64)> = (0..KEYS).zip(round * KEYS..).collect();
        put(&store, &rows).unwrap();
        learn(&mut oracle, &rows);
        store.commit().unwrap();
    }
    let manifest = store.commit().unwrap();
    let longest = manifest.segments.iter().map(|segment| segment.bytes).max().unwrap();
    assert!(longest > grows.segment_bytes, "{longest}");
    // At most twice as many as if all were large enough, plus segments not merged yet.
    assert!(manifest.segments.len() <= 2 * 8 + 8, "{}", manifest.segments.len());
    assert_holds(&store, &oracle);
    // Opening with a smaller segment size than the existing segments' works.
    drop(store);
    let smaller = StoreOptions { segment_bytes: 16_384, ..options() };
    let store = Store::open(shared(&disk), smaller).unwrap();
    assert_holds(&store, &oracle);
    put(&store, &[(1, 100_000)]).unwrap();
    learn(&mut oracle, &[(1, 100_000)]);
    while store.compact().unwrap() > 0 {}
    store.commit().unwrap();
    drop(store);
    assert_holds(&Store::open(shared(&disk), grows).unwrap(), &oracle);
}
