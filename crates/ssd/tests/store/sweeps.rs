//! Deletions are dropped, whatever old rows exist and whatever was done.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Faults, FaultyDisk, Lasting, MemDisk, Operation, Reason};
use stepwell_ssd::Store;

use crate::common::{PAGE_BYTES, get, new_store, options, put, reopen};
use crate::harness::shared;
use crate::history::History;
use crate::refusal::refusing;

/// Number of rows of a full segment under the tests' options.
const SEGMENT_ROWS: u64 = 36;

/// Asserts that after a commit, deletions sealed before it take at most a fiftieth of the live
/// rows' space, plus the free bytes.
pub(crate) fn assert_few_deletions(store: &Store) {
    let (stats, options) = (store.stats(), store.options());
    // Bytes of a row in a full segment.
    let row = options.segment_bytes / SEGMENT_ROWS;
    let admitted = stats.rows_live * row / 50 + options.deletions_free;
    let taken = 16 * stats.deletions;
    assert!(taken <= admitted, "{taken} bytes of deletions, {admitted} at most: {stats:?}");
}

#[test]
fn deletions_go_away_whatever_lies_early() {
    let (disk, store) = new_store();
    let mut history = History::default();
    // A row that stays, with one that goes stale: the earliest of all.
    history.put(&store, &(0..SEGMENT_ROWS).map(|key| (key, 1)).collect::<Vec<_>>()).unwrap();
    history.put(&store, &[(1, 2)]).unwrap();
    let mut dice = Stream::from_state(7);
    let mut most = 0;
    for round in 0..60 {
        let first = 40 + dice.next_u64() % 200;
        let rows: Vec<(u64, u32)> = (first..first + 100).map(|key| (key, round)).collect();
        history.put(&store, &rows).unwrap();
        history.delete(&store, &(first..first + 90).collect::<Vec<_>>()).unwrap();
        // Segments being written when a commit begins are swept by the next one.
        history.commit(&store).unwrap();
        history.commit(&store).unwrap();
        most = most.max(store.stats().deletions);
        assert_few_deletions(&store);
        if round % 10 == 9 {
            history.expire(&store, round - 5).unwrap();
        }
    }
    assert!(most > 0 && store.stats().rows_deleted > 3_000);
    history.assert_held(&store);
    history.commit(&store).unwrap();
    drop(store);
    history.resume(&reopen(&disk).unwrap(), &shared(&disk));
}

#[test]
fn what_merges_leave_alone_still_needs_its_deletions() {
    let (disk, store) = new_store();
    let rows: Vec<(u64, u64)> = (0..2 * SEGMENT_ROWS).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    // Most rows of two segments go stale, and a page of each is unreadable: no merge takes them.
    let deleted: Vec<u64> = (0..2 * SEGMENT_ROWS).filter(|key| key % SEGMENT_ROWS != 14).collect();
    let keys: Vec<Key> = deleted.iter().map(|key| Key(*key)).collect();
    store.commit().unwrap();
    for number in [1, 2] {
        let name = format!("segment-{number:012}.rows");
        // The page of row 14.
        disk.edit(&name, &mut |bytes| bytes[2 * PAGE_BYTES as usize + 100] ^= 1).unwrap();
    }
    assert_eq!(store.delete_many(&keys).unwrap(), keys.len() as u64);
    for round in 0..6 {
        let again: Vec<(u64, u64)> = (200..200 + SEGMENT_ROWS).map(|key| (key, round)).collect();
        put(&store, &again).unwrap();
        store.commit().unwrap();
        let _ = store.compact();
    }
    store.commit().unwrap();
    let stats = store.stats();
    assert!(stats.segments_left_alone == 2 && 16 * stats.deletions > 256, "{stats:?}");
    let count = store.len();
    drop(store);
    let store = reopen(&disk).unwrap();
    assert_eq!(store.len(), count);
    assert!(get(&store, &deleted).unwrap().iter().all(Option::is_none));
}

