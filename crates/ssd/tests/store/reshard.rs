//! A table over several stores that is repeatedly redistributed: m stores are made from snapshots
//! of n, have exactly the rows of an oracle, and continue as any store does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{KEY_SHARDS, KeyShardSet, Store, Verify, check};

use crate::common::{KEYS, get, options, payload};
use crate::harness::{Told, in_threads, scanned};
use crate::history::version;
use crate::shards::of_shards;

/// For each key, the number of its newest version and the step of its last use.
type Rows = BTreeMap<u64, (u64, u32)>;

/// Number of steps after which an unused row expires.
const LIFE: u32 = 60;

/// Snapshots of all stores of a table at one moment, and their rows.
#[derive(Clone)]
struct Saved {
    paths: Vec<PathBuf>,
    rows: Rows,
    expire_before: u32,
}

/// A table over several stores.
struct Fleet {
    world: MemDisk,
    stores: Vec<(Arc<dyn Disk>, Store)>,
    rows: Rows,
    expire_before: u32,
    step: u32,
    seq: u64,
    directories: u32,
    dice: Stream,
    saved: Vec<Saved>,
    /// Number of redistributions, and of segments from elsewhere in two ways.
    dealt: u64,
}

impl Fleet {
    /// Three empty stores.
    fn new(seed: u64) -> Self {
        let world = MemDisk::new();
        let mut fleet = Self {
            world,
            stores: Vec::new(),
            rows: Rows::new(),
            expire_before: 0,
            step: 0,
            seq: 0,
            directories: 0,
            dice: Stream::named(seed, b"fleet"),
            saved: Vec::new(),
            dealt: 0,
        };
        for key_shards in fleet.deal(3) {
            let disk = fleet.directory();
            let store = Store::create(Arc::clone(&disk), of_shards(key_shards)).unwrap();
            fleet.stores.push((disk, store));
        }
        fleet
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice.next_u64() % sides
    }

    fn directory(&mut self) -> Arc<dyn Disk> {
        self.directories += 1;
        self.world.create_directory(Path::new(&format!("/{}", self.directories))).unwrap()
    }

    /// All key shards in `count` sets: adjacent ones, or arbitrary ones.
    fn deal(&mut self, count: usize) -> Vec<KeyShardSet> {
        if self.roll(2) == 0 {
            return (0..count).map(|number| KeyShardSet::part(number, count)).collect();
        }
        let mut sets = vec![KeyShardSet::NONE; count];
        for shard in 0..KEY_SHARDS {
            // Each set gets at least one.
            let to = if shard < count { shard } else { self.roll(count as u64) as usize };
            sets[to] = sets[to] | [shard as u8].into_iter().collect();
        }
        sets
    }

    fn keys(&mut self, count_max: u64) -> Vec<u64> {
        let count = 1 + self.roll(count_max);
        let range = [12, 60, KEYS][self.roll(3) as usize];
        (0..count).map(|_| self.roll(range)).collect()
    }

    fn store_of(&self, key: u64) -> &Store {
        let mut owners =
            self.stores.iter().filter(|(_, store)| store.key_shards().contains_key(Key(key)));
        let (owner, None) = (owners.next().unwrap(), owners.next()) else { panic!("two owners") };
        &owner.1
    }

    fn step(&mut self) {
        self.step += 1;
        match self.roll(24) {
            0..10 => self.put(),
            10..13 => self.delete(),
            13 => self.expire(),
            14..17 => drop(self.any().compact().unwrap()),
            17..19 => self.reopen(),
            19 => drop(self.save()),
            20..22 => self.deal_anew(),
            22 => self.go_back(),
            _ => self.assert_held(),
        }
    }

    fn any(&mut self) -> &Store {
        let at = self.roll(self.stores.len() as u64) as usize;
        &self.stores[at].1
    }

    fn put(&mut self) {
        for key in self.keys(100) {
            let used = self.step.saturating_sub(self.roll(10) as u32);
            let row = payload(key, self.seq);
            self.store_of(key).put_many(&[Key(key)], &[used], &row).unwrap();
            self.rows.insert(key, (self.seq, used));
            self.seq += 1;
        }
        self.forget_expired();
    }

    fn delete(&mut self) {
        let keys: Vec<Key> = self.keys(30).into_iter().map(Key).collect();
        // Each store ignores keys of others.
        for (_, store) in &self.stores {
            store.delete_many(&keys).unwrap();
        }
        self.rows.retain(|key, _| !keys.contains(&Key(*key)));
    }

