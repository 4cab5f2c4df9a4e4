//! Rows harvested from pages that are read for others.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, Lasting, MemDisk, Operation};
use stepwell_ssd::{Compaction, Error, Harvest, Lookup, Reader, Store, StoreOptions, Wanted};

use crate::damage::{FIRST, SECOND, flip};

const KEYS: u64 = 2000;

/// Wants a given set of keys.
#[derive(Debug, Default)]
struct Wishes(Mutex<HashSet<Key>>);

impl Wanted for Wishes {
    fn look(&self, keys: &[Key], found: &mut dyn FnMut(usize)) {
        let wishes = self.0.lock().unwrap();
        (0..keys.len()).filter(|at| wishes.contains(&keys[*at])).for_each(found);
    }
}

fn row(key: u64, version: u64) -> [u8; 16] {
    let mut row = [0; 16];
    row[..8].copy_from_slice(&key.to_le_bytes());
    row[8..].copy_from_slice(&version.to_le_bytes());
    row
}

fn store() -> Store {
    store_on(Arc::new(MemDisk::new()))
}

fn store_on(disk: Arc<dyn Disk>) -> Store {
    let options = StoreOptions {
        segment_bytes: 24_576,
        buffer_bytes: 8_192,
        index_bytes_max: 2 << 20,
        compaction: Compaction::Inline,
        ..StoreOptions::new(0, 16)
    };
    Store::create(disk, options).unwrap()
}

fn put(store: &Store, keys: &[u64], version: u64) {
    let rows: Vec<u8> = keys.iter().flat_map(|key| row(*key, version)).collect();
    let keys: Vec<Key> = keys.iter().copied().map(Key).collect();
    store.put_many(&keys, &vec![1; keys.len()], &rows).unwrap();
}

/// Looks up `keys`, and returns the harvested rows, each with whether it is live.
fn look(reader: &mut Reader, keys: &[u64]) -> Vec<(u64, Vec<u8>, bool)> {
    let ticket = reader.submit(Lookup::new(keys.iter().copied().map(Key).collect())).unwrap();
    drop(reader.wait(ticket).unwrap());
    let mut harvest = Harvest::default();
    reader.take_harvest(&mut harvest);
    let mut found = Vec::new();
    reader.live(&harvest, |at, live| {
        found.push((harvest.keys[at].0, harvest.rows[at * 16..(at + 1) * 16].to_vec(), live));
    });
    found
}

#[test]
fn neighbours_that_are_wanted_come_with_a_row() {
    let store = store();
    put(&store, &(0..KEYS).collect::<Vec<_>>(), 0);
    store.commit().unwrap();
    let (wishes, mut reader) = (Arc::new(Wishes::default()), store.reader().unwrap());
    reader.harvest(Arc::clone(&wishes) as Arc<dyn Wanted>, 0);
    assert!(look(&mut reader, &[7]).is_empty(), "nothing is wanted");
    wishes.0.lock().unwrap().extend([5, 7, 9, KEYS - 1].map(Key));
    let found = look(&mut reader, &[7]);
    let rows = [5, 9].map(|key| (key, row(key, 0).to_vec(), true));
    assert_eq!(found, rows, "of its page, and not itself");
    // Newer versions are elsewhere: the page's rows are not live.
    put(&store, &[9], 1);
    let live: Vec<_> = look(&mut reader, &[7]).iter().map(|(key, _, live)| (*key, *live)).collect();
    assert_eq!(live, [(5, true), (9, false)]);
}

/// A key that was deleted and put again may be on a page twice.
#[test]
fn of_two_versions_on_one_page_the_last_is_live() {
    let store = store();
    put(&store, &[1, 2], 0);
    store.delete_many(&[Key(1)]).unwrap();
    put(&store, &[1], 1);
    store.commit().unwrap();
    let (wishes, mut reader) = (Arc::new(Wishes::default()), store.reader().unwrap());
    reader.harvest(Arc::clone(&wishes) as Arc<dyn Wanted>, 0);
    wishes.0.lock().unwrap().insert(Key(1));
    assert_eq!(look(&mut reader, &[2]), [(1, row(1, 1).to_vec(), true)]);
}

/// Rows reported as live are the newest, whatever is put and merged concurrently.
#[test]
fn what_is_live_is_the_newest() {
    let (store, mut dice) = (store(), Stream::from_state(3));
    let mut newest: HashMap<u64, u64> = HashMap::new();
    let (wishes, mut reader) = (Arc::new(Wishes::default()), store.reader().unwrap());
    reader.harvest(Arc::clone(&wishes) as Arc<dyn Wanted>, 32 << 10);
    wishes.0.lock().unwrap().extend((0..KEYS).map(Key));
    let (mut live, mut stale) = (0, 0);
    let mut harvest = Harvest::default();
    for version in 0..400 {
        let keys: Vec<u64> = (0..60).map(|_| dice.next_u64() % KEYS).collect();
        put(&store, &keys, version);
        keys.iter().for_each(|key| _ = newest.insert(*key, version));
        let keys: Vec<Key> = (0..5).map(|_| Key(dice.next_u64() % KEYS)).collect();
        let ticket = reader.submit(Lookup::new(keys)).unwrap();
        drop(reader.wait(ticket).unwrap());
        reader.take_harvest(&mut harvest);
        // Between the read and the check, rows change and segments are merged.
        let keys: Vec<u64> = (0..60).map(|_| dice.next_u64() % KEYS).collect();
        put(&store, &keys, version + 1000);
        keys.iter().for_each(|key| _ = newest.insert(*key, version + 1000));
        reader.live(&harvest, |at, is_live| {
            let key = harvest.keys[at].0;
            let is_newest = harvest.rows[at * 16..(at + 1) * 16] == row(key, newest[&key]);
            assert!(!is_live || is_newest, "row {key} is older");
            (live, stale) = (live + u32::from(is_live), stale + u32::from(!is_live));
        });
        if version % 50 == 0 {
            store.commit().unwrap();
        }
    }
    assert!(store.stats().compactions > 10 && live > 1000 && stale > 1000, "{live} {stale}");
}

