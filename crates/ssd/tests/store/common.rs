//! Common parts of the tests: tiny stores, rows with known content, and the oracle.

use std::collections::BTreeMap;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{Checked, Compaction, Result, Store, StoreOptions, check};

pub(crate) const ROW_BYTES: usize = 300;
pub(crate) const ROWS_PER_PAGE: usize = 12;
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Segments of a header, three pages of 12 rows and a footer; writes of two pages.
pub(crate) fn options() -> StoreOptions {
    StoreOptions {
        page_bytes: PAGE_BYTES as usize,
        segment_bytes: 24_576,
        buffer_bytes: 2 * PAGE_BYTES,
        index_bytes_max: 2 << 20,
        deletions_free: 256,
        index_seed: Some(1),
        compaction: Compaction::Inline,
        read_depth: 8,
        read_bytes: 16 << 10,
        ..StoreOptions::new(7, ROW_BYTES)
    }
}

pub(crate) fn new_store() -> (MemDisk, Store) {
    let disk = MemDisk::new();
    let store = Store::create(Arc::new(disk.clone()), options()).unwrap();
    (disk, store)
}

/// Opens the store as if the process that had it open were killed.
pub(crate) fn reopen(disk: &MemDisk) -> Result<Store> {
    disk.free_locks();
    Store::open(Arc::new(disk.clone()), options())
}

/// Payload of a version of a row: its number, then bytes determined by key and number.
pub(crate) fn payload(key: u64, seq: u64) -> Vec<u8> {
    let mut stream = Stream::named(seq, &key.to_le_bytes());
    let mut bytes = seq.to_le_bytes().to_vec();
    while bytes.len() < ROW_BYTES {
        bytes.extend_from_slice(&stream.next_u64().to_le_bytes());
    }
    bytes.truncate(ROW_BYTES);
    bytes
}

pub(crate) fn put(store: &Store, rows: &[(u64, u64)]) -> Result<()> {
    let keys: Vec<Key> = rows.iter().map(|(key, _)| Key(*key)).collect();
    let used: Vec<u32> = rows.iter().map(|(_, seq)| *seq as u32).collect();
    let bytes: Vec<u8> = rows.iter().flat_map(|(key, seq)| payload(*key, *seq)).collect();
    store.put_many(&keys, &used, &bytes)
}

/// Rows that the store returns for `keys`.
pub(crate) fn get(store: &Store, keys: &[u64]) -> Result<Vec<Option<Vec<u8>>>> {
    let keys: Vec<Key> = keys.iter().map(|key| Key(*key)).collect();
    let mut rows = vec![0xEE; keys.len() * ROW_BYTES];
    let mut found = vec![false; keys.len()];
    store.get_many(&keys, &mut rows, &mut found)?;
    let rows = rows.chunks_exact(ROW_BYTES).zip(found);
    Ok(rows.map(|(row, found)| found.then(|| row.to_vec())).collect())
}

/// Number of the newest version of each key.
pub(crate) type Oracle = BTreeMap<u64, u64>;

pub(crate) fn learn(oracle: &mut Oracle, rows: &[(u64, u64)]) {
    for (key, seq) in rows {
        let newest = oracle.entry(*key).or_insert(*seq);
        *newest = *seq;
    }
}

/// Exclusive upper bound of the tests' keys.
pub(crate) const KEYS: u64 = 400;

/// Asserts that every way to read the store returns exactly the oracle's rows.
pub(crate) fn assert_holds(store: &Store, oracle: &Oracle) {
    assert_eq!(store.len(), oracle.len() as u64);
    let keys: Vec<u64> = (0..KEYS).collect();
    let expected: Vec<_> =
        keys.iter().map(|key| oracle.get(key).map(|seq| payload(*key, *seq))).collect();
    assert!(get(store, &keys).unwrap() == expected, "rows differ");
    let mut scanned = Oracle::new();
    let visit = &mut |key: Key, used: u32, row: &[u8]| {
        assert_eq!(row, payload(key.0, used.into()));
        assert_eq!(scanned.insert(key.0, used.into()), None, "visited twice");
        Ok(())
    };
    store.scan_live(visit).unwrap();
    assert_eq!(&scanned, oracle);
    let stats = store.stats();
    assert_eq!(stats.rows_live, oracle.len() as u64);
}

/// Random keys, the low ones more often.
pub(crate) fn keys(dice: &mut Stream, count_max: u64) -> Vec<u64> {
    let count = dice.next_u64() % (count_max + 1);
    let range = if dice.next_u64() & 1 == 0 { KEYS } else { KEYS / 10 };
    (0..count).map(|_| dice.next_u64() % range).collect()
}

/// Names of the files in a directory of the disk's world.
pub(crate) fn names(disk: &dyn Disk, below: &str) -> Vec<String> {
    let path = disk.path().join(below);
    disk.directory(&path).map(|directory| directory.list().unwrap()).unwrap_or_default()
}

/// Checks everything in the disk's directory as of the last commit; asserts that it is intact.
pub(crate) fn assert_whole(disk: &MemDisk) -> Checked {
    disk.free_locks();
    let checked = check(&[Arc::new(disk.clone())]).unwrap();
    assert!(checked.damages.is_empty(), "{:?}", checked.damages);
    checked
}
