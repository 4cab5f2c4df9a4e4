//! Common parts of long tests: threads for many cases, and reports of the failing case.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use stepwell_base::Key;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::Store;

/// Prints the case that a panic belongs to.
pub(crate) struct Told(pub(crate) String);

impl Drop for Told {
    fn drop(&mut self) {
        if thread::panicking() {
            #[expect(clippy::print_stderr, reason = "a panic is being reported")]
            {
                eprintln!("this was {}", self.0);
            }
        }
    }
}

/// Whether tests run with the sizes of `STEPWELL_LONG`.
pub(crate) fn is_long() -> bool {
    std::env::var_os("STEPWELL_LONG").is_some()
}

/// Runs `work` for every case, on one thread per core; starts none after a failure.
pub(crate) fn in_threads<T: Sync>(cases: &[T], work: &(dyn Fn(&T) + Sync)) {
    let next = AtomicUsize::new(0);
    let count = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let stop = Stop(&next, cases.len());
                    work(case);
                    std::mem::forget(stop);
                }
            });
        }
    });
}

/// Ends the work of all threads if one panics.
struct Stop<'a>(&'a AtomicUsize, usize);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Relaxed);
    }
}

/// Key and last use of every row, in the order of a scan.
pub(crate) fn scanned(store: &Store) -> Vec<(u64, u32)> {
    let mut rows = Vec::new();
    let visit = &mut |key: Key, used: u32, _: &[u8]| {
        rows.push((key.0, used));
        Ok(())
    };
    store.scan_live(visit).unwrap();
    rows
}

pub(crate) fn shared(disk: &MemDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

/// Bytes of a file.
pub(crate) fn bytes_of(disk: &dyn Disk, name: &str) -> Vec<u8> {
    disk.read(name, 1 << 24).unwrap()
}

/// Copies the files in the disk's directory into a new world.
pub(crate) fn copy_of(disk: &dyn Disk) -> MemDisk {
    let copy = MemDisk::new();
    for name in disk.list().unwrap() {
        copy.create(&name).unwrap().write_at(0, &bytes_of(disk, &name)).unwrap();
    }
    copy
}
