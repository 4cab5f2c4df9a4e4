//! An actor that performs every operation on a store, at random from a seed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_base::random::Stream;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{Error, Result, Store, StoreOptions, Verify, check};

use crate::common::KEYS;
use crate::history::History;

/// Number of steps after which an unused row expires.
const LIFE: u32 = 40;
/// About the number of rows of a full segment.
const SEGMENT_ROWS: u64 = 36;

pub(crate) struct Actor {
    pub(crate) disks: Vec<Arc<dyn Disk>>,
    pub(crate) store: Option<Store>,
    pub(crate) history: History,
    /// Complete snapshots, and the history of each.
    pub(crate) snapshots: Vec<(PathBuf, History)>,
    /// Whether the actor never continues from a snapshot elsewhere.
    pub(crate) stays: bool,
    /// Number of merges of a single segment.
    pub(crate) merged_alone: u64,
    /// Number of expired rows that these merges dropped.
    pub(crate) expired_alone: u64,
    /// Number of snapshots that the actor continued from.
    pub(crate) restored: u64,
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
            merged_alone: 0,
            expired_alone: 0,
            restored: 0,
            options,
            dice,
            step: 0,
        }
    }

    /// Continues from a snapshot that was taken while the store of `history` was changed: the
    /// snapshot has a prefix of `history`.
    pub(crate) fn restored(mut self, from: &Path, history: History, step: u32) -> Result<Self> {
        let store = Store::restore_over(
            self.disks.clone(),
            from,
            Verify::Everything,
            self.options.clone(),
        )?;
        (self.history, self.step) = (history, step);
        self.history.resume(&store, &self.disks[0]);
        self.store = Some(store);
        self.reopen()?;
        Ok(self)
    }

    /// Makes a store, unless there is one, and does `steps` random things with it.
    pub(crate) fn run(&mut self, steps: u32) -> Result<()> {
        if self.store.is_none() {
            self.store = Some(Store::create_over(self.disks.clone(), self.options.clone())?);
        }
        (0..steps).try_for_each(|_| self.step())
    }

    /// Continues with what is left after a crash, on the disks of another world.
    pub(crate) fn survive(&self, disks: Vec<Arc<dyn Disk>>) -> Result<Self> {
        let store = Store::open_over(disks.clone(), self.options.clone())?;
        let mut history = self.history.clone();
        history.resume(&store, &disks[0]);
        let (options, snapshots) = (self.options.clone(), self.snapshots.clone());
        let Self { dice, step, stays, merged_alone, expired_alone, restored, .. } = *self;
        Ok(Self {
            disks,
            store: Some(store),
            history,
            snapshots,
            stays,
            merged_alone,
            expired_alone,
            restored,
            options,
            dice,
            step,
        })
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
        match self.roll(26) {
            0..9 => self.put(30),
            9..12 => self.delete(),
            12 => self.put_and_delete(),
            13 => self.expire(),
            14..17 => self.compact(),
            17..19 => self.commit(),
            19 => self.snapshot(),
            20 => self.reopen(),
            21 => self.put(150),
            22 if !self.stays => self.restore(),
            23 => self.merge_alone(),
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
        // Last uses vary a little in both directions.
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

    /// Puts and deletes the same few keys on one page.
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

    fn compact(&mut self) -> Result<()> {
        let before = self.store().stats().rows_expired;
        if self.store().compact()? == 1 {
            self.merged_alone += 1;
            self.expired_alone += self.store().stats().rows_expired - before;
        }
        Ok(())
    }

    /// Fills a segment, makes most of it stale, and merges it; then does the same with the result,
    /// some rows of which have expired by then.
    fn merge_alone(&mut self) -> Result<()> {
        let first = self.roll(KEYS - SEGMENT_ROWS);
        let keys = first..first + SEGMENT_ROWS;
        let old = self.step.saturating_sub(LIFE);
        let rows = keys.clone().map(|key| (key, if key % 3 == 0 { old } else { self.step }));
        self.history.put(self.store.as_ref().unwrap(), &rows.collect::<Vec<_>>())?;
        self.commit()?;
        for part in 0..3 {
            let stale = keys.clone().skip(1 + part * 13).take(12 + part);
            let rows: Vec<(u64, u32)> = stale.map(|key| (key, self.step)).collect();
            self.history.put(self.store.as_ref().unwrap(), &rows)?;
            self.step += LIFE / 3;
            self.expire()?;
            self.compact()?;
            match self.roll(4) {
                0 => self.commit()?,
                1 => self.snapshot()?,
                2 => self.reopen()?,
                _ => {}
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

    /// Continues from a snapshot, in new directories; abandons the current store.
    fn restore(&mut self) -> Result<()> {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let number = self.roll(self.snapshots.len() as u64) as usize;
        let (path, mut history) = self.snapshots[number].clone();
        let mut disks = Vec::new();
        for disk in &self.disks {
            let below = disk.path().join(format!("restored-{}", self.step));
            disks.push(disk.create_directory(&below)?);
        }
        let store =
            Store::restore_over(disks.clone(), &path, Verify::Everything, self.options.clone())?;
        history.resume(&store, &disks[0]);
        (self.store, self.disks, self.history) = (Some(store), disks, history);
        self.restored += 1;
        Ok(())
    }

    /// Drops uncommitted changes. The store must open exactly if checking it finds no damage.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        self.store = None;
        let checked = check(&self.disks);
        let opened = Store::open_over(self.disks.clone(), self.options.clone());
        match (checked, &opened) {
            (Ok(checked), Ok(_)) => assert_eq!(checked.damages, []),
            (Ok(checked), Err(Error::Damaged { .. } | Error::Lost { .. })) => {
                assert_ne!(checked.damages, []);
            }
            // The disk failed either the check or the opening.
            (Ok(_), Err(_)) | (Err(Error::Disk(_)), _) => {}
            (Err(error), outcome) => panic!("checked: {error}; opened: {outcome:?}"),
        }
        let store = opened?;
        self.history.resume(&store, &self.disks[0]);
        self.store = Some(store);
        Ok(())
    }
}
