//! Every changed byte is found, reported, and never served.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{Checked, Error, MANIFEST_NAME, Store, StoreOptions, Verify, check};

use crate::common::{
    PAGE_BYTES, ROWS_PER_PAGE, assert_whole, get, new_store, options, payload, put, reopen,
};
use crate::harness::{Told, bytes_of, shared};

pub(crate) const FIRST: &str = "segment-000000000001.rows";
pub(crate) const SECOND: &str = "segment-000000000002.rows";
const PAGE: usize = PAGE_BYTES as usize;

/// A committed store of 40 rows and a deletion: a full segment of 36 rows, number 1, and one of 5,
/// number 2.
pub(crate) fn committed() -> (MemDisk, Store) {
    let (disk, store) = new_store();
    let rows: Vec<(u64, u64)> = (0..41).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    assert_eq!(store.delete_many(&[Key(40)]).unwrap(), 1);
    assert_eq!(store.commit().unwrap().segments.len(), 2);
    (disk, store)
}

pub(crate) fn flip(disk: &MemDisk, name: &str, at: usize) {
    disk.edit(name, &mut |bytes| bytes[at] ^= 0x04).unwrap();
}

fn checked(disk: &MemDisk) -> Checked {
    disk.free_locks();
    check(&[shared(disk)]).unwrap()
}

/// Asserts that the error names the file, and an offset of at most `at`.
fn assert_names(error: &Error, name: &str, at: usize) {
    let (Error::Damaged { path, offset, .. } | Error::Page { path, offset, .. }) = error else {
        panic!("{error}")
    };
    assert!(path.ends_with(name), "{error}");
    assert!(*offset <= at as u64, "{error}");
    assert!(!error.to_string().contains('\n'));
}

/// Whether a byte is between footer and tail, where any value is valid.
fn is_padding(whole: &[u8], rows: usize, deletions: usize, at: usize) -> bool {
    let footer = (1 + rows.div_ceil(ROWS_PER_PAGE)) * PAGE;
    let end = footer + 9 * rows + 16 * deletions + 8 * rows.div_ceil(512);
    (end..whole.len() - 128).contains(&at)
}

#[test]
fn checking_finds_every_byte() {
    let (disk, _) = committed();
    let before = assert_whole(&disk);
    assert_eq!((before.segments, before.pages, before.rows), (2, 4 + 2, 41));
    for (name, rows, deletions) in [(FIRST, 36, 0), (SECOND, 5, 1)] {
        let whole = bytes_of(&disk, name);
        for at in 0..whole.len() {
            let _told = Told(format!("byte {at} of {name}"));
            flip(&disk, name, at);
            let found = checked(&disk);
            flip(&disk, name, at);
            if is_padding(&whole, rows, deletions, at) {
                assert_eq!(found, before);
                continue;
            }
            let first = found.damages.first().unwrap();
            assert!(first.path.ends_with(name) && first.offset <= at as u64, "{first:?}");
            if (PAGE..PAGE * (1 + rows.div_ceil(ROWS_PER_PAGE))).contains(&at) {
                let page = at / PAGE;
                let key = if name == FIRST { 0 } else { 36 } + (page - 1) * ROWS_PER_PAGE;
                assert_eq!(first.offset, (page * PAGE) as u64);
                assert_eq!(first.keys[0], Key(key as u64), "the page's keys are told");
                assert_eq!(found.damages.len(), 1);
            }
        }
    }
    assert_eq!(checked(&disk), before);
}

#[test]
fn checking_finds_every_byte_of_a_manifest() {
    let (disk, _) = committed();
    let mut found_version = 0;
    for at in 0..bytes_of(&disk, MANIFEST_NAME).len() {
        flip(&disk, MANIFEST_NAME, at);
        for error in [check(&[shared(&disk)]).unwrap_err(), reopen(&disk).unwrap_err()] {
            match error {
                Error::Version { .. } => found_version += 1,
                error => assert_names(&error, MANIFEST_NAME, at),
            }
        }
        flip(&disk, MANIFEST_NAME, at);
    }
    assert!(found_version <= 2, "one digit");
}

#[test]
fn checking_goes_on_after_damage() {
    let (disk, _) = committed();
    for at in [PAGE, 3 * PAGE + 7, 4 * PAGE + 3] {
        flip(&disk, FIRST, at);
    }
    flip(&disk, SECOND, 30);
    let found = checked(&disk);
    let offsets: Vec<_> = found.damages.iter().map(|damage| damage.offset / PAGE_BYTES).collect();
    assert_eq!(offsets, [4, 1, 3, 0], "footer, pages; header");
    disk.remove(SECOND).unwrap();
    let found = checked(&disk).damages;
    let last = found.last().unwrap();
    assert!(last.path.ends_with(SECOND) && last.what.contains("in none of the directories"));
}

