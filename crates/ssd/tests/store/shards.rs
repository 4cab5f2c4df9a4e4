//! Stores of some key shards, made of others' snapshots: what is linked and read, what is refused,
//! and the effects of damage and failures.

use std::path::Path;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, Lasting, MemDisk, Survival};
use stepwell_ssd::{
    Compaction, Error, KeyShardSet, MANIFEST_NAME, Manifest, Store, StoreOptions, Verify, key_shard,
};

use crate::common::{Oracle, PAGE_BYTES, assert_holds, get, options, payload, put};
use crate::harness::{Told, bytes_of, scanned, shared};
use crate::old_format;

pub(crate) fn of_shards(key_shards: KeyShardSet) -> StoreOptions {
    StoreOptions { key_shards, ..options() }
}

/// A store of every key, and a snapshot of it in `/snapshot`.
fn with_snapshot() -> (MemDisk, Oracle) {
    let world = MemDisk::new();
    let store = Store::create(shared(&world), options()).unwrap();
    let rows: Vec<(u64, u64)> = (0..300).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    world.create_directory(Path::new("/snapshot")).unwrap();
    store.snapshot(Path::new("/snapshot")).unwrap();
    (world, Oracle::from_iter(rows))
}

fn half(world: &dyn Disk, to: &str, number: usize) -> stepwell_ssd::Result<Store> {
    let disks = vec![world.create_directory(Path::new(to))?];
    let options = of_shards(KeyShardSet::part(number, 2));
    Store::restore_shards(disks, &[Path::new("/snapshot")], Verify::Listed, options)
}

#[test]
fn what_a_snapshot_has_is_linked_and_not_written() {
    let (world, _) = with_snapshot();
    let store = half(&world, "/half", 0).unwrap();
    let disk = world.directory(Path::new("/half")).unwrap();
    let manifest = bytes_of(&*disk, MANIFEST_NAME).len() as u64;
    let stats = store.stats();
    assert_eq!(stats.bytes_written, manifest, "a manifest and no row");
    assert_eq!(stats.rows_live + stats.rows_stale, 300);
    // Together, the halves have all rows, and none twice.
    let other = half(&world, "/other", 1).unwrap();
    assert_eq!(store.len() + other.len(), 300);
    assert_eq!(scanned(&store).len() as u64, store.len());
}

#[test]
fn of_long_lists_of_keys_only_our_parts_are_read() {
    let world = MemDisk::new();
    let (segment_bytes, compaction) = (2 << 20, Compaction::Inline);
    let long = StoreOptions { segment_bytes, compaction, ..StoreOptions::new(7, 8) };
    let store = Store::create(shared(&world), long.clone()).unwrap();
    let keys: Vec<Key> = (0..150_000).map(Key).collect();
    store.put_many(&keys, &vec![1; keys.len()], &vec![2; 8 * keys.len()]).unwrap();
    let path = Path::new("/snapshot");
    world.create_directory(path).unwrap();
    store.snapshot(path).unwrap();
    let key_shards: KeyShardSet = KeyShardSet::part(3, 32);
    let to = world.create_directory(Path::new("/part")).unwrap();
    let options = StoreOptions { key_shards, ..long.clone() };
    let part = Store::restore_shards(vec![Arc::clone(&to)], &[path], Verify::Listed, options);
    let (part, lists) = (part.unwrap(), 9 * keys.len() as u64);
    let ours = keys.iter().filter(|key| key_shards.contains_key(**key)).count() as u64;
    assert_eq!((part.len(), scanned(&part).len() as u64), (ours, ours));
    // One byte a row to see if anything counts, one to find it, and the keys that count.
    drop(part);
    world.free_locks();
    let reopened = Store::open(to, long).unwrap();
    let read = reopened.stats().bytes_read;
    assert!(reopened.len() == ours && read < lists / 4, "{read} bytes read of {lists}");
}

#[test]
fn a_key_of_another_store_is_refused() {
    let (world, _) = with_snapshot();
    let store = half(&world, "/half", 0).unwrap();
    let key = (0..).find(|key| !store.key_shards().contains_key(Key(*key))).unwrap();
    let own = (0..).find(|key| store.key_shards().contains_key(Key(*key))).unwrap();
    let before = store.next_seq();
    let error = put(&store, &[(own, 900), (key, 901)]).unwrap_err();
    assert!(matches!(error, Error::OtherShard { .. }), "{error}");
    let (message, shard) = (error.to_string(), key_shard(Key(key)));
    let has = format!("has key shards 0-127 of its table, but key {key:016x} is in key shard");
    assert!(message.contains(&has) && message.contains(&format!(" {shard}: ")), "{message}");
    // No row of the call was put, and no row is lost.
    assert_eq!(store.delete_many(&[Key(key)]).unwrap(), 0);
    assert_eq!((store.next_seq(), get(&store, &[key]).unwrap()), (before, vec![None]));
    put(&store, &[(own, 902)]).unwrap();
    let manifest = store.commit().unwrap();
    assert_eq!((manifest.key_shards.len(), manifest.rows), (128, store.len()));
}

