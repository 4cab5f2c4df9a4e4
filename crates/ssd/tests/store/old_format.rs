//! Stores that earlier builds wrote open forever, with every row.
//!
//! `fixtures/v1` and `fixtures/v2` were written by builds of these versions, `fixtures/v3` by
//! [`a_fixture_of_version_3_can_be_written`]; `bench/twin.py` reads it too.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_disk::{Disk, Faults, FaultyDisk, FileDisk, MemDisk, Survival};
use stepwell_ssd::{
    Compaction, Error, FORMAT_VERSION, MANIFEST_NAME, Manifest, Store, StoreOptions, Verify, check,
};

use crate::harness::{Told, bytes_of, in_threads, scanned, shared};

pub(crate) const ROW_BYTES: usize = 40;
const KEYS: u64 = 150;

fn options_v1() -> StoreOptions {
    StoreOptions {
        segment_bytes: 16_384,
        buffer_bytes: 8_192,
        index_bytes_max: 2 << 20,
        compaction: Compaction::Inline,
        ..StoreOptions::new(3, ROW_BYTES)
    }
}

/// Keys in no particular order.
pub(crate) fn key(number: u64) -> Key {
    Key(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

pub(crate) fn row(number: u64, version: u64) -> Vec<u8> {
    (0..ROW_BYTES as u64).map(|at| (number * 31 + version * 7 + at) as u8).collect()
}

/// A world with a fixture's files, all of them durable.
pub(crate) fn fixture(name: &str) -> MemDisk {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let disk = MemDisk::new();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let file = disk.create(entry.file_name().to_str().unwrap()).unwrap();
        file.write_at(0, &std::fs::read(entry.path()).unwrap()).unwrap();
    }
    disk.crash(Survival::Everything)
}

/// The version of a row of the fixture that counts.
fn newest(number: u64) -> u64 {
    (0..3).filter(|version| number.is_multiple_of(version + 1)).max().unwrap()
}

/// Asserts exactly the rows of `expected`, which maps numbers to versions.
fn assert_rows(store: &Store, expected: &dyn Fn(u64) -> Option<u64>) {
    let numbers = 0..KEYS + 10;
    let keys: Vec<Key> = numbers.clone().map(key).collect();
    let mut rows = vec![0; keys.len() * ROW_BYTES];
    let mut found = vec![false; keys.len()];
    store.get_many(&keys, &mut rows, &mut found).unwrap();
    let mut count = 0;
    for (number, (found, bytes)) in numbers.zip(found.iter().zip(rows.chunks_exact(ROW_BYTES))) {
        let expected = expected(number);
        assert_eq!(*found, expected.is_some(), "row {number}");
        if let Some(version) = expected {
            assert_eq!(bytes, row(number, version), "row {number}");
            count += 1;
        }
    }
    assert_eq!(store.len(), count);
    assert_eq!(scanned(store).len() as u64, count);
}

fn assert_first(store: &Store) {
    assert_rows(store, &|number| (number < KEYS).then(|| newest(number)));
}

/// Format version of the manifest in a directory.
fn version_of(disk: &dyn Disk) -> u64 {
    let manifest = bytes_of(disk, MANIFEST_NAME);
    let json: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    json["version"].as_u64().unwrap()
}

#[test]
fn a_store_of_version_1_is_written_anew() {
    let disk = fixture("v1");
    let old = disk.list().unwrap();
    let before: Vec<Vec<u8>> = old.iter().map(|name| bytes_of(&disk, name)).collect();
    assert_eq!((version_of(&disk), old.len()), (1, 4));
    for round in 0..3 {
        let store = Store::open(shared(&disk), options_v1()).unwrap();
        assert_first(&store);
        assert_eq!(version_of(&disk), FORMAT_VERSION);
        disk.free_locks();
        assert!(check(&[shared(&disk)]).unwrap().damages.is_empty());
        if round == 1 {
            store.delete_many(&[key(7)]).unwrap();
            store.put_many(&[key(7)], &[9], &row(7, newest(7))).unwrap();
            store.commit().unwrap();
        }
    }
    // The old segments are set aside unchanged; the manifest was replaced.
    let aside = disk.directory(&disk.path().join("set-aside")).unwrap();
    assert_eq!(aside.list().unwrap(), old[1..]);
    for (name, before) in old.iter().zip(&before).skip(1) {
        assert_eq!(&bytes_of(&*aside, name), before);
        assert!(!disk.exists(name).unwrap(), "its number is not given again");
    }
}

#[test]
fn a_store_of_version_1_on_files() {
    let directory = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    for entry in std::fs::read_dir(&from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
    }
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(directory.path()).unwrap());
    let to = tempfile::tempdir().unwrap();
    let other: Arc<dyn Disk> = Arc::new(FileDisk::open(to.path()).unwrap());
    assert_first(
        &Store::restore(other, directory.path(), Verify::Everything, options_v1()).unwrap(),
    );
    assert_eq!(version_of(&*disk), 1, "what is restored from stays as it is");
    assert_first(&Store::open(Arc::clone(&disk), options_v1()).unwrap());
    assert_first(&Store::open(Arc::clone(&disk), options_v1()).unwrap());
    assert_eq!(version_of(&*disk), FORMAT_VERSION);
}

