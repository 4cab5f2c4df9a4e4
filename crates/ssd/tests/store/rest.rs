//! Merging ends: under any settings, the number of merges is bounded by what was written, an idle
//! store comes to rest within its target, and no writer waits forever.

use std::collections::BTreeMap;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::MemDisk;
use stepwell_ssd::{Compaction, Store, StoreOptions};

use crate::harness::{Told, in_threads, is_long, shared};

const BLOCK: u64 = 4096;
const ROW_BYTES: [usize; 9] = [1, 8, 24, 72, 300, 1000, 2040, 4100, 9000];

/// Bytes of a page, and its number of rows.
fn page(row_bytes: usize) -> (u64, u64) {
    let stride = row_bytes as u64 + 16;
    let page = (stride + 8).next_multiple_of(BLOCK);
    (page, (page - 8) / stride)
}

/// Random admitted settings, most of them with segments of a few pages.
fn options(dice: &mut Stream) -> StoreOptions {
    let row_bytes = ROW_BYTES[(dice.next_u64() % ROW_BYTES.len() as u64) as usize];
    let (page_bytes, _) = page(row_bytes);
    loop {
        let pages = 3 + dice.next_u64() % (4 << (dice.next_u64() % 4));
        let options = StoreOptions {
            segment_bytes: pages * page_bytes + dice.next_u64() % 3 * 2048,
            buffer_bytes: (1 + dice.next_u64() % 4) * page_bytes,
            index_bytes_max: 8 << 20,
            space_max: [1.1, 1.5, 1.5, 1.7, 2.0][(dice.next_u64() % 5) as usize],
            compaction: Compaction::Inline,
            ..StoreOptions::new(1, row_bytes)
        };
        if options.check().is_ok() {
            return options;
        }
    }
}

/// Counts of what was done to a store.
#[derive(Default)]
struct Given {
    rows: BTreeMap<u64, (u64, u32)>,
    put: u64,
    deleted: u64,
    expiries: u64,
    /// Number of times that the open segment may have ended before it was full.
    ends: u64,
}

impl Given {
    fn put(&mut self, store: &Store, keys: &[u64], used: u32) {
        let row_bytes = store.options().row_bytes;
        let mut rows = Vec::new();
        for key in keys {
            self.put += 1;
            self.rows.insert(*key, (self.put, used));
            rows.extend(payload(self.put, row_bytes));
        }
        let keys: Vec<Key> = keys.iter().map(|key| Key(*key)).collect();
        store.put_many(&keys, &vec![used; keys.len()], &rows).unwrap();
    }

    fn delete(&mut self, store: &Store, keys: &[u64]) {
        self.rows.retain(|key, _| !keys.contains(key));
        self.deleted += keys.len() as u64;
        self.ends += 1;
        let keys: Vec<Key> = keys.iter().map(|key| Key(*key)).collect();
        store.delete_many(&keys).unwrap();
    }

    fn expire(&mut self, store: &Store, before: u32) {
        self.rows.retain(|_, (_, used)| *used >= before);
        self.expiries += 1;
        store.expire_before(before).unwrap();
    }

    fn commit(&mut self, store: &Store) {
        self.ends += 1;
        store.commit().unwrap();
    }

    /// The most merges that are possible: each frees a block written by a put, or drops a row or a
    /// deletion if there are deletions or expiries.
    fn merges_max(&self, options: &StoreOptions) -> u64 {
        let (page, rows) = page(options.row_bytes);
        let segments = self.put / u64::from(options.segment_rows()) + self.ends + 1;
        let row_bytes = page / rows + 1 + 8 + 8;
        let bytes = self.put * row_bytes + self.deleted * 16 + segments * (2 * page + 2 * BLOCK);
        let dropped = if self.deleted + self.expiries > 0 { 2 * self.put } else { 0 };
        bytes / BLOCK + dropped + self.expiries * segments
    }

    fn assert_bounded(&self, store: &Store) {
        let stats = store.stats();
        let most = self.merges_max(store.options());
        assert!(stats.compactions <= most, "above {most} merges: {stats:?}");
    }

    fn assert_holds(&self, store: &Store) {
        let keys: Vec<Key> = self.rows.keys().map(|key| Key(*key)).collect();
        let row_bytes = store.options().row_bytes;
        let (mut rows, mut found) = (vec![0; keys.len() * row_bytes], vec![false; keys.len()]);
        store.get_many(&keys, &mut rows, &mut found).unwrap();
        assert!(found.iter().all(|found| *found));
        for (row, (seq, _)) in rows.chunks_exact(row_bytes).zip(self.rows.values()) {
            assert_eq!(row, payload(*seq, row_bytes));
        }
        let mut seen = 0;
        let visit = &mut |_, _, _: &[u8]| {
            seen += 1;
            Ok(())
        };
        store.scan_live(visit).unwrap();
        assert_eq!(seen, self.rows.len(), "nothing is back");
    }
}

fn payload(seq: u64, row_bytes: usize) -> Vec<u8> {
    seq.to_le_bytes().into_iter().cycle().take(row_bytes).collect()
}