#[test]
fn sources_that_do_not_go_together_are_refused() {
    let (world, _) = with_snapshot();
    drop((half(&world, "/low", 0).unwrap(), half(&world, "/high", 1).unwrap()));
    let refused = |sources: &[&str], options: StoreOptions| {
        let to = world.create_directory(Path::new("/to")).unwrap();
        let sources: Vec<&Path> = sources.iter().map(Path::new).collect();
        let made = Store::restore_shards(vec![to], &sources, Verify::Listed, options);
        made.map(drop).unwrap_err().to_string()
    };
    let expect = |message: String, parts: &[&str]| {
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        assert!(!message.contains('\n'), "{message}");
    };
    expect(refused(&["/low"], options()), &["key shards 128-255", "none of 1 source:"]);
    expect(refused(&[], options()), &["key shards 0-255"]);
    let twice = refused(&["/low", "/high", "/snapshot"], options());
    expect(twice, &["/snapshot", "has key shards 0-255", "so has /low"]);
    // Key shards that are not needed may be in several sources.
    let to = world.create_directory(Path::new("/quarter")).unwrap();
    let sources = ["/high", "/low"].map(Path::new);
    let quarter = of_shards(KeyShardSet::part(3, 4));
    drop(Store::restore_shards(vec![to], &sources, Verify::Listed, quarter).unwrap());
    expect(refused(&["/none"], options()), &["/none"]);
    let other = StoreOptions { table: 8, ..options() };
    expect(refused(&["/snapshot"], other), &["table 7", "8 was requested"]);
    // Other pages, another step of expiry.
    let make = |name: &str, options: StoreOptions, step: u32| {
        let disk = world.create_directory(Path::new(name)).unwrap();
        let store = Store::create(disk, options).unwrap();
        store.expire_before(step).unwrap();
        store.commit().unwrap();
    };
    let high = of_shards(KeyShardSet::part(1, 2));
    make("/large", StoreOptions { page_bytes: 8192, ..high.clone() }, 0);
    expect(refused(&["/low", "/large"], options()), &["/large", "8192 bytes", "/low has 4096"]);
    make("/aged", high, 9);
    let aged = refused(&["/low", "/aged"], options());
    expect(aged, &["/aged", "expired rows before step 9", "/low before 0", "snapshots"]);
    let none = refused(&["/snapshot"], of_shards(KeyShardSet::NONE));
    expect(none, &["without a key shard"]);
    assert!(world.directory(Path::new("/to")).unwrap().list().unwrap().is_empty());
}

/// A world with a fixture of an earlier version in `/old`.
fn with_fixture(name: &str) -> MemDisk {
    let (world, fixture) = (MemDisk::new(), old_format::fixture(name));
    let old = world.create_directory(Path::new("/old")).unwrap();
    for name in fixture.list().unwrap() {
        old.create(&name).unwrap().write_at(0, &bytes_of(&fixture, &name)).unwrap();
    }
    world
}

/// Options for the rows of a store.
fn options_of(disk: &dyn Disk, key_shards: KeyShardSet) -> StoreOptions {
    let of = Manifest::load(disk).map_or((3, old_format::ROW_BYTES), |manifest| {
        (manifest.table, manifest.row_bytes as usize)
    });
    let segment_bytes = 32_768;
    StoreOptions { key_shards, table: of.0, row_bytes: of.1, segment_bytes, ..options() }
}

fn half_of_old(world: &MemDisk, number: usize) -> stepwell_ssd::Result<Store> {
    let to = world.create_directory(Path::new(&format!("/half-{number}"))).unwrap();
    let old = world.directory(Path::new("/old")).unwrap();
    let options = options_of(&*old, KeyShardSet::part(number, 2));
    Store::restore_shards(vec![to], &[Path::new("/old")], Verify::Listed, options)
}

