//! Disks that return wrong data and reads that fail, at every possible place: faults are found or
//! do no harm, and no row is ever served for another one.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, Flip, Lasting, MemDisk, Operation};
use stepwell_ssd::{Error, Lookup, Result, Store, Verify, check};

use crate::actor::Actor;
use crate::common::{KEYS, assert_whole, get, keys, options, payload};
use crate::harness::{Told, copy_of, in_threads, is_long, shared};
use crate::history::{History, version};

/// A committed store with merged segments and deletions, and its history.
fn image() -> (MemDisk, History) {
    let disk = MemDisk::new();
    let mut actor = Actor::new(vec![shared(&disk)], options(), 11);
    actor.stays = true;
    actor.run(150).unwrap();
    actor.commit().unwrap();
    let checked = assert_whole(&disk);
    assert!(checked.segments > 3 && checked.rows > 100, "{checked:?}");
    (disk, actor.history)
}

/// Performs everything that reads, one after the other; fails if the disk does.
fn read_everything(disk: &FaultyDisk, history: &mut History) -> Result<()> {
    let disks: Vec<Arc<dyn Disk>> = vec![Arc::new(disk.clone())];
    let store = Store::open_over(disks.clone(), options())?;
    assert_eq!(store.next_seq(), history.len(), "the commit that is there");
    history.check_held(&store)?;
    let mut reader = store.reader()?;
    let tickets = (0..4).map(|part| {
        let keys = (0..KEYS).filter(|key| key % 4 == part).map(Key).collect();
        reader.submit(Lookup::new(keys))
    });
    let tickets = tickets.collect::<Result<Vec<_>>>()?;
    let rows = history.rows();
    for ticket in tickets {
        let Lookup { keys, rows: bytes, found } = reader.wait(ticket)?;
        for ((key, row), found) in keys.iter().zip(bytes.chunks_exact(300)).zip(found) {
            let expected = rows.get(&key.0).map(|(seq, _)| payload(key.0, *seq));
            assert_eq!(found.then_some(row), expected.as_deref());
        }
    }
    let mut dice = Stream::from_state(1);
    for _ in 0..3 {
        let rows: Vec<(u64, u32)> =
            keys(&mut dice, 60).into_iter().map(|key| (key, 1_000)).collect();
        history.put(&store, &rows)?;
        history.delete(&store, &keys(&mut dice, 5))?;
        store.compact()?;
        history.check_held(&store)?;
    }
    let path = disk.path().join("snapshot");
    disk.create_directory(&path)?;
    let manifest = store.snapshot(&path)?;
    history.promise(&manifest);
    let to = disk.create_directory(&disk.path().join("to"))?;
    history.check_held(&Store::restore(to, &path, Verify::Everything, options())?)?;
    drop((reader, store));
    check(&disks).map(drop)
}

/// Reads everything with a fault; then without, when everything must be there. Returns whether the
/// fault was noticed.
fn with(image: &(MemDisk, History), faults: Faults) -> bool {
    let memory = copy_of(&image.0);
    let disk = FaultyDisk::new(Arc::new(memory.clone()), faults);
    let mut history = image.1.clone();
    let noticed = match read_everything(&disk, &mut history) {
        Ok(()) => false,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            let of_disk = matches!(error, Error::Disk(_));
            let damage = matches!(error, Error::Damaged { .. } | Error::Page { .. });
            assert!(of_disk || damage || matches!(error, Error::Version { .. }), "{error:?}");
            true
        }
    };
    let store = Store::open(shared(&memory), options()).unwrap();
    history.resume(&store, &shared(&memory));
    assert_whole(&memory);
    noticed
}

/// Number of reads that reading everything takes without a fault.
fn reads(image: &(MemDisk, History)) -> u64 {
    let disk = FaultyDisk::new(shared(&copy_of(&image.0)), Faults::default());
    read_everything(&disk, &mut image.1.clone()).unwrap();
    disk.count(Operation::Read)
}

#[test]
fn a_read_that_fails_or_ends_early_is_noticed() {
    let image = image();
    let reads = reads(&image);
    assert!(reads > 100, "{reads}");
    let noticed = AtomicU64::new(0);
    in_threads(&(0..reads).collect::<Vec<_>>(), &|after| {
        let _told = Told(format!("read number {after}"));
        let lasting = if after % 2 == 0 { Lasting::Once } else { Lasting::FromThenOn };
        let (operation, kind) = (Some(Operation::Read), ErrorKind::Other);
        let failure = Some(Failure { operation, after: *after, kind, lasting });
        let short_read_after = Some(*after);
        for faults in [
            Faults { failure, ..Faults::default() },
            Faults { short_read_after, ..Faults::default() },
        ] {
            noticed.fetch_add(with(&image, faults).into(), Ordering::Relaxed);
        }
    });
    // A background merge only skips its segment from then on.
    let noticed = noticed.into_inner();
    assert!(noticed > reads * 3 / 2, "{noticed} of {reads} reads, twice");
}

