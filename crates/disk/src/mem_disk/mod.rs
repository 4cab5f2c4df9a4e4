//! Directories in memory that distinguish written bytes and names from durable ones.
//!
//! - **Fault model.** A crash ([`MemDisk::crash`]) keeps the synced content of each file and the
//!   synced names in each directory, also of directories. Of everything later it keeps,
//!   as the test requests, nothing, all, or a random part of sectors, lengths and names: writes are
//!   lost, torn and out of order ([`content`]). A rename is one step that syncs its directories. A
//!   file's content and its name become durable separately: a synced file without a synced name is
//!   lost, a synced name without a synced file is empty. If a directory's name is lost, so is
//!   everything below it, synced or not ([`world`]). Synced bytes never change by themselves; tests
//!   change them with [`MemDisk::edit`].
//! - **Queues.** Operations are performed when they are started and returned in a random order.
//! - **Bounds.** Holds every file twice, and every write until it is synced; meant for tests, where
//!   files are small.

mod content;
mod file;
mod locks;
mod world;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub use self::content::Survival;
use self::content::{Content, FILE_BYTES_MAX};
use self::file::{MemFile, refuse};
use self::locks::{Locks, Sharing};
use self::world::{Entry, Found, Inode, World};
use crate::disk::{Disk, EntryKind, Identity, Lock, create_for};
use crate::error::Operation;
use crate::file::{File, Mode};
use crate::immediate::ImmediateQueue;
use crate::mutex::lock;
use crate::queue::{Queue, QueueOptions};
use crate::{Error, Result, name};

/// A directory of a world in memory.
#[derive(Clone, Debug)]
pub struct MemDisk {
    path: PathBuf,
    world: Arc<Mutex<World>>,
    locks: Locks,
    /// Number of queues made so far; each has another order.
    queues: Arc<AtomicU64>,
}

fn named<T>(operation: Operation, path: &Path, found: Found<T>) -> Result<T> {
    found.or_else(|kind| refuse(operation, path, kind))
}

impl Default for MemDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl MemDisk {
    /// Makes an empty directory, `/memory`, in a new world. It and the root are durable.
    pub fn new() -> Self {
        let (path, root) = (PathBuf::from("/memory"), Path::new("/"));
        let mut world = World::new();
        // Making the first directory of a root cannot fail.
        let _ = world.make(&path).and_then(|()| world.sync(root));
        let world = Arc::new(Mutex::new(world));
        Self { path, world, locks: Locks::default(), queues: Arc::default() }
    }

    /// The same directory after a crash, in a new world without locks.
    #[must_use]
    pub fn crash(&self, survival: Survival) -> Self {
        let world = Arc::new(Mutex::new(lock(&self.world).crash(survival)));
        let path = self.path.clone();
        Self { path, world, locks: Locks::default(), queues: Arc::default() }
    }

    /// Changes a file's bytes unnoticed, as a failing disk would.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn edit(&self, name: &str, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<()> {
        let (_, inode) = self.find(Operation::Open, name)?;
        let mut content = lock(&inode.0);
        let mut bytes = content.live().to_vec();
        change(&mut bytes);
        *content = Content::durable(bytes);
        Ok(())
    }

    /// Releases all locks of this world, as if their holders' processes were killed.
    pub fn free_locks(&self) {
        self.locks.free();
    }

    fn resolve(&self, name: &str) -> Result<PathBuf> {
        name::resolve(&self.path, name)
    }

    fn make(&self, name: &str) -> Result<(PathBuf, Arc<Inode>)> {
        let (path, inode) = (self.resolve(name)?, Arc::<Inode>::default());
        let made = lock(&self.world).insert(&path, Entry::File(Arc::clone(&inode)));
        named(Operation::Create, &path, made)?;
        Ok((path, inode))
    }

    fn find(&self, operation: Operation, name: &str) -> Result<(PathBuf, Arc<Inode>)> {
        let path = self.resolve(name)?;
        let found = match lock(&self.world).entry(&path) {
            Ok(Entry::File(inode)) => Ok(Arc::clone(inode)),
            Ok(Entry::Directory(_)) => Err(io::ErrorKind::InvalidInput),
            Err(kind) => Err(kind),
        };
        let inode = named(operation, &path, found)?;
        Ok((path, inode))
    }
}

