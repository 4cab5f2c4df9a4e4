//! A directory of the machine's file system.
//!
//! - **How.** Single reads and writes are plain positioned system calls. Queues use rings of the
//!   kernel, or a pool of threads if rings are not available ([`Engine`]); all directories reached
//!   from here use the same pool. Direct files have `O_DIRECT`, if the file system supports it.
//! - **Bounds.** Any number of files may be held; [`OpenFiles`] limits how many are open at once.
//!   Directories are open while they are listed or synced, locks while they are held.

mod engine;
mod file;
mod open_files;

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::engine::Engine;
use self::engine::Engines;
use self::file::{SystemFile, named};
pub use self::open_files::OpenFiles;
use self::open_files::{Holder, set_direct};
use crate::descriptor::Access;
use crate::disk::{Disk, EntryKind, Identity, Lock, create_for};
use crate::error::Operation;
use crate::file::{File, Mode};
use crate::gauge::OpenFilesStats;
use crate::queue::{Queue, QueueOptions};
use crate::{Error, Result, name};

/// A directory of the machine's file system.
#[derive(Clone, Debug)]
pub struct FileDisk {
    path: PathBuf,
    engines: Arc<Engines>,
    open_files: OpenFiles,
}

impl FileDisk {
    /// Opens the existing directory `path`.
    ///
    /// # Errors
    /// If it is missing or no directory, or the engine that the environment selects is not
    /// available.
    pub fn open(path: &Path) -> Result<Self> {
        Self::with_engine(path, Engine::Auto)
    }

    /// Opens the directory `path`, creating it and its parents if needed.
    ///
    /// # Errors
    /// If it cannot be made, or the engine is not available.
    pub fn create(path: &Path) -> Result<Self> {
        let open_files = OpenFiles::of_process();
        let engines = Arc::new(Engines::new(Engine::Auto, &open_files)?);
        let here = Self { path: path.to_owned(), engines, open_files };
        here.create_directory(path)?;
        Ok(here)
    }

    /// [`FileDisk::open`] with the given engine.
    ///
    /// # Errors
    /// If there is no directory at `path`, or the engine is not available.
    pub fn with_engine(path: &Path, engine: Engine) -> Result<Self> {
        Self::with_open_files(path, engine, OpenFiles::of_process())
    }

    /// [`FileDisk::with_engine`] with open files that are counted separately from the process's.
    /// Disks with the same `open_files` may remove and rename each other's files while those are
    /// held.
    ///
    /// # Errors
    /// Same as [`FileDisk::with_engine`].
    pub fn with_open_files(path: &Path, engine: Engine, open_files: OpenFiles) -> Result<Self> {
        let engines = Arc::new(Engines::new(engine, &open_files)?);
        Self::over(path, engines, open_files)
    }

    /// Name of the engine for queues: `io_uring` or `threads`.
    pub fn engine(&self) -> &'static str {
        self.engines.name()
    }

    fn over(path: &Path, engines: Arc<Engines>, open_files: OpenFiles) -> Result<Self> {
        let metadata = named(Operation::Open, path, fs::metadata(path))?;
        if !metadata.is_dir() {
            let error = io::Error::from(io::ErrorKind::NotADirectory);
            return Err(Error::io(Operation::Open, path, error));
        }
        Ok(Self { path: path.to_owned(), engines, open_files })
    }

    fn resolve(&self, name: &str) -> Result<PathBuf> {
        name::resolve(&self.path, name)
    }

    fn make(&self, name: &str, mode: Mode) -> Result<Holder> {
        let path = self.resolve(name)?;
        let made = self.open_files.open_with(path.clone(), mode, |path| {
            OpenOptions::new().read(true).write(true).create_new(true).open(path)
        });
        named(Operation::Create, &path, made)
    }

    /// Makes a new file direct and allocates room for it; if that fails, its name stays.
    fn make_room(&self, made: Holder, bytes: u64) -> Result<SystemFile> {
        let descriptor = made.descriptor(Access::Write);
        let direct = descriptor.and_then(|descriptor| set_direct(descriptor.file()));
        named(Operation::Open, made.path(), direct)?;
        let file = SystemFile::new(made);
        file.reserve(bytes)?;
        Ok(file)
    }

    fn find(&self, name: &str, mode: Mode) -> Result<Holder> {
        let path = self.resolve(name)?;
        let found = self.open_files.open_with(path.clone(), mode, |path| {
            let file = open_regular(path)?;
            if mode.direct {
                set_direct(&file)?;
            }
            Ok(file)
        });
        named(Operation::Open, &path, found)
    }

    fn sync_names(&self, path: &Path) -> Result<()> {
        let opened = self.open_files.with_relief(|| fs::File::open(path));
        let synced = opened.and_then(|directory| directory.sync_all());
        named(Operation::SyncDirectory, path, synced)
    }
}

/// Opens a regular file for reading.
fn open_regular(path: &Path) -> io::Result<fs::File> {
    // Checked first: opening a pipe would wait for its other end.
    if !fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    fs::File::open(path)
}

/// The lock of an open file, which the system releases when it is closed; `None` if there is no
/// file to lock.
#[derive(Debug)]
struct SystemLock {
    _file: Option<fs::File>,
}

