//! Every disk keeps the promises of the trait.

use std::sync::Arc;
use std::time::Duration;

use stepwell_disk::{Faults, FaultyDisk, FileDisk, MemDisk, conformance};

#[test]
fn of_files() {
    let directory = tempfile::tempdir().unwrap();
    conformance::run(&FileDisk::open(directory.path()).unwrap());
}

#[test]
fn of_files_with_one_thread() {
    let directory = tempfile::tempdir().unwrap();
    conformance::run(&FileDisk::with_threads(directory.path(), 1).unwrap());
}

#[test]
fn in_memory() {
    conformance::run(&MemDisk::new());
}

#[test]
fn faulty_without_faults() {
    conformance::run(&FaultyDisk::new(Arc::new(MemDisk::new()), Faults::default()));
    let directory = tempfile::tempdir().unwrap();
    let files = FileDisk::open(directory.path()).unwrap();
    let slow = Faults { delay: Duration::from_micros(10), ..Faults::default() };
    conformance::run(&FaultyDisk::new(Arc::new(files), slow));
}
