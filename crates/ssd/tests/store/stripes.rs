//! One store over several directories.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, Lasting, MemDisk};
use stepwell_ssd::{Error, MANIFEST_NAME, Store, Verify, check, repair};

use crate::actor::Actor;
use crate::common::{KEYS, get, keys, names, options, payload, put};
use crate::harness::{Told, bytes_of};
use crate::history::{History, Rows};

const PATHS: [&str; 3] = ["/memory", "/second", "/third"];

/// A world with three directories.
fn three() -> (MemDisk, Vec<Arc<dyn Disk>>) {
    let world = MemDisk::new();
    let disks = PATHS.iter().map(|path| world.create_directory(Path::new(path)).unwrap());
    let disks = disks.collect();
    (world, disks)
}

/// A committed store over three directories.
fn filled(disks: &[Arc<dyn Disk>]) -> (Store, History) {
    let store = Store::create_over(disks.to_vec(), options()).unwrap();
    let (mut history, mut dice) = (History::default(), Stream::from_state(31));
    for round in 0..14 {
        let rows: Vec<(u64, u32)> =
            keys(&mut dice, 80).into_iter().map(|key| (key, round)).collect();
        history.put(&store, &rows).unwrap();
        history.delete(&store, &keys(&mut dice, 5)).unwrap();
        store.compact().unwrap();
    }
    history.commit(&store).unwrap();
    (store, history)
}

fn segments(disk: &Arc<dyn Disk>) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.ends_with(".rows")).collect()
}

/// Names and bytes of all files, including those set aside.
fn contents(disks: &[Arc<dyn Disk>]) -> Vec<(String, Vec<u8>)> {
    let of = |disk: &Arc<dyn Disk>| {
        let mut all: Vec<(String, Vec<u8>)> = Vec::new();
        for name in disk.list().unwrap() {
            all.push((name.clone(), bytes_of(&**disk, &name)));
        }
        all.extend(names(&**disk, "set-aside").into_iter().map(|name| (name, Vec::new())));
        all
    };
    disks.iter().flat_map(of).collect()
}

#[test]
fn segments_go_to_every_directory_and_the_manifest_to_the_first() {
    let (_, disks) = three();
    let (store, mut history) = filled(&disks);
    let counts: Vec<usize> = disks.iter().map(|disk| segments(disk).len()).collect();
    assert!(counts.iter().all(|count| *count > 1), "{counts:?}");
    let has_manifest = |disk: &Arc<dyn Disk>| disk.exists(MANIFEST_NAME).unwrap();
    assert_eq!(disks.iter().map(has_manifest).collect::<Vec<_>>(), [true, false, false]);
    let stats = store.stats();
    let of_directories: Vec<u64> =
        stats.directories.iter().map(|directory| directory.segments).collect();
    assert_eq!(of_directories, counts.iter().map(|count| *count as u64).collect::<Vec<_>>());
    let paths: Vec<&str> =
        stats.directories.iter().map(|directory| directory.path.as_str()).collect();
    assert_eq!(paths, PATHS);
    assert!(stats.directories.iter().all(|directory| directory.bytes_written > 0));
    drop(store);
    // In any order except for the first; it continues in the same way.
    for order in [[0, 1, 2], [0, 2, 1], [0, 1, 2]] {
        let disks: Vec<Arc<dyn Disk>> = order.iter().map(|at| Arc::clone(&disks[*at])).collect();
        let store = Store::open_over(disks.clone(), options()).unwrap();
        history.resume(&store, &disks[0]);
        history.put(&store, &(0..100).map(|key| (key, 20)).collect::<Vec<_>>()).unwrap();
        store.compact().unwrap();
        history.commit(&store).unwrap();
        drop(store);
        assert_eq!(check(&disks).unwrap().damages, []);
    }
}

#[test]
fn another_first_directory_changes_nothing() {
    let (_, disks) = three();
    drop(filled(&disks));
    let before = contents(&disks);
    let turned = vec![Arc::clone(&disks[1]), Arc::clone(&disks[0]), Arc::clone(&disks[2])];
    let error = Store::open_over(turned, options()).unwrap_err();
    assert!(matches!(&error, Error::Missing { path } if path == Path::new("/second")), "{error}");
    assert!(contents(&disks) == before);
}

