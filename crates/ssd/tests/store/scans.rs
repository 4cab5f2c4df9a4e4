//! Scans of one moment, concurrent with everything else that happens to a store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, Lasting, MemDisk, Operation};
use stepwell_ssd::{Compaction, Cursor, Error, Scan, Store, StoreOptions, View};

use crate::common::{KEYS, ROW_BYTES, new_store, options, payload, put, reopen};
use crate::harness::{Told, in_threads, scanned, shared};

/// For each key, the number of its newest version and the step of its last use.
type Rows = BTreeMap<u64, (u64, u32)>;

/// Visits up to `rows_max` rows, and checks the bytes of each.
fn go_on(scan: &mut Scan, rows_max: usize, seen: &mut Rows) -> stepwell_ssd::Result<usize> {
    let mut count = 0;
    let visited = scan.visit(rows_max, &mut |key, used, row| {
        let seq = u64::from_le_bytes(*row.first_chunk().unwrap());
        assert_eq!(row, payload(key.0, seq), "key {}", key.0);
        assert_eq!(seen.insert(key.0, (seq, used)), None, "key {} twice", key.0);
        count += 1;
        Ok(())
    })?;
    assert!(visited == count && visited <= rows_max);
    Ok(visited)
}

/// A scan in progress, the rows it visited, and those it must visit.
struct Under {
    scan: Scan,
    seen: Rows,
    right: Rows,
}

/// Scans while a store is changed.
struct Model {
    disk: MemDisk,
    store: Store,
    rows: Rows,
    expire_before: u32,
    seq: u64,
    step: u32,
    dice: Stream,
    scans: Vec<Under>,
    done: u64,
    pinned_most: u64,
}

impl Model {
    fn new(seed: u64) -> Self {
        let (disk, store) = new_store();
        let dice = Stream::named(seed, b"scans");
        let (rows, scans) = (Rows::new(), Vec::new());
        let (expire_before, seq, step, done, pinned_most) = (0, 0, 0, 0, 0);
        Self { disk, store, rows, expire_before, seq, step, dice, scans, done, pinned_most }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice.next_u64() % sides
    }

    fn step(&mut self) {
        self.step += 1;
        match self.roll(20) {
            0..5 => self.put(60),
            5 => self.put(300),
            6..8 => self.delete(),
            8 => self.expire(),
            9..11 => drop(self.store.compact().unwrap()),
            11 => drop(self.store.commit().unwrap()),
            12 => self.begin(),
            13 if self.roll(4) == 0 => self.reopen(),
            _ => self.go_on(),
        }
        self.pinned_most = self.pinned_most.max(self.store.stats().segments_pinned);
    }

    fn put(&mut self, count_max: u64) {
        let range = [8, 40, KEYS][self.roll(3) as usize];
        for _ in 0..self.roll(count_max) {
            let (key, used) = (self.roll(range), self.step.saturating_sub(self.roll(9) as u32));
            self.store.put_many(&[Key(key)], &[used], &payload(key, self.seq)).unwrap();
            self.rows.insert(key, (self.seq, used));
            self.seq += 1;
        }
        self.rows.retain(|_, (_, used)| *used >= self.expire_before);
    }

    fn delete(&mut self) {
        let range = [8, KEYS][self.roll(2) as usize];
        let keys: Vec<u64> = (0..self.roll(12)).map(|_| self.dice.next_u64() % range).collect();
        self.store.delete_many(&keys.iter().map(|key| Key(*key)).collect::<Vec<_>>()).unwrap();
        self.rows.retain(|key, _| !keys.contains(key));
    }

    fn expire(&mut self) {
        self.expire_before = self.expire_before.max(self.step.saturating_sub(50));
        self.store.expire_before(self.expire_before).unwrap();
        self.rows.retain(|_, (_, used)| *used >= self.expire_before);
    }

    fn begin(&mut self) {
        if self.scans.len() < 4 {
            let (scan, seen, right) = (self.store.scan().unwrap(), Rows::new(), self.rows.clone());
            self.scans.push(Under { scan, seen, right });
        }
    }