#[test]
fn a_damaged_page_is_an_error_that_says_where_and_what_was_wanted() {
    let (disk, store) = committed();
    let page = 2 * PAGE;
    for at in [page, page + 100, page + 4095] {
        flip(&disk, FIRST, at);
        let error = get(&store, &[0, 17, 39]).unwrap_err();
        assert_names(&error, FIRST, at);
        let Error::Page { table: 7, page: 2, keys, .. } = &error else { panic!("{error}") };
        assert_eq!(keys, &[Key(17)]);
        let message = error.to_string();
        for part in ["segment-000000000001.rows", "offset 8192", "key 0000000000000011", "repair"] {
            assert!(message.contains(part), "{message}");
        }
        // Rows of other pages are unchanged; the damaged one is never served or merged.
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
    // 24 of the first segment's 36 rows go stale; the rows of its page 2 are live.
    let stale = (0..12).chain(24..36);
    let rows: Vec<(u64, u64)> = stale.map(|key| (key, 100 + key)).collect();
    put(&store, &rows).unwrap();
    flip(&disk, FIRST, 2 * PAGE + 5);
    assert_names(&store.compact().unwrap_err(), FIRST, 2 * PAGE + 5);
    assert_eq!(store.compact().unwrap(), 0, "it is left alone from then on");
    assert!(get(&store, &[12]).is_err());
    assert_eq!(get(&store, &[24]).unwrap(), [Some(payload(24, 124))]);
    // A failed read is no reason to refuse writes.
    put(&store, &[(12, 500)]).unwrap();
    assert_eq!(get(&store, &[12]).unwrap(), [Some(payload(12, 500))]);
    store.commit().unwrap();
    flip(&disk, FIRST, 2 * PAGE + 5);
    let store = reopen(&disk).unwrap();
    assert!(store.compact().unwrap() > 0, "it can be read again");
    assert_eq!(get(&store, &[13]).unwrap(), [Some(payload(13, 13))]);
    store.commit().unwrap();
    assert_whole(&disk);
    assert!(!disk.exists(FIRST).unwrap());
}

#[test]
fn a_page_in_the_wrong_place_is_found() {
    let (disk, store) = committed();
    disk.edit(FIRST, &mut |bytes| {
        let (first, second) = bytes[PAGE..3 * PAGE].split_at_mut(PAGE);
        first.swap_with_slice(second);
    })
    .unwrap();
    assert_names(&get(&store, &[0]).unwrap_err(), FIRST, PAGE);
    assert_names(&get(&store, &[ROWS_PER_PAGE as u64]).unwrap_err(), FIRST, 2 * PAGE);
    let mut other = Vec::new();
    disk.edit(FIRST, &mut |bytes| other = bytes[3 * PAGE..4 * PAGE].to_vec()).unwrap();
    disk.edit(SECOND, &mut |bytes| bytes[PAGE..2 * PAGE].copy_from_slice(&other)).unwrap();
    assert_names(&get(&store, &[36]).unwrap_err(), SECOND, PAGE);
    let places: Vec<_> = checked(&disk).damages.iter().map(|damage| damage.offset).collect();
    assert_eq!(places, [PAGE_BYTES, 2 * PAGE_BYTES, PAGE_BYTES]);
}

/// Numbers of segments lost in a crash are not reused, so that their remains on a disk cannot pass
/// for new ones.
#[test]
fn a_page_of_an_older_file_is_found() {
    let (disk, store) = committed();
    put(&store, &(0..72).map(|key| (key, 1_000 + key)).collect::<Vec<_>>()).unwrap();
    drop(store);
    let later = |disk: &MemDisk| {
        let names = disk.list().unwrap().into_iter();
        names.filter(|name| name.ends_with(".rows") && **name > *SECOND).collect::<Vec<_>>()
    };
    let lost = later(&disk);
    assert_eq!(lost.len(), 2);
    let old = bytes_of(&disk, &lost[0]);
    for round in 0..2 {
        let store = reopen(&disk).unwrap();
        put(&store, &(0..72).map(|key| (key, 2_000 + key)).collect::<Vec<_>>()).unwrap();
        if round == 0 {
            continue;
        }
        store.commit().unwrap();
        for name in &later(&disk) {
            let whole = bytes_of(&disk, name);
            disk.edit(name, &mut |bytes| {
                bytes[PAGE..2 * PAGE].copy_from_slice(&old[PAGE..2 * PAGE]);
            })
            .unwrap();
            let found = checked(&disk).damages;
            assert!(found[0].path.ends_with(name) && found[0].offset == PAGE_BYTES, "{found:?}");
            let key = found[0].keys[0].0;
            assert_names(&get(&store, &[key]).unwrap_err(), name, PAGE);
            disk.edit(name, &mut |bytes| bytes.clone_from(&whole)).unwrap();
        }
    }
    assert_whole(&disk);
}

#[test]
fn opening_finds_damaged_ends() {
    let (disk, _) = committed();
    for (name, footer, rows, deletions) in [(FIRST, 4 * PAGE, 36, 0), (SECOND, 2 * PAGE, 5, 1)] {
        let whole = bytes_of(&disk, name);
        let header = [0, 7, 12, 31, 2000, 4095];
        let tail = whole.len() - 128..whole.len();
        let list = footer..footer + 9 * rows + 16 * deletions;
        for at in header.into_iter().chain(list).chain(tail) {
            flip(&disk, name, at);
            assert_names(&reopen(&disk).unwrap_err(), name, at);
            flip(&disk, name, at);
        }
        // Damage of a page is found when the page is read.
        flip(&disk, name, footer - 100);
        reopen(&disk).unwrap();
        flip(&disk, name, footer - 100);
    }
}

#[test]
fn a_file_of_another_length_is_found() {
    let (disk, _) = committed();
    let whole = bytes_of(&disk, FIRST);
    let lengths = [0, 1, 4095, 4096, 8192, whole.len() - 1, whole.len() + 1, whole.len() + 4096];
    for bytes in lengths {
        let _told = Told(format!("{bytes} bytes"));
        disk.edit(FIRST, &mut |file| file.resize(bytes, 0)).unwrap();
        assert!(matches!(reopen(&disk), Err(Error::Damaged { .. })));
        let found = checked(&disk).damages;
        assert!(found[0].path.ends_with(FIRST) && found[0].what.contains("bytes"), "{found:?}");
        disk.edit(FIRST, &mut |file| file.clone_from(&whole)).unwrap();
    }
    disk.remove(FIRST).unwrap();
    let error = reopen(&disk).unwrap_err();
    let Error::Lost { count: 1, ref first, .. } = error else { panic!("{error}") };
    assert_eq!(first, FIRST);
}

#[test]
fn another_version_is_one_clear_line() {
    let (disk, _) = committed();
    disk.edit(FIRST, &mut |bytes| bytes[8] = 9).unwrap();
    let message = reopen(&disk).unwrap_err().to_string();
    assert!(message.contains("has format version 9, this build reads version 3"), "{message}");
    disk.edit(MANIFEST_NAME, &mut |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        *bytes = text.replace("\"version\": 3", "\"version\": 4").into_bytes();
    })
    .unwrap();
    let snapshot = disk.path().to_owned();
    let other = disk.create_directory(&snapshot.join("other")).unwrap();
    for outcome in [reopen(&disk), Store::restore(other, &snapshot, Verify::Everything, options())]
    {
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains("has format version 4, this build reads"), "{message}");
        assert!(!message.contains('\n'));
    }
}