/// If neighbours yield rows, more of them are read together; if one of them is damaged, only
/// look-ups of its own rows fail.
#[test]
fn more_pages_are_read_where_they_yield_rows() {
    let disk = Arc::new(MemDisk::new());
    let store = store_on(Arc::clone(&disk) as Arc<dyn Disk>);
    put(&store, &(0..KEYS).collect::<Vec<_>>(), 0);
    store.commit().unwrap();
    let (wishes, mut reader) = (Arc::new(Wishes::default()), store.reader().unwrap());
    reader.harvest(Arc::clone(&wishes) as Arc<dyn Wanted>, 16 << 10);
    let pages_of_a_read = |reader: &mut Reader| {
        let before = store.stats();
        for _ in 0..6000 {
            look(reader, &[7]);
        }
        let after = store.stats();
        (after.pages_read - before.pages_read) as f64 / (after.reads - before.reads) as f64
    };
    assert_eq!(pages_of_a_read(&mut reader), 1.0, "nothing is wanted");
    // Two rows of each page.
    wishes.0.lock().unwrap().extend((0..KEYS).step_by(64).map(Key));
    pages_of_a_read(&mut reader);
    assert_eq!(pages_of_a_read(&mut reader), 3.0, "all that the segment has");
    let pages: HashSet<u64> = look(&mut reader, &[7]).iter().map(|(key, ..)| key / 127).collect();
    assert_eq!(pages.len(), 3);
    flip(&disk, FIRST, 2 * 4096 + 100);
    assert!(look(&mut reader, &[7]).iter().all(|(key, ..)| key / 127 != 1));
    let ticket = reader.submit(Lookup::new(vec![Key(130)])).unwrap();
    assert!(reader.wait(ticket).is_err());
}

/// A read that fails with unrequested pages is retried without them.
#[test]
fn what_nobody_asked_for_fails_nobody() {
    let failing = |unit_bytes: usize| {
        let failure = Failure {
            operation: Some(Operation::Read),
            after: 6_500,
            kind: ErrorKind::Other,
            lasting: Lasting::Once,
        };
        let faults = Faults { failure: Some(failure), ..Faults::default() };
        let store = store_on(Arc::new(FaultyDisk::new(Arc::new(MemDisk::new()), faults)));
        put(&store, &(0..KEYS).collect::<Vec<_>>(), 0);
        store.commit().unwrap();
        let (wishes, mut reader) = (Arc::new(Wishes::default()), store.reader().unwrap());
        reader.harvest(Arc::clone(&wishes) as Arc<dyn Wanted>, unit_bytes);
        wishes.0.lock().unwrap().extend((0..KEYS).step_by(64).map(Key));
        let looks = (0..7_000).map(|_| {
            let ticket = reader.submit(Lookup::new(vec![Key(7), Key(300)])).unwrap();
            let lookup = reader.wait(ticket)?;
            assert_eq!(lookup.found, [true, true]);
            assert_eq!(lookup.rows[16..], row(300, 0));
            reader.take_harvest(&mut Harvest::default());
            Ok(())
        });
        looks.filter(|look: &Result<(), Error>| look.is_err()).count()
    };
    assert_eq!((failing(0), failing(32 << 10)), (1, 0));
}

/// Of two bad pages, the first is named, although the second's read ends before the first page is
/// read again by itself.
#[test]
fn the_first_bad_page_is_named_whatever_is_read_again() {
    let memory = MemDisk::new();
    let disk = FaultyDisk::new(Arc::new(memory.clone()), Faults::default());
    let store = store_on(Arc::new(disk.clone()));
    put(&store, &(0..KEYS).collect::<Vec<_>>(), 0);
    store.commit().unwrap();
    let (wishes, mut reader) = (Arc::new(Wishes::default()), store.reader().unwrap());
    reader.harvest(Arc::clone(&wishes) as Arc<dyn Wanted>, 32 << 10);
    wishes.0.lock().unwrap().extend((0..KEYS).step_by(64).map(Key));
    (0..7_000).for_each(|_| drop(look(&mut reader, &[7])));
    [FIRST, SECOND].iter().for_each(|name| flip(&memory, name, 4096 + 100));
    let failure = Failure {
        operation: Some(Operation::Read),
        after: 0,
        kind: ErrorKind::Other,
        lasting: Lasting::Once,
    };
    disk.inflict(Faults { failure: Some(failure), ..Faults::default() });
    let ticket = reader.submit(Lookup::new(vec![Key(400), Key(7)])).unwrap();
    let error = reader.wait(ticket).unwrap_err();
    let Error::Page { path, page: 1, keys, .. } = &error else { panic!("{error}") };
    assert!(path.ends_with(FIRST) && keys == &[Key(7)], "{error}");
    assert_eq!(disk.fired(), 1, "the first read failed");
}
