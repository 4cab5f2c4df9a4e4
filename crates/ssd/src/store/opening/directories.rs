//! The directories of a store.

use std::sync::Arc;

use stepwell_disk::Disk;

use crate::lock::{self, Locks};
use crate::manifest::MANIFEST_NAME;
use crate::{Error, Result};

/// Directories of a store, the one with the manifest first.
pub(in crate::store) type Disks = Vec<Arc<dyn Disk>>;

/// Directories of a store, and their locks.
pub(in crate::store) struct Locked {
    pub(in crate::store) disks: Disks,
    pub(in crate::store) locks: Locks,
}

/// The directory with the manifest.
pub(in crate::store) fn home(disks: &[Arc<dyn Disk>]) -> Result<&dyn Disk> {
    let none = || Error::Options("a store needs at least one directory".to_owned());
    disks.first().map(|disk| &**disk).ok_or_else(none)
}

/// Locks directories without a store; leaves no lock in a directory with one.
pub(super) fn lock_new(disks: &[Arc<dyn Disk>]) -> Result<Locks> {
    refuse_existing(disks)?;
    let locks = lock::alone(disks)?;
    refuse_existing(disks)?;
    Ok(locks)
}

pub(super) fn refuse_existing(disks: &[Arc<dyn Disk>]) -> Result<()> {
    for disk in disks {
        if disk.exists(MANIFEST_NAME)? {
            return Err(Error::Exists { path: disk.path().to_owned() });
        }
    }
    Ok(())
}

/// Refuses a directory named more than once: it would count as several disks.
pub(in crate::store) fn refuse_twice(disks: &[Arc<dyn Disk>]) -> Result<()> {
    for (number, disk) in disks.iter().enumerate() {
        if disks[..number].iter().any(|other| other.path() == disk.path()) {
            let path = disk.path().display();
            return Err(Error::Options(format!("{path} is named twice: name each directory once")));
        }
    }
    Ok(())
}
