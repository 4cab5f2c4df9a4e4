//! Space and writes stay within their bounds, in whatever pattern rows are overwritten.

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{Compaction, Stats, Store, StoreOptions};

use crate::harness::shared;

const ROW_BYTES: usize = 256;
/// Pages of 15 rows with little unused space, segments of about 120 of them.
const SEGMENT_BYTES: u64 = 512 << 10;

fn options(compaction: Compaction) -> StoreOptions {
    StoreOptions {
        segment_bytes: SEGMENT_BYTES,
        buffer_bytes: 32 << 10,
        index_bytes_max: 8 << 20,
        compaction,
        ..StoreOptions::new(1, ROW_BYTES)
    }
}

/// Number of rows that fill `segments` segments.
fn rows_of(segments: u64) -> u64 {
    segments * u64::from(options(Compaction::Inline).segment_rows())
}

struct Run {
    disk: MemDisk,
    store: Store,
    rows: u64,
    /// The most space, as a multiple of live rows' bytes: after commits, and at any time.
    committed_most: f64,
    most: f64,
}

impl Run {
    /// A store of `rows` rows, all put once.
    fn new(rows: u64, compaction: Compaction) -> Self {
        let disk = MemDisk::new();
        let store = Store::create(shared(&disk), options(compaction)).unwrap();
        let mut run = Self { disk, store, rows, committed_most: 0.0, most: 0.0 };
        let all: Vec<Key> = (0..rows).map(Key).collect();
        run.put(&all);
        run.commit();
        (run.committed_most, run.most) = (0.0, 0.0);
        run
    }

    fn put(&mut self, keys: &[Key]) {
        for keys in keys.chunks(200) {
            let rows: Vec<u8> = keys.iter().flat_map(|key| [key.0 as u8; ROW_BYTES]).collect();
            self.store.put_many(keys, &vec![1; keys.len()], &rows).unwrap();
            self.most = self.most.max(self.store.stats().space_amplification);
        }
    }

    fn commit(&mut self) {
        self.store.commit().unwrap();
        let stats = self.store.stats();
        self.committed_most = self.committed_most.max(stats.space_amplification);
        if self.store.options().compaction == Compaction::Background {
            // Files change concurrently.
            return;
        }
        // The figure must match the existing files.
        let names = self.disk.list().unwrap().into_iter().filter(|name| name.ends_with(".rows"));
        let bytes: u64 = names.map(|name| self.disk.open(&name).unwrap().len().unwrap()).sum();
        // A segment may be open, or being merged.
        assert!(bytes <= stats.bytes_files + 2 * SEGMENT_BYTES, "{bytes} bytes: {stats:?}");
        assert!(bytes + 2 * SEGMENT_BYTES >= stats.bytes_files, "{bytes} bytes: {stats:?}");
    }

    /// Overwrites as many rows as there are, `times` times, with keys from `next`.
    fn overwrite(&mut self, times: u64, next: &mut dyn FnMut() -> u64) -> Stats {
        let portion = self.rows / 5;
        for round in 0..times * 5 {
            let keys: Vec<Key> = (0..portion).map(|_| Key(next())).collect();
            self.put(&keys);
            if round % 4 == 3 {
                self.commit();
            }
        }
        self.commit();
        self.assert_bounded();
        let stats = self.store.stats();
        assert_eq!(stats.rows_live, self.rows);
        assert!(stats.index_bytes_peak <= options(Compaction::Inline).index_bytes_max);
        stats
    }

    fn assert_bounded(&self) {
        let Self { committed_most, most, store, .. } = self;
        let stats = store.stats();
        // A segment that a commit ends early has a header, an unfinished page and a list.
        let early = 4.0 * 4096.0 / stats.bytes_live as f64;
        // After a background merge between a commit and this check, its new segment exists in
        // addition to the old ones.
        let merged = match store.options().compaction {
            Compaction::Background => 2.0 * SEGMENT_BYTES as f64 / stats.bytes_live as f64,
            Compaction::Inline => 0.0,
        };
        assert!(
            *committed_most <= 1.5 + early + merged,
            "{committed_most} after a commit: {stats:?}"
        );
        assert!(*most <= 2.0, "{most} between commits: {stats:?}");
    }
}

