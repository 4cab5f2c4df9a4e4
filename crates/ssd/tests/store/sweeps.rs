//! Deletions go away, whatever lies early and whatever was done.

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_ssd::Store;

use crate::common::{PAGE_BYTES, get, new_store, put, reopen};
use crate::harness::shared;
use crate::history::History;

/// Rows of a full segment of the tests' options.
const SEGMENT_ROWS: u64 = 36;

/// After a commit, deletions that were sealed before it take a fiftieth of the live rows' space at
/// most, and what is free.
pub(crate) fn assert_few_deletions(store: &Store) {
    let (stats, options) = (store.stats(), store.options());
    // What a row takes in a full segment.
    let row = options.segment_bytes / SEGMENT_ROWS;
    let admitted = stats.rows_live * row / 50 + options.deletions_free;
    let taken = 16 * stats.deletions;
    assert!(taken <= admitted, "{taken} bytes of deletions, {admitted} at most: {stats:?}");
}

#[test]
fn deletions_go_away_whatever_lies_early() {
    let (disk, store) = new_store();
    let mut history = History::default();
    // A row that stays, beside one that goes stale: the earliest of all.
    history.put(&store, &(0..SEGMENT_ROWS).map(|key| (key, 1)).collect::<Vec<_>>()).unwrap();
    history.put(&store, &[(1, 2)]).unwrap();
    let mut dice = Stream::from_state(7);
    let mut most = 0;
    for round in 0..60 {
        let first = 40 + dice.next_u64() % 200;
        let rows: Vec<(u64, u32)> = (first..first + 100).map(|key| (key, round)).collect();
        history.put(&store, &rows).unwrap();
        history.delete(&store, &(first..first + 90).collect::<Vec<_>>()).unwrap();
        // What was being written when a commit began, the next one sweeps.
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
    // Most of two segments goes stale, and a page of each cannot be read: no merge takes them.
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
