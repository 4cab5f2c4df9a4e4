//! A disk that fails on demand, around another one.
//!
//! - **Fault model.** Only what [`Faults`] requests:
//!   - *failure*: the n-th operation, of one kind or of all, returns an error of a given kind and
//!     does nothing; once, or from then on (a full disk is `StorageFull` on every write from then
//!     on). Earlier and other operations are not affected.
//!   - *refusal*: the same, with a system error: `ENOSPC`, `EDQUOT`, `EMFILE`, `ENFILE` or `EIO`.
//!   - *too many files*: while this many files are held, making or opening another is `EMFILE`.
//!   - *cut*: after n mutating operations, the power fails. If the next one is a write, the first
//!     half of its bytes still reaches the file, in whole sectors if the file is direct. From then
//!     on, every operation fails. [`crate::MemDisk::crash`] decides which written bytes survive.
//!   - *short read*: the n-th read finds the file's end half-way, once.
//!   - *flip*: the n-th read silently returns one wrong bit. The file is not affected.
//!   - *misdirected write*: the n-th write silently goes to the following block.
//!   - *lost write*: the n-th write silently does nothing.
//!   - *delay*: every operation takes this much longer.
//!
//! Compound operations, making a directory with its parents and removing a tree, count as their
//! parts. Counts span all directories reached from one faulty disk, since it was made or
//! [`FaultyDisk::inflict`] was last called. Making a queue counts as submitting; its operations
//! count as reads and writes, in the order they are started.

mod faults;
mod file;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::faults::{Failure, Faults, Flip, Lasting, Reason, Refusal};
use self::faults::{Fate, Fates, Held};
use self::file::FaultyFile;
use crate::disk::{Disk, EntryKind, Identity, Lock, create_for};
use crate::error::Operation;
use crate::file::File;
use crate::gauge::OpenFilesStats;
use crate::immediate::ImmediateQueue;
use crate::queue::{Queue, QueueOptions};
use crate::{Error, Result};

/// A disk that fails on demand.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    fates: Fates,
    /// Number of queues made so far; each has another order.
    queues: Arc<AtomicU64>,
}

impl FaultyDisk {
    /// Wraps `inner` with faults.
    pub fn new(inner: Arc<dyn Disk>, faults: Faults) -> Self {
        Self { inner, fates: Fates::new(faults), queues: Arc::default() }
    }

    /// Replaces the faults and resets the counts.
    pub fn inflict(&self, faults: Faults) {
        self.fates.begin_anew(faults);
    }

    /// Number of operations of one kind so far.
    pub fn count(&self, operation: Operation) -> u64 {
        self.fates.count(operation)
    }

    /// Number of operations so far that went wrong, reported or not; while it is 0, no reported
    /// failure can be the disk's.
    pub fn fired(&self) -> u64 {
        self.fates.fired()
    }

    /// Number of mutating operations so far.
    pub fn mutations(&self) -> u64 {
        self.fates.mutations()
    }

    fn wrap(&self, inner: Arc<dyn Disk>) -> Arc<dyn Disk> {
        Arc::new(Self { inner, ..self.clone() })
    }

    /// Number of files that are held.
    pub fn files_held(&self) -> u64 {
        self.fates.held()
    }

    fn file(&self, inner: Arc<dyn File>, held: Held) -> Arc<dyn File> {
        Arc::new(FaultyFile { inner, fates: self.fates.clone(), _held: held })
    }

    /// Counts a file that is about to be made or opened, unless that must fail.
    fn hold(&self, operation: Operation, name: &str) -> Result<Held> {
        self.before(operation, name)?;
        let refused = |error| Error::io(operation, &self.path().join(name), error);
        self.fates.hold().map_err(refused)
    }

    fn before(&self, operation: Operation, name: &str) -> Result<()> {
        match name.is_empty() {
            true => self.before_at(operation, self.path()),
            false => self.before_at(operation, &self.path().join(name)),
        }
    }

    fn before_at(&self, operation: Operation, path: &Path) -> Result<()> {
        match self.fates.next(operation) {
            Fate::Torn(error) | Fate::Fails(error) => Err(Error::io(operation, path, error)),
            _ => Ok(()),
        }
    }
}

impl Disk for FaultyDisk {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn directory(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        self.before_at(Operation::Open, path)?;
        Ok(self.wrap(self.inner.directory(path)?))
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        self.before_at(Operation::CreateDirectory, path)?;
        self.inner.make_directory(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        self.before_at(Operation::Remove, path)?;
        self.inner.remove_directory(path)
    }

    fn identity(&self, path: &Path) -> Result<Identity> {
        self.before_at(Operation::Identify, path)?;
        self.inner.identity(path)
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let held = self.hold(Operation::Create, name)?;
        Ok(self.file(self.inner.create(name)?, held))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        let held = self.hold(Operation::Open, name)?;
        Ok(self.file(self.inner.open(name)?, held))
    }

    fn create_direct(&self, name: &str, bytes: u64) -> Result<Arc<dyn File>> {
        let held = self.hold(Operation::Create, name)?;
        Ok(self.file(self.inner.create_direct(name, bytes)?, held))
    }

    fn open_direct(&self, name: &str) -> Result<Arc<dyn File>> {
        let held = self.hold(Operation::Open, name)?;
        Ok(self.file(self.inner.open_direct(name)?, held))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.before(Operation::List, name)?;
        self.inner.exists(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.before(Operation::Remove, name)?;
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        create_for(self, to)?;
        self.before(Operation::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.before(Operation::List, "")?;
        self.inner.list()
    }

    fn entries(&self) -> Result<Vec<(String, EntryKind)>> {
        self.before(Operation::List, "")?;
        self.inner.entries()
    }

    fn try_link(&self, name: &str, directory: &Path, to: &str) -> Result<bool> {
        self.before(Operation::Link, name)?;
        Ok(!self.fates.has_no_links() && self.inner.try_link(name, directory, to)?)
    }

    fn bytes_free(&self) -> Result<u64> {
        self.before(Operation::Measure, "")?;
        self.inner.bytes_free()
    }

    fn sync_directory(&self) -> Result<()> {
        self.before(Operation::SyncDirectory, "")?;
        self.inner.sync_directory()
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        self.before(Operation::Lock, name)?;
        self.inner.lock(name)
    }

    fn lock_shared(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        self.before(Operation::Lock, name)?;
        self.inner.lock_shared(name)
    }

    fn queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        self.before(Operation::Submit, "")?;
        let seed = self.queues.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(ImmediateQueue::new(options, seed)))
    }

    fn open_files(&self) -> Option<OpenFilesStats> {
        self.inner.open_files()
    }
}