#[test]
fn a_bit_that_a_read_gets_wrong_harms_nobody() {
    const BLOCK_BITS: u64 = 4096 * 8;
    let image = image();
    let reads = reads(&image);
    let rounds = if is_long() { 6 } else { 3 };
    let noticed = AtomicU64::new(0);
    in_threads(&(0..reads).collect::<Vec<_>>(), &|after| {
        let mut dice = Stream::named(*after, b"bits");
        for round in 0..rounds {
            // Lists are at the front of a block, tails at its end, rows everywhere.
            let bit = match round % 3 {
                0 => dice.next_u64() % 4_000,
                1 => BLOCK_BITS - 1 - dice.next_u64() % 1_024,
                _ => dice.next_u64() % (4 * BLOCK_BITS),
            };
            let _told = Told(format!("bit {bit} of read number {after}"));
            let flip = Some(Flip { after: *after, bit });
            let noticed_it = with(&image, Faults { flip, ..Faults::default() });
            noticed.fetch_add(noticed_it.into(), Ordering::Relaxed);
        }
    });
    let noticed = noticed.into_inner();
    assert!(noticed > reads * rounds / 4, "{noticed} of {} bits", reads * rounds);
}

/// Looks up every key by itself: each result is right or an error. Returns the number of errors.
fn look_at_each(store: &Store, history: &History) -> u64 {
    let rows = history.rows();
    let mut errors = 0;
    for key in 0..KEYS {
        match get(store, &[key]) {
            Ok(found) => {
                let expected = rows.get(&key).map(|(seq, _)| payload(key, *seq));
                let there = version(found[0].as_deref());
                assert!(found[0] == expected, "key {key} is of version {there:?}");
            }
            Err(Error::Page { keys, .. }) => {
                assert_eq!(keys, [Key(key)]);
                errors += 1;
            }
            Err(Error::Disk(_)) => errors += 1,
            Err(error) => panic!("{error}"),
        }
    }
    errors
}

/// Puts, deletes, merges and commits on a disk that loses or misdirects one write. Returns whether
/// it was noticed, and the number of writes.
fn write_with(faults: Faults) -> (bool, u64) {
    let memory = MemDisk::new();
    let disk = FaultyDisk::new(Arc::new(memory.clone()), faults);
    let Ok(store) = Store::create(Arc::new(disk.clone()), options()) else {
        return (true, disk.count(Operation::Write));
    };
    let (mut history, mut dice) = (History::default(), Stream::from_state(21));
    let mut errors = 0;
    for round in 0..12 {
        let rows: Vec<(u64, u32)> =
            keys(&mut dice, 70).into_iter().map(|key| (key, round)).collect();
        history.put(&store, &rows).unwrap();
        history.delete(&store, &keys(&mut dice, 6)).unwrap();
        errors += u64::from(store.compact().is_err());
        if round % 3 == 2 {
            history.commit(&store).unwrap();
            errors += look_at_each(&store, &history);
        }
    }
    history.commit(&store).unwrap();
    drop(store);
    let writes = disk.count(Operation::Write);
    let found = check(&[shared(&memory)]);
    match Store::open(shared(&memory), options()) {
        Ok(store) => {
            assert_eq!(store.next_seq(), history.len());
            let lost = look_at_each(&store, &history);
            let damages = found.unwrap().damages;
            assert!(lost == 0 || !damages.is_empty(), "{lost} rows are lost and nothing is found");
            (errors + lost > 0 || !damages.is_empty(), writes)
        }
        Err(error) => {
            let damaged = matches!(error, Error::Damaged { .. } | Error::Version { .. });
            assert!(damaged, "{error}");
            let found = found.map(|checked| checked.damages.is_empty());
            assert!(!matches!(found, Ok(true)), "the store does not open and nothing is found");
            (true, writes)
        }
    }
}

#[test]
fn a_write_that_is_lost_or_lands_elsewhere_harms_nobody() {
    let (noticed, writes) = write_with(Faults::default());
    assert!(!noticed && writes > 50, "{writes} writes");
    let noticed = AtomicU64::new(0);
    in_threads(&(0..writes).collect::<Vec<_>>(), &|after| {
        let _told = Told(format!("write number {after}"));
        for faults in [
            Faults { lost_write_after: Some(*after), ..Faults::default() },
            Faults { misdirected_write_after: Some(*after), ..Faults::default() },
        ] {
            noticed.fetch_add(write_with(faults).0.into(), Ordering::Relaxed);
        }
    });
    // Segments that were merged away before they were read do no harm.
    let noticed = noticed.into_inner();
    assert!(noticed > writes, "{noticed} of {writes} writes, twice");
}
