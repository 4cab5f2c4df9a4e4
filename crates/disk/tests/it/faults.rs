//! Crashes and faults follow their fault models.

#![expect(clippy::unwrap_used, reason = "a test's helpers panic like the test")]

use std::io::ErrorKind;
use std::sync::Arc;

use stepwell_disk::{
    BLOCK_BYTES, Disk, Error, Failure, Faults, FaultyDisk, File, Flip, Lasting, MemDisk, Operation,
    QueueOptions, Reason, Refusal, Survival,
};

fn write(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file
}

#[test]
fn content_and_name_become_durable_apart() {
    let disk = MemDisk::new();
    write(&disk, "both", b"x").sync().unwrap();
    write(&disk, "name", b"x");
    disk.sync_directory().unwrap();
    write(&disk, "content", b"x").sync().unwrap();
    let after = disk.crash(Survival::SyncedAlone);
    assert_eq!(after.list().unwrap(), ["both", "name"]);
    assert_eq!(after.read("both", 9).unwrap(), b"x");
    assert_eq!(after.read("name", 9).unwrap(), b"");
    let all = disk.crash(Survival::Everything);
    assert_eq!(all.list().unwrap(), ["both", "content", "name"]);
    assert_eq!(all.read("name", 9).unwrap(), b"x");
}

#[test]
fn a_removal_is_durable_once_synced_and_a_rename_at_once() {
    let disk = MemDisk::new();
    write(&disk, "a", b"a").sync().unwrap();
    write(&disk, "b", b"b").sync().unwrap();
    disk.sync_directory().unwrap();
    disk.remove("a").unwrap();
    assert!(disk.crash(Survival::SyncedAlone).exists("a").unwrap());
    disk.rename("b", "c").unwrap();
    assert_eq!(disk.crash(Survival::SyncedAlone).list().unwrap(), ["c"]);
}

#[test]
fn what_was_not_synced_tears() {
    let disk = MemDisk::new();
    let file = write(&disk, "a", &[1; 40_960]);
    file.sync().unwrap();
    disk.sync_directory().unwrap();
    file.write_at(0, &[2; 81_920]).unwrap();
    let mut lengths = [0; 2];
    let mut mixed = 0;
    for seed in 0..50 {
        let after = disk.crash(Survival::Torn(seed));
        let bytes = after.read("a", 81_920).unwrap();
        lengths[usize::from(bytes.len() == 81_920)] += 1;
        assert!(bytes.chunks(512).all(|page| page.iter().all(|byte| *byte == page[0])));
        mixed += usize::from(bytes.contains(&1) && bytes.contains(&2));
        let again = disk.crash(Survival::Torn(seed)).read("a", 81_920).unwrap();
        assert_eq!(bytes, again, "a seed says it all");
    }
    assert!(lengths.iter().all(|count| *count > 5), "{lengths:?}");
    assert!(mixed > 30, "{mixed}");
}

fn failing(operation: Option<Operation>, after: u64, lasting: Lasting) -> FaultyDisk {
    let failure = Failure { operation, after, kind: ErrorKind::StorageFull, lasting };
    let faults = Faults { failure: Some(failure), ..Faults::default() };
    FaultyDisk::new(Arc::new(MemDisk::new()), faults)
}

#[test]
fn the_nth_of_a_kind_fails() {
    let disk = failing(Some(Operation::Write), 2, Lasting::Once);
    let file = disk.create("a").unwrap();
    file.write_at(0, b"1").unwrap();
    file.write_at(1, b"2").unwrap();
    let error = file.write_at(2, b"3").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(error.to_string().contains("write /memory/a at offset 2 (1 bytes)"), "{error}");
    file.write_at(2, b"4").unwrap();
    assert_eq!(disk.read("a", 9).unwrap(), b"124");
    assert_eq!(disk.count(Operation::Write), 4);
}

#[test]
fn a_full_disk_stays_full_for_writes_alone() {
    let disk = failing(Some(Operation::Write), 1, Lasting::FromThenOn);
    let file = disk.create("a").unwrap();
    file.write_at(0, b"1").unwrap();
    for _ in 0..3 {
        assert_eq!(file.write_at(1, b"2").unwrap_err().kind(), ErrorKind::StorageFull);
    }
    file.sync().unwrap();
    assert_eq!(disk.read("a", 9).unwrap(), b"1");
    disk.inflict(Faults::default());
    file.write_at(1, b"2").unwrap();
}

#[test]
fn any_operation_may_be_the_one() {
    let disk = failing(None, 2, Lasting::Once);
    disk.create("a").unwrap();
    disk.list().unwrap();
    assert!(disk.exists("a").is_err());
    assert!(disk.exists("a").unwrap());
}

#[test]
fn after_the_cut_nothing_happens() {
    let memory = MemDisk::new();
    let disk = FaultyDisk::new(Arc::new(memory.clone()), Faults::default());
    disk.inflict(Faults { cut_after: Some(2), ..Faults::default() });
    let file = disk.create("a").unwrap();
    file.write_at(0, b"whole").unwrap();
    assert_eq!(disk.mutations(), 2);
    disk.list().unwrap();
    assert!(file.write_at(5, b"half").is_err());
    assert!(file.sync().is_err());
    assert!(disk.list().is_err());
    assert!(disk.remove("a").is_err());
    assert_eq!(memory.read("a", 99).unwrap(), b"wholeha");
}

