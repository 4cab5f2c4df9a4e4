//! Sweeps of deletions against a plain map: whatever is merged, skipped, temporarily unreadable,
//! committed, restored and reopened, no row is lost and no dead version reappears.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Faults, FaultyDisk, Lasting, MemDisk, Operation, Reason};
use stepwell_ssd::{Result, Store, Verify, check};

use crate::common::{KEYS, PAGE_BYTES, options};
use crate::harness::{Told, in_threads, is_long};
use crate::history::{History, manifest};
use crate::refusal::refusing;
use crate::sweeps::assert_few_deletions;

/// Number of steps after which an unused row expires.
const LIFE: u32 = 25;
const STEPS: u32 = 600;

fn seeds() -> u64 {
    if is_long() { 32 } else { 14 }
}

/// Counts of what the runs did, so that a test can check that they did it.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    compactions: u64,
    deleted: u64,
    expired: u64,
    left_alone: u64,
    failed: u64,
    unsound: u64,
    reopened: u64,
    restored: u64,
    bounded: u64,
}

struct Model {
    memory: MemDisk,
    disk: FaultyDisk,
    /// The directory of the store, on `disk` around `memory`.
    home: Arc<dyn Disk>,
    store: Option<Store>,
    history: History,
    snapshots: Vec<(PathBuf, History)>,
    /// Links to files with a changed byte, each with the byte's offset.
    wounds: Vec<(String, usize)>,
    wounds_made: u32,
    dice: Stream,
    step: u32,
    /// One in this many steps that may reopen the store does.
    rarely: u64,
    done: Done,
}

