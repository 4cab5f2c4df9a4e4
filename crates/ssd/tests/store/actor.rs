//! Somebody who does everything to a store that can be done, at random from a seed.

use std::path::PathBuf;
use std::sync::Arc;

use stepwell_base::random::Stream;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{Result, Store, StoreOptions};

use crate::common::KEYS;
use crate::history::History;

/// Steps after which a row that was not used is expired.
const LIFE: u32 = 40;

pub(crate) struct Actor {
    pub(crate) disks: Vec<Arc<dyn Disk>>,
    pub(crate) store: Option<Store>,
    pub(crate) history: History,
    /// Complete snapshots, and what each holds.
    pub(crate) snapshots: Vec<(PathBuf, History)>,
    /// Whether it never goes on from a snapshot elsewhere.
    pub(crate) stays: bool,
    options: StoreOptions,
    dice: Stream,
    step: u32,
}

impl Actor {
    pub(crate) fn new(disks: Vec<Arc<dyn Disk>>, options: StoreOptions, seed: u64) -> Self {
        let (history, dice) = (History::default(), Stream::named(seed, b"actor"));
        Self {
            disks,
            store: None,
            history,
            snapshots: Vec::new(),
            stays: false,
            options,
            dice,
            step: 0,
        }
    }

    /// Makes a store, unless there is one, and does so many random things with it.
    pub(crate) fn run(&mut self, steps: u32) -> Result<()> {
        if self.store.is_none() {
            self.store = Some(Store::create_over(self.disks.clone(), self.options.clone())?);
        }
        (0..steps).try_for_each(|_| self.step())
    }

    /// Goes on with what is left after a crash, on the disks of another world.
    pub(crate) fn survive(&self, disks: Vec<Arc<dyn Disk>>) -> Result<Self> {
        let store = Store::open_over(disks.clone(), self.options.clone())?;
        let mut history = self.history.clone();
        history.resume(&store, &disks[0]);
        let (options, snapshots) = (self.options.clone(), self.snapshots.clone());
        let Self { dice, step, stays, .. } = *self;
        Ok(Self { disks, store: Some(store), history, snapshots, stays, options, dice, step })
    }

    /// The disks of this actor in another world.
    pub(crate) fn disks_in(&self, world: &MemDisk) -> Vec<Arc<dyn Disk>> {
        self.disks.iter().map(|disk| world.directory(disk.path()).unwrap()).collect()
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice.next_u64() % sides
    }

    fn keys(&mut self, count_max: u64) -> Vec<u64> {
        let count = 1 + self.roll(count_max);
        // Few keys meet again on one page; many fill segments.
        let range = [12, 60, KEYS][self.roll(3) as usize];
        (0..count).map(|_| self.roll(range)).collect()
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn step(&mut self) -> Result<()> {
        self.step += 1;
        match self.roll(25) {
            0..9 => self.put(30),
            9..12 => self.delete(),
            12 => self.put_and_delete(),
            13 => self.expire(),
            14..17 => self.store().compact().map(drop),
            17..19 => self.commit(),
            19 => self.snapshot(),
            20 => self.reopen(),
            21 => self.put(150),
            22 if !self.stays => self.restore(),
            _ => self.history.check_held(self.store()),
        }
    }

    pub(crate) fn commit(&mut self) -> Result<()> {
        let store = self.store.as_ref().unwrap();
        let manifest = self.history.commit(store)?;
        let segments: u64 = manifest.segments.iter().map(|entry| u64::from(entry.rows)).sum();
        assert!(manifest.rows <= segments);
        Ok(())
    }

    fn put(&mut self, rows_max: u64) -> Result<()> {
        let keys = self.keys(rows_max);
        // Uses go back and forth a little.
        let used = |key| (key, self.step.saturating_sub(self.dice.next_u64() as u32 % 10));
        let rows: Vec<(u64, u32)> = keys.into_iter().map(used).collect();
        let store = self.store.as_ref().unwrap();
        self.history.put(store, &rows)
    }

    fn delete(&mut self) -> Result<()> {
        let keys = self.keys(8);
        let store = self.store.as_ref().unwrap();
        self.history.delete(store, &keys)
    }

    /// The same few keys come and go on one page.
    fn put_and_delete(&mut self) -> Result<()> {
        for _ in 0..6 {
            let (key, step) = (self.roll(4), self.step);
            let deletes = self.roll(2) == 0;
            let store = self.store.as_ref().unwrap();
            if deletes {
                self.history.delete(store, &[key])?;
            } else {
                self.history.put(store, &[(key, step)])?;
            }
        }
        Ok(())
    }

    fn expire(&mut self) -> Result<()> {
        let step = self.step.saturating_sub(LIFE);
        let store = self.store.as_ref().unwrap();
        self.history.expire(store, step)
    }

    fn snapshot(&mut self) -> Result<()> {
        let home = &self.disks[0];
        let path = home.path().join(format!("snapshot-{}", self.step));
        home.create_directory(&path)?;
        let store = self.store.as_ref().unwrap();
        let manifest = store.snapshot(&path)?;
        self.history.promise(&manifest);
        self.snapshots.push((path, self.history.clone()));
        Ok(())
    }

    /// Goes on from the last snapshot, in directories of their own; the store it was is left.
    fn restore(&mut self) -> Result<()> {
        let Some((path, mut history)) = self.snapshots.last().cloned() else { return Ok(()) };
        let mut disks = Vec::new();
        for disk in &self.disks {
            let below = disk.path().join(format!("restored-{}", self.step));
            disks.push(disk.create_directory(&below)?);
        }
        let store = Store::restore_over(disks.clone(), &path, self.options.clone())?;
        history.resume(&store, &disks[0]);
        (self.store, self.disks, self.history) = (Some(store), disks, history);
        Ok(())
    }

    /// Loses what was not committed.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        self.store = None;
        let store = Store::open_over(self.disks.clone(), self.options.clone())?;
        self.history.resume(&store, &self.disks[0]);
        self.store = Some(store);
        Ok(())
    }
}
