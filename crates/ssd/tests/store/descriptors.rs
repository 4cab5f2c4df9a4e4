//! Without free descriptors, opening, checking, restoring and salvaging report exactly that, and no
//! file is moved or counted as damaged.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_base::Key;
use stepwell_disk::{Disk, Faults, FaultyDisk, Lasting, MemDisk, Operation, Reason};
use stepwell_ssd::{Error, MANIFEST_NAME, Result, Store, Verify, View, check, repair};

use crate::common::{new_store, options, put};
use crate::harness::{Told, bytes_of, in_threads, scanned, shared};
use crate::refusal::refusing;

/// Operations of a reader on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Open,
    View,
    Check,
    Restore,
    Repair,
    /// Repair without the manifest.
    RepairAll,
}

const TASKS: [Task; 6] =
    [Task::Open, Task::View, Task::Check, Task::Restore, Task::Repair, Task::RepairAll];

/// Directories with files of the image.
const PLACES: [&str; 3] = ["", "set-aside", "snapshot"];

/// A committed store with a snapshot, something set aside, a file left by a killed process, and
/// another store's segment.
fn image() -> MemDisk {
    let (disk, store) = new_store();
    for round in 0..6 {
        let rows: Vec<(u64, u64)> = (0..50).map(|key| (key * (round + 1), round * 50)).collect();
        put(&store, &rows).unwrap();
        store.delete_many(&[Key(round), Key(3 * round)]).unwrap();
        store.compact().unwrap();
    }
    let snapshot = disk.path().join("snapshot");
    disk.create_directory(&snapshot).unwrap();
    store.snapshot(&snapshot).unwrap();
    drop(store);
    let (other, store) = new_store();
    put(&store, &[(1, 1)]).unwrap();
    store.commit().unwrap();
    let foreign = bytes_of(&other, "segment-000000000001.rows");
    disk.create("segment-000000000070.rows").unwrap().write_at(0, &foreign).unwrap();
    disk.create("segment-000000000071.rows").unwrap().write_at(0, b"half").unwrap();
    let aside = disk.create_directory(&disk.path().join("set-aside")).unwrap();
    aside.create("segment-000000000090.rows").unwrap().write_at(0, b"half").unwrap();
    disk
}

/// Copies the image into a new world.
fn copied(image: &MemDisk, task: Task) -> MemDisk {
    let copy = MemDisk::new();
    for place in PLACES {
        let from = image.directory(&image.path().join(place)).unwrap();
        let to = copy.path().join(place);
        let to = if place.is_empty() { shared(&copy) } else { copy.create_directory(&to).unwrap() };
        for name in from.list().unwrap().into_iter().filter(|name| name.contains('.')) {
            if task != Task::RepairAll || name != MANIFEST_NAME {
                to.create(&name).unwrap().write_at(0, &bytes_of(&*from, &name)).unwrap();
            }
        }
    }
    copy
}

/// Names of the files in a directory.
fn names(disk: &MemDisk) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.retain(|name| name.starts_with("segment-"));
    names.sort();
    names
}

/// Performs a task on a disk that may refuse; returns a description of the result, and how many
/// operations of a kind it took.
fn perform(
    task: Task,
    (disk, memory): (&FaultyDisk, &MemDisk),
    operation: Operation,
) -> Result<(String, u64)> {
    let disks: Vec<Arc<dyn Disk>> = vec![Arc::new(disk.clone())];
    let below = |name: &str| memory.path().join(name);
    // Later operations do not fail.
    let end = || {
        let count = disk.count(operation);
        disk.inflict(Faults::default());
        count
    };
    Ok(match task {
        Task::Open => {
            let store = Store::open_over(disks, options())?;
            let count = end();
            let left = names(memory);
            put(&store, &[(399, 9_999)]).unwrap();
            let manifest = store.commit().unwrap();
            let last = manifest.segments.last().map(|entry| entry.segment);
            (format!("{left:?}, then {last:?}: {:?}", scanned(&store)), count)
        }
        Task::View => {
            let store = View::open(Arc::clone(&disks[0]), options())?;
            let count = end();
            (format!("{:?}", scanned(&store)), count)
        }
        Task::Check => {
            let checked = check(&disks)?;
            (format!("{} pages, {:?}", checked.pages, checked.damages), end())
        }
        Task::Restore => {
            // The directory exists already after a failed attempt.
            let _ = memory.create_directory(&below("to"));
            let to = disk.directory(&below("to"))?;
            let store = match Store::restore(
                Arc::clone(&to),
                &below("snapshot"),
                Verify::Everything,
                options(),
            ) {
                // The store was made before opening it failed.
                Err(Error::Exists { .. }) => Store::open(to, options())?,
                restored => restored?,
            };
            let count = end();
            (format!("{:?}", scanned(&store)), count)
        }
        Task::Repair | Task::RepairAll => {
            let into = MemDisk::new().create_directory(Path::new("/salvaged")).unwrap();
            let salvaged = repair(&disks, Arc::clone(&into), |_, _| options())?;
            let rows = scanned(&Store::open(into, options()).unwrap());
            (format!("{salvaged:?}: {rows:?}"), end())
        }
    })
}

#[test]
fn whoever_finds_no_descriptor_is_told_that_and_nothing_else() {
    let image = image();
    let faulty = |task| {
        let memory = copied(&image, task);
        (FaultyDisk::new(shared(&memory), Faults::default()), memory)
    };
    let mut cases = Vec::new();
    for (task, operation) in
        TASKS.into_iter().flat_map(|task| Operation::ALL.map(|operation| (task, operation)))
    {
        let (disk, memory) = faulty(task);
        let (expected, count) = perform(task, (&disk, &memory), operation).unwrap();
        cases.extend((0..count).map(|after| (task, operation, after, expected.clone())));
    }
    let (told, silent) = (AtomicU64::new(0), AtomicU64::new(0));
    in_threads(&cases, &|(task, operation, after, expected)| {
        for (reason, lasting) in [
            (Reason::TooManyOpenFiles, Lasting::Once),
            (Reason::TooManyOpenFiles, Lasting::FromThenOn),
            (Reason::TooManyOpenFilesInAll, Lasting::Once),
        ] {
            let _told = Told(format!("{task:?}: {operation} number {after}, {lasting:?}"));
            let (disk, memory) = faulty(*task);
            disk.inflict(refusing(*operation, *after, lasting, reason));
            let outcome = perform(*task, (&disk, &memory), *operation);
            let count = if outcome.is_ok() { &silent } else { &told };
            count.fetch_add(1, Ordering::Relaxed);
            let outcome = outcome.or_else(|error| {
                let message = error.to_string();
                assert!(message.contains("cannot") && !message.contains('\n'), "{message}");
                assert!(message.contains("ulimit -n"), "{message}");
                disk.inflict(Faults::default());
                perform(*task, (&disk, &memory), *operation)
            });
            assert_eq!(outcome.unwrap().0, *expected);
        }
    });
    let (told, silent) = (told.into_inner(), silent.into_inner());
    assert!(told > 500, "{told} were told, {silent} were not");
}