#[test]
fn a_missing_directory_is_named_and_nothing_moves() {
    let (world, disks) = three();
    drop(filled(&disks));
    let before = contents(&disks);
    let lost = segments(&disks[1]);
    let given = vec![Arc::clone(&disks[0]), Arc::clone(&disks[2])];
    let error = Store::open_over(given.clone(), options()).unwrap_err();
    let Error::Lost { count, first, directories, .. } = &error else { panic!("{error}") };
    assert_eq!((*count, first), (lost.len(), &lost[0]));
    assert_eq!(directories, &PATHS);
    let message = error.to_string();
    for part in [PATHS.as_slice(), &[&lost[0], "manifest.json"]].concat() {
        assert!(message.contains(part), "{message}");
    }
    assert!(contents(&disks) == before, "nothing was moved");
    let damages = check(&given).unwrap().damages;
    assert_eq!(damages.len(), lost.len());
    assert!(damages.iter().zip(&lost).all(|(damage, name)| damage.path.ends_with(name)));
    let into = world.create_directory(Path::new("/salvaged")).unwrap();
    let salvaged = repair(&given, into, |_, _| options()).unwrap();
    assert_eq!(salvaged.segments_lost, lost.len() as u64);
    assert!(Store::open_over(disks, options()).is_ok());
}

#[test]
fn a_directory_of_another_store_is_left_alone() {
    let (world, disks) = three();
    drop(filled(&disks));
    let others: Vec<Arc<dyn Disk>> =
        ["/x", "/y"].iter().map(|path| world.create_directory(Path::new(path)).unwrap()).collect();
    let (store, mut other) = filled(&others);
    drop(store);
    let before = contents(&others);
    let fresh = world.create_directory(Path::new("/fresh")).unwrap();
    let home = Arc::clone(&others[0]);
    let made = Store::create_over(vec![Arc::clone(&fresh), Arc::clone(&home)], options());
    assert!(matches!(&made, Err(Error::Exists { path }) if path == Path::new("/x")), "{made:?}");
    let opened = Store::open_over([&disks[..], &[home]].concat(), options());
    assert!(opened.is_err(), "{opened:?}");
    // The other store's second directory, by mistake.
    let mixed = vec![Arc::clone(&disks[0]), Arc::clone(&others[1]), Arc::clone(&disks[2])];
    let opened = Store::open_over(mixed, options());
    assert!(matches!(opened, Err(Error::Lost { .. })), "{opened:?}");
    assert!(contents(&others) == before, "nothing was moved");
    other.resume(&Store::open_over(others.clone(), options()).unwrap(), &others[0]);
    assert!(Store::open_over(disks, options()).is_ok());
}

