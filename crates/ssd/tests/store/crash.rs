//! Power cuts after every operation that changes the disk: what is there afterwards is a commit.

use std::sync::Arc;

use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Faults, FaultyDisk, MemDisk, Survival};
use stepwell_ssd::{Error, Result, Store, verify};

use crate::common::{Oracle, assert_holds, keys, learn, options, put, reopen};

/// What a run did until the power was cut.
#[derive(Default)]
struct Run {
    created: bool,
    log: Vec<u64>,
    /// Rows that a commit promised.
    promised: u64,
}

impl Run {
    fn go(&mut self, disk: &FaultyDisk) -> Result<()> {
        let mut store = Store::create(Arc::new(disk.clone()), options())?;
        self.created = true;
        let mut dice = Stream::from_state(3);
        for round in 0..24 {
            let keys = keys(&mut dice, 60);
            let rows: Vec<(u64, u64)> = keys.iter().copied().zip(self.log.len() as u64..).collect();
            self.log.extend(keys);
            put(&store, &rows)?;
            store.compact()?;
            match round % 6 {
                2 => {
                    self.promised = store.commit()?.next_seq;
                }
                4 => {
                    store = Store::open(Arc::new(disk.clone()), options())?;
                    self.log.truncate(store.next_seq() as usize);
                    self.promised = store.next_seq();
                }
                5 => {
                    let path = disk.path().join(format!("snapshot-{round}"));
                    disk.create_directory(&path)?;
                    self.promised = store.snapshot(&path)?.next_seq;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What a store of the first rows of the log holds.
fn oracle(log: &[u64]) -> Oracle {
    let mut oracle = Oracle::new();
    let rows: Vec<(u64, u64)> = log.iter().copied().zip(0..).collect();
    learn(&mut oracle, &rows);
    oracle
}

fn check(run: &Run, disk: &MemDisk) {
    let store = match reopen(disk) {
        Ok(store) => store,
        Err(Error::Missing { .. }) if !run.created => return,
        Err(error) => panic!("{error}"),
    };
    let rows = store.next_seq();
    assert!(rows >= run.promised, "{rows} rows are left of {} promised", run.promised);
    assert_holds(&store, &oracle(&run.log[..rows as usize]));
    verify(disk).unwrap();
    // It goes on as if nothing had been.
    put(&store, &[(1, rows), (399, rows + 1)]).unwrap();
    store.compact().unwrap();
    store.commit().unwrap();
    assert_eq!(reopen(disk).unwrap().next_seq(), rows + 2);
}

#[test]
fn after_every_operation_a_commit_is_left() {
    let whole = FaultyDisk::new(Arc::new(MemDisk::new()), Faults::default());
    Run::default().go(&whole).unwrap();
    let mutations = whole.mutations();
    assert!(mutations > 200, "{mutations}");
    for cut_after in 0..mutations {
        let memory = MemDisk::new();
        let faults = Faults { cut_after: Some(cut_after), ..Faults::default() };
        let mut run = Run::default();
        run.go(&FaultyDisk::new(Arc::new(memory.clone()), faults)).unwrap_err();
        let seed = cut_after * 2;
        let torn = [Survival::Torn(seed), Survival::Torn(seed + 1)];
        for survival in [Survival::SyncedAlone, Survival::Everything].into_iter().chain(torn) {
            check(&run, &memory.crash(survival));
        }
    }
}

#[test]
fn a_snapshot_outlives_the_store_and_a_crash() {
    let memory = MemDisk::new();
    let store = Store::create(Arc::new(memory.clone()), options()).unwrap();
    let rows: Vec<(u64, u64)> = (0..100).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    let path = memory.path().join("snapshot");
    memory.create_directory(&path).unwrap();
    store.snapshot(&path).unwrap();
    let crashed = memory.crash(Survival::SyncedAlone);
    for name in crashed.list().unwrap() {
        crashed.remove(&name).unwrap();
    }
    let store = Store::restore(Arc::new(crashed.clone()), &path, options()).unwrap();
    let mut oracle = Oracle::new();
    learn(&mut oracle, &rows);
    assert_holds(&store, &oracle);
    // What was restored is durable at once.
    let again = reopen(&crashed.crash(Survival::SyncedAlone)).unwrap();
    assert_holds(&again, &oracle);
}