#[test]
fn a_snapshot_of_version_1_is_restored() {
    let disk = fixture("v1");
    let before: Vec<Vec<u8>> =
        disk.list().unwrap().iter().map(|name| bytes_of(&disk, name)).collect();
    let paths = ["/to", "/and"].map(PathBuf::from);
    let to: Vec<Arc<dyn Disk>> =
        paths.iter().map(|path| disk.create_directory(path).unwrap()).collect();
    let store =
        Store::restore_over(to.clone(), disk.path(), Verify::Everything, options_v1()).unwrap();
    assert_first(&store);
    drop(store);
    assert_first(&Store::open_over(to.clone(), options_v1()).unwrap());
    assert!(check(&to).unwrap().damages.is_empty());
    let after: Vec<Vec<u8>> =
        disk.list().unwrap().iter().map(|name| bytes_of(&disk, name)).collect();
    assert!(before == after);
}

#[test]
fn what_is_no_right_store_of_version_1_is_left_as_it_is() {
    let disk = fixture("v1");
    let names = disk.list().unwrap();
    let assert_refused = |options: StoreOptions, part: &str| {
        let error = Store::open(shared(&disk), options).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(part) && !message.contains('\n'), "{message}");
        let left = disk.list().unwrap();
        assert!(names.iter().all(|name| left.contains(name)), "{left:?}");
        assert_eq!(version_of(&disk), 1);
        error
    };
    assert_refused(StoreOptions { table: 4, ..options_v1() }, "table 4");
    assert_refused(StoreOptions { row_bytes: 41, ..options_v1() }, "of 41");
    for name in &names[1..] {
        let whole = bytes_of(&disk, name);
        for at in [4096, 4096 + 8, 4096 + 60, 8191] {
            disk.edit(name, &mut |bytes| bytes[at] ^= 1).unwrap();
            let error = assert_refused(options_v1(), name);
            let place = matches!(error, Error::Damaged { offset: 4096, .. } | Error::Page { .. });
            assert!(place, "{error}");
            disk.edit(name, &mut |bytes| bytes[at] ^= 1).unwrap();
        }
        disk.edit(name, &mut |bytes| bytes.truncate(8192)).unwrap();
        assert_refused(options_v1(), name);
        disk.remove(name).unwrap();
        let message = Store::open(shared(&disk), options_v1()).unwrap_err().to_string();
        assert!(message.contains(name.as_str()), "{message}");
        let file = disk.create(name).unwrap();
        file.write_at(0, &whole).unwrap();
    }
    let manifest = bytes_of(&disk, MANIFEST_NAME);
    for at in 0..manifest.len() {
        disk.edit(MANIFEST_NAME, &mut |bytes| bytes[at] ^= 1).unwrap();
        let error = Store::open(shared(&disk), options_v1()).unwrap_err();
        assert!(error.to_string().contains(MANIFEST_NAME), "{error}");
        disk.edit(MANIFEST_NAME, &mut |bytes| bytes.clone_from(&manifest)).unwrap();
    }
    assert_first(&Store::open(shared(&disk), options_v1()).unwrap());
}