/// Merges until nothing is due; then the store must be within its target, and stay so.
fn rest(store: &Store, given: &Given) {
    while store.compact().unwrap() > 0 {
        given.assert_bounded(store);
    }
    let stats = store.stats();
    assert_eq!(stats.bytes_debt, 0, "at rest above the target: {stats:?}");
    store.commit().unwrap();
    while store.compact().unwrap() > 0 {
        given.assert_bounded(store);
    }
    let merges = store.stats().compactions;
    for _ in 0..3 {
        store.commit().unwrap();
        assert_eq!(store.compact().unwrap(), 0);
    }
    let stats = store.stats();
    assert_eq!((stats.bytes_debt, stats.compactions), (0, merges), "{stats:?}");
    assert_eq!(stats.segments_retired, 0, "{stats:?}");
}

/// Runs a workload determined by the seed, under random settings.
fn run(seed: u64) {
    let mut dice = Stream::from_state(seed);
    let options = options(&mut dice);
    let _told = Told(format!("seed {seed}: {options:?}"));
    let full = u64::from(options.segment_rows());
    let keys = 1 + dice.next_u64() % (full * 12 + 20);
    let (deletes, expires) = (dice.next_u64().is_multiple_of(3), dice.next_u64().is_multiple_of(3));
    let disk = MemDisk::new();
    let store = Store::create(shared(&disk), options.clone()).unwrap();
    let (mut given, mut next) = (Given::default(), 0);
    let rounds = 30 + dice.next_u64() % 60;
    for round in 0..rounds {
        let count = dice.next_u64() % (full / 2 + 4);
        let range = [keys, keys / 10 + 1][(dice.next_u64() % 2) as usize];
        let in_order = dice.next_u64().is_multiple_of(4);
        let mut key = || {
            next += 1;
            if in_order { next % keys } else { dice.next_u64() % range }
        };
        let chosen: Vec<u64> = (0..count).map(|_| key()).collect();
        match dice.next_u64() % 12 {
            0 if deletes => given.delete(&store, &chosen),
            1 if deletes => {
                let all: Vec<u64> = given.rows.keys().copied().step_by(2).collect();
                given.delete(&store, &all);
            }
            2 if expires => given.expire(&store, (round / 2) as u32),
            3 | 4 => given.commit(&store),
            5 => drop(store.compact().unwrap()),
            _ => given.put(&store, &chosen, round as u32 + 1),
        }
        given.assert_bounded(&store);
    }
    rest(&store, &given);
    given.assert_holds(&store);
    drop(store);
    let store = Store::open(shared(&disk), options).unwrap();
    given.assert_holds(&store);
    rest(&store, &given);
}

#[test]
fn merging_ends_whatever_the_settings() {
    let seeds: Vec<u64> = (0..if is_long() { 250 } else { 100 }).collect();
    in_threads(&seeds, &|seed| run(*seed));
}

/// Two threads repeatedly put rows of 8 bytes into segments of one page.
fn overwrite(compaction: Compaction, portion: u64) {
    let options = StoreOptions {
        segment_bytes: 16 << 10,
        index_bytes_max: 8 << 20,
        compaction,
        ..StoreOptions::new(1, 8)
    };
    let store = Arc::new(Store::create(shared(&MemDisk::new()), options).unwrap());
    let write = |seed: u64| {
        let (mut dice, mut given) = (Stream::from_state(seed), Given::default());
        for round in 0..15_000 / portion {
            let keys: Vec<u64> =
                (0..portion).map(|_| (dice.next_u64() % 2500) << 1 | seed).collect();
            given.put(&store, &keys, 1);
            if round % 16 == 15 {
                given.commit(&store);
            }
        }
        given
    };
    let [mut first, second] = std::thread::scope(|scope| {
        let threads = [0, 1].map(|seed| scope.spawn(move || write(seed)));
        threads.map(|thread| thread.join().unwrap())
    });
    first.assert_holds_beside(&second, &store);
    first.put += second.put;
    // Background merges end segments at commits that were not requested here.
    first.ends += second.ends + store.stats().commits;
    first.assert_bounded(&store);
    rest(&store, &first);
}

impl Given {
    fn assert_holds_beside(&mut self, other: &Self, store: &Store) {
        for given in [&*self, other] {
            let keys: Vec<Key> = given.rows.keys().map(|key| Key(*key)).collect();
            let (mut rows, mut found) = (vec![0; keys.len() * 8], vec![false; keys.len()]);
            store.get_many(&keys, &mut rows, &mut found).unwrap();
            let right = given.rows.values().flat_map(|(seq, _)| seq.to_le_bytes());
            assert!(found.iter().all(|found| *found) && rows.into_iter().eq(right));
        }
    }
}

#[test]
fn writers_of_tiny_segments_get_on() {
    for portion in [3, 200, 3000] {
        overwrite(Compaction::Background, portion);
        overwrite(Compaction::Inline, portion);
    }
}