#[test]
fn a_source_of_version_1_is_refused_and_one_of_version_2_taken() {
    let error = half_of_old(&with_fixture("v1"), 0).unwrap_err().to_string();
    assert!(error.contains("format version 1") && error.contains("open it"), "{error}");
    for name in ["v2", "v2-both"] {
        let _told = Told(name.to_owned());
        let world = with_fixture(name);
        let stores = [0, 1].map(|number| half_of_old(&world, number).unwrap());
        let mut rows: Vec<(u64, u32)> = stores.iter().flat_map(scanned).collect();
        drop(stores);
        let old = world.directory(Path::new("/old")).unwrap();
        let of_old = options_of(&*old, KeyShardSet::ALL);
        let mut right = scanned(&Store::open(old, of_old).unwrap());
        rows.sort_unstable();
        right.sort_unstable();
        assert_eq!(rows, right);
        // An adopted store opens again, and can be joined into one.
        let to = world.create_directory(Path::new("/whole")).unwrap();
        let sources = ["/half-1", "/half-0"].map(Path::new);
        let options = options_of(&*world.directory(sources[0]).unwrap(), KeyShardSet::ALL);
        let again = Store::restore_shards(vec![to], &sources, Verify::Everything, options);
        let mut again = scanned(&again.unwrap());
        again.sort_unstable();
        assert_eq!(again, right);
    }
}

#[test]
fn a_segment_that_several_sources_have_is_linked_once() {
    let (world, oracle) = with_snapshot();
    drop((half(&world, "/low", 0).unwrap(), half(&world, "/high", 1).unwrap()));
    let to = world.create_directory(Path::new("/to")).unwrap();
    let sources = ["/high", "/low"].map(Path::new);
    let store =
        Store::restore_shards(vec![Arc::clone(&to)], &sources, Verify::Everything, options())
            .unwrap();
    assert_holds(&store, &oracle);
    let before = Manifest::load(&*world.directory(sources[0]).unwrap()).unwrap();
    assert_eq!(Manifest::load(&*to).unwrap().segments.len(), before.segments.len());
    assert_eq!(store.stats().rows_stale, 0);
}

#[test]
fn a_failed_restore_can_be_done_again() {
    let (world, oracle) = with_snapshot();
    let right = |store: &Store| {
        let rows: Vec<(u64, u32)> = scanned(store);
        let shards = store.key_shards();
        let ours = oracle.keys().filter(|key| shards.contains_key(Key(**key)));
        assert!(rows.iter().map(|(key, _)| key).eq(ours));
    };
    let mut failed = 0;
    for after in 0..200 {
        let _told = Told(format!("after {after} operations"));
        let world = world.crash(Survival::Everything);
        let failure = Failure {
            operation: None,
            after,
            kind: std::io::ErrorKind::Other,
            lasting: Lasting::Once,
        };
        let faults = Faults { failure: Some(failure), ..Faults::default() };
        let faulty = FaultyDisk::new(shared(&world), faults);
        let made = half(&faulty, "/half", 1);
        faulty.inflict(Faults::default());
        failed += u64::from(made.is_err());
        drop(made.map(|store| right(&store)));
        match half(&world, "/half", 1) {
            Ok(store) => right(&store),
            // The first attempt failed after its last step.
            Err(Error::Exists { .. }) => {
                let disk = world.directory(Path::new("/half")).unwrap();
                right(&Store::open(disk, options()).unwrap());
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(failed > 50, "{failed}");
}

#[test]
fn a_changed_byte_never_gives_a_wrong_row() {
    let (world, oracle) = with_snapshot();
    let snapshot = world.directory(Path::new("/snapshot")).unwrap();
    let name = snapshot.list().unwrap().into_iter().find(|name| name.ends_with(".rows")).unwrap();
    let bytes = bytes_of(&*snapshot, &name);
    let footer = bytes.len() - PAGE_BYTES as usize;
    let mut served = 0;
    for at in (0..footer).step_by(811).chain((footer..bytes.len()).step_by(13)) {
        let _told = Told(format!("byte {at}"));
        let world = world.crash(Survival::Everything);
        let snapshot = world.directory(Path::new("/snapshot")).unwrap();
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        snapshot.remove(&name).unwrap();
        snapshot.create(&name).unwrap().write_at(0, &changed).unwrap();
        let made = |to: &str, verify| {
            let to = world.create_directory(Path::new(to)).unwrap();
            let options = of_shards(KeyShardSet::part(0, 2));
            Store::restore_shards(vec![to], &[Path::new("/snapshot")], verify, options)
        };
        let padding = (footer + 36 * 9 + 8..bytes.len() - 128).contains(&at);
        assert_eq!(made("/checked", Verify::Everything).is_ok(), padding);
        let Ok(store) = made("/listed", Verify::Listed) else { continue };
        for key in oracle.keys().filter(|key| store.key_shards().contains_key(Key(**key))) {
            match get(&store, &[*key]) {
                Ok(rows) => assert_eq!(rows, [Some(payload(*key, *key))]),
                Err(error) => assert!(matches!(error, Error::Page { .. }), "{error}"),
            }
        }
        served += 1;
    }
    assert!(served > 10, "{served}");
}