#[test]
fn uniform_overwriting_keeps_its_bounds() {
    for segments in [8, 20] {
        let rows = rows_of(segments);
        let mut run = Run::new(rows, Compaction::Inline);
        let mut dice = Stream::from_state(segments);
        let stats = run.overwrite(10, &mut || dice.next_u64() % rows);
        // With few segments, there is less choice.
        let (written, bound) = (stats.write_amplification, if segments < 20 { 2.2 } else { 2.0 });
        assert!(written <= bound, "{segments} segments: {written} bytes for one: {stats:?}");
    }
}

#[test]
fn skewed_overwriting_keeps_its_bounds() {
    for segments in [8, 20] {
        let rows = rows_of(segments);
        let mut run = Run::new(rows, Compaction::Inline);
        let mut dice = Stream::from_state(segments);
        // Nine of ten go to a tenth of the rows; then to one in a thousand.
        let mut tenth = || {
            let range = if dice.next_u64().is_multiple_of(10) { rows } else { rows / 10 };
            dice.next_u64() % range
        };
        let stats = run.overwrite(5, &mut tenth);
        assert!(stats.write_amplification <= 2.0, "{stats:?}");
        let mut few = || dice.next_u64() % (rows / 1000).max(1);
        run.overwrite(3, &mut few);
    }
}

#[test]
fn overwriting_in_order_writes_little_more_than_once() {
    let rows = rows_of(10);
    let mut run = Run::new(rows, Compaction::Inline);
    let mut next = 0;
    let stats = run.overwrite(6, &mut || {
        next += 1;
        next % rows
    });
    assert!(stats.write_amplification <= 1.3, "{stats:?}");
}

#[test]
fn a_compactor_keeps_the_bounds_too() {
    let rows = rows_of(10);
    let mut run = Run::new(rows, Compaction::Background);
    let mut dice = Stream::from_state(5);
    let stats = run.overwrite(6, &mut || dice.next_u64() % rows);
    assert!(stats.compactions > 0, "{stats:?}");
}

#[test]
fn a_store_that_shrinks_gives_space_back() {
    let rows = rows_of(24);
    let mut run = Run::new(rows, Compaction::Inline);
    let mut most: f64 = 0.0;
    for part in 0..2 {
        let keys: Vec<Key> = (0..rows).filter(|key| key % 3 == part).map(Key).collect();
        for keys in keys.chunks(500) {
            run.store.delete_many(keys).unwrap();
            most = most.max(run.store.stats().space_amplification);
        }
        run.commit();
    }
    assert!(most <= 2.0, "{most}");
    run.assert_bounded();
    assert_eq!(run.store.len(), rows / 3);
}

#[test]
fn expired_rows_give_space_back() {
    let rows = rows_of(24);
    let mut run = Run::new(0, Compaction::Inline);
    for first in (0..rows).step_by(500) {
        let keys: Vec<Key> = (first..rows.min(first + 500)).map(Key).collect();
        let used: Vec<u32> = keys.iter().map(|key| (key.0 / 1000) as u32).collect();
        run.store.put_many(&keys, &used, &vec![1; keys.len() * ROW_BYTES]).unwrap();
    }
    run.commit();
    let full = run.store.stats().bytes_files;
    run.store.expire_before((rows * 2 / 3 / 1000) as u32).unwrap();
    while run.store.compact().unwrap() > 0 {}
    run.commit();
    let stats = run.store.stats();
    assert!(stats.bytes_files < full / 2, "{full} bytes before: {stats:?}");
    assert!(stats.rows_expired > rows / 2 && stats.space_amplification <= 1.5, "{stats:?}");
}
