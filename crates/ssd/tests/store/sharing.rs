//! Stores of one executor: all of them together take what each would take alone.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, Lasting, MemDisk, Operation};
use stepwell_ssd::{Compaction, Executor, ExecutorOptions, Store, StoreOptions};

use crate::common::{keys, options};
use crate::harness::Told;
use crate::history::History;

const STORES: usize = 16;

fn buffer_bytes() -> u64 {
    options().buffer_bytes
}

fn shared_options(executor: &Executor, compaction: Compaction) -> StoreOptions {
    StoreOptions { executor: Some(executor.clone()), compaction, ..options() }
}

/// Does random things to stores alternately, and checks them against their histories.
fn run(disks: &[Arc<dyn Disk>], executor: &Executor, compaction: Compaction, seed: u64) {
    let options = shared_options(executor, compaction);
    let mut stores: Vec<(Store, History)> = disks
        .iter()
        .map(|disk| (Store::create(Arc::clone(disk), options.clone()).unwrap(), History::default()))
        .collect();
    let mut dice = Stream::from_state(seed);
    for round in 0..12 {
        for (store, history) in &mut stores {
            let rows: Vec<(u64, u32)> =
                keys(&mut dice, 60).into_iter().map(|key| (key, round)).collect();
            history.put(store, &rows).unwrap();
            history.delete(store, &keys(&mut dice, 4)).unwrap();
            if round % 4 == 3 {
                history.commit(store).unwrap();
            }
        }
    }
    for (number, (store, mut history)) in stores.into_iter().enumerate() {
        let _told = Told(format!("store {number}"));
        history.assert_held(&store);
        history.commit(&store).unwrap();
        // The store's directory is free immediately.
        drop(store);
        let disk = &disks[number];
        history.resume(&Store::open(Arc::clone(disk), options.clone()).unwrap(), disk);
    }
}

fn directories(world: &dyn Disk, count: usize) -> Vec<Arc<dyn Disk>> {
    (0..count).map(|at| world.create_directory(Path::new(&format!("/s/{at}"))).unwrap()).collect()
}

#[test]
fn sixteen_stores_take_the_buffers_of_two() {
    let alone = |count: usize| {
        let executor = Executor::new(ExecutorOptions {
            write_bytes: count as u64 * 8 * buffer_bytes(),
            ..ExecutorOptions::default()
        });
        let disks = directories(&MemDisk::new(), count);
        run(&disks, &executor, Compaction::Inline, 5);
        executor.stats()
    };
    // Each with eight buffers in flight, its own, and a merge's.
    let two_most = 2 * 10 * buffer_bytes();
    assert!(alone(2).buffer_bytes_most <= two_most);
    let executor = Executor::new(ExecutorOptions {
        write_bytes: 3 * buffer_bytes(),
        ..ExecutorOptions::default()
    });
    let disks = directories(&MemDisk::new(), STORES);
    run(&disks, &executor, Compaction::Inline, 6);
    let stats = executor.stats();
    assert!(stats.buffer_bytes_most > STORES as u64 * buffer_bytes(), "each has one: {stats:?}");
    assert!(stats.buffer_bytes_most <= two_most, "{stats:?}");
    assert_eq!((stats.buffer_bytes, stats.stores), (0, 0), "all of it came back");
}

#[test]
fn threads_take_turns_among_stores() {
    for threads in [1, 3] {
        let executor = Executor::new(ExecutorOptions { threads, write_bytes: 64 << 10 });
        let world = MemDisk::new();
        thread::scope(|scope| {
            for part in 0..3 {
                let path = format!("/part-{part}");
                let (world, executor) = (&world, &executor);
                scope.spawn(move || {
                    let home = world.create_directory(Path::new(&path)).unwrap();
                    let below = |at| home.create_directory(&home.path().join(format!("{at}")));
                    let disks: Vec<_> = (0..3).map(|at| below(at).unwrap()).collect();
                    run(&disks, executor, Compaction::Background, part);
                });
            }
        });
        let stats = executor.stats();
        assert_eq!((stats.buffer_bytes, stats.stores), (0, 0), "{stats:?}");
        assert!((1..=8).contains(&stats.queues_idle), "{stats:?}");
    }
}

#[test]
fn no_buffer_is_lost_where_writes_fail() {
    let executor = Executor::new(ExecutorOptions {
        write_bytes: buffer_bytes(),
        ..ExecutorOptions::default()
    });
    for after in 0..60 {
        let _told = Told(format!("write number {after}"));
        let faulty = FaultyDisk::new(Arc::new(MemDisk::new()), Faults::default());
        let options = shared_options(&executor, Compaction::Inline);
        let store = Store::create(Arc::new(faulty.clone()), options).unwrap();
        let failure = Failure {
            operation: Some(Operation::Write),
            after,
            kind: std::io::ErrorKind::StorageFull,
            lasting: Lasting::Once,
        };
        faulty.inflict(Faults { failure: Some(failure), ..Faults::default() });
        let (mut history, mut dice) = (History::default(), Stream::from_state(after));
        for round in 0..12 {
            let rows: Vec<(u64, u32)> =
                keys(&mut dice, 70).into_iter().map(|key| (key, round)).collect();
            while history.put(&store, &rows).is_err() {
                history.stop(&store);
            }
            let _ = store.compact();
        }
        while store.commit().is_err() {}
        history.assert_held(&store);
        drop(store);
        assert_eq!(executor.stats().buffer_bytes, 0);
    }
}
