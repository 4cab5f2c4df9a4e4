//! Snapshots taken during writes and merges are stores that can be continued.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use stepwell_base::random::Stream;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{Compaction, Store, StoreOptions, check};

use crate::actor::Actor;
use crate::common::{keys, options};
use crate::harness::{Told, shared};
use crate::history::History;

/// Number of steps after which an unused row expires.
const LIFE: u32 = 30;

/// Ends the other threads, even if the test fails.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Puts, deletes and expires rows until `ended`; records the current step.
fn write(store: &Store, history: &Mutex<(History, u32)>, ended: &AtomicBool) {
    let mut dice = Stream::from_state(3);
    while !ended.load(Ordering::SeqCst) {
        let mut noted = history.lock().unwrap();
        let (history, step) = &mut *noted;
        *step += 1;
        let rows = keys(&mut dice, 60).into_iter();
        let rows: Vec<(u64, u32)> =
            rows.map(|key| (key, step.saturating_sub(dice.next_u64() as u32 % 10))).collect();
        history.put(store, &rows).unwrap();
        history.delete(store, &keys(&mut dice, 4)).unwrap();
        if step.is_multiple_of(8) {
            history.expire(store, step.saturating_sub(LIFE)).unwrap();
        }
        drop(noted);
        thread::yield_now();
    }
}

#[test]
fn snapshots_beside_a_compactor_go_on_as_stores() {
    const SNAPSHOTS: u64 = 40;
    let background = StoreOptions { compaction: Compaction::Background, ..options() };
    let world = MemDisk::new();
    let store = Store::create(shared(&world), background).unwrap();
    let (noted, ended) = (Mutex::new((History::default(), 0)), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| write(&store, &noted, &ended));
        scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                store.commit().unwrap();
                thread::yield_now();
            }
        });
        let _ended = Ended(&ended);
        for seed in 0..SNAPSHOTS {
            let _told = Told(format!("snapshot {seed}"));
            let place =
                |name: &str| world.create_directory(Path::new(&format!("/{name}-{seed}"))).unwrap();
            let (snapshot, to) = (place("snapshot"), place("to"));
            let manifest = store.snapshot(snapshot.path()).unwrap();
            // The snapshot has all of this up to its `next_seq`.
            let (history, step) = noted.lock().unwrap().clone();
            assert_eq!(check(std::slice::from_ref(&snapshot)).unwrap().damages, []);
            let actor = Actor::new(vec![to], options(), seed);
            let mut actor = actor.restored(snapshot.path(), history, step).unwrap();
            assert_eq!(actor.history.len(), manifest.next_seq);
            actor.run(40).unwrap();
            actor.commit().unwrap();
            actor.reopen().unwrap();
        }
    });
    let stats = store.stats();
    assert!(stats.compactions > SNAPSHOTS && stats.rows_expired > 0, "{stats:?}");
    let (mut history, _) = noted.into_inner().unwrap();
    history.commit(&store).unwrap();
    drop(store);
    assert_eq!(check(&[shared(&world)]).unwrap().damages, []);
    history.resume(&Store::open(shared(&world), options()).unwrap(), &shared(&world));
}
