//! Locks against opening a store twice.
//!
//! A store that is open for changes locks each of its directories exclusively; checking or
//! salvaging takes shared locks. Snapshots and views of them need no lock, since nothing changes a
//! snapshot. The lock file is empty and stays: a lock ends with its holder, so a killed process
//! leaves nothing in the way.

use std::sync::Arc;

use stepwell_disk::{Disk, Lock};

use crate::{Error, Result};

/// Name of the lock file in each directory of a store.
pub const LOCK_NAME: &str = "store.lock";

/// Locks of a store's directories, held until dropped.
pub(crate) type Locks = Vec<Box<dyn Lock>>;

/// Takes exclusive locks, to change the store.
pub(crate) fn alone(disks: &[Arc<dyn Disk>]) -> Result<Locks> {
    disks.iter().map(|disk| alone_in(&**disk)).collect()
}

pub(crate) fn alone_in(disk: &dyn Disk) -> Result<Box<dyn Lock>> {
    disk.lock(LOCK_NAME)?.ok_or_else(|| in_use(disk))
}

/// Takes shared locks, to read the store while nothing changes it.
pub(crate) fn shared(disks: &[Arc<dyn Disk>]) -> Result<Locks> {
    let shared = |disk: &Arc<dyn Disk>| disk.lock_shared(LOCK_NAME)?.ok_or_else(|| in_use(&**disk));
    disks.iter().map(shared).collect()
}

/// Removes a lock file that no lock uses, if it exists.
pub(crate) fn remove(disk: &dyn Disk) -> Result<()> {
    if disk.exists(LOCK_NAME)? {
        disk.remove(LOCK_NAME)?;
    }
    Ok(())
}

fn in_use(disk: &dyn Disk) -> Error {
    Error::InUse { path: disk.path().to_owned() }
}