#[test]
fn restoring_finds_every_byte_of_a_page() {
    let (disk, store) = committed();
    let path = disk.path().join("snapshot");
    disk.create_directory(&path).unwrap();
    store.snapshot(&path).unwrap();
    let footer_end = 4 * PAGE + 8 * 36 + 8;
    for (round, at) in (0..footer_end).step_by(501).enumerate() {
        // The snapshot's file is the store's.
        flip(&disk, FIRST, at);
        let target = disk.create_directory(&disk.path().join(format!("to-{round}"))).unwrap();
        let error = Store::restore(target, &path, Verify::Everything, options()).unwrap_err();
        assert_names(&error, FIRST, at);
        flip(&disk, FIRST, at);
    }
}

/// A store made of links does not read pages at first, and never serves a damaged row.
#[test]
fn restoring_by_links_leaves_pages_to_those_who_read_them() {
    let (disk, store) = committed();
    let path = disk.path().join("snapshot");
    disk.create_directory(&path).unwrap();
    store.snapshot(&path).unwrap();
    let target = |name: &str| disk.create_directory(&disk.path().join(name)).unwrap();
    flip(&disk, FIRST, PAGE + 20);
    let restored = Store::restore(target("page"), &path, Verify::Listed, options()).unwrap();
    // Headers, footers and tails: no page of rows.
    assert!(restored.stats().bytes_read < 8 * PAGE_BYTES, "{:?}", restored.stats());
    let error = get(&restored, &[0]).unwrap_err();
    assert_names(&error, FIRST, PAGE + 20);
    assert_eq!(get(&restored, &[40]).unwrap(), [None]);
    assert_eq!(get(&restored, &[39]).unwrap(), [Some(payload(39, 39))]);
    flip(&disk, FIRST, PAGE + 20);
    // The parts that opening reads are checked, and damage is reported at its place.
    let footer = 4 * PAGE + 5;
    flip(&disk, FIRST, footer);
    let restored = Store::restore(target("footer"), &path, Verify::Listed, options());
    let error = restored.unwrap_err();
    assert_names(&error, FIRST, footer);
    assert!(error.to_string().contains("snapshot"), "{error}");
}