    fn go_on(&mut self) {
        if self.scans.is_empty() {
            return;
        }
        let (at, rows_max) = (self.roll(self.scans.len() as u64) as usize, 1 + self.roll(70));
        let under = &mut self.scans[at];
        let before = under.scan.cursor();
        if go_on(&mut under.scan, rows_max as usize, &mut under.seen).unwrap() == 0 {
            let Under { seen, right, .. } = self.scans.swap_remove(at);
            assert_eq!(seen, right);
            self.done += 1;
        } else {
            assert_ne!(under.scan.cursor(), before);
        }
    }

    /// Scans in progress continue with the files that they hold, on the old store.
    fn reopen(&mut self) {
        self.store.commit().unwrap();
        self.store = reopen(&self.disk).unwrap();
    }
}

#[test]
fn a_scan_sees_what_there_was_when_it_began() {
    let seeds: Vec<u64> = (0..16).collect();
    in_threads(&seeds, &|seed| {
        let _told = Told(format!("seed {seed}"));
        let mut model = Model::new(*seed);
        (0..600).for_each(|_| model.step());
        while !model.scans.is_empty() {
            model.go_on();
        }
        assert!(model.done > 10, "{} scans", model.done);
        assert!(model.pinned_most > 0, "segments went while scans held them");
        let stats = model.store.stats();
        assert_eq!((stats.segments_pinned, stats.bytes_pinned), (0, 0));
    });
}

/// Key of change number `seq`, and whether it is deleted, while threads scan.
fn change(seq: u64) -> (u64, bool) {
    let mut stream = Stream::named(seq, b"change");
    (stream.next_u64() % KEYS, stream.next_u64().is_multiple_of(5))
}

#[test]
fn a_scan_that_begins_while_rows_are_put_is_of_one_moment() {
    let store = Store::create(
        Arc::new(MemDisk::new()),
        StoreOptions { compaction: Compaction::Background, ..options() },
    );
    let store = store.unwrap();
    let stopping = AtomicBool::new(false);
    let scan_all = || {
        let (mut rows, mut changes, mut seq) = (BTreeMap::new(), 0, 0);
        while changes < 60_000 {
            let mut scan = store.scan().unwrap();
            // Repeats the writer's changes before the scan's moment, one by one.
            while changes < scan.next_seq() {
                let (key, deletes) = change(seq);
                changes += match deletes {
                    true => u64::from(rows.remove(&key).is_some()),
                    false => {
                        rows.insert(key, seq);
                        1
                    }
                };
                seq += 1;
            }
            assert_eq!(changes, scan.next_seq());
            let mut seen = Rows::new();
            while go_on(&mut scan, 50, &mut seen).unwrap() > 0 {}
            let seen: BTreeMap<u64, u64> =
                seen.into_iter().map(|(key, (seq, _))| (key, seq)).collect();
            assert_eq!(seen, rows);
        }
        stopping.store(true, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        scope.spawn(scan_all);
        for seq in 0.. {
            if stopping.load(Ordering::Relaxed) {
                break;
            }
            let (key, deletes) = change(seq);
            match deletes {
                true => drop(store.delete_many(&[Key(key)]).unwrap()),
                false => store.put_many(&[Key(key)], &[9], &payload(key, seq)).unwrap(),
            }
            if seq % 5000 == 0 {
                store.commit().unwrap();
            }
        }
    });
}