impl Model {
    fn new(seed: u64) -> Self {
        let memory = MemDisk::new();
        memory.create_directory(&memory.path().join("wounds")).unwrap();
        let disk = FaultyDisk::new(Arc::new(memory.clone()), Faults::default());
        let home: Arc<dyn Disk> = Arc::new(disk.clone());
        let store = Store::create(Arc::clone(&home), options()).unwrap();
        Self {
            memory,
            disk,
            home,
            store: Some(store),
            history: History::default(),
            snapshots: Vec::new(),
            wounds: Vec::new(),
            wounds_made: 0,
            dice: Stream::named(seed, b"sweeps"),
            step: 1,
            rarely: 1 + seed % 6,
            done: Done::default(),
        }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice.next_u64() % sides
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// Does something that the disk may refuse; the history drops the part that was not done.
    fn attempt(&mut self, attempt: &mut dyn FnMut(&mut History, &Store) -> Result<()>) -> bool {
        let store = self.store.as_ref().unwrap();
        let outcome = attempt(&mut self.history, store);
        if outcome.is_err() {
            self.history.stop(store);
            self.done.failed += 1;
        }
        outcome.is_ok()
    }

    fn step(&mut self) {
        self.step += 1;
        match self.roll(30) {
            0..8 => self.put(),
            8..15 => self.delete(),
            15 => self.put_and_delete(),
            16..18 => self.expire(),
            20 => self.delete_unsound(),
            18..20 => drop(self.attempt(&mut |_, store| store.compact().map(drop))),
            21..23 => drop(self.commit()),
            23 => self.wound(),
            24 => self.refuse(),
            25 => self.look(),
            26 => self.snapshot(),
            27 if self.roll(3) == 0 => self.restore(),
            28 if self.roll(self.rarely) == 0 => self.reopen(),
            29 if self.roll(self.rarely) == 0 => self.keep_within_bounds(),
            _ => {}
        }
        let stats = self.store().stats();
        self.done.left_alone += u64::from(stats.segments_left_alone > 0);
    }

    /// Adjacent keys: their rows are stored together, and so are the remaining ones.
    fn keys(&mut self, count_max: u64) -> Vec<u64> {
        let count = 1 + self.roll(count_max);
        let first = self.roll(KEYS - count);
        (first..first + count).collect()
    }

    fn put(&mut self) {
        let keys = self.keys(80);
        let used = |key| (key, self.step.saturating_sub(self.dice.next_u64() as u32 % 20));
        let rows: Vec<(u64, u32)> = keys.into_iter().map(used).collect();
        self.attempt(&mut |history, store| history.put(store, &rows));
    }

    fn delete(&mut self) {
        let part = self.roll(8);
        let mut keys = self.keys(90);
        keys.retain(|key| key % 8 != part);
        self.attempt(&mut |history, store| history.delete(store, &keys));
    }

    /// Puts and deletes a few keys, each time in another segment.
    fn put_and_delete(&mut self) {
        let first = self.roll(KEYS - 50);
        for _ in 0..3 {
            let rows: Vec<(u64, u32)> = (first..first + 40).map(|key| (key, self.step)).collect();
            self.attempt(&mut |history, store| history.put(store, &rows));
            let keys: Vec<u64> = (first..first + 6).collect();
            self.attempt(&mut |history, store| history.delete(store, &keys));
        }
    }

    /// Puts keys, and deletes them while a segment is written that cannot be synced, and is
    /// rewritten.
    fn delete_unsound(&mut self) {
        self.mend();
        let first = self.roll(KEYS - 60);
        let rows: Vec<(u64, u32)> = (first..first + 60).map(|key| (key, self.step)).collect();
        self.attempt(&mut |history, store| history.put(store, &rows));
        self.commit();
        let keys: Vec<u64> = (first..first + 60).step_by(7).collect();
        self.attempt(&mut |history, store| history.delete(store, &keys));
        self.disk.inflict(refusing(Operation::Sync, 0, Lasting::Once, Reason::DeviceError));
        self.done.unsound += u64::from(!self.commit());
        self.mend();
        // Earlier failed writes may be reported only now.
        assert!(self.commit() || self.commit(), "it can be written anew");
    }

    fn expire(&mut self) {
        let step = self.step.saturating_sub(LIFE);
        self.attempt(&mut |history, store| history.expire(store, step));
    }

    fn commit(&mut self) -> bool {
        self.attempt(&mut |history, store| history.commit(store).map(drop))
    }

    /// Changes a byte of a page or footer that a commit names, until `mend` restores it.
    fn wound(&mut self) {
        self.disk.inflict(Faults::default());
        let named = manifest(&self.home).segments;
        let name = |number: u64| format!("segment-{number:012}.rows");
        let there = named.iter().filter(|entry| self.home.exists(&name(entry.segment)).unwrap());
        let there: Vec<(u64, u64)> = there.map(|entry| (entry.segment, entry.bytes)).collect();
        if there.is_empty() {
            return;
        }
        let (number, bytes) = there[self.roll(there.len() as u64) as usize];
        // A page, or the keys or deletions after the last one.
        let page = 1 + self.roll(bytes / PAGE_BYTES - 1);
        let at = (page * PAGE_BYTES + self.roll(200)) as usize;
        self.wounds_made += 1;
        // The link stays when the store has removed the file.
        let (wounds, link) = (self.memory.path().join("wounds"), self.wounds_made.to_string());
        self.home.link_as(&name(number), &wounds, &link).unwrap();
        let link = format!("wounds/{link}");
        self.memory.edit(&link, &mut |bytes| bytes[at] ^= 0x10).unwrap();
        self.wounds.push((link, at));
    }

    /// Restores all changed bytes and removes all faults.
    fn mend(&mut self) {
        self.disk.inflict(Faults::default());
        for (link, at) in self.wounds.drain(..) {
            self.memory.edit(&link, &mut |bytes| bytes[at] ^= 0x10).unwrap();
        }
    }

    /// Makes the disk fail in some way for a while.
    fn refuse(&mut self) {
        let operation = [Operation::Read, Operation::Read, Operation::Sync, Operation::Write]
            [self.roll(4) as usize];
        let after = self.roll(20);
        let lasting = if self.roll(2) == 0 { Lasting::Once } else { Lasting::FromThenOn };
        let reason = Reason::ALL[self.roll(5) as usize];
        self.disk.inflict(refusing(operation, after, lasting, reason));
    }

    fn look(&mut self) {
        self.mend();
        self.history.assert_held(self.store());
    }

    fn snapshot(&mut self) {
        self.mend();
        let path = self.memory.path().join(format!("snapshot-{}", self.step));
        self.memory.create_directory(&path).unwrap();
        // Earlier failed writes may be reported now.
        if let Ok(manifest) = self.store().snapshot(&path) {
            self.history.promise(&manifest);
            self.snapshots.push((path, self.history.clone()));
        }
    }

    /// Continues from a snapshot in a new directory.
    fn restore(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        self.mend();
        self.count();
        let number = self.roll(self.snapshots.len() as u64) as usize;
        let (path, history) = self.snapshots[number].clone();
        let below = self.memory.path().join(format!("restored-{}", self.step));
        self.memory.create_directory(&below).unwrap();
        self.home = self.disk.directory(&below).unwrap();
        self.store = Some(
            Store::restore(Arc::clone(&self.home), &path, Verify::Everything, options()).unwrap(),
        );
        self.history = history;
        self.history.resume(self.store.as_ref().unwrap(), &self.home);
        self.done.restored += 1;
    }

    /// Drops uncommitted changes, and reopens the store.
    fn reopen(&mut self) {
        self.mend();
        self.count();
        self.store = None;
        assert_eq!(check(std::slice::from_ref(&self.home)).unwrap().damages, []);
        let store = Store::open(Arc::clone(&self.home), options()).unwrap();
        self.history.resume(&store, &self.home);
        self.store = Some(store);
        self.done.reopened += 1;
    }

    /// If merges can take every segment, there are few deletions.
    fn keep_within_bounds(&mut self) {
        self.reopen();
        // Segments being written when a commit begins are swept by the next one.
        self.history.commit(self.store.as_ref().unwrap()).unwrap();
        self.history.commit(self.store.as_ref().unwrap()).unwrap();
        assert_few_deletions(self.store());
        self.done.bounded += 1;
    }

    fn count(&mut self) {
        let stats = self.store().stats();
        self.done.compactions += stats.compactions;
        self.done.deleted += stats.rows_deleted;
        self.done.expired += stats.rows_expired;
    }
}

#[test]
fn nothing_comes_back_whatever_is_swept() {
    let all = Mutex::new(Vec::new());
    in_threads(&(0..seeds()).collect::<Vec<_>>(), &|seed| {
        let _told = Told(format!("seed {seed}"));
        let mut model = Model::new(*seed);
        (0..STEPS).for_each(|_| model.step());
        model.keep_within_bounds();
        model.reopen();
        all.lock().unwrap().push(model.done);
    });
    let all = all.into_inner().unwrap();
    let least = |of: fn(&Done) -> u64, least: u64| {
        let sum: u64 = all.iter().map(of).sum();
        assert!(sum >= least, "{sum} of {least}: {all:?}");
    };
    least(|done| done.compactions, 100 * seeds());
    least(|done| done.deleted, 1000 * seeds());
    least(|done| done.expired, 100 * seeds());
    least(|done| done.left_alone, 50 * seeds());
    least(|done| done.failed, 2 * seeds());
    least(|done| done.unsound, 2 * seeds());
    least(|done| done.reopened, 10 * seeds());
    least(|done| done.restored, 2 * seeds());
    least(|done| done.bounded, 2 * seeds());
}