fn refusing(operation: Operation, reason: Reason) -> FaultyDisk {
    let lasting = Lasting::Once;
    let refusal = Refusal { operation: Some(operation), after: 0, reason, lasting };
    let disk = FaultyDisk::new(Arc::new(MemDisk::new()), Faults::default());
    for name in ["a", "b"] {
        disk.create(name).unwrap().write_at(0, b"before").unwrap();
    }
    disk.create_directory(&disk.path().join("other")).unwrap();
    disk.inflict(Faults { refusal: Some(refusal), ..Faults::default() });
    disk
}

/// Performs one operation of each kind that a fault can affect.
fn perform(disk: &FaultyDisk, operation: Operation) -> stepwell_disk::Result<()> {
    let other = disk.path().join("other");
    let file = || disk.open("a").unwrap();
    let new = || disk.create("c").unwrap();
    match operation {
        Operation::Create => disk.create("c").map(drop),
        Operation::Open => disk.open("a").map(drop),
        Operation::Read => file().read_at(0, &mut [0; 3]),
        Operation::Write => new().write_at(0, b"new"),
        Operation::Truncate => new().truncate(0),
        Operation::Sync => file().sync(),
        Operation::Measure => file().len().map(drop),
        Operation::Rename => disk.rename("a", "c"),
        Operation::Remove => disk.remove("a"),
        Operation::List => disk.list().map(drop),
        Operation::Link => disk.link_into("a", &other).map(drop),
        Operation::SyncDirectory => disk.sync_directory(),
        Operation::CreateDirectory => disk.create_directory(&disk.path().join("new")).map(drop),
        Operation::Lock => disk.lock("lock").map(drop),
        Operation::Identify => disk.identity(&other).map(drop),
        Operation::Submit => {
            disk.queue(QueueOptions { depth: 1, read_bytes: BLOCK_BYTES }).map(drop)
        }
    }
}

#[test]
fn any_single_operation_is_refused_with_the_systems_number() {
    for reason in Reason::ALL {
        for operation in Operation::ALL {
            let disk = refusing(operation, reason);
            let error = perform(&disk, operation).expect_err("it is refused");
            let Error::Io { operation: named, source, .. } = &error else { panic!("{error}") };
            assert_eq!(*named, operation);
            assert_eq!(source.raw_os_error(), reason.error().raw_os_error(), "{error}");
            // Only once, and without effect: the same operation now succeeds.
            if operation != Operation::Write && operation != Operation::Truncate {
                perform(&disk, operation).unwrap();
            }
        }
    }
    let [full, quota, files, files_in_all, device] = Reason::ALL.map(Reason::error);
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    assert_eq!(quota.kind(), ErrorKind::QuotaExceeded);
    let numbers = [files, files_in_all, device].map(|error| error.raw_os_error());
    assert_eq!(numbers, [24, 23, 5].map(Some));
}

#[test]
fn so_many_files_are_held_and_no_more() {
    let disk = FaultyDisk::new(Arc::new(MemDisk::new()), Faults::default());
    let mut files: Vec<_> = ["a", "b"].iter().map(|name| disk.create(name).unwrap()).collect();
    disk.inflict(Faults { files_max: Some(3), ..Faults::default() });
    files.push(disk.open_direct("a").unwrap());
    assert_eq!(disk.files_held(), 3);
    let error = disk.open("b").unwrap_err().to_string();
    assert!(error.contains("cannot open /memory/b") && error.contains("ulimit -n"), "{error}");
    assert!(disk.create("c").is_err() && disk.create_direct("c", 0).is_err());
    assert!(!disk.exists("c").unwrap());
    files.remove(0);
    drop(disk.create("c").unwrap());
    drop(disk.open("c").unwrap());
    assert_eq!(disk.files_held(), 2);
}

#[test]
fn a_faulty_disk_knows_whether_a_fault_fired() {
    let failing = Failure {
        operation: Some(Operation::Write),
        after: 2,
        kind: ErrorKind::Other,
        lasting: Lasting::FromThenOn,
    };
    let refusal =
        Refusal { operation: None, after: 3, reason: Reason::DeviceError, lasting: Lasting::Once };
    let none = Faults::default();
    let faults = [
        (none, 0),
        (Faults { failure: Some(failing), ..none }, 2),
        (Faults { failure: Some(Failure { after: 4, ..failing }), ..none }, 0),
        (Faults { refusal: Some(refusal), ..none }, 1),
        (Faults { files_max: Some(0), ..none }, 1),
        (Faults { cut_after: Some(4), ..none }, 2),
        // Silent faults count, too.
        (Faults { lost_write_after: Some(3), ..none }, 1),
        (Faults { misdirected_write_after: Some(0), ..none }, 1),
        (Faults { short_read_after: Some(0), ..none }, 1),
        (Faults { flip: Some(Flip { after: 0, bit: 3 }), ..none }, 1),
        (Faults { flip: Some(Flip { after: 1, bit: 3 }), ..none }, 0),
    ];
    for (faults, right) in faults {
        let disk = FaultyDisk::new(Arc::new(MemDisk::new()), faults);
        if let Ok(file) = disk.create("a") {
            (0..4).for_each(|page| {
                let _ = file.write_at(page * 4096, &[7; 4096]);
            });
            let _ = file.read_at(0, &mut [0; 4096]);
        }
        assert_eq!(disk.fired(), right, "{faults:?}");
        disk.inflict(none);
        assert_eq!(disk.fired(), 0);
    }
}