#[test]
fn what_no_manifest_names_is_set_aside_where_it_lies() {
    let (_, disks) = three();
    let (store, mut history) = filled(&disks);
    while store.compact().unwrap() > 0 {
        history.commit(&store).unwrap();
    }
    let before: Vec<Vec<String>> = disks.iter().map(segments).collect();
    // Rows of new keys: nothing goes stale, and nothing is committed.
    put(&store, &(500..800).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    drop(store);
    let after: Vec<Vec<String>> = disks.iter().map(segments).collect();
    history.resume(&Store::open_over(disks.clone(), options()).unwrap(), &disks[0]);
    for ((disk, before), after) in disks.iter().zip(before).zip(after) {
        let new: BTreeSet<String> =
            after.into_iter().filter(|name| !before.contains(name)).collect();
        assert!(new.len() > 1);
        assert_eq!(BTreeSet::from_iter(names(&**disk, "set-aside")), new);
        assert_eq!(segments(disk), before);
    }
    let moved: usize = disks.iter().map(|disk| Store::set_aside(&**disk).unwrap()).sum();
    assert!(moved > 6);
    assert!(disks.iter().all(|disk| disk.list().unwrap().is_empty()));
    assert!(Store::create_over(disks, options()).unwrap().is_empty());
}

#[test]
fn snapshots_come_from_all_directories_and_go_to_any_number() {
    let (world, disks) = three();
    let (store, history) = filled(&disks);
    let path = Path::new("/snapshot");
    let snapshot = world.create_directory(path).unwrap();
    let manifest = store.snapshot(path).unwrap();
    assert_eq!(manifest.directories, ["/snapshot"]);
    assert_eq!(segments(&snapshot).len(), manifest.segments.len());
    assert_eq!(check(&[snapshot]).unwrap().damages, []);
    for count in 1..4 {
        let _told = Told(format!("into {count} directories"));
        let into = |at| world.create_directory(Path::new(&format!("/to-{count}-{at}"))).unwrap();
        let disks: Vec<Arc<dyn Disk>> = (0..count).map(into).collect();
        let restored =
            Store::restore_over(disks.clone(), path, Verify::Everything, options()).unwrap();
        history.clone().resume(&restored, &disks[0]);
        assert!(disks.iter().all(|disk| !segments(disk).is_empty()));
        drop(restored);
        assert_eq!(check(&disks).unwrap().damages, []);
    }
}

#[test]
fn a_directory_that_fails_leaves_the_rows_of_others_readable() {
    let (_, mut disks) = three();
    let faulty = FaultyDisk::new(Arc::clone(&disks[1]), Faults::default());
    disks[1] = Arc::new(faulty.clone());
    let (store, mut history) = filled(&disks);
    faulty.inflict(Faults {
        failure: Some(Failure {
            operation: None,
            after: 0,
            kind: ErrorKind::Other,
            lasting: Lasting::FromThenOn,
        }),
        ..Faults::default()
    });
    let look = |store: &Store, rows: &Rows| {
        let (mut read, mut failed) = (0, 0);
        for key in 0..KEYS {
            let expected = rows.get(&key).map(|(seq, _)| payload(key, *seq));
            match get(store, &[key]) {
                Ok(found) => {
                    assert!(found == [expected], "key {key}");
                    read += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("/second"), "{error}");
                    failed += 1;
                }
            }
        }
        (read, failed)
    };
    let (read, failed) = look(&store, &history.rows());
    assert!(read > KEYS / 2 && failed > 10, "{read} read, {failed} failed");
    let all: Vec<u64> = (0..KEYS).collect();
    assert!(get(&store, &all).is_err());
    // Writes and commits go to other directories.
    let segments = |store: &Store| -> Vec<u64> {
        store.stats().directories.iter().map(|directory| directory.segments).collect()
    };
    let before = segments(&store);
    for round in 0..12 {
        history.put(&store, &(0..36).map(|key| (key, round)).collect::<Vec<_>>()).unwrap();
    }
    history.commit(&store).unwrap();
    let after = segments(&store);
    assert!(after[1] <= before[1] && store.stats().commits > 0, "{before:?} {after:?}");
    let (read_now, failed_now) = look(&store, &history.rows());
    assert!(read_now >= read && failed_now <= failed, "{read_now} read, {failed_now} failed");
    drop(store);
    assert!(Store::open_over(disks.clone(), options()).is_err());
    faulty.inflict(Faults::default());
    let store = Store::open_over(disks.clone(), options()).unwrap();
    history.clone().resume(&store, &disks[0]);
}

#[test]
fn any_order_of_operations() {
    for seed in 200..206 {
        let _told = Told(format!("seed {seed}"));
        let (world, disks) = three();
        let mut actor = Actor::new(disks, options(), seed);
        for _ in 0..20 {
            actor.run(10).unwrap();
            actor.history.assert_held(actor.store());
        }
        actor.commit().unwrap();
        world.free_locks();
        assert_eq!(check(&actor.disks).unwrap().damages, []);
    }
}

#[test]
fn a_directory_named_twice_is_refused() {
    let (_, disks) = three();
    let twice = vec![Arc::clone(&disks[0]), Arc::clone(&disks[1]), Arc::clone(&disks[0])];
    for outcome in [
        Store::create_over(twice.clone(), options()),
        Store::open_over(twice.clone(), options()),
        Store::restore_over(twice, disks[2].path(), Verify::Everything, options()),
    ] {
        let Err(Error::Options(why)) = outcome else { panic!("{outcome:?}") };
        assert!(why.contains("is named twice"), "{why}");
    }
}
