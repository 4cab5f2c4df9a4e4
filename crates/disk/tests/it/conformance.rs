//! Every disk keeps the promises of the trait.

#![expect(clippy::unwrap_used, reason = "a test's helpers panic like the test")]

use std::sync::Arc;
use std::time::Duration;

use stepwell_disk::{Engine, Faults, FaultyDisk, FileDisk, MemDisk, OpenFiles, conformance};

/// Runs the suite on a directory with this engine; reports a skip if there are no rings.
fn of_files(engine: Engine, expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    match FileDisk::with_engine(directory.path(), engine) {
        Ok(disk) => {
            assert_eq!(disk.engine(), expected);
            conformance::run(&disk);
        }
        Err(error) if engine == Engine::Uring => stepwell_skip::skipped(error),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn of_files_with_rings() {
    of_files(Engine::Uring, "io_uring");
}

#[test]
fn of_files_with_threads() {
    of_files(Engine::Pool, "threads");
}

/// Runs the suite with very few open files.
fn of_few_open_files(engine: Engine, bound: usize) {
    let directory = tempfile::tempdir().unwrap();
    let open_files = OpenFiles::new(bound);
    match FileDisk::with_open_files(directory.path(), engine, open_files.clone()) {
        Ok(disk) => conformance::run(&disk),
        Err(error) if engine == Engine::Uring => return stepwell_skip::skipped(error),
        Err(error) => panic!("{error}"),
    }
    let stats = open_files.stats();
    assert_eq!((stats.open, stats.kept, stats.handles), (0, 0, 0), "all were dropped");
    assert!(stats.opened_again > 100, "{stats}");
}

#[test]
fn of_few_open_files_with_rings() {
    [2, 3].iter().for_each(|bound| of_few_open_files(Engine::Uring, *bound));
}

#[test]
fn of_few_open_files_with_threads() {
    [2, 3].iter().for_each(|bound| of_few_open_files(Engine::Pool, *bound));
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
