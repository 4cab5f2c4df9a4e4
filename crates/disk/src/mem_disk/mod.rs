//! Directories in memory that keep apart what was written and what is durable.
//!
//! Fault model  A crash ([`MemDisk::crash`]) keeps of each file what was synced, and of each
//!           directory the names that were synced; of everything later it keeps, as the test asks,
//!           nothing, all, or a random part of sectors, lengths and names: writes are lost, torn
//!           and out of order ([`content`]). A rename is one step that syncs its directories. A
//!           file's content and its name become durable apart: a synced file without a synced name
//!           is lost, a synced name without a synced file is empty. Synced bytes never change by
//!           themselves; [`MemDisk::edit`] changes them for a test.
//! Queues    perform operations as they are started and hand them back in a random order.
//! Bounds    Holds every file twice, and every write until it is synced; meant for tests, where
//!           files are small.

mod content;
mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_base::random::Stream;

use self::content::Content;
use self::file::{MemFile, Mode};
use crate::immediate::ImmediateQueue;
use crate::{Disk, Error, File, Lock, Operation, Placed, Queue, QueueOptions, Result, name};

/// Room for one file: far more than a test's files need.
const FILE_BYTES_MAX: u64 = 1 << 36;

/// What survives a crash beyond what is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Nothing: the least that an honest disk keeps.
    SyncedAlone,
    /// Everything that was written.
    Everything,
    /// A part that the seed chooses, sector by sector and name by name.
    Torn(u64),
}

/// A directory of a world in memory.
#[derive(Clone, Debug)]
pub struct MemDisk {
    path: PathBuf,
    world: Arc<Mutex<World>>,
    locks: Arc<Mutex<Locks>>,
    /// Queues made so far: each has another order.
    queues: Arc<AtomicU64>,
}

type World = BTreeMap<PathBuf, Directory>;

/// Who holds which locks.
#[derive(Debug, Default)]
struct Locks {
    held: Vec<Held>,
    taken: u64,
}

/// A lock that is held; each has a number of its own.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    alone: bool,
    number: u64,
}
type Names = BTreeMap<String, Arc<Inode>>;

#[derive(Debug, Default)]
struct Directory {
    live: Names,
    synced: Names,
}

#[derive(Debug, Default)]
struct Inode(Mutex<Content>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refuse<T>(operation: Operation, path: &Path, kind: io::ErrorKind) -> Result<T> {
    Err(Error::io(operation, path, kind.into()))
}

impl Default for MemDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl MemDisk {
    /// An empty directory, `/memory`, of a new world.
    pub fn new() -> Self {
        let path = PathBuf::from("/memory");
        let world = BTreeMap::from([(path.clone(), Directory::default())]);
        let (world, locks) = (Arc::new(Mutex::new(world)), Arc::default());
        Self { path, world, locks, queues: Arc::default() }
    }

    /// The same directory after a crash, in a world of its own, where nobody has a lock.
    #[must_use]
    pub fn crash(&self, survival: Survival) -> Self {
        let mut dice = match survival {
            Survival::Torn(seed) => Stream::from_state(seed),
            Survival::SyncedAlone | Survival::Everything => Stream::from_state(0),
        };
        let world = lock(&self.world);
        let after = world.iter().map(|(path, directory)| {
            let names = directory.surviving(survival, &mut dice);
            (path.clone(), Directory { synced: names.clone(), live: names })
        });
        let world = Arc::new(Mutex::new(after.collect()));
        Self { path: self.path.clone(), world, locks: Arc::default(), queues: Arc::default() }
    }

    /// Changes a file's bytes behind everybody's back, as a failing disk would.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn edit(&self, name: &str, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<()> {
        let inode = self.find(Operation::Open, name)?;
        let mut content = lock(&inode.0);
        let mut bytes = content.live().to_vec();
        change(&mut bytes);
        *content = Content::durable(bytes);
        Ok(())
    }

    /// Frees all locks of this world, as if the processes that hold them were killed.
    pub fn free_locks(&self) {
        lock(&self.locks).held.clear();
    }

    fn take_lock(&self, path: PathBuf, alone: bool) -> Option<Box<dyn Lock>> {
        let mut locks = lock(&self.locks);
        if locks.held.iter().any(|held| held.path == path && (held.alone || alone)) {
            return None;
        }
        locks.taken += 1;
        let number = locks.taken;
        locks.held.push(Held { path, alone, number });
        Some(Box::new(MemLock { locks: Arc::clone(&self.locks), number }))
    }

    /// Path of the directory and name in it of `name`, and the path of both for messages.
    fn resolve(&self, name: &str) -> Result<(PathBuf, String, PathBuf)> {
        let path = name::resolve(&self.path, name)?;
        let parent = path.parent().unwrap_or(&self.path).to_owned();
        let last = path.file_name().map(|last| last.to_string_lossy().into_owned());
        Ok((parent, last.unwrap_or_default(), path))
    }

    fn make(&self, name: &str) -> Result<(PathBuf, Arc<Inode>)> {
        let (parent, last, path) = self.resolve(name)?;
        let mut world = lock(&self.world);
        let Some(directory) = world.get_mut(&parent) else {
            return refuse(Operation::Create, &path, io::ErrorKind::NotFound);
        };
        if directory.live.contains_key(&last) {
            return refuse(Operation::Create, &path, io::ErrorKind::AlreadyExists);
        }
        let inode = Arc::<Inode>::default();
        directory.live.insert(last, Arc::clone(&inode));
        Ok((path, inode))
    }

    fn find(&self, operation: Operation, name: &str) -> Result<Arc<Inode>> {
        let (parent, last, path) = self.resolve(name)?;
        let world = lock(&self.world);
        match world.get(&parent).and_then(|directory| directory.live.get(&last)) {
            Some(inode) => Ok(Arc::clone(inode)),
            None => refuse(operation, &path, io::ErrorKind::NotFound),
        }
    }
}