/// Cuts a change of the fixture after every change of the disk, with everything that may survive;
/// returns the number of cuts.
fn cut_all(
    change: &(dyn Fn(Arc<dyn Disk>) -> stepwell_ssd::Result<Store> + Sync),
    survive: &(dyn Fn(&MemDisk, bool) + Sync),
) -> u64 {
    let whole = FaultyDisk::new(shared(&fixture("v1")), Faults::default());
    drop(change(Arc::new(whole.clone())).unwrap());
    let cuts: Vec<u64> = (0..whole.mutations()).collect();
    in_threads(&cuts, &|cut| {
        let world = fixture("v1");
        let faults = Faults { cut_after: Some(*cut), ..Faults::default() };
        let disk = FaultyDisk::new(shared(&world), faults);
        let done = change(Arc::new(disk)).is_ok();
        let torn = (0..6).map(|n| Survival::Torn(cut << 8 | n));
        for survival in [Survival::SyncedAlone, Survival::Everything].into_iter().chain(torn) {
            let _told = Told(format!("cut after {cut}, {survival:?}"));
            survive(&world.crash(survival), done);
        }
    });
    cuts.len() as u64
}

#[test]
fn a_cut_at_every_change_of_the_rewrite() {
    let cuts = cut_all(&|disk| Store::open(disk, options_v1()), &|world, done| {
        let version = version_of(world);
        assert!(version == FORMAT_VERSION || (version == 1 && !done));
        // Another attempt, also cut.
        let again =
            FaultyDisk::new(shared(world), Faults { cut_after: Some(5), ..Faults::default() });
        drop(Store::open(Arc::new(again), options_v1()));
        let world = world.crash(Survival::Torn(1));
        assert_first(&Store::open(shared(&world), options_v1()).unwrap());
        assert_eq!(version_of(&world), FORMAT_VERSION);
        assert!(check(&[shared(&world)]).unwrap().damages.is_empty());
    });
    assert!(cuts > 12, "{cuts}");
}

#[test]
fn a_cut_at_every_change_of_restoring_an_old_snapshot() {
    let to = Path::new("/to");
    let restore = |disk: Arc<dyn Disk>| {
        let target = disk.create_directory(to)?;
        Store::restore(target, disk.path(), Verify::Everything, options_v1())
    };
    let cuts = cut_all(&restore, &|world, done| {
        assert_eq!(version_of(world), 1);
        let to = world.create_directory(to).unwrap();
        match Store::open(Arc::clone(&to), options_v1()) {
            Ok(store) => assert_first(&store),
            Err(Error::Missing { .. }) => {
                assert!(!done);
                assert_first(
                    &Store::restore(to, world.path(), Verify::Everything, options_v1()).unwrap(),
                );
            }
            Err(error) => panic!("{error}"),
        }
    });
    assert!(cuts > 10, "{cuts}");
}

pub(crate) fn options_v2() -> StoreOptions {
    StoreOptions { table: 5, ..options_v1() }
}

/// The version of a row of the version 2 fixture.
pub(crate) fn newest_v2(number: u64) -> Option<u64> {
    match number {
        120.. => None,
        0..10 => Some(3),
        10..70 => (number % 10 != 3).then_some(1),
        _ => (number % 10 != 4).then_some(0),
    }
}

/// A tiny store with merged segments, deletions of rows that still exist, and an expiry.
fn fill_v2(store: &Store) {
    let put = |numbers: std::ops::Range<u64>, version: u64| {
        let keys: Vec<Key> = numbers.clone().map(key).collect();
        let used: Vec<u32> = numbers.clone().map(|number| (100 + number) as u32).collect();
        let rows: Vec<u8> = numbers.flat_map(|number| row(number, version)).collect();
        store.put_many(&keys, &used, &rows).unwrap();
    };
    let delete = |numbers: &mut dyn Iterator<Item = u64>| {
        let keys: Vec<Key> = numbers.map(key).collect();
        assert_eq!(store.delete_many(&keys).unwrap(), keys.len() as u64);
    };
    put(0..120, 0);
    store.commit().unwrap();
    put(0..70, 1);
    // Two segments go stale, since merging one would free nothing.
    put(85..120, 0);
    store.commit().unwrap();
    assert!(store.compact().unwrap() > 0);
    delete(&mut (0..120).filter(|number| number % 10 == if *number < 70 { 3 } else { 4 }));
    put(0..10, 2);
    store.commit().unwrap();
    put(0..10, 3);
    store.expire_before(50).unwrap();
    store.commit().unwrap();
}