#[test]
fn a_scan_goes_on_from_a_cursor() {
    let (disk, store) = new_store();
    let rows: Vec<(u64, u64)> = (0..200).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    store.delete_many(&[Key(3), Key(70)]).unwrap();
    let right = scanned(&store);
    let mut scan = store.scan().unwrap();
    let mut seen = Vec::new();
    let take = |scan: &mut Scan, seen: &mut Vec<(u64, u32)>, count| {
        scan.visit(count, &mut |key, used, _| {
            seen.push((key.0, used));
            Ok(())
        })
    };
    take(&mut scan, &mut seen, 50).unwrap();
    // After a visitor's error, its row is visited again.
    let error = scan.visit(9, &mut |_, _, _| Err(Error::Stopped)).unwrap_err();
    assert!(matches!(error, Error::Stopped));
    let cursor: Cursor =
        serde_json::from_str(&serde_json::to_string(&scan.cursor()).unwrap()).unwrap();
    assert_eq!(cursor, scan.cursor());
    drop(scan);
    // The same store, the store reopened, and a snapshot of it.
    let rest_of = |store: &Store, from: &Cursor| {
        let (mut scan, mut rest) = (store.scan_from(from).unwrap(), seen.clone());
        while take(&mut scan, &mut rest, 7).unwrap() > 0 {}
        assert_eq!(rest, right);
        let mut nothing = store.scan_from(&scan.cursor()).unwrap();
        assert_eq!(take(&mut nothing, &mut rest, 7).unwrap(), 0);
    };
    rest_of(&store, &cursor);
    let path = disk.path().join("snapshot");
    let snapshot = disk.create_directory(&path).unwrap();
    store.snapshot(&path).unwrap();
    drop(store);
    let store = reopen(&disk).unwrap();
    rest_of(&store, &cursor);
    put(&store, &[(1, 900)]).unwrap();
    let error = store.scan_from(&cursor).unwrap_err().to_string();
    assert!(error.contains("another version") && !error.contains('\n'), "{error}");
    rest_of(&View::open(snapshot, options()).unwrap(), &cursor);
}

#[test]
fn a_read_that_fails_stops_a_scan_where_it_is() {
    let memory = MemDisk::new();
    let faulty = FaultyDisk::new(shared(&memory), Faults::default());
    let store = Store::create(Arc::new(faulty.clone()), options()).unwrap();
    let rows: Vec<(u64, u64)> = (0..KEYS).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    let right: Rows = rows.iter().map(|(key, seq)| (*key, (*seq, *seq as u32))).collect();
    let mut failed = 0;
    for after in 0..60 {
        let failure = Failure {
            operation: Some(Operation::Read),
            after,
            kind: std::io::ErrorKind::Other,
            lasting: Lasting::Once,
        };
        faulty.inflict(Faults { failure: Some(failure), ..Faults::default() });
        // A scan that fails to begin leaves nothing behind.
        let Ok(mut scan) = store.scan().or_else(|_| store.scan()) else { panic!("twice") };
        let mut seen = Rows::new();
        loop {
            match go_on(&mut scan, 11, &mut seen) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    assert!(matches!(error, Error::Disk(_)), "{error}");
                    failed += 1;
                }
            }
        }
        assert_eq!(seen, right, "after {after} reads");
        put(&store, &[(after, after)]).unwrap();
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn what_a_scan_holds_is_counted_and_goes_with_it() {
    let (disk, store) = new_store();
    let rows: Vec<(u64, u64)> = (0..200).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    store.commit().unwrap();
    let mut scan = store.scan().unwrap();
    let before = disk.list().unwrap();
    put(&store, &rows.iter().map(|(key, seq)| (*key, seq + 1000)).collect::<Vec<_>>()).unwrap();
    store.commit().unwrap();
    let after = disk.list().unwrap();
    assert!(before.iter().all(|name| !name.ends_with(".rows") || !after.contains(name)));
    let held = store.stats();
    assert!(held.segments_pinned >= 5 && held.bytes_pinned > 200 * ROW_BYTES as u64, "{held:?}");
    let mut seen = Rows::new();
    go_on(&mut scan, 100, &mut seen).unwrap();
    let half = store.stats();
    assert!(half.segments_pinned < held.segments_pinned, "those that it is past go at once");
    while go_on(&mut scan, 100, &mut seen).unwrap() > 0 {}
    assert_eq!(seen.len(), 200);
    assert_eq!((store.stats().segments_pinned, store.stats().bytes_pinned), (0, 0));
}
