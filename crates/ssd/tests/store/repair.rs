//! The intact rows of a damaged store are salvaged, and nothing else.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, Lasting, MemDisk, Operation};
use stepwell_ssd::{Error, MANIFEST_NAME, Salvaged, Store, StoreOptions, check, repair};

use crate::common::{KEYS, PAGE_BYTES, get, keys, new_store, options, payload, reopen};
use crate::harness::{Told, bytes_of, copy_of, in_threads, shared};
use crate::history::{History, Rows, version};

const PAGE: usize = PAGE_BYTES as usize;

/// A committed store with merged segments, deletions, and many versions of each key.
fn image(seed: u64) -> (MemDisk, History) {
    let (disk, store) = new_store();
    let (mut history, mut dice) = (History::default(), Stream::named(seed, b"image"));
    for round in 0..14 {
        let rows: Vec<(u64, u32)> =
            keys(&mut dice, 80).into_iter().map(|key| (key, round)).collect();
        history.put(&store, &rows).unwrap();
        history.delete(&store, &keys(&mut dice, 10)).unwrap();
        if round % 4 == 3 {
            store.compact().unwrap();
            history.commit(&store).unwrap();
        }
    }
    history.commit(&store).unwrap();
    (disk, history)
}

/// A directory to repair into.
fn empty() -> Arc<dyn Disk> {
    MemDisk::new().create_directory(Path::new("/salvaged")).unwrap()
}

fn segments(disk: &MemDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.ends_with(".rows")).collect()
}

/// Number of data pages of a segment.
fn pages(disk: &MemDisk, name: &str) -> usize {
    let bytes = bytes_of(disk, name);
    let tail = &bytes[bytes.len() - 128..];
    (u32::from_le_bytes(*tail.first_chunk().unwrap()) as usize).div_ceil(12)
}

fn flip(disk: &MemDisk, name: &str, at: usize) {
    disk.edit(name, &mut |bytes| bytes[at] ^= 0x40).unwrap();
}

/// Repairs into a new directory; asserts that the source does not change.
fn salvage(disk: &MemDisk) -> (Store, Salvaged) {
    let contents = |disk: &MemDisk| -> Vec<(String, Vec<u8>)> {
        let names = disk.list().unwrap().into_iter();
        names.map(|name| (name.clone(), bytes_of(disk, &name))).collect()
    };
    let before = contents(disk);
    let into = empty();
    let of = |table, row_bytes| StoreOptions { table, row_bytes, ..options() };
    let salvaged = repair(&[shared(disk)], Arc::clone(&into), of).unwrap();
    assert!(contents(disk) == before, "a repair changes nothing");
    assert_eq!(check(&[Arc::clone(&into)]).unwrap().damages, []);
    (Store::open(into, options()).unwrap(), salvaged)
}

/// Asserts that the store has exactly these versions.
fn assert_versions(store: &Store, rows: &Rows) {
    let keys: Vec<u64> = (0..KEYS).collect();
    for (key, found) in keys.iter().zip(get(store, &keys).unwrap()) {
        let expected = rows.get(key).map(|(seq, _)| *seq);
        assert_eq!(version(found.as_deref()), expected, "the version of key {key}");
        assert!(expected.is_none_or(|seq| found == Some(payload(*key, seq))), "key {key}");
    }
    let mut uses = Rows::new();
    store
        .scan_live(&mut |key, used, row| {
            uses.insert(key.0, (version(Some(row)).unwrap(), used));
            Ok(())
        })
        .unwrap();
    assert!(&uses == rows, "last uses are kept");
}

/// Keys whose rows the store has but cannot read.
fn lost(disk: &MemDisk) -> BTreeSet<u64> {
    let store = reopen(disk).unwrap();
    let is_lost = |key: &u64| matches!(get(&store, &[*key]), Err(Error::Page { .. }));
    (0..KEYS).filter(is_lost).collect()
}

#[test]
fn a_whole_store_is_copied() {
    for seed in 0..4 {
        let (disk, history) = image(seed);
        let (store, salvaged) = salvage(&disk);
        assert_versions(&store, &history.rows());
        let rows = history.rows().len() as u64;
        assert_eq!(salvaged, Salvaged { rows, rows_named: rows, ..Salvaged::default() });
    }
}

