//! Rows removed by key or age stay removed, whatever is merged, committed and reopened.

use std::collections::BTreeSet;

use stepwell_base::Key;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{Error, Manifest, SEGMENTS_MANY, Stats, Store, StoreOptions, Verify, check};

use crate::actor::Actor;
use crate::common::{ROW_BYTES, assert_whole, get, new_store, options, payload, put, reopen};
use crate::harness::{Told, in_threads, scanned, shared};
use crate::history::History;
use crate::sweeps::assert_few_deletions;

/// Number of rows of a full segment under the tests' options.
const SEGMENT_ROWS: u64 = 36;

/// Merges until nothing is due.
fn compact_all(store: &Store) -> u64 {
    let merged = std::iter::from_fn(|| Some(store.compact().unwrap()).filter(|count| *count > 0));
    merged.map(|count| count as u64).sum()
}

fn expect(store: &Store, key: u64, seq: Option<u64>) {
    let expected = seq.map(|seq| payload(key, seq));
    assert!(get(store, &[key]).unwrap() == [expected], "key {key} is not of version {seq:?}");
}

#[test]
fn any_order_of_operations() {
    let seeds: Vec<u64> = (0..24).collect();
    let totals = std::sync::Mutex::new([0; 8]);
    in_threads(&seeds, &|seed| {
        let _told = Told(format!("seed {seed}"));
        let disk = MemDisk::new();
        // In some runs, segments grow almost immediately.
        let segments_many = if seed % 3 == 0 { 3 } else { SEGMENTS_MANY };
        let options = StoreOptions { segments_many, ..options() };
        let mut actor = Actor::new(vec![shared(&disk)], options, *seed);
        for _ in 0..40 {
            actor.run(10).unwrap();
            actor.history.assert_held(actor.store());
            let stats = actor.store().stats();
            let counts = [
                stats.rows_deleted,
                stats.rows_expired,
                stats.rows_moved,
                stats.rows_replaced,
                stats.lookups_buffered,
            ];
            let mut totals = totals.lock().unwrap();
            totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
        }
        let mut totals = totals.lock().unwrap();
        totals[5] += actor.merged_alone;
        totals[6] += actor.expired_alone;
        totals[7] += actor.restored;
        drop(totals);
        actor.commit().unwrap();
        assert_few_deletions(actor.store());
        actor.store = None;
        assert_eq!(check(&actor.disks).unwrap().damages, []);
    });
    let totals = totals.into_inner().unwrap();
    assert!(totals.iter().all(|total| *total > 100), "every path was taken: {totals:?}");
}

#[test]
fn what_is_deleted_is_counted_and_gone() {
    let (disk, store) = new_store();
    assert_eq!(store.delete_many(&[]).unwrap(), 0);
    assert_eq!(store.delete_many(&[Key(1), Key(1)]).unwrap(), 0);
    assert_eq!(store.next_seq(), 0, "nothing was deleted");
    put(&store, &[(1, 0), (2, 1), (3, 2)]).unwrap();
    assert_eq!(store.delete_many(&[Key(3), Key(9), Key(3), Key(1)]).unwrap(), 2);
    assert_eq!((store.next_seq(), store.len()), (5, 1));
    assert_eq!(store.stats().rows_deleted, 2);
    assert!(!store.contains(Key(1)) && store.contains(Key(2)));
    for store in [&store, &{
        store.commit().unwrap();
        reopen(&disk).unwrap()
    }] {
        assert_eq!(get(store, &[1, 2, 3]).unwrap(), [None, Some(payload(2, 1)), None]);
        assert_eq!((scanned(store), store.len(), store.next_seq()), (vec![(2, 1)], 1, 5));
    }
}

