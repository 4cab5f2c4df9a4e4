//! An index without room: puts report how much they need, merges change nothing, and nothing is
//! lost.

use stepwell_base::Key;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{Error, Store, StoreOptions};

use crate::common::{assert_whole, get, options, payload, put, reopen};
use crate::harness::shared;

#[test]
fn a_full_index_is_an_error_with_its_arithmetic() {
    let memory = MemDisk::new();
    let empty = Store::create(shared(&MemDisk::new()), options()).unwrap().stats().index_bytes;
    let bytes_max = empty + 150_000;
    let small = StoreOptions { index_bytes_max: bytes_max, ..options() };
    let store = Store::create(shared(&memory), small.clone()).unwrap();
    let rows: Vec<(u64, u64)> = (0..20_000).map(|key| (key, key)).collect();
    let error = put(&store, &rows).unwrap_err();
    let message = error.to_string();
    let Error::IndexFull { bytes, growth, bytes_max: bound, .. } = error else {
        panic!("{message}");
    };
    assert!(bound == bytes_max && bytes + growth > bound && bytes <= bound, "{message}");
    let lasting = format!("raise tiers.index to {} or more", 2 * (bytes + growth));
    assert!(message.contains(&lasting), "{message}");
    // Nothing is lost, rows that fit are still accepted, and a larger bound takes the rest.
    let held = store.len();
    assert!(held > 100 && store.next_seq() == held, "{held}");
    assert!(store.stats().index_bytes_peak <= bytes_max);
    put(&store, &[(0, 50_000)]).unwrap();
    assert_eq!(get(&store, &[0, held]).unwrap(), [Some(payload(0, 50_000)), None]);
    // A deletion makes room for another row.
    assert_eq!(store.delete_many(&[Key(1)]).unwrap(), 1);
    put(&store, &[(1, 50_001)]).unwrap();
    store.commit().unwrap();
    let smaller = StoreOptions { index_bytes_max: empty + 60_000, ..small };
    memory.free_locks();
    let reopened = Store::open(shared(&memory), smaller);
    assert!(matches!(reopened, Err(Error::IndexFull { .. })), "{reopened:?}");
    let store = reopen(&memory).unwrap();
    put(&store, &rows[held as usize..]).unwrap();
    assert_eq!(store.len(), 20_000);
    assert_eq!(
        get(&store, &[1, 19_999]).unwrap(),
        [Some(payload(1, 50_001)), Some(payload(19_999, 19_999))]
    );
}

/// Number of segments whose places take eight bits, which need no extra room in a small index.
const SEGMENTS: u64 = 84;

#[test]
fn a_merge_that_has_no_room_in_the_index_is_abandoned() {
    let filled = |bytes_max: u64| {
        let disk = MemDisk::new();
        let options = StoreOptions { index_bytes_max: bytes_max, ..options() };
        let store = Store::create(shared(&disk), options).unwrap();
        let rows: Vec<(u64, u64)> = (0..SEGMENTS * 36).map(|key| (key, key)).collect();
        put(&store, &rows).unwrap();
        store.commit().unwrap();
        (disk, store)
    };
    // Little room, so that only a part of the rows moves.
    let bytes_max = filled(2 << 20).1.index_bytes_peak();
    let (disk, store) = filled(bytes_max);
    let deleted: Vec<u64> = (0..36 * 6).filter(|key| key % 36 < 20).collect();
    store.delete_many(&deleted.iter().copied().map(Key).collect::<Vec<_>>()).unwrap();
    store.commit().unwrap();
    let all: Vec<u64> = (0..SEGMENTS * 36).collect();
    let assert_right = |store: &Store| {
        let expected = |key: &u64| (!deleted.contains(key)).then(|| payload(*key, *key));
        assert!(get(store, &all).unwrap() == all.iter().map(expected).collect::<Vec<_>>());
        assert_eq!(store.len(), (all.len() - deleted.len()) as u64);
    };
    let mut abandoned = 0;
    while let Err(error) = store.compact() {
        assert!(matches!(error, Error::IndexFull { .. }), "{error}");
        abandoned += 1;
        assert_right(&store);
        store.commit().unwrap();
        assert!(abandoned < 20, "each segment is tried once");
    }
    let stats = store.stats();
    assert!(abandoned > 0 && stats.merges_failed >= abandoned, "{stats:?}");
    assert!(stats.segments_left_alone > 1 && stats.index_bytes_peak <= bytes_max, "{stats:?}");
    assert_right(&store);
    let files = || disk.list().unwrap().len();
    let before = files();
    assert_eq!(store.compact().unwrap_or(0), 0);
    assert_eq!(files(), before, "nothing is left of what was abandoned");
    drop(store);
    assert_whole(&disk);
    let store = reopen(&disk).unwrap();
    assert_right(&store);
    assert!(store.compact().unwrap() > 0, "there is room now");
    assert_right(&store);
}