#[test]
fn of_damaged_pages_exactly_the_newest_versions_are_lost() {
    let seeds: Vec<u64> = (0..60).collect();
    in_threads(&seeds, &|seed| {
        let _told = Told(format!("seed {seed}"));
        let (disk, history) = image(seed % 5);
        let mut dice = Stream::named(*seed, b"damage");
        let mut damaged = BTreeSet::new();
        for _ in 0..1 + dice.next_u64() % 6 {
            let names = segments(&disk);
            let name = &names[dice.next_u64() as usize % names.len()];
            let Some(pages) = std::num::NonZero::new(pages(&disk, name)) else { continue };
            let page = 1 + dice.next_u64() as usize % pages;
            if damaged.insert((name.clone(), page)) {
                flip(&disk, name, page * PAGE + dice.next_u64() as usize % PAGE);
            }
        }
        let lost = lost(&disk);
        let found = check(&[shared(&disk)]).unwrap().damages;
        let places = found.iter().map(|damage| {
            let name = damage.path.file_name().unwrap().to_string_lossy().into_owned();
            (name, damage.offset as usize / PAGE)
        });
        assert_eq!(places.collect::<BTreeSet<_>>(), damaged, "all of them are found");
        let told: BTreeSet<u64> =
            found.iter().flat_map(|damage| damage.keys.iter().map(|key| key.0)).collect();
        assert!(told.is_superset(&lost), "their keys are told");
        let (store, salvaged) = salvage(&disk);
        let mut rows = history.rows();
        rows.retain(|key, _| !lost.contains(key));
        assert_versions(&store, &rows);
        let keys_lost: Vec<Key> = lost.iter().copied().map(Key).collect();
        assert_eq!(salvaged.keys_lost, keys_lost);
        assert_eq!((salvaged.rows, salvaged.rows_lost), (rows.len() as u64, lost.len() as u64));
        assert_eq!(salvaged.pages_damaged, damaged.len() as u64);
        assert_eq!((salvaged.pages_unknown, salvaged.segments_lost), (0, 0));
    });
}

/// Asserts that every row is a version of its key, and that no existing row is missing or older.
fn assert_no_row_lost(store: &Store, history: &History) {
    let rows = history.rows();
    let keys: Vec<u64> = (0..KEYS).collect();
    for (key, found) in keys.iter().zip(get(store, &keys).unwrap()) {
        let there = version(found.as_deref());
        assert!(there.is_none_or(|seq| found == Some(payload(*key, seq))), "key {key}");
        if let Some((seq, _)) = rows.get(key) {
            assert_eq!(there, Some(*seq), "the version of key {key}");
        }
    }
}

#[test]
fn a_segment_without_its_list_loses_no_row() {
    let (image, history) = image(1);
    let mut cases = Vec::new();
    for name in segments(&image) {
        let footer = (1 + pages(&image, &name)) * PAGE;
        let bytes = bytes_of(&image, &name).len();
        for at in [0, 20, footer, footer + 3, bytes - 128, bytes - 100, bytes - 1] {
            cases.push((name.clone(), at));
        }
    }
    in_threads(&cases, &|(name, at)| {
        let _told = Told(format!("byte {at} of {name}"));
        let disk = copy_of(&image);
        flip(&disk, name, *at);
        assert!(matches!(reopen(&disk), Err(Error::Damaged { .. })));
        let found = check(&[shared(&disk)]).unwrap().damages;
        assert!(found.iter().all(|damage| damage.path.ends_with(name)) && !found.is_empty());
        let (store, salvaged) = salvage(&disk);
        // A key whose deletion is lost may have a row again.
        assert_no_row_lost(&store, &history);
        assert_eq!((salvaged.rows_lost, salvaged.segments_lost), (0, 0));
        // The rows of a segment can be found without its header.
        let header = *at < PAGE;
        assert_eq!(salvaged.segments_unlisted, u64::from(!header));
    });
}

#[test]
fn a_file_cut_short_gives_its_whole_pages() {
    let (image, history) = image(2);
    let name = segments(&image).into_iter().max_by_key(|name| pages(&image, name)).unwrap();
    let count = pages(&image, &name);
    for bytes in [0, 1, 511, PAGE, PAGE + 1, 2 * PAGE - 1, 2 * PAGE, count * PAGE + 777] {
        let _told = Told(format!("{bytes} bytes"));
        let disk = copy_of(&image);
        disk.edit(&name, &mut |file| file.truncate(bytes)).unwrap();
        assert!(matches!(reopen(&disk), Err(Error::Damaged { .. })));
        assert!(!check(&[shared(&disk)]).unwrap().damages.is_empty());
        let (store, _) = salvage(&disk);
        let keys: Vec<u64> = (0..KEYS).collect();
        for (key, found) in keys.iter().zip(get(&store, &keys).unwrap()) {
            let there = version(found.as_deref());
            assert!(there.is_none_or(|seq| found == Some(payload(*key, seq))), "key {key}");
        }
        if bytes >= count * PAGE + PAGE {
            assert_no_row_lost(&store, &history);
        }
    }
}

#[test]
fn a_segment_that_is_gone_is_counted() {
    let (image, history) = image(3);
    for name in segments(&image) {
        let disk = copy_of(&image);
        disk.remove(&name).unwrap();
        let found = check(&[shared(&disk)]).unwrap().damages;
        assert!(found.len() == 1 && found[0].path.ends_with(&name), "{found:?}");
        let (store, salvaged) = salvage(&disk);
        assert_eq!(salvaged.segments_lost, 1);
        assert!(salvaged.rows <= history.len());
        drop(store);
    }
}

