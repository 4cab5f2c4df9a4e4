//! Two stores of many rows in one process take what was planned.
//!
//! If `STEPWELL_LONG` is set, each has 20 GB, really written and read, which needs 60 GB of room in
//! the temporary directory (`TMPDIR`); 64 MB otherwise. From the result, the test extrapolates to
//! two stores of 100 GB.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use stepwell_base::ByteCount;
use stepwell_base::budget::Budget;
use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::{Executor, ExecutorOptions, Store, StoreOptions};

use crate::child;
use crate::watch::{Watch, assert_holds, memory_peak, put};

const LIMIT: u64 = 256;
const ROW_BYTES: usize = 256;
/// Bytes of a row in a file: payload, head, share of unused space on pages, list of keys.
const ROW_BYTES_FILE: f64 = 282.0;
const STORE_BYTES: [u64; 2] = [64_000_000, 20_000_000_000];
const PAPER_BYTES: u64 = 100_000_000_000;
/// Room needed as a multiple of one store's size: for both stores, merges and snapshots.
const ROOM: u64 = 3;
/// Memory of the test itself and the program.
const BESIDE: u64 = 48 << 20;

fn options(bytes: u64) -> StoreOptions {
    let rows_hint = (bytes as f64 / ROW_BYTES_FILE) as u64;
    let options = StoreOptions { rows_hint, ..StoreOptions::new(1, ROW_BYTES) };
    // At least a hundred segments.
    let segment_bytes = options.segment_bytes.min((bytes / 100).next_multiple_of(4096));
    let index_bytes_max = options.index_bytes_for(rows_hint);
    StoreOptions { segment_bytes, index_bytes_max, ..options }
}

/// Planned memory of two stores with these options.
fn planned(options: &StoreOptions) -> Budget {
    let mut budget = Budget::default();
    (0..2).for_each(|_| options.add_bounds(1, "rows", &mut budget));
    budget
}

/// Runs `work` on both stores concurrently.
fn both(stores: &[Store; 2], work: impl Fn(&Store) + Sync) {
    thread::scope(|scope| stores.iter().for_each(|store| drop(scope.spawn(|| work(store)))));
}

fn work(path: &Path, bytes: u64) {
    let executor = Executor::new(ExecutorOptions::default());
    let options = StoreOptions { executor: Some(executor), ..options(bytes) };
    let rows = options.rows_hint;
    let disks = ["a", "b"].map(|name| FileDisk::create(&path.join(name)).unwrap());
    let mut watch = Watch::start(&disks[0], LIMIT);
    let disk = |disk: &FileDisk| -> Arc<dyn Disk> { Arc::new(disk.clone()) };

    let stores = [0, 1].map(|at| Store::create(disk(&disks[at]), options.clone()).unwrap());
    both(&stores, |store| put(store, 0..rows, 1));
    watch.lap("put");
    both(&stores, |store| drop(store.commit().unwrap()));
    watch.lap("commit");
    let changed = rows / 10;
    both(&stores, |store| put(store, 0..changed, 2));
    both(&stores, |store| drop(store.commit().unwrap()));
    watch.lap("change 10 %");
    both(&stores, |store| assert_holds(store, rows, changed, 1));
    watch.lap("get");
    for (store, disk) in stores.iter().zip(&disks) {
        let to = disk.create_directory(&disk.path().join("../snapshot").join(name(disk))).unwrap();
        store.snapshot(to.path()).unwrap();
    }
    watch.lap("snapshot");
    drop(stores);

    let stores = [0, 1].map(|at| Store::open(disk(&disks[at]), options.clone()).unwrap());
    let seconds = watch.lap("open");
    both(&stores, |store| assert_holds(store, rows, changed, 2));
    watch.lap("get again");
    report(&stores, &options, seconds);
}

fn name(disk: &FileDisk) -> String {
    disk.path().file_name().unwrap().to_string_lossy().into_owned()
}

/// Prints the stores' figures, checks them against the plan, and extrapolates to larger ones.
fn report(stores: &[Store; 2], options: &StoreOptions, seconds: f64) {
    let (mut all, mut bytes, mut segments) = (0, 0, 0);
    for store in stores {
        let stats = store.stats();
        assert_eq!(store.len(), options.rows_hint);
        assert!(stats.index_bytes_peak <= options.index_bytes_max, "{stats:?}");
        assert!(stats.space_amplification <= 1.5, "{stats:?}");
        all += stats.rows_live + stats.rows_stale;
        bytes += stats.bytes_files;
        segments += stats.segments;
    }
    let (ns, row) = (seconds * 1e9 / all as f64, bytes as f64 / all as f64);
    let plan = planned(options).total();
    println!(
        "two of {}: {segments} segments, {row:.1} bytes a row, opened in {ns:.0} ns a row; {} of \
         memory at most, {} planned",
        ByteCount(bytes / 2),
        ByteCount(memory_peak()),
        ByteCount(plan)
    );
    assert!(memory_peak() <= plan + BESIDE, "{plan}");
    let paper = self::options(PAPER_BYTES);
    let (rows, each) = (paper.rows_hint, PAPER_BYTES.div_ceil(paper.segment_bytes));
    println!(
        "two of {} on paper: {rows} rows and {each} segments each, opened in {:.0} s with as many \
         stale rows as here, {} of memory planned, an index of {} each among it",
        ByteCount(PAPER_BYTES),
        ns * 1e-9 * 2.0 * rows as f64 * all as f64 / (2 * options.rows_hint) as f64,
        ByteCount(planned(&paper).total()),
        ByteCount(paper.index_bytes_max),
    );
    println!("{}", planned(&paper));
}

#[test]
fn two_stores_take_what_was_planned() {
    const NAME: &str = "two_stores::two_stores_take_what_was_planned";
    let bytes = STORE_BYTES[usize::from(child::is_long())];
    if let Some(path) = child::is_child(NAME) {
        return work(&path, bytes);
    }
    let directory = tempfile::tempdir().unwrap();
    let room = FileDisk::open(directory.path()).unwrap().bytes_free().unwrap();
    if room < ROOM * bytes {
        let (room, wanted) = (ByteCount(room), ByteCount(ROOM * bytes));
        stepwell_skip::skipped(format_args!("{room} of {wanted} are free"));
        return;
    }
    fs::create_dir(directory.path().join("snapshot")).unwrap();
    child::run(NAME, directory.path(), LIMIT, "on paper");
}
