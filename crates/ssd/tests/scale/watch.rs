//! Cost of each part of a test, and helpers to put and check rows.

use std::fs;
use std::ops::Range;
use std::time::Instant;

use stepwell_base::Key;
use stepwell_base::random::{Stream, finalize};
use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::Store;

/// Number of rows per call.
const AT_ONCE: u64 = 512;
/// Number of look-up calls.
const LOOKUPS: u64 = 20;

/// Prints the cost of each part.
pub(crate) struct Watch {
    began: Instant,
    disk: FileDisk,
    /// The most files that the process may have open.
    limit: u64,
}

impl Watch {
    pub(crate) fn start(disk: &FileDisk, limit: u64) -> Self {
        Self { began: Instant::now(), disk: disk.clone(), limit }
    }

    /// Ends a part; returns its seconds.
    pub(crate) fn lap(&mut self, part: &str) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64();
        let stats = self.disk.open_files().unwrap();
        let memory = memory_peak() >> 20;
        println!("{part:<12} {seconds:>7.2} s  {memory:>6} MiB at most  {stats}");
        let here = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        assert!(here < self.limit && stats.open as u64 <= self.limit / 2, "{part}: {here} open");
        assert_eq!(stats.kept, 0, "{part}");
        self.began = Instant::now();
        seconds
    }
}

/// Peak memory of the process, in bytes.
pub(crate) fn memory_peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn payload(key: u64, version: u64, bytes: usize) -> impl Iterator<Item = u8> {
    let mut stream = Stream::from_state(finalize(key) ^ version);
    (0..bytes / 8).flat_map(move |_| stream.next_u64().to_le_bytes())
}

/// Puts a version of the rows in a range of keys.
pub(crate) fn put(store: &Store, keys: Range<u64>, version: u64) {
    let bytes = store.options().row_bytes;
    let mut rows = Vec::with_capacity(AT_ONCE as usize * bytes);
    for start in keys.clone().step_by(AT_ONCE as usize) {
        let keys = start..keys.end.min(start + AT_ONCE);
        rows.clear();
        keys.clone().for_each(|key| rows.extend(payload(key, version, bytes)));
        let keys: Vec<Key> = keys.map(Key).collect();
        store.put_many(&keys, &vec![1; keys.len()], &rows).unwrap();
    }
}

/// Looks up random keys; those below `changed` have version 2, the others 1.
pub(crate) fn assert_holds(store: &Store, keys: u64, changed: u64, seed: u64) {
    let bytes = store.options().row_bytes;
    let mut dice = Stream::from_state(seed);
    for _ in 0..LOOKUPS {
        let keys: Vec<Key> = (0..AT_ONCE).map(|_| Key(dice.next_u64() % keys)).collect();
        let (mut rows, mut found) = (vec![0; keys.len() * bytes], vec![false; keys.len()]);
        store.get_many(&keys, &mut rows, &mut found).unwrap();
        for ((key, row), found) in keys.iter().zip(rows.chunks_exact(bytes)).zip(found) {
            let version = if key.0 < changed { 2 } else { 1 };
            assert!(found && row.iter().copied().eq(payload(key.0, version, bytes)), "{key:?}");
        }
    }
}