#[test]
fn a_sweep_says_nothing_of_what_was_deleted_after_it() {
    let memory = MemDisk::new();
    let disk = FaultyDisk::new(shared(&memory), Faults::default());
    let store = Store::create(Arc::new(disk.clone()), options()).unwrap();
    let mut history = History::default();
    let rows = |first: u64| (first..first + SEGMENT_ROWS).map(|key| (key, 1)).collect::<Vec<_>>();
    let keys = |first: u64| (first..first + SEGMENT_ROWS).collect::<Vec<_>>();
    // A stale row older than all others, so that merges carry deletions along.
    history.put(&store, &rows(200)).unwrap();
    history.put(&store, &rows(0)).unwrap();
    history.put(&store, &rows(36)).unwrap();
    history.put(&store, &[(200, 1)]).unwrap();
    history.commit(&store).unwrap();
    // No row of the keys deleted first is left; together there are too many deletions.
    for first in [0, 36] {
        let deleted: Vec<Key> = keys(first).into_iter().map(Key).collect();
        assert_eq!(store.delete_many(&deleted).unwrap(), SEGMENT_ROWS);
        store.commit().unwrap();
        if first == 0 {
            assert!(store.compact().unwrap() > 0);
        }
    }
    let before = store.stats();
    assert_eq!(store.compact().unwrap(), 1);
    let after = store.stats();
    assert!(after.deletions < before.deletions, "{before:?}, {after:?}");
    // One key is put, and deleted while another segment is written that cannot be synced.
    put(&store, &rows(300).iter().map(|(key, _)| (*key, 2)).collect::<Vec<_>>()).unwrap();
    put(&store, &[(5, 3)]).unwrap();
    store.commit().unwrap();
    assert_eq!(store.delete_many(&[Key(5)]).unwrap(), 1);
    disk.inflict(refusing(Operation::Sync, 0, Lasting::Once, Reason::DeviceError));
    assert!(store.commit().is_err());
    store.commit().unwrap();
    assert_eq!(get(&store, &[5]).unwrap(), [None]);
    let count = store.len();
    drop(store);
    let store = reopen(&memory).unwrap();
    assert_eq!((store.len(), get(&store, &[5]).unwrap()), (count, vec![None]));
}

#[test]
fn what_merges_leave_alone_keeps_its_own_deletions_and_no_others() {
    let (disk, store) = new_store();
    let rows = |keys: std::ops::Range<u64>| keys.map(|key| (key, key)).collect::<Vec<_>>();
    let delete = |keys: &mut dyn Iterator<Item = u64>| {
        let keys: Vec<Key> = keys.map(Key).collect();
        assert_eq!(store.delete_many(&keys).unwrap(), keys.len() as u64);
        store.commit().unwrap();
        keys.len() as u64
    };
    put(&store, &rows(0..2 * SEGMENT_ROWS)).unwrap();
    put(&store, &rows(100..100 + 2 * SEGMENT_ROWS)).unwrap();
    store.commit().unwrap();
    for number in [1, 2] {
        let name = format!("segment-{number:012}.rows");
        // The page of row 14.
        disk.edit(&name, &mut |bytes| bytes[2 * PAGE_BYTES as usize + 100] ^= 1).unwrap();
    }
    let mut needed = (0..2 * SEGMENT_ROWS).filter(|key| key % SEGMENT_ROWS != 14);
    let needed = delete(&mut needed);
    delete(&mut (100..100 + 2 * SEGMENT_ROWS - 20));
    for round in 0..6 {
        let again: Vec<(u64, u64)> = (200..200 + SEGMENT_ROWS).map(|key| (key, round)).collect();
        put(&store, &again).unwrap();
        store.commit().unwrap();
        let _ = store.compact();
    }
    store.commit().unwrap();
    let stats = store.stats();
    assert_eq!(stats.segments_left_alone, 2, "{stats:?}");
    assert!(stats.deletions >= needed && stats.deletions <= needed + 16, "{needed}: {stats:?}");
    let count = store.len();
    drop(store);
    assert_eq!(reopen(&disk).unwrap().len(), count);
}

#[test]
fn what_is_put_after_an_expiry_outlives_a_merge_with_older_rows() {
    let (disk, store) = new_store();
    let mut history = History::default();
    let put = |history: &mut History, keys: &mut dyn Iterator<Item = u64>, used: u32| {
        history.put(&store, &keys.map(|key| (key, used)).collect::<Vec<_>>()).unwrap();
        history.commit(&store).unwrap();
    };
    put(&mut history, &mut (0..SEGMENT_ROWS), 1000);
    put(&mut history, &mut (100..100 + SEGMENT_ROWS), 1000);
    // Newer versions expire, and leave deletions because of the older ones.
    put(&mut history, &mut (0..6), 2);
    history.expire(&store, 60).unwrap();
    assert!(store.compact().unwrap() > 0);
    assert_eq!((store.stats().rows_expired, store.stats().deletions), (6, 6));
    // The keys are put again, and get into a segment with rows older than those deletions.
    put(&mut history, &mut (0..6).chain(300..330), 1000);
    put(&mut history, &mut (100..118).chain(300..318), 1000);
    let moved = store.stats().rows_moved;
    assert_eq!(store.compact().unwrap(), 2);
    let stats = store.stats();
    assert_eq!((stats.rows_moved - moved, stats.deletions), (36, 6), "{stats:?}");
    history.commit(&store).unwrap();
    drop(store);
    history.resume(&reopen(&disk).unwrap(), &shared(&disk));
}