#[test]
fn without_a_manifest_the_segments_speak() {
    let (image, history) = image(4);
    let manifest = bytes_of(&image, MANIFEST_NAME);
    for change in 0..4 {
        let disk = copy_of(&image);
        match change {
            0 => disk.remove(MANIFEST_NAME).unwrap(),
            1 => disk.edit(MANIFEST_NAME, &mut |bytes| bytes.clear()).unwrap(),
            2 => flip(&disk, MANIFEST_NAME, manifest.len() / 2),
            _ => disk.edit(MANIFEST_NAME, &mut |bytes| bytes.truncate(100)).unwrap(),
        }
        assert!(check(&[shared(&disk)]).is_err() && reopen(&disk).is_err());
        let (store, salvaged) = salvage(&disk);
        assert_versions(&store, &history.rows());
        assert_eq!((salvaged.rows_lost, salvaged.pages_damaged), (0, 0));
        assert!(salvaged.manifest_lost && salvaged.rows_named == 0);
        // A damaged header does not matter while there is another.
        flip(&disk, &segments(&disk)[0], 17);
        assert_versions(&salvage(&disk).0, &history.rows());
        for name in &segments(&disk)[1..] {
            flip(&disk, name, 17);
        }
        let into = empty();
        let error = repair(&[shared(&disk)], into, |_, _| options()).unwrap_err();
        assert!(error.to_string().contains("header"), "{error}");
    }
}

#[test]
fn a_store_is_never_repaired_over_another() {
    let (disk, _) = image(0);
    let (other, store) = new_store();
    let outcome = repair(&[shared(&disk)], shared(&other), |_, _| options());
    assert!(matches!(outcome, Err(Error::Exists { .. })));
    let onto_itself = repair(&[shared(&disk)], shared(&disk), |_, _| options());
    assert!(matches!(onto_itself, Err(Error::Exists { .. })));
    drop(store);
    // Without its manifest, the directory still has the rows to salvage.
    let bare = copy_of(&disk);
    bare.remove(MANIFEST_NAME).unwrap();
    let names = bare.list().unwrap();
    let onto_itself = repair(&[shared(&bare)], shared(&bare), |_, _| options());
    assert!(matches!(onto_itself, Err(Error::Options(_))), "{onto_itself:?}");
    assert_eq!(bare.list().unwrap(), names);
    let mut names = segments(&disk);
    names.insert(0, MANIFEST_NAME.to_owned());
    assert_eq!(disk.list().unwrap(), names);
    disk.edit(MANIFEST_NAME, &mut |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        *bytes = text.replace("\"version\": 3", "\"version\": 9").into_bytes();
    })
    .unwrap();
    let newer = repair(&[shared(&disk)], empty(), |_, _| options());
    assert!(matches!(newer, Err(Error::Version { found: 9, .. })));
    let none = repair(&[], empty(), |_, _| options());
    assert!(matches!(none, Err(Error::Options(_))));
}

#[test]
fn a_read_that_fails_once_costs_nothing() {
    let (disk, history) = image(1);
    let whole = FaultyDisk::new(shared(&disk), Faults::default());
    repair(&[Arc::new(whole.clone())], empty(), |_, _| options()).unwrap();
    let reads = whole.count(Operation::Read);
    for after in 1..reads {
        let _told = Told(format!("read number {after}"));
        let failure = Failure {
            operation: Some(Operation::Read),
            after,
            kind: ErrorKind::Other,
            lasting: Lasting::Once,
        };
        let faults = Faults { failure: Some(failure), ..Faults::default() };
        let faulty: Arc<dyn Disk> = Arc::new(FaultyDisk::new(shared(&disk), faults));
        let into = empty();
        let salvaged = repair(&[faulty], Arc::clone(&into), |_, _| options()).unwrap();
        assert_no_row_lost(&Store::open(into, options()).unwrap(), &history);
        assert_eq!(salvaged.rows_lost, 0);
        let faulty: Arc<dyn Disk> = Arc::new(FaultyDisk::new(shared(&disk), faults));
        check(&[faulty]).unwrap();
    }
}

#[test]
fn a_segment_that_cannot_be_opened_stops_neither_checking_nor_salvaging() {
    let (disk, _) = image(3);
    let all = check(&[shared(&disk)]).unwrap();
    // The manifest is opened first.
    for after in [1, 2, 4] {
        let _told = Told(format!("after {after} opens"));
        let failure = Failure {
            operation: Some(Operation::Open),
            after,
            kind: ErrorKind::PermissionDenied,
            lasting: Lasting::Once,
        };
        let faults = Faults { failure: Some(failure), ..Faults::default() };
        let faulty = FaultyDisk::new(shared(&copy_of(&disk)), faults);
        let found = check(&[Arc::new(faulty.clone())]).unwrap();
        assert_eq!((found.damages.len(), found.segments), (1, all.segments));
        assert!(found.damages[0].what.contains("cannot open"), "{:?}", found.damages[0]);
        faulty.inflict(faults);
        let options = |_, _| options();
        let salvaged = repair(&[Arc::new(faulty)], empty(), options).unwrap();
        assert_eq!(salvaged.segments_lost, 1);
        assert!(!salvaged.is_whole() && salvaged.rows <= salvaged.rows_named);
    }
}
