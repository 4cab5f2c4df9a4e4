//! The changes made to a store, and the rows that it must have after any prefix of them.
//!
//! - **Why.** A crash may leave any commit since the last promised one, and puts may commit by
//!   themselves; the store's `next_seq` then shows how much of the history it has.
//! - **How.** Puts and deletions are numbered as in the store; the number of a put is the version
//!   in its payload. Expiry has no number of its own: if it was requested after n changes, it is in
//!   every commit of more than n changes, and may be in one of n.

use std::collections::BTreeMap;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_disk::Disk;
use stepwell_ssd::{Manifest, Result, Store};

use crate::common::{KEYS, ROW_BYTES, get, payload};

/// A change that the store counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Put { key: u64, used: u32 },
    Delete { key: u64 },
}

/// For each key, the number of its newest version and the step of its last use.
pub(crate) type Rows = BTreeMap<u64, (u64, u32)>;

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    changes: Vec<Change>,
    /// Steps of expiry, each with the number of changes before it.
    expiries: Vec<(u64, u32)>,
    /// Number of changes and step of expiry that a commit promised.
    promised: (u64, u32),
}

impl History {
    pub(crate) fn len(&self) -> u64 {
        self.changes.len() as u64
    }

    /// The last requested step of expiry.
    pub(crate) fn expire_before(&self) -> u32 {
        self.expiries.iter().map(|(_, step)| *step).max().unwrap_or(0)
    }

    /// Puts rows of the given keys and last uses.
    pub(crate) fn put(&mut self, store: &Store, rows: &[(u64, u32)]) -> Result<()> {
        let first = self.len();
        let keys: Vec<Key> = rows.iter().map(|(key, _)| Key(*key)).collect();
        let used: Vec<u32> = rows.iter().map(|(_, used)| *used).collect();
        let versions = rows.iter().zip(first..);
        let bytes: Vec<u8> = versions.flat_map(|((key, _), seq)| payload(*key, seq)).collect();
        assert_eq!(bytes.len(), rows.len() * ROW_BYTES);
        // Recorded first, since a failed put may have put some of them.
        self.changes.extend(rows.iter().map(|(key, used)| Change::Put { key: *key, used: *used }));
        store.put_many(&keys, &used, &bytes)?;
        assert_eq!(store.next_seq(), self.len());
        Ok(())
    }

    /// Deletes keys, and learns from the store which of these it had.
    pub(crate) fn delete(&mut self, store: &Store, keys: &[u64]) -> Result<()> {
        let mut rows = self.rows();
        for key in keys {
            // An expired row may still exist, and counts if it does.
            let visible = rows.remove(key).is_some();
            let deleted = store.delete_many(&[Key(*key)])?;
            assert!(deleted == 1 || (deleted == 0 && !visible), "key {key}: {deleted} deleted");
            if deleted == 1 {
                self.changes.push(Change::Delete { key: *key });
            }
            assert_eq!(store.next_seq(), self.len());
            assert!(!store.contains(Key(*key)));
        }
        Ok(())
    }

    pub(crate) fn expire(&mut self, store: &Store, step: u32) -> Result<()> {
        self.expiries.push((self.len(), step));
        store.expire_before(step)
    }

    pub(crate) fn commit(&mut self, store: &Store) -> Result<Manifest> {
        let manifest = store.commit()?;
        self.promise(&manifest);
        Ok(manifest)
    }

    /// Records that everything so far is in a commit.
    pub(crate) fn promise(&mut self, manifest: &Manifest) {
        self.promised = (self.len(), self.expire_before());
        assert_eq!((manifest.next_seq, manifest.expire_before), self.promised);
    }

    /// Rows that the store has after the whole history.
    pub(crate) fn rows(&self) -> Rows {
        self.rows_after(self.len(), self.expire_before())
    }

    fn rows_after(&self, changes: u64, expire_before: u32) -> Rows {
        let mut rows = Rows::new();
        for (change, seq) in self.changes[..changes as usize].iter().zip(0..) {
            match *change {
                Change::Put { key, used } => drop(rows.insert(key, (seq, used))),
                Change::Delete { key } => drop(rows.remove(&key)),
            }
        }
        rows.retain(|_, (_, used)| *used >= expire_before);
        rows
    }

    /// Continues from the part that a store has right after opening, and checks that it is a
    /// possible commit.
    pub(crate) fn resume(&mut self, store: &Store, home: &Arc<dyn Disk>) {
        let (changes, expire_before) = (store.next_seq(), manifest(home).expire_before);
        assert!(changes <= self.len(), "{changes} changes of {}", self.len());
        let (changes_least, step_least) = self.promised;
        assert!(changes >= changes_least, "{changes} changes are left of {changes_least} promised");
        let certain = self.expiries.iter().filter(|(before, _)| *before < changes);
        let least = certain.map(|(_, step)| *step).max().unwrap_or(0).max(step_least);
        self.expiries.retain(|(before, step)| *before <= changes && *step <= expire_before);
        assert!(expire_before >= least, "expiry before {expire_before}, at least {least}");
        assert_eq!(self.expire_before(), expire_before, "a step that was asked for");
        self.changes.truncate(changes as usize);
        self.promised = (changes, expire_before);
        self.assert_held(store);
    }

    /// Drops the part of a failed change that was not done; the store has everything before it.
    pub(crate) fn stop(&mut self, store: &Store) {
        assert!((self.promised.0..=self.len()).contains(&store.next_seq()));
        self.changes.truncate(store.next_seq() as usize);
    }

    /// Asserts that every way to read the store returns exactly the rows of this history.
    pub(crate) fn assert_held(&self, store: &Store) {
        self.check_held(store).unwrap();
    }

    /// [`History::assert_held`] on a disk that may fail.
    pub(crate) fn check_held(&self, store: &Store) -> Result<()> {
        let rows = self.rows();
        let keys: Vec<u64> = (0..KEYS).collect();
        let found = get(store, &keys)?;
        for (key, row) in keys.iter().zip(&found) {
            let (seq, there) = (rows.get(key).map(|row| row.0), version(row.as_deref()));
            assert_eq!(there, seq, "the version of key {key}");
            let whole = seq.is_none_or(|seq| *row == Some(payload(*key, seq)));
            assert!(whole, "bytes of key {key}");
        }
        let mut scanned = Rows::new();
        store.scan_live(&mut |key, used, row| {
            assert_eq!(Some(row), found[key.0 as usize].as_deref(), "key {}", key.0);
            let seq = version(Some(row)).unwrap();
            assert_eq!(scanned.insert(key.0, (seq, used)), None, "key {} twice", key.0);
            Ok(())
        })?;
        let differs = |key: &&u64| scanned.get(*key) != rows.get(*key);
        if let Some(key) = rows.keys().chain(scanned.keys()).find(differs) {
            let (there, right) = (scanned.get(key), rows.get(key));
            panic!("a scan finds version and use {there:?} of key {key}, not {right:?}");
        }
        let (held, visible) = (store.len(), rows.len() as u64);
        // Expired rows count until they are compacted away.
        assert!(if self.expiries.is_empty() { held == visible } else { held >= visible });
        Ok(())
    }
}

/// The version in a row's payload.
pub(crate) fn version(row: Option<&[u8]>) -> Option<u64> {
    row.map(|row| u64::from_le_bytes(*row.first_chunk().unwrap()))
}

pub(crate) fn manifest(home: &Arc<dyn Disk>) -> Manifest {
    Manifest::load(&**home).unwrap()
}
