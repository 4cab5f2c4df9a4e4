//! Changed bytes: every one is found, named, and never served.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{Error, MANIFEST_NAME, Store, StoreOptions, verify};

use crate::common::{PAGE_BYTES, ROWS_PER_PAGE, get, new_store, options, payload, put, reopen};

/// A committed store of 40 rows: a full segment of 36 and one of 4, by numbers 1 and 2.
fn committed() -> (MemDisk, Store) {
    let (disk, store) = new_store();
    let rows: Vec<(u64, u64)> = (0..40).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    assert_eq!(store.commit().unwrap().segments.len(), 2);
    (disk, store)
}

const FIRST: &str = "segment-000000000001.rows";
const SECOND: &str = "segment-000000000002.rows";

fn flip(disk: &MemDisk, name: &str, at: usize) {
    disk.edit(name, &mut |bytes| bytes[at] ^= 0x04).unwrap();
}

fn bytes_of(disk: &MemDisk, name: &str) -> usize {
    disk.open(name).unwrap().len().unwrap() as usize
}

/// The error names the file, and an offset not behind `at`.
fn assert_names(error: &Error, name: &str, at: usize) {
    let Error::Damaged { path, offset, .. } = error else { panic!("{error}") };
    assert!(path.ends_with(name), "{error}");
    assert!(*offset <= at as u64, "{error}");
}

#[test]
fn verification_finds_every_byte() {
    let (disk, _) = committed();
    let before = verify(&disk).unwrap();
    assert_eq!((before.segments, before.pages, before.rows), (2, 4, 40));
    for name in [FIRST, SECOND, MANIFEST_NAME] {
        let mut found_version = 0;
        for at in 0..bytes_of(&disk, name) {
            flip(&disk, name, at);
            match verify(&disk).unwrap_err() {
                Error::Version { .. } => found_version += 1,
                error => assert_names(&error, name, at),
            }
            flip(&disk, name, at);
        }
        assert!(found_version <= 4, "{name}");
    }
    assert_eq!(verify(&disk).unwrap(), before);
}

#[test]
fn a_damaged_page_is_an_error_that_says_where_and_what_was_wanted() {
    let (disk, store) = committed();
    let page = 2 * PAGE_BYTES as usize;
    for at in [page, page + 100, page + 4095] {
        flip(&disk, FIRST, at);
        let error = get(&store, &[0, 17, 39]).unwrap_err();
        assert_names(&error, FIRST, at);
        let message = error.to_string();
        for part in ["segment-000000000001.rows", "offset 8192", "key 0000000000000011"] {
            assert!(message.contains(part), "{message}");
        }
        // Rows of other pages are as they were; the damaged one is never served or merged.
        assert_eq!(get(&store, &[0, 39]).unwrap(), [Some(payload(0, 0)), Some(payload(39, 39))]);
        assert!(store.scan_live(&mut |_, _, _| Ok(())).is_err());
        let reopened = reopen(&disk).unwrap();
        assert!(get(&reopened, &[17]).is_err());
        flip(&disk, FIRST, at);
    }
    assert_eq!(get(&store, &[17]).unwrap(), [Some(payload(17, 17))]);
}

#[test]
fn a_merge_stops_at_a_damaged_page_and_changes_nothing() {
    let (disk, store) = committed();
    // 24 of the first segment's 36 rows go stale; those of its page 2 are live.
    let stale = (0..12).chain(24..36);
    let rows: Vec<(u64, u64)> = stale.map(|key| (key, 100 + key)).collect();
    put(&store, &rows).unwrap();
    flip(&disk, FIRST, 2 * PAGE_BYTES as usize + 5);
    for _ in 0..3 {
        assert_names(&store.compact().unwrap_err(), FIRST, 2 * PAGE_BYTES as usize + 5);
    }
    assert!(get(&store, &[12]).is_err());
    assert_eq!(get(&store, &[24]).unwrap(), [Some(payload(24, 124))]);
    // A read that failed is no reason to refuse writes.
    put(&store, &[(12, 500)]).unwrap();
    assert_eq!(get(&store, &[12]).unwrap(), [Some(payload(12, 500))]);
    flip(&disk, FIRST, 2 * PAGE_BYTES as usize + 5);
    assert_eq!(store.compact().unwrap(), 1);
    assert_eq!(get(&store, &[13]).unwrap(), [Some(payload(13, 13))]);
    store.commit().unwrap();
    verify(&disk).unwrap();
    assert!(!disk.exists(FIRST).unwrap());
}