#[test]
fn deletions_alone_make_a_commit() {
    let (disk, store) = new_store();
    put(&store, &[(1, 0), (2, 1)]).unwrap();
    let before = store.commit().unwrap();
    store.delete_many(&[Key(1)]).unwrap();
    let after = store.commit().unwrap();
    assert_eq!((before.rows, after.rows, after.commit), (2, 1, before.commit + 1));
    let store = reopen(&disk).unwrap();
    expect(&store, 1, None);
    assert_whole(&disk);
    // A segment without rows can be merged and scanned like any other.
    for key in 10..30 {
        store.delete_many(&[Key(2)]).unwrap();
        put(&store, &[(2, key)]).unwrap();
        store.delete_many(&[Key(2)]).unwrap();
        store.commit().unwrap();
        compact_all(&store);
    }
    assert!(store.stats().segments < 12, "{:?}", store.stats());
    let store = reopen(&disk).unwrap();
    assert!(store.is_empty());
    assert_whole(&disk);
}

#[test]
fn a_key_deleted_and_put_again_on_one_page() {
    let (disk, store) = new_store();
    put(&store, &[(1, 0), (2, 1)]).unwrap();
    for round in 0..3 {
        store.delete_many(&[Key(1)]).unwrap();
        put(&store, &[(1, 10 + round)]).unwrap();
        expect(&store, 1, Some(10 + round));
    }
    put(&store, &[(1, 20), (3, 21)]).unwrap();
    store.delete_many(&[Key(3)]).unwrap();
    let assert_right = |store: &Store| {
        assert_eq!(
            get(store, &[1, 2, 3]).unwrap(),
            [Some(payload(1, 20)), Some(payload(2, 1)), None]
        );
        assert_eq!(BTreeSet::from_iter(scanned(store)), BTreeSet::from([(1, 20), (2, 1)]));
        assert_eq!(scanned(store).len(), 2);
    };
    assert_right(&store);
    store.commit().unwrap();
    assert_right(&store);
    let store = reopen(&disk).unwrap();
    assert_right(&store);
    // The page with both rows of the key is merged together with a stale one: merging it alone
    // would free nothing.
    put(&store, &[(100, 99)]).unwrap();
    store.commit().unwrap();
    put(&store, &(100..172).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    assert!(compact_all(&store) > 0);
    store.commit().unwrap();
    let visited = reopen(&disk).unwrap();
    expect(&visited, 1, Some(20));
    expect(&visited, 3, None);
    assert_eq!(visited.len(), 2 + 72);
}

/// All orders of five things.
fn permutations() -> Vec<Vec<u64>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..5 {
        let longer = |order: &Vec<u64>| {
            let left: Vec<u64> = (0..5).filter(|next| !order.contains(next)).collect();
            let order = order.clone();
            left.into_iter().map(move |next| [&order[..], &[next]].concat())
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

/// How the key of a hunt is removed.
#[derive(Clone, Copy, Debug)]
enum End {
    Deleted,
    Expired,
    DeletedAndPut,
}

const HUNTED: u64 = 399;

/// Five segments, with an older version of one key in each of the first four; then merges them in
/// the given order.
fn hunt(end: End, order: &[u64]) {
    let disk = MemDisk::new();
    let mut store = Store::create(shared(&disk), options()).unwrap();
    let mut history = History::default();
    let filler = |segment: u64| (0..SEGMENT_ROWS - 1).map(move |at| segment * 40 + at);
    for segment in 0..5u64 {
        let mut rows: Vec<(u64, u32)> = filler(segment).map(|key| (key, 100)).collect();
        match (segment, end) {
            (4, End::Deleted) => history.delete(&store, &[HUNTED]).unwrap(),
            (4, End::DeletedAndPut) => {
                history.delete(&store, &[HUNTED]).unwrap();
                rows.push((HUNTED, 60));
            }
            // The version that expires is not the least recently used one.
            (3, End::Expired) => rows.push((HUNTED, 10)),
            (4, End::Expired) => history.expire(&store, 15).unwrap(),
            _ => rows.push((HUNTED, 20 - segment as u32)),
        }
        history.put(&store, &rows).unwrap();
        history.commit(&store).unwrap();
    }
    let mut merged = 0;
    for segment in order {
        // Makes enough of the segment stale for it to be merged next.
        let rows: Vec<(u64, u32)> = filler(*segment).skip(5).map(|key| (key, 100)).collect();
        history.put(&store, &rows).unwrap();
        merged += compact_all(&store);
        history.assert_held(&store);
        history.commit(&store).unwrap();
        store = reopen(&disk).unwrap();
        history.resume(&store, &shared(&disk));
    }
    assert!(merged >= 5, "{merged} segments were merged");
    assert_whole(&disk);
}

#[test]
fn no_order_of_merges_brings_a_row_back() {
    for end in [End::Deleted, End::Expired, End::DeletedAndPut] {
        in_threads(&permutations(), &|order| {
            let _told = Told(format!("{end:?}, merged in order {order:?}"));
            hunt(end, order);
        });
    }
}

#[test]
fn a_merge_never_outgrows_a_segment() {
    let (disk, store) = new_store();
    let mut history = History::default();
    // Half of each segment has an early use and is put again: live rows are not expired, but by the
    // sample of uses half of them are.
    for segment in 0..4 {
        let used = |at| if at < SEGMENT_ROWS / 2 { 1 } else { 100 };
        let rows = (0..SEGMENT_ROWS).map(|at| (segment * SEGMENT_ROWS + at, used(at)));
        history.put(&store, &rows.collect::<Vec<_>>()).unwrap();
    }
    for segment in 0..4 {
        let rows = (0..SEGMENT_ROWS / 2).map(|at| (segment * SEGMENT_ROWS + at, 100));
        history.put(&store, &rows.collect::<Vec<_>>()).unwrap();
    }
    history.commit(&store).unwrap();
    history.expire(&store, 50).unwrap();
    compact_all(&store);
    assert!(store.stats().rows_moved > 0);
    history.assert_held(&store);
    let manifest = history.commit(&store).unwrap();
    assert!(manifest.segments.iter().all(|entry| u64::from(entry.rows) <= SEGMENT_ROWS));
    history.resume(&reopen(&disk).unwrap(), &shared(&disk));
}

#[test]
fn expired_rows_survive_a_merge_that_fails() {
    let (disk, store) = new_store();
    let mut history = History::default();
    // In both segments, half of the rows go stale and some of the others expire.
    let used = |key| if key % SEGMENT_ROWS < 24 { 1 } else { 1000 };
    let rows: Vec<(u64, u32)> = (0..2 * SEGMENT_ROWS).map(|key| (key, used(key))).collect();
    history.put(&store, &rows).unwrap();
    let stale = (0..2 * SEGMENT_ROWS).filter(|key| key % SEGMENT_ROWS < 18);
    history.put(&store, &stale.map(|key| (key, 1000)).collect::<Vec<_>>()).unwrap();
    history.commit(&store).unwrap();
    history.expire(&store, 24).unwrap();
    let second = "segment-000000000002.rows";
    disk.edit(second, &mut |bytes| bytes[3 * 4096 + 50] ^= 4).unwrap();
    assert!(matches!(store.compact(), Err(Error::Page { page: 3, .. })));
    history.put(&store, &[(300, 500)]).unwrap();
    history.commit(&store).unwrap();
    // The store opens, and no expired row reappears.
    disk.edit(second, &mut |bytes| bytes[3 * 4096 + 50] ^= 4).unwrap();
    let store = reopen(&disk).unwrap();
    history.resume(&store, &shared(&disk));
    assert!(compact_all(&store) > 0);
    history.commit(&store).unwrap();
    assert_eq!(store.len(), 2 * 30 + 1);
    history.resume(&reopen(&disk).unwrap(), &shared(&disk));
}

#[test]
fn an_expired_row_uncovers_no_older_one() {
    // The older version may have been used earlier or later than the one that expires.
    for used_before in [1, 2000] {
        let (disk, store) = new_store();
        let mut history = History::default();
        let used = |key| if key < 6 { used_before } else { 1000 };
        let rows: Vec<(u64, u32)> = (0..SEGMENT_ROWS).map(|key| (key, used(key))).collect();
        history.put(&store, &rows).unwrap();
        history.commit(&store).unwrap();
        let rows: Vec<(u64, u32)> = (0..6).map(|key| (key, 2)).collect();
        history.put(&store, &rows).unwrap();
        history.commit(&store).unwrap();
        history.expire(&store, 60).unwrap();
        assert!(compact_all(&store) > 0, "the second segment is merged");
        assert_eq!(store.stats().rows_expired, 6);
        history.commit(&store).unwrap();
        let store = reopen(&disk).unwrap();
        assert_eq!(store.len(), 30);
        history.resume(&store, &shared(&disk));
    }
}

#[test]
fn expiry_only_ever_rises_and_is_part_of_a_commit() {
    let (disk, store) = new_store();
    put(&store, &[(1, 10), (2, 20), (3, 30)]).unwrap();
    store.commit().unwrap();
    store.expire_before(20).unwrap();
    assert_eq!(get(&store, &[1]).unwrap(), [None]);
    expect(&store, 2, Some(20));
    store.expire_before(5).unwrap();
    assert_eq!(get(&store, &[1]).unwrap(), [None]);
    let lost = reopen(&disk).unwrap();
    expect(&lost, 1, Some(10));
    lost.expire_before(30).unwrap();
    let manifest = lost.commit().unwrap();
    assert_eq!((manifest.expire_before, manifest.rows), (30, 3), "they count until compacted");
    let path = disk.path().join("snapshot");
    disk.create_directory(&path).unwrap();
    lost.snapshot(&path).unwrap();
    let other = disk.create_directory(&disk.path().join("other")).unwrap();
    let restored = Store::restore(other, &path, Verify::Everything, options()).unwrap();
    for store in [reopen(&disk).unwrap(), restored] {
        assert_eq!(get(&store, &[1, 2, 3]).unwrap(), [None, None, Some(payload(3, 30))]);
        // An expired row can be put again.
        store.put_many(&[Key(1)], &[40], &payload(1, 40)).unwrap();
        expect(&store, 1, Some(40));
        drop(store);
    }
}

fn files_bytes(disk: &MemDisk) -> u64 {
    let segments = disk.list().unwrap().into_iter().filter(|name| name.ends_with(".rows"));
    segments.map(|name| disk.open(&name).unwrap().len().unwrap()).sum()
}

/// Commits and merges until nothing is due.
fn settle(store: &Store) -> (Manifest, Stats) {
    while store.compact().unwrap() > 0 {
        store.commit().unwrap();
    }
    (store.commit().unwrap(), store.stats())
}

#[test]
fn space_of_deleted_rows_comes_back() {
    let (disk, store) = new_store();
    put(&store, &(0..4_000).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    store.commit().unwrap();
    assert!(files_bytes(&disk) > 4_000 * ROW_BYTES as u64);
    let keys: Vec<Key> = (0..4_000).map(Key).collect();
    for piece in keys.chunks(100) {
        assert_eq!(store.delete_many(piece).unwrap(), 100);
    }
    let (manifest, stats) = settle(&store);
    assert_eq!((manifest.rows, stats.rows_live), (0, 0));
    let segment = options().segment_bytes;
    assert!(files_bytes(&disk) <= 8 * segment, "{} bytes are left", files_bytes(&disk));
    let store = reopen(&disk).unwrap();
    assert!(store.is_empty());
    put(&store, &[(1, 5_000)]).unwrap();
    store.commit().unwrap();
    expect(&reopen(&disk).unwrap(), 1, Some(5_000));
}

#[test]
fn deletions_do_not_pile_up() {
    let (disk, store) = new_store();
    // A few rows stay forever, in the oldest segment.
    put(&store, &(0..SEGMENT_ROWS).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    let mut most = 0;
    for round in 0..60 {
        let first = 1_000 + round * 100;
        let rows: Vec<(u64, u64)> = (first..first + 100).map(|key| (key, key)).collect();
        put(&store, &rows).unwrap();
        store.commit().unwrap();
        let keys: Vec<Key> = (first..first + 100).map(Key).collect();
        assert_eq!(store.delete_many(&keys).unwrap(), 100);
        put(&store, &[(round % 5, first)]).unwrap();
        store.commit().unwrap();
        store.compact().unwrap();
        most = most.max(files_bytes(&disk));
    }
    let segment = options().segment_bytes;
    assert!(most <= 12 * segment, "{most} bytes of files for {} rows", store.len());
    assert_eq!(reopen(&disk).unwrap().len(), SEGMENT_ROWS);
}