#[test]
fn rows_of_another_kind_are_refused() {
    let (disk, _) = committed();
    let open = |options: StoreOptions| Store::open(shared(&disk), options);
    let message = open(StoreOptions { table: 8, ..options() }).unwrap_err().to_string();
    assert!(message.contains("holds rows of table 7, but 8 was requested"), "{message}");
    let message = open(StoreOptions { row_bytes: 301, ..options() }).unwrap_err().to_string();
    assert!(message.contains("bytes are 300, but 301"), "{message}");
    // Segments and buffers may have other sizes.
    let larger = StoreOptions { segment_bytes: 1 << 20, buffer_bytes: 1 << 16, ..options() };
    let store = open(larger).unwrap();
    assert!(store.contains(Key(39)));
    assert_eq!(get(&store, &[39]).unwrap(), [Some(payload(39, 39))]);
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
    assert!(matches!(Store::open_over(Vec::new(), options()), Err(Error::Options(_))));
    assert!(matches!(Store::open(disk, options()), Err(Error::Missing { .. })));
}

#[test]
fn segments_of_another_store_are_refused_and_left_alone() {
    // Two stores with the same puts: the same numbers, the same rows.
    let (disk, _) = committed();
    let (other, _) = committed();
    let (ours, theirs) = (bytes_of(&disk, FIRST), bytes_of(&other, FIRST));
    assert_eq!(ours.len(), theirs.len());
    disk.edit(FIRST, &mut |bytes| bytes.clone_from(&theirs)).unwrap();
    let message = reopen(&disk).unwrap_err().to_string();
    assert!(message.contains(FIRST) && message.contains("of another store"), "{message}");
    assert!(!checked(&disk).damages.is_empty());
    // A page of the other store in ours, where the same rows are.
    disk.edit(FIRST, &mut |bytes| {
        bytes.clone_from(&ours);
        bytes[PAGE..2 * PAGE].copy_from_slice(&theirs[PAGE..2 * PAGE]);
    })
    .unwrap();
    let found = checked(&disk).damages;
    assert_eq!((found[0].offset, found[0].what.contains("checksum")), (PAGE_BYTES, true));
    disk.edit(FIRST, &mut |bytes| bytes.clone_from(&ours)).unwrap();
    // A segment that no manifest names stays; its number is not given.
    let stray = "segment-000000000009.rows";
    disk.create(stray).unwrap().write_at(0, &theirs).unwrap();
    let store = reopen(&disk).unwrap();
    assert_eq!(bytes_of(&disk, stray), theirs);
    put(&store, &(0..200).map(|key| (key, 1_000 + key)).collect::<Vec<_>>()).unwrap();
    let manifest = store.commit().unwrap();
    assert!(manifest.segments.iter().any(|entry| entry.segment > 9), "{manifest:?}");
    assert!(manifest.segments.iter().all(|entry| entry.segment != 9));
    assert_eq!(bytes_of(&disk, stray), theirs);
    drop(store);
    assert_whole(&disk);
}

#[test]
fn a_restored_store_is_another_one() {
    let (disk, store) = committed();
    let path = disk.path().join("snapshot");
    disk.create_directory(&path).unwrap();
    store.snapshot(&path).unwrap();
    let to = disk.create_directory(&disk.path().join("restored")).unwrap();
    let restored = Store::restore(Arc::clone(&to), &path, Verify::Everything, options()).unwrap();
    // Both continue with the same numbers and the same rows.
    let rows: Vec<(u64, u64)> = (0..30).map(|key| (key, 2_000 + key)).collect();
    put(&store, &rows).unwrap();
    put(&restored, &rows).unwrap();
    store.commit().unwrap();
    let last = restored.commit().unwrap().segments.last().unwrap().segment;
    drop((store, restored));
    let name = format!("segment-{last:012}.rows");
    let theirs = bytes_of(&*to, &name);
    disk.edit(&name, &mut |bytes| bytes.clone_from(&theirs)).unwrap();
    let message = reopen(&disk).unwrap_err().to_string();
    assert!(message.contains("of another store"), "{message}");
}