#[test]
fn a_page_in_the_wrong_place_is_found() {
    let (disk, store) = committed();
    let page = PAGE_BYTES as usize;
    disk.edit(FIRST, &mut |bytes| {
        let (first, second) = bytes[page..3 * page].split_at_mut(page);
        first.swap_with_slice(second);
    })
    .unwrap();
    assert_names(&get(&store, &[0]).unwrap_err(), FIRST, page);
    assert_names(&get(&store, &[ROWS_PER_PAGE as u64]).unwrap_err(), FIRST, 2 * page);
    let mut other = Vec::new();
    disk.edit(FIRST, &mut |bytes| other = bytes[3 * page..4 * page].to_vec()).unwrap();
    disk.edit(SECOND, &mut |bytes| bytes[page..2 * page].copy_from_slice(&other)).unwrap();
    assert_names(&get(&store, &[36]).unwrap_err(), SECOND, page);
}

#[test]
fn opening_finds_damaged_ends() {
    let (disk, _) = committed();
    let bytes = bytes_of(&disk, FIRST);
    let footer = 4 * PAGE_BYTES as usize;
    let ends = [0, 7, 12, 31, 2000, 4095, footer, footer + 20, bytes - 48, bytes - 20, bytes - 1];
    for at in ends {
        flip(&disk, FIRST, at);
        assert_names(&reopen(&disk).unwrap_err(), FIRST, at);
        flip(&disk, FIRST, at);
    }
    // A page's damage waits until the page is wanted.
    flip(&disk, FIRST, footer - 100);
    reopen(&disk).unwrap();
}

#[test]
fn a_file_of_another_length_is_found() {
    let (disk, _) = committed();
    let whole = disk.read(FIRST, 1 << 20).unwrap();
    for bytes in [0, 1, 4096, whole.len() - 1, whole.len() + 1] {
        disk.edit(FIRST, &mut |file| file.resize(bytes, 0)).unwrap();
        assert!(matches!(reopen(&disk), Err(Error::Damaged { .. })));
        assert!(matches!(verify(&disk), Err(Error::Damaged { .. })));
        disk.edit(FIRST, &mut |file| file.clone_from(&whole)).unwrap();
    }
    disk.remove(FIRST).unwrap();
    let message = reopen(&disk).unwrap_err().to_string();
    assert!(message.contains("cannot open") && message.contains(FIRST), "{message}");
}

#[test]
fn another_version_is_one_clear_line() {
    let (disk, _) = committed();
    disk.edit(FIRST, &mut |bytes| bytes[8] = 9).unwrap();
    let message = reopen(&disk).unwrap_err().to_string();
    assert!(message.contains("is of format version 9, this build reads version 1"), "{message}");
    disk.edit(MANIFEST_NAME, &mut |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        *bytes = text.replace("\"version\": 1", "\"version\": 3").into_bytes();
    })
    .unwrap();
    let snapshot = disk.path().to_owned();
    let other = disk.create_directory(&snapshot.join("other")).unwrap();
    for outcome in [reopen(&disk), Store::restore(other, &snapshot, options())] {
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains("is of format version 3, this build reads"), "{message}");
        assert!(!message.contains('\n'));
    }
}

#[test]
fn restoring_finds_every_byte_of_a_page() {
    let (disk, store) = committed();
    let path = disk.path().join("snapshot");
    disk.create_directory(&path).unwrap();
    store.snapshot(&path).unwrap();
    for (round, at) in (0..bytes_of(&disk, FIRST)).step_by(501).enumerate() {
        // The snapshot's file and the store's are one.
        flip(&disk, FIRST, at);
        let target = disk.create_directory(&disk.path().join(format!("to-{round}"))).unwrap();
        let error = Store::restore(target, &path, options()).unwrap_err();
        assert_names(&error, FIRST, at);
        flip(&disk, FIRST, at);
    }
}

#[test]
fn rows_of_another_kind_are_refused() {
    let (disk, _) = committed();
    let open = |options: StoreOptions| Store::open(Arc::new(disk.clone()), options);
    let message = open(StoreOptions { table: 8, ..options() }).unwrap_err().to_string();
    assert!(message.contains("holds rows of table 7, but 8 was asked for"), "{message}");
    let message = open(StoreOptions { row_bytes: 301, ..options() }).unwrap_err().to_string();
    assert!(message.contains("bytes are 300, but 301"), "{message}");
    // Other sizes of segments and buffers are free to choose.
    let larger = StoreOptions { segment_bytes: 1 << 20, buffer_bytes: 1 << 16, ..options() };
    let store = open(larger).unwrap();
    assert!(store.contains(Key(39)));
    assert_eq!(get(&store, &[39]).unwrap(), [Some(payload(39, 39))]);
}
