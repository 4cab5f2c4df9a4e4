//! Who has a store open.
//!
//! A store that is open for changes holds the lock of each of its directories alone; who checks or
//! salvages one shares them. Nobody locks a snapshot, which nobody changes; nor do views, which
//! look at snapshots. The file that a lock stands for is empty and stays: a lock ends with its
//! holder, and what a killed process left is no obstacle.

use std::sync::Arc;

use stepwell_disk::{Disk, Lock};

use crate::{Error, Result};

/// Name of the file in each directory of a store that its lock stands for.
pub const LOCK_NAME: &str = "store.lock";

/// The locks of a store's directories, until they are dropped.
pub(crate) type Locks = Vec<Box<dyn Lock>>;

/// The locks of one who changes the store.
pub(crate) fn alone(disks: &[Arc<dyn Disk>]) -> Result<Locks> {
    disks.iter().map(|disk| alone_in(&**disk)).collect()
}

pub(crate) fn alone_in(disk: &dyn Disk) -> Result<Box<dyn Lock>> {
    disk.lock(LOCK_NAME)?.ok_or_else(|| in_use(disk))
}

/// The locks of one who reads the store and wants nobody to change it meanwhile.
pub(crate) fn shared(disks: &[Arc<dyn Disk>]) -> Result<Locks> {
    let shared = |disk: &Arc<dyn Disk>| disk.lock_shared(LOCK_NAME)?.ok_or_else(|| in_use(&**disk));
    disks.iter().map(shared).collect()
}

/// Removes the file that a lock of nobody left, where there is one.
pub(crate) fn remove(disk: &dyn Disk) -> Result<()> {
    if disk.exists(LOCK_NAME)? {
        disk.remove(LOCK_NAME)?;
    }
    Ok(())
}

fn in_use(disk: &dyn Disk) -> Error {
    Error::InUse { path: disk.path().to_owned() }
}
