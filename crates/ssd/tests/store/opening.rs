//! Opening with several threads gives the same result as with one.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{Result, Stats, Store, StoreOptions, View};

use crate::actor::Actor;
use crate::common::options;
use crate::harness::{bytes_of, copy_of, in_threads, scanned};

const THREADS: [usize; 4] = [2, 3, 5, 8];

fn opened(disk: &Arc<dyn Disk>, options: &StoreOptions, threads: usize) -> Result<View> {
    let options = StoreOptions { open_threads: threads, ..options.clone() };
    View::open(Arc::clone(disk), options)
}

/// Properties that distinguish opened stores: rows in file order, and counts.
fn seen(store: &Store) -> (Vec<(u64, u32)>, Stats) {
    let mut stats = store.stats();
    (stats.index_rewrite_ms_longest, stats.index_bytes_peak) = (0.0, 0);
    // If a part is full, one thread reads everything again.
    stats.bytes_read = 0;
    stats.directories.clear();
    (scanned(store), stats)
}

#[test]
fn any_number_of_threads_opens_the_same_store() {
    in_threads(&(0..24).collect::<Vec<u64>>(), &|seed| {
        let disk = MemDisk::new();
        let mut actor = Actor::new(vec![Arc::new(disk.clone())], options(), *seed);
        actor.run(200).unwrap();
        for (path, _) in &actor.snapshots {
            let disk = disk.directory(path).unwrap();
            let one = seen(&opened(&disk, &options(), 1).unwrap());
            for threads in THREADS {
                assert!(seen(&opened(&disk, &options(), threads).unwrap()) == one, "{threads}");
            }
        }
    });
}

/// A store of `rows` keys, some put twice and some deleted.
fn of(rows: u64) -> Arc<dyn Disk> {
    let disk = MemDisk::new();
    let options = StoreOptions { segment_bytes: 64 << 10, ..StoreOptions::new(7, 8) };
    let store = Store::create(Arc::new(disk.clone()), options).unwrap();
    for first in (0..rows).step_by(500) {
        let keys: Vec<Key> = (first..first + 500).chain(0..first / 50).map(Key).collect();
        let bytes: Vec<u8> = keys.iter().flat_map(|key| key.0.to_le_bytes()).collect();
        store.put_many(&keys, &vec![0; keys.len()], &bytes).unwrap();
        store.delete_many(&[Key(first + 7), Key(first / 2)]).unwrap();
    }
    store.commit().unwrap();
    Arc::new(disk)
}

#[test]
fn an_index_is_too_small_for_all_or_for_none() {
    let (disk, mut refused) = (of(12_000), 0);
    for index_bytes_max in (100_000..260_000).step_by(4096) {
        let small =
            StoreOptions { index_bytes_max, index_seed: Some(2), ..StoreOptions::new(7, 8) };
        let one = opened(&disk, &small, 1).map_err(|error| error.to_string());
        refused += usize::from(one.is_err());
        for threads in THREADS {
            let several = opened(&disk, &small, threads).map_err(|error| error.to_string());
            match (&one, &several) {
                (Ok(one), Ok(several)) => {
                    assert!(seen(one) == seen(several));
                    assert!(several.stats().index_bytes_peak <= index_bytes_max);
                }
                (Err(one), Err(several)) => assert_eq!(one, several),
                _ => panic!("{threads} threads in {index_bytes_max} bytes"),
            }
        }
    }
    assert!((5..35).contains(&refused), "{refused} were too small");
}

#[test]
fn damage_is_told_as_by_one_thread() {
    let disk = of(6_000);
    let names: Vec<String> =
        disk.list().unwrap().into_iter().filter(|name| name.starts_with("segment-")).collect();
    assert!(names.len() > 3);
    for damaged in [&names[1..2], &names[2..], &names[names.len() - 1..]] {
        let copy: Arc<dyn Disk> = Arc::new(copy_of(&*disk));
        for name in damaged {
            let mut bytes = bytes_of(&*copy, name);
            let last = bytes.len() - 100;
            bytes[last] ^= 1;
            copy.remove(name).unwrap();
            copy.create(name).unwrap().write_at(0, &bytes).unwrap();
        }
        let told = |threads| opened(&copy, &StoreOptions::new(7, 8), threads).unwrap_err();
        for threads in THREADS {
            assert_eq!(told(threads).to_string(), told(1).to_string());
        }
    }
}