impl Lock for SystemLock {}

fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

impl Disk for FileDisk {
    fn path(&self) -> &Path {
        &self.path
    }

    fn directory(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        let engines = Arc::clone(&self.engines);
        Ok(Arc::new(Self::over(path, engines, self.open_files.clone())?))
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        named(Operation::CreateDirectory, path, fs::create_dir(path))
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        named(Operation::Remove, path, fs::remove_dir(path))
    }

    fn remove_tree(&self, path: &Path) -> Result<()> {
        named(Operation::Remove, path, self.open_files.remove_tree(path))
    }

    fn identity(&self, path: &Path) -> Result<Identity> {
        let about = named(Operation::Identify, path, fs::symlink_metadata(path))?;
        Ok(Identity { device: about.dev(), inode: about.ino() })
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(Arc::new(SystemFile::new(self.make(name, Mode::NEW)?)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(Arc::new(SystemFile::new(self.find(name, Mode::READ)?)))
    }

    fn create_direct(&self, name: &str, bytes: u64) -> Result<Arc<dyn File>> {
        let made = self.make(name, Mode::NEW_DIRECT)?;
        let path = made.path().to_owned();
        match self.make_room(made, bytes) {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) => {
                // The first error is the one to report; the file is new and empty.
                let _ = self.open_files.remove(&path);
                Err(error)
            }
        }
    }

    fn open_direct(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(Arc::new(SystemFile::new(self.find(name, Mode::READ_DIRECT)?)))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let path = self.resolve(name)?;
        named(Operation::List, &path, path.try_exists())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.resolve(name)?;
        named(Operation::Remove, &path, self.open_files.remove(&path))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        create_for(self, to)?;
        let (from, to) = (self.resolve(from)?, self.resolve(to)?);
        named(Operation::Rename, &from, self.open_files.rename(&from, &to))?;
        let parent = |path: &Path| path.parent().unwrap_or(&self.path).to_owned();
        let (out_of, into) = (parent(&from), parent(&to));
        self.sync_names(&into)?;
        if into != out_of { self.sync_names(&out_of) } else { Ok(()) }
    }

    fn list(&self) -> Result<Vec<String>> {
        let read = self.open_files.with_relief(|| fs::read_dir(&self.path));
        let listed = |result| named(Operation::List, &self.path, result);
        let mut names = Vec::new();
        for entry in named(Operation::List, &self.path, read)? {
            let entry = listed(entry)?;
            let is_file = named(Operation::List, &entry.path(), entry.file_type())?.is_file();
            // This trait cannot have made a name that is not UTF-8.
            if let (true, Ok(name)) = (is_file, entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn entries(&self) -> Result<Vec<(String, EntryKind)>> {
        let read = self.open_files.with_relief(|| fs::read_dir(&self.path));
        let mut found = Vec::new();
        for entry in named(Operation::List, &self.path, read)? {
            let entry = named(Operation::List, &self.path, entry)?;
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_file() => EntryKind::File,
                Ok(kind) if kind.is_dir() => EntryKind::Directory,
                Ok(_) => EntryKind::Other,
                // The entry was removed after it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io(Operation::List, &entry.path(), error)),
            };
            found.push((entry.file_name().to_string_lossy().into_owned(), kind));
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    fn try_link(&self, name: &str, directory: &Path, to: &str) -> Result<bool> {
        use io::ErrorKind::{AlreadyExists, NotFound};
        let (from, to) = (self.resolve(name)?, name::resolve(directory, to)?);
        match fs::hard_link(&from, &to) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), AlreadyExists | NotFound) => {
                let is_source = error.kind() == NotFound && !from.exists();
                Err(Error::io(Operation::Link, if is_source { &from } else { &to }, error))
            }
            // Another file system, or one without hard links.
            Err(_) => Ok(false),
        }
    }

    fn bytes_free(&self) -> Result<u64> {
        let found = rustix::fs::statvfs(&self.path).map_err(io::Error::from);
        let found = named(Operation::Measure, &self.path, found)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn sync_directory(&self) -> Result<()> {
        self.sync_names(&self.path)
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        let path = self.resolve(name)?;
        let refused = |error| Error::io(Operation::Lock, &path, error);
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() => return Err(refused(no_file())),
            _ => {}
        }
        let open = || OpenOptions::new().create(true).append(true).open(&path);
        let file = self.open_files.with_relief(open).map_err(refused)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(SystemLock { _file: Some(file) }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(refused(error)),
        }
    }

    fn lock_shared(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        let path = self.resolve(name)?;
        let file = match self.open_files.with_relief(|| open_regular(&path)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(Box::new(SystemLock { _file: None })));
            }
            Err(error) => return Err(Error::io(Operation::Open, &path, error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Box::new(SystemLock { _file: Some(file) }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(Some(Box::new(SystemLock { _file: None })))
            }
            Err(TryLockError::Error(error)) => Err(Error::io(Operation::Lock, &path, error)),
        }
    }

    fn queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        self.engines.queue(options, &self.path, &self.open_files)
    }

    fn open_files(&self) -> Option<OpenFilesStats> {
        Some(self.open_files.stats())
    }
}

#[cfg(test)]
mod tests;