#[test]
fn a_store_of_version_2_opens_for_ever() {
    let disk = fixture("v2");
    let names = disk.list().unwrap();
    assert!(names.len() > 3);
    let manifest = Manifest::load(&disk).unwrap();
    assert_eq!((manifest.table, manifest.row_bytes, manifest.expire_before), (5, 40, 50));
    assert_eq!((manifest.commit, manifest.next_seq), (4, 120 + 70 + 12 + 10 + 10));
    let checked = check(&[shared(&disk)]).unwrap();
    assert!(checked.damages.is_empty() && checked.rows > manifest.rows, "{checked:?}");
    let store = Store::open(shared(&disk), options_v2()).unwrap();
    assert_rows(&store, &newest_v2);
    assert_eq!(disk.list().unwrap(), names, "nothing is written to open it");
    // Deleted rows stay deleted whatever is merged.
    while store.compact().unwrap() > 0 {
        store.commit().unwrap();
    }
    store.commit().unwrap();
    drop(store);
    let store = Store::open(shared(&disk), options_v2()).unwrap();
    assert_rows(&store, &newest_v2);
    store.expire_before(110).unwrap();
    assert_eq!(store.len(), manifest.rows);
    let visited = scanned(&store);
    assert!(visited.iter().all(|(_, used)| *used >= 110));
    assert_eq!(visited.len() as u64, manifest.rows - 10);
}

#[test]
fn a_store_of_version_3_opens_for_ever() {
    let disk = fixture("v3");
    assert_eq!(version_of(&disk), 3);
    assert!(check(&[shared(&disk)]).unwrap().damages.is_empty());
    assert_rows(&Store::open(shared(&disk), options_v2()).unwrap(), &newest_v2);
}

#[test]
fn a_snapshot_of_version_2_is_restored() {
    let disk = fixture("v2");
    let to = disk.create_directory(Path::new("/to")).unwrap();
    assert_rows(
        &Store::restore(to, disk.path(), Verify::Everything, options_v2()).unwrap(),
        &newest_v2,
    );
}

/// Makes the fixture's store anew, and writes it if `STEPWELL_WRITE_FIXTURES` is set: only for a
/// new version of the format.
#[test]
fn a_fixture_of_version_3_can_be_written() {
    let disk = MemDisk::new();
    let store = Store::create(shared(&disk), options_v2()).unwrap();
    fill_v2(&store);
    assert_rows(&store, &newest_v2);
    drop(store);
    assert_rows(&Store::open(shared(&disk), options_v2()).unwrap(), &newest_v2);
    if std::env::var_os("STEPWELL_WRITE_FIXTURES").is_none() {
        return;
    }
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v3");
    std::fs::create_dir(&to).unwrap();
    for name in disk.list().unwrap() {
        std::fs::write(to.join(&name), bytes_of(&disk, &name)).unwrap();
    }
}

/// `fixtures/v2-both` is a commit in the middle of a merge: three moved segments, and the one they
/// were merged into. Its rows were last used at step 5.
#[test]
fn what_a_merge_made_and_what_it_was_made_of() {
    let options = StoreOptions { segment_bytes: 32_768, ..options_v1() };
    let disk = fixture("v2-both");
    let open = || {
        disk.free_locks();
        Store::open(shared(&disk), options.clone()).unwrap()
    };
    let store = open();
    assert_eq!(store.len(), 1095);
    let sorted = |store: &Store| {
        let mut rows = scanned(store);
        rows.sort_unstable();
        rows
    };
    let before = sorted(&store);
    store.expire_before(10).unwrap();
    // The result is merged first, and leaves nothing; its inputs are still named.
    assert_eq!(store.compact().unwrap(), 1);
    store.commit().unwrap();
    drop(store);
    assert!(check(&[shared(&disk)]).unwrap().damages.is_empty());
    let store = open();
    assert_eq!(store.len(), 885);
    let mut after = before;
    after.retain(|(_, used)| *used >= 10);
    assert_eq!(sorted(&store), after);
    while store.compact().unwrap() > 0 {}
    store.commit().unwrap();
    drop(store);
    assert_eq!(sorted(&open()), after);
}