    fn expire(&mut self) {
        self.expire_before = self.expire_before.max(self.step.saturating_sub(LIFE));
        for (_, store) in &self.stores {
            store.expire_before(self.expire_before).unwrap();
        }
        self.forget_expired();
    }

    fn forget_expired(&mut self) {
        self.rows.retain(|_, (_, used)| *used >= self.expire_before);
    }

    fn reopen(&mut self) {
        let at = self.roll(self.stores.len() as u64) as usize;
        let (disk, store) = self.stores.swap_remove(at);
        let (manifest, key_shards) = (store.commit().unwrap(), store.key_shards());
        assert_eq!((manifest.rows, manifest.key_shards), (store.len(), key_shards));
        drop(store);
        assert_eq!(check(&[Arc::clone(&disk)]).unwrap().damages, []);
        let store = Store::open(Arc::clone(&disk), options()).unwrap();
        assert_eq!((store.len(), store.key_shards()), (manifest.rows, key_shards));
        self.stores.push((disk, store));
    }

    /// Takes snapshots of all stores.
    fn save(&mut self) -> Saved {
        let mut paths = Vec::new();
        for at in 0..self.stores.len() {
            let path = self.directory().path().to_owned();
            self.stores[at].1.snapshot(&path).unwrap();
            paths.push(path);
        }
        let saved = Saved { paths, rows: self.rows.clone(), expire_before: self.expire_before };
        self.saved.push(saved.clone());
        saved
    }

    fn deal_anew(&mut self) {
        let saved = self.save();
        self.restore(&saved);
    }

    /// Returns to an earlier set of snapshots.
    fn go_back(&mut self) {
        if self.saved.is_empty() {
            return;
        }
        let at = self.roll(self.saved.len() as u64) as usize;
        let saved = self.saved[at].clone();
        self.restore(&saved);
    }

    /// Makes stores from snapshots, of any admitted number.
    fn restore(&mut self, saved: &Saved) {
        self.stores.clear();
        let count = [1, 2, 3, 5][self.roll(4) as usize];
        let sources: Vec<&Path> = saved.paths.iter().map(PathBuf::as_path).collect();
        for key_shards in self.deal(count) {
            let verify = [Verify::Listed, Verify::Everything][self.roll(2) as usize];
            let disk = self.directory();
            let disks = vec![Arc::clone(&disk)];
            let of = of_shards(key_shards);
            let store = Store::restore_shards(disks, &sources, verify, of).unwrap();
            self.stores.push((disk, store));
        }
        (self.rows, self.expire_before) = (saved.rows.clone(), saved.expire_before);
        self.dealt += 1;
        self.assert_held();
    }

    /// Asserts that each store has exactly the rows of its key shards.
    fn assert_held(&self) {
        let keys: Vec<u64> = (0..KEYS).collect();
        for (disk, store) in &self.stores {
            let shards = store.key_shards();
            let right: Rows = self
                .rows
                .iter()
                .filter(|(key, _)| shards.contains_key(Key(**key)))
                .map(|(key, row)| (*key, *row))
                .collect();
            for (key, row) in keys.iter().zip(get(store, &keys).unwrap()) {
                let seq = right.get(key).map(|(seq, _)| *seq);
                assert_eq!(version(row.as_deref()), seq, "key {key} in {}", disk.path().display());
                assert!(seq.is_none_or(|seq| row == Some(payload(*key, seq))), "key {key}");
            }
            let used: BTreeMap<u64, u32> = scanned(store).into_iter().collect();
            let right = right.into_iter().map(|(key, (_, used))| (key, used));
            assert_eq!(used, right.collect::<BTreeMap<u64, u32>>());
        }
    }
}

#[test]
fn rows_stay_what_they_are_however_they_are_dealt_out() {
    let seeds: Vec<u64> = (0..24).collect();
    in_threads(&seeds, &|seed| {
        let _told = Told(format!("seed {seed}"));
        let mut fleet = Fleet::new(*seed);
        (0..150).for_each(|_| fleet.step());
        fleet.assert_held();
        assert!(fleet.dealt > 3);
        // In the end, one store has everything, and after merges no segment of another.
        let saved = fleet.save();
        let disk = fleet.directory();
        let sources: Vec<&Path> = saved.paths.iter().map(PathBuf::as_path).collect();
        let disks = vec![Arc::clone(&disk)];
        let store = Store::restore_shards(disks, &sources, Verify::Listed, options()).unwrap();
        fleet.stores = vec![(disk, store)];
        fleet.assert_held();
        fleet.expire_before = fleet.step + 1;
        fleet.expire();
        fleet.reopen();
        fleet.assert_held();
    });
}