impl Disk for MemDisk {
    fn path(&self) -> &Path {
        &self.path
    }

    fn directory(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        named(Operation::Open, path, lock(&self.world).number(path))?;
        Ok(Arc::new(Self { path: path.to_owned(), ..self.clone() }))
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        named(Operation::CreateDirectory, path, lock(&self.world).make(path))
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        named(Operation::Remove, path, lock(&self.world).remove_directory(path))
    }

    fn identity(&self, path: &Path) -> Result<Identity> {
        let inode = named(Operation::Identify, path, lock(&self.world).number(path))?;
        Ok(Identity { device: 0, inode })
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let (path, inode) = self.make(name)?;
        Ok(Arc::new(MemFile { path, inode, mode: Mode::NEW }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        let (path, inode) = self.find(Operation::Open, name)?;
        Ok(Arc::new(MemFile { path, inode, mode: Mode::READ }))
    }

    fn create_direct(&self, name: &str, bytes: u64) -> Result<Arc<dyn File>> {
        if bytes > FILE_BYTES_MAX {
            let (path, source) = (self.resolve(name)?, io::ErrorKind::StorageFull.into());
            return Err(Error::Room { path, bytes, source });
        }
        let (path, inode) = self.make(name)?;
        lock(&inode.0).truncate(bytes as usize);
        Ok(Arc::new(MemFile { path, inode, mode: Mode::NEW_DIRECT }))
    }

    fn open_direct(&self, name: &str) -> Result<Arc<dyn File>> {
        let (path, inode) = self.find(Operation::Open, name)?;
        Ok(Arc::new(MemFile { path, inode, mode: Mode::READ_DIRECT }))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(lock(&self.world).entry(&self.resolve(name)?).is_ok())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.resolve(name)?;
        named(Operation::Remove, &path, lock(&self.world).remove(&path))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        create_for(self, to)?;
        let (from, to) = (self.resolve(from)?, self.resolve(to)?);
        named(Operation::Rename, &from, lock(&self.world).rename(&from, &to))
    }

    fn list(&self) -> Result<Vec<String>> {
        let all = self.entries()?.into_iter();
        Ok(all.filter_map(|(name, kind)| (kind == EntryKind::File).then_some(name)).collect())
    }

    fn entries(&self) -> Result<Vec<(String, EntryKind)>> {
        let world = lock(&self.world);
        let directory = named(Operation::List, &self.path, world.directory(&self.path))?;
        let kind = |entry: &Entry| match entry {
            Entry::File(_) => EntryKind::File,
            Entry::Directory(_) => EntryKind::Directory,
        };
        Ok(directory.live.iter().map(|(name, entry)| (name.clone(), kind(entry))).collect())
    }

    fn try_link(&self, name: &str, directory: &Path, to: &str) -> Result<bool> {
        let (_, inode) = self.find(Operation::Link, name)?;
        let path = name::resolve(directory, to)?;
        let linked = lock(&self.world).insert(&path, Entry::File(inode));
        named(Operation::Link, &path, linked).map(|()| true)
    }

    fn bytes_free(&self) -> Result<u64> {
        Ok(FILE_BYTES_MAX)
    }

    fn sync_directory(&self) -> Result<()> {
        named(Operation::SyncDirectory, &self.path, lock(&self.world).sync(&self.path))
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        Ok(self.locks.take(&self.resolve(name)?, Sharing::Alone))
    }

    fn lock_shared(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        Ok(self.locks.take(&self.resolve(name)?, Sharing::Shared))
    }

    fn queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        let seed = self.queues.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(ImmediateQueue::new(options, seed)))
    }
}
