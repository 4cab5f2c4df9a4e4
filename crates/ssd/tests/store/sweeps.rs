//! Deletions go away, whatever lies early and whatever was done.

use stepwell_base::random::Stream;
use stepwell_ssd::Store;

use crate::common::{new_store, reopen};
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
