//! A store of far more segments than a process may have files open.
//!
//! The test starts itself as a child that may have 256 files open (`ulimit -n`) and takes a store
//! through everything that touches its segments. Twelve hundred of them always, a hundred thousand
//! where `STEPWELL_LONG` is set.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like the tests")]
#![expect(clippy::print_stdout, reason = "the child says what it took")]

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use stepwell_base::Key;
use stepwell_base::random::{Stream, finalize};
use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::{Compaction, Store, StoreOptions, check};

const CHILD: &str = "STEPWELL_MANY_SEGMENTS";
const LIMIT: u64 = 256;
const SEGMENTS: [u64; 2] = [1_200, 100_000];
const ROW_BYTES: usize = 600;
const AT_ONCE: u64 = 512;

fn options() -> StoreOptions {
    let options = StoreOptions {
        buffer_bytes: 8 << 10,
        index_bytes_max: 64 << 20,
        // No merge but those that are asked for.
        compaction: Compaction::Inline,
        space_max: 2.0,
        ..StoreOptions::new(1, ROW_BYTES)
    };
    StoreOptions { segment_bytes: 16 << 10, ..options }
}

fn payload(key: u64, version: u64) -> Vec<u8> {
    let mut stream = Stream::from_state(finalize(key) ^ version);
    (0..ROW_BYTES / 8).flat_map(|_| stream.next_u64().to_le_bytes()).collect()
}

fn put(store: &Store, keys: Range<u64>, version: u64) {
    for start in keys.clone().step_by(AT_ONCE as usize) {
        let keys = start..keys.end.min(start + AT_ONCE);
        let rows: Vec<u8> = keys.clone().flat_map(|key| payload(key, version)).collect();
        let keys: Vec<Key> = keys.map(Key).collect();
        store.put_many(&keys, &vec![1; keys.len()], &rows).unwrap();
    }
}

/// Looks up keys from everywhere; those below `changed` have version 2.
fn holds(store: &Store, keys: u64, changed: u64, seed: u64) {
    let mut dice = Stream::from_state(seed);
    for _ in 0..20 {
        let keys: Vec<Key> = (0..AT_ONCE).map(|_| Key(dice.next_u64() % keys)).collect();
        let (mut rows, mut found) = (vec![0; keys.len() * ROW_BYTES], vec![false; keys.len()]);
        store.get_many(&keys, &mut rows, &mut found).unwrap();
        for ((key, row), found) in keys.iter().zip(rows.chunks_exact(ROW_BYTES)).zip(found) {
            let version = if key.0 < changed { 2 } else { 1 };
            assert!(found && row == payload(key.0, version), "{key:?}");
        }
    }
}

/// Says what a part took.
struct Watch {
    began: Instant,
    disk: FileDisk,
}

impl Watch {
    fn lap(&mut self, part: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
        let stats = self.disk.open_files().unwrap();
        println!("{part:<10} {seconds:>7.2} s  {peak}  {stats}");
        let here = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        assert!(here < LIMIT && stats.open as u64 <= LIMIT / 2, "{part}: {here} descriptors");
        assert_eq!(stats.kept, 0, "{part}");
        self.began = Instant::now();
    }
}

fn work(path: &Path, segments: u64) {
    let disk = FileDisk::create(&path.join("store")).unwrap();
    let mut watch = Watch { began: Instant::now(), disk: disk.clone() };
    let shared = || -> Arc<dyn Disk> { Arc::new(disk.clone()) };
    let keys = segments * u64::from(options().segment_rows());

    let store = Store::create(shared(), options()).unwrap();
    put(&store, 0..keys, 1);
    watch.lap("put");
    store.commit().unwrap();
    assert!(store.stats().segments >= segments, "{:?}", store.stats());
    watch.lap("commit");
    holds(&store, keys, 0, 1);
    watch.lap("get");
    drop(store);

    let store = Store::open(shared(), options()).unwrap();
    watch.lap("open");
    holds(&store, keys, 0, 2);
    let changed = keys / 10;
    put(&store, 0..changed, 2);
    let mut merged = 0;
    while merged < 100 {
        let some = store.compact().unwrap();
        assert!(some > 0, "there is something to merge after {merged}");
        merged += some;
    }
    store.commit().unwrap();
    holds(&store, keys, changed, 3);
    watch.lap("merge");

    let to = disk.create_directory(&path.join("snapshot")).unwrap();
    store.snapshot(to.path()).unwrap();
    watch.lap("snapshot");
    drop(store);
    let checked = check(&[shared()]).unwrap();
    assert!(checked.damages.is_empty() && checked.segments >= segments * 9 / 10, "{checked:?}");
    watch.lap("check");
    let restored = disk.create_directory(&path.join("restored")).unwrap();
    let store = Store::restore(restored, to.path(), options()).unwrap();
    watch.lap("restore");
    assert_eq!(store.len(), keys);
    holds(&store, keys, changed, 4);
    watch.lap("get again");
}

/// The child's part; a test like others where nobody asks for it.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let long = std::env::var_os("STEPWELL_LONG").is_some();
    work(Path::new(&path), SEGMENTS[usize::from(long)]);
}

#[test]
fn a_store_of_many_segments_needs_few_open_files() {
    let directory = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit -n {LIMIT} && exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}in {:.1} s", began.elapsed().as_secs_f64());
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("get again"), "{said}");
}