/// A lock, by its number.
#[derive(Debug)]
struct MemLock {
    locks: Arc<Mutex<Locks>>,
    number: u64,
}

impl Lock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        lock(&self.locks).held.retain(|held| held.number != self.number);
    }
}

impl Directory {
    fn surviving(&self, survival: Survival, dice: &mut Stream) -> Names {
        let names: BTreeSet<&String> = self.live.keys().chain(self.synced.keys()).collect();
        let mut after = Names::new();
        for name in names {
            let (live, synced) = (self.live.get(name), self.synced.get(name));
            let inode = match survival {
                Survival::SyncedAlone => synced,
                Survival::Everything => live,
                Survival::Torn(_) if dice.next_u64() & 1 == 0 => live,
                Survival::Torn(_) => synced,
            };
            if let Some(inode) = inode {
                let bytes = lock(&inode.0).surviving(survival, dice);
                let content = Mutex::new(Content::durable(bytes));
                after.insert(name.clone(), Arc::new(Inode(content)));
            }
        }
        after
    }

    fn sync(&mut self) {
        self.synced = self.live.clone();
    }
}

impl Disk for MemDisk {
    fn path(&self) -> &Path {
        &self.path
    }

    fn directory(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        if !lock(&self.world).contains_key(path) {
            return refuse(Operation::Open, path, io::ErrorKind::NotFound);
        }
        Ok(Arc::new(Self { path: path.to_owned(), ..self.clone() }))
    }

    fn create_directory(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        lock(&self.world).entry(path.to_owned()).or_default();
        self.directory(path)
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let (path, inode) = self.make(name)?;
        Ok(Arc::new(MemFile { path, inode, mode: Mode { writable: true, direct: false } }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        let (path, inode) = (self.path.join(name), self.find(Operation::Open, name)?);
        Ok(Arc::new(MemFile { path, inode, mode: Mode { writable: false, direct: false } }))
    }

    fn create_direct(&self, name: &str, bytes: u64) -> Result<Arc<dyn File>> {
        if bytes > FILE_BYTES_MAX {
            let (_, _, path) = self.resolve(name)?;
            let source = io::ErrorKind::StorageFull.into();
            return Err(Error::Room { path, bytes, source });
        }
        let (path, inode) = self.make(name)?;
        lock(&inode.0).truncate(bytes as usize);
        Ok(Arc::new(MemFile { path, inode, mode: Mode { writable: true, direct: true } }))
    }

    fn open_direct(&self, name: &str) -> Result<Arc<dyn File>> {
        let (path, inode) = (self.path.join(name), self.find(Operation::Open, name)?);
        Ok(Arc::new(MemFile { path, inode, mode: Mode { writable: false, direct: true } }))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let (parent, last, _) = self.resolve(name)?;
        let world = lock(&self.world);
        Ok(world.get(&parent).is_some_and(|directory| directory.live.contains_key(&last)))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let (parent, last, path) = self.resolve(name)?;
        let mut world = lock(&self.world);
        match world.get_mut(&parent).and_then(|directory| directory.live.remove(&last)) {
            Some(_) => Ok(()),
            None => refuse(Operation::Remove, &path, io::ErrorKind::NotFound),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from_parent, from_last, path) = self.resolve(from)?;
        let (to_parent, to_last, _) = self.resolve(to)?;
        let mut world = lock(&self.world);
        let source = world.get_mut(&from_parent);
        let Some(inode) = source.and_then(|directory| directory.live.remove(&from_last)) else {
            return refuse(Operation::Rename, &path, io::ErrorKind::NotFound);
        };
        world.entry(to_parent.clone()).or_default().live.insert(to_last, inode);
        for touched in [&to_parent, &from_parent, &self.path] {
            if let Some(directory) = world.get_mut(touched) {
                directory.sync();
            }
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        let world = lock(&self.world);
        let names = world.get(&self.path).map(|directory| directory.live.keys().cloned().collect());
        Ok(names.unwrap_or_default())
    }

    fn link_into(&self, name: &str, directory: &Path) -> Result<Placed> {
        let inode = self.find(Operation::Link, name)?;
        let path = name::resolve(directory, name)?;
        let mut world = lock(&self.world);
        let Some(target) = world.get_mut(directory) else {
            return refuse(Operation::Link, &path, io::ErrorKind::NotFound);
        };
        if target.live.contains_key(name) {
            return refuse(Operation::Link, &path, io::ErrorKind::AlreadyExists);
        }
        target.live.insert(name.to_owned(), inode);
        Ok(Placed::Linked)
    }

    fn bytes_free(&self) -> Result<u64> {
        Ok(FILE_BYTES_MAX)
    }

    fn sync_directory(&self) -> Result<()> {
        if let Some(directory) = lock(&self.world).get_mut(&self.path) {
            directory.sync();
        }
        Ok(())
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        let (_, _, path) = self.resolve(name)?;
        Ok(self.take_lock(path, true))
    }

    fn lock_shared(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        let (_, _, path) = self.resolve(name)?;
        Ok(self.take_lock(path, false))
    }

    fn queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        let seed = self.queues.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(ImmediateQueue::new(options, seed)))
    }
}
