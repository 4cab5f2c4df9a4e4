//! A process that is repeatedly killed in the middle of its work, on a real disk.
//!
//! The test starts itself as a child, which puts, deletes and commits in an endless loop and prints
//! each commit; the parent kills it after a random time, opens the store, and compares it with a
//! plain map of the changes so far. A few rounds by default, two hundred if `STEPWELL_LONG` is set.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like the tests")]
#![expect(clippy::print_stdout, reason = "the child tells its parent what it committed")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use stepwell_base::Key;
use stepwell_base::random::{Stream, finalize};
use stepwell_disk::FileDisk;
use stepwell_ssd::{Store, StoreOptions, check};

const CHILD: &str = "STEPWELL_KILL_CHILD";
const KEYS: u64 = 3000;
const ROW_BYTES: usize = 200;
const ROUNDS: [u64; 2] = [6, 200];

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes: 128 << 10,
        buffer_bytes: 16 << 10,
        index_bytes_max: 8 << 20,
        ..StoreOptions::new(1, ROW_BYTES)
    }
}

/// Key of change number `n`, and whether it is deleted.
fn change(n: u64) -> (Key, bool) {
    let dice = finalize(n + 1);
    let range = if dice & 1 == 0 { KEYS } else { KEYS / 20 };
    (Key((dice >> 8) % range), n % 10 == 9)
}

fn payload(n: u64) -> Vec<u8> {
    let mut stream = Stream::from_state(n);
    (0..ROW_BYTES / 8).flat_map(|_| stream.next_u64().to_le_bytes()).collect()
}

/// Continues from the store's last state. A deletion counts only if there is a row, so changes are
/// counted with the same map as in the parent.
fn work(store: &Store, log: &mut Log) {
    let commit_every = 1 + finalize(log.changes) % 400;
    loop {
        let n = log.next;
        let (key, delete) = change(n);
        log.apply(n);
        if delete {
            store.delete_many(&[key]).unwrap();
        } else {
            store.put_many(&[key], &[0], &payload(n)).unwrap();
        }
        assert_eq!(store.next_seq(), log.changes);
        if n.is_multiple_of(commit_every) {
            println!("committed {}", store.commit().unwrap().next_seq);
        }
    }
}

/// Rows of the store after the changes that counted.
#[derive(Default)]
struct Log {
    /// Number of the next change.
    next: u64,
    /// Number of changes that counted.
    changes: u64,
    rows: BTreeMap<Key, u64>,
}

impl Log {
    fn apply(&mut self, n: u64) {
        let (key, delete) = change(n);
        self.next = n + 1;
        if delete {
            self.changes += u64::from(self.rows.remove(&key).is_some());
        } else {
            self.rows.insert(key, n);
            self.changes += 1;
        }
    }

    fn of(changes: u64) -> Self {
        let mut log = Self::default();
        while log.changes < changes {
            log.apply(log.next);
        }
        log
    }
}

/// The child's part; does nothing if run as a normal test.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let disk = Arc::new(FileDisk::open(Path::new(&path)).unwrap());
    let store = Store::open(disk, options()).unwrap();
    let mut log = Log::of(store.next_seq());
    work(&store, &mut log);
}

fn run_and_kill(path: &Path, after: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let heard = std::thread::spawn(move || {
        let lines = out.lines().map_while(Result::ok);
        let commits = lines.filter_map(|line| line.strip_prefix("committed ")?.parse().ok());
        commits.last().unwrap_or(0)
    });
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    heard.join().unwrap()
}

fn assert_holds(store: &Store, log: &Log) {
    assert_eq!(store.len(), log.rows.len() as u64);
    let keys: Vec<Key> = (0..KEYS).map(Key).collect();
    let (mut rows, mut found) = (vec![0; keys.len() * ROW_BYTES], vec![false; keys.len()]);
    store.get_many(&keys, &mut rows, &mut found).unwrap();
    for ((key, row), found) in keys.iter().zip(rows.chunks_exact(ROW_BYTES)).zip(found) {
        let expected = log.rows.get(key).map(|n| payload(*n));
        assert_eq!(found.then(|| row.to_vec()), expected, "{key:?}");
    }
}

#[test]
fn what_was_committed_is_there_after_every_kill() {
    let long = std::env::var_os("STEPWELL_LONG").is_some();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let disk = Arc::new(FileDisk::create(&path).unwrap());
    drop(Store::create(disk, options()).unwrap());
    let mut dice = Stream::from_state(7);
    let (mut before, mut merged) = (0, 0);
    for round in 0..ROUNDS[usize::from(long)] {
        let after = Duration::from_millis(20 + dice.next_u64() % 400);
        let promised = run_and_kill(&path, after).max(before);
        let disk = FileDisk::open(&path).unwrap();
        let store = Store::open(Arc::new(disk.clone()), options()).unwrap();
        let changes = store.next_seq();
        assert!(changes >= promised, "round {round}: {changes} changes of {promised} promised");
        assert_holds(&store, &Log::of(changes));
        merged += store.stats().segments;
        drop(store);
        let checked = check(&[Arc::new(disk)]).unwrap();
        assert!(checked.damages.is_empty(), "round {round}: {:?}", checked.damages);
        before = changes;
    }
    assert!(before > 0 && merged > 0, "the child got somewhere");
    println!("{before} changes survived");
}
