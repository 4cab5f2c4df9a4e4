//! A directory of the machine's file system.
//!
//! How       Single places are read and written with plain positioned system calls. Queues go
//!           through rings of the kernel, or through a pool of threads where those are not admitted
//!           ([`Engine`]); the pool is shared with every directory reached from here. Direct files
//!           have `O_DIRECT`, where the file system knows it.

mod engine;
mod file;

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::engine::Engine;
use self::engine::Engines;
use self::file::SystemFile;
use crate::disk::create_for;
use crate::{
    Disk, EntryKind, Error, File, Identity, Lock, Operation, Placed, Queue, QueueOptions, Result,
    name,
};

/// A directory of the machine's file system.
#[derive(Clone, Debug)]
pub struct FileDisk {
    path: PathBuf,
    engines: Arc<Engines>,
}

impl FileDisk {
    /// The directory `path`, which exists.
    ///
    /// # Errors
    /// When it does not, or is no directory; or the engine that the environment asks for cannot
    /// be had.
    pub fn open(path: &Path) -> Result<Self> {
        Self::with_engine(path, Engine::Auto)
    }

    /// The directory `path`, made with its parents where it does not exist.
    ///
    /// # Errors
    /// When it cannot be made, or the engine cannot be had.
    pub fn create(path: &Path) -> Result<Self> {
        let here = Self { path: path.to_owned(), engines: Arc::new(Engines::new(Engine::Auto)?) };
        here.create_directory(path)?;
        Ok(here)
    }

    /// [`FileDisk::open`] with an engine of the caller's choice.
    ///
    /// # Errors
    /// When there is no directory at `path`, or the engine cannot be had.
    pub fn with_engine(path: &Path, engine: Engine) -> Result<Self> {
        Self::over(path, Arc::new(Engines::new(engine)?))
    }

    /// What performs the operations of queues: `io_uring` or `threads`.
    pub fn engine(&self) -> &'static str {
        self.engines.name()
    }

    fn over(path: &Path, engines: Arc<Engines>) -> Result<Self> {
        let metadata = named(Operation::Open, path, fs::metadata(path))?;
        if !metadata.is_dir() {
            let error = io::Error::from(io::ErrorKind::NotADirectory);
            return Err(Error::io(Operation::Open, path, error));
        }
        Ok(Self { path: path.to_owned(), engines })
    }

    fn resolve(&self, name: &str) -> Result<PathBuf> {
        name::resolve(&self.path, name)
    }

    fn make(&self, name: &str) -> Result<(fs::File, PathBuf)> {
        let path = self.resolve(name)?;
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        Ok((named(Operation::Create, &path, opened)?, path))
    }

    fn find(&self, name: &str) -> Result<(fs::File, PathBuf)> {
        let path = self.resolve(name)?;
        // Looked at first: opening a pipe would wait for somebody at its other end.
        let opened = fs::metadata(&path).and_then(|found| match found.is_file() {
            true => fs::File::open(&path),
            false => Err(no_file()),
        });
        Ok((named(Operation::Open, &path, opened)?, path))
    }
}

/// The lock of an open file, which the system frees when it is closed; of nothing where there is
/// no file to lock.
#[derive(Debug)]
struct SystemLock {
    _file: Option<fs::File>,
}

impl Lock for SystemLock {}

fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
}

fn named<T>(operation: Operation, path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|source| Error::io(operation, path, source))
}

fn sync_directory(path: &Path) -> Result<()> {
    let synced = fs::File::open(path).and_then(|directory| directory.sync_all());
    named(Operation::SyncDirectory, path, synced)
}

impl Disk for FileDisk {
    fn path(&self) -> &Path {
        &self.path
    }

    fn directory(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        Ok(Arc::new(Self::over(path, Arc::clone(&self.engines))?))
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        named(Operation::CreateDirectory, path, fs::create_dir(path))
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        named(Operation::Remove, path, fs::remove_dir(path))
    }

    fn remove_tree(&self, path: &Path) -> Result<()> {
        named(Operation::Remove, path, fs::remove_dir_all(path))
    }

    fn identity(&self, path: &Path) -> Result<Identity> {
        let about = named(Operation::Identify, path, fs::symlink_metadata(path))?;
        Ok(Identity { device: about.dev(), inode: about.ino() })
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let (file, path) = self.make(name)?;
        Ok(Arc::new(SystemFile::plain(file, path)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        let (file, path) = self.find(name)?;
        Ok(Arc::new(SystemFile::plain(file, path)))
    }

    fn create_direct(&self, name: &str, bytes: u64) -> Result<Arc<dyn File>> {
        let (file, path) = self.make(name)?;
        let made = SystemFile::direct(file, path.clone()).and_then(|file| {
            file.reserve(bytes)?;
            Ok(file)
        });
        match made {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) => {
                // The first error is the one to report; the file is new and empty.
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    fn open_direct(&self, name: &str) -> Result<Arc<dyn File>> {
        let (file, path) = self.find(name)?;
        Ok(Arc::new(SystemFile::direct(file, path)?))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let path = self.resolve(name)?;
        named(Operation::List, &path, path.try_exists())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.resolve(name)?;
        named(Operation::Remove, &path, fs::remove_file(&path))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        create_for(self, to)?;
        let (from, to) = (self.resolve(from)?, self.resolve(to)?);
        named(Operation::Rename, &from, fs::rename(&from, &to))?;
        let parent = |path: &Path| path.parent().unwrap_or(&self.path).to_owned();
        let (out_of, into) = (parent(&from), parent(&to));
        sync_directory(&into)?;
        if into != out_of { sync_directory(&out_of) } else { Ok(()) }
    }

    fn list(&self) -> Result<Vec<String>> {
        let listed = |result| named(Operation::List, &self.path, result);
        let mut names = Vec::new();
        for entry in named(Operation::List, &self.path, fs::read_dir(&self.path))? {
            let entry = listed(entry)?;
            let is_file = named(Operation::List, &entry.path(), entry.file_type())?.is_file();
            // A name that is not UTF-8 is none that this trait could have made.
            if let (true, Ok(name)) = (is_file, entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn entries(&self) -> Result<Vec<(String, EntryKind)>> {
        let mut found = Vec::new();
        for entry in named(Operation::List, &self.path, fs::read_dir(&self.path))? {
            let entry = named(Operation::List, &self.path, entry)?;
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_file() => EntryKind::File,
                Ok(kind) if kind.is_dir() => EntryKind::Directory,
                Ok(_) => EntryKind::Other,
                // Somebody removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io(Operation::List, &entry.path(), error)),
            };
            found.push((entry.file_name().to_string_lossy().into_owned(), kind));
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    fn link_into(&self, name: &str, directory: &Path) -> Result<Placed> {
        use io::ErrorKind::{AlreadyExists, NotFound};
        let (from, to) = (self.resolve(name)?, name::resolve(directory, name)?);
        match fs::hard_link(&from, &to) {
            Ok(()) => Ok(Placed::Linked),
            Err(error) if matches!(error.kind(), AlreadyExists | NotFound) => {
                Err(Error::io(Operation::Link, &to, error))
            }
            // Another file system, or one without links: the bytes are written again.
            Err(_) => copy(&from, &to).map(|()| Placed::Copied),
        }
    }

    fn bytes_free(&self) -> Result<u64> {
        let found = rustix::fs::statvfs(&self.path).map_err(io::Error::from);
        let found = named(Operation::Measure, &self.path, found)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn sync_directory(&self) -> Result<()> {
        sync_directory(&self.path)
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        let path = self.resolve(name)?;
        let refused = |error| Error::io(Operation::Lock, &path, error);
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() => return Err(refused(no_file())),
            _ => {}
        }
        let options = OpenOptions::new().create(true).append(true).open(&path);
        let file = options.map_err(refused)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(SystemLock { _file: Some(file) }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(refused(error)),
        }
    }

    fn lock_shared(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        let file = match self.find(name) {
            Ok((file, _)) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(Box::new(SystemLock { _file: None })));
            }
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Box::new(SystemLock { _file: Some(file) }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(Some(Box::new(SystemLock { _file: None })))
            }
            Err(TryLockError::Error(error)) => {
                Err(Error::io(Operation::Lock, &self.path.join(name), error))
            }
        }
    }

    fn queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        self.engines.queue(options, &self.path)
    }
}

/// Copies a file into a new one and syncs that; a copy that failed does not stay.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut source = named(Operation::Open, from, fs::File::open(from))?;
    let mut target = named(Operation::Create, to, fs::File::create_new(to))?;
    let copied = io::copy(&mut source, &mut target).and_then(|_| target.sync_all());
    if copied.is_err() {
        // The first error is the one to report; what this call made is all that is removed.
        let _ = fs::remove_file(to);
    }
    named(Operation::Write, to, copied)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_copy_is_whole_and_never_replaces() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        let bytes: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        fs::write(&from, &bytes).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), bytes);
        let Err(Error::Io { source, .. }) = copy(&from, &to) else { panic!("replaced") };
        assert_eq!(source.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_file_is_no_directory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, b"x").unwrap();
        assert_eq!(FileDisk::open(&path).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(
            FileDisk::open(&directory.path().join("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn links_are_themselves() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(directory.path()).unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("target")).unwrap();
        fs::write(at("target/file"), b"x").unwrap();
        fs::create_dir(at("tree")).unwrap();
        for link in ["link", "tree/link"] {
            std::os::unix::fs::symlink(at("target"), at(link)).unwrap();
        }
        let kinds = disk.entries().unwrap().into_iter().map(|(_, kind)| kind);
        let expected = [EntryKind::Other, EntryKind::Directory, EntryKind::Directory];
        assert!(kinds.eq(expected), "{:?}", disk.entries());
        let identities = ["link", "target"].map(|name| disk.identity(&at(name)).unwrap());
        assert_ne!(identities[0], identities[1]);
        disk.remove_tree(&at("tree")).unwrap();
        assert!(at("target/file").exists(), "what a link leads to stays");
    }

    #[test]
    fn a_directory_is_made_wherever_its_path_leads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/../b/./c");
        assert_eq!(FileDisk::create(&path).unwrap().path(), path);
        assert!(directory.path().join("a").is_dir() && directory.path().join("b/c").is_dir());
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"\xff/\xfe"));
        FileDisk::create(&directory.path().join(odd)).unwrap();
        assert!(directory.path().join(odd).is_dir());
        assert!(FileDisk::create(Path::new("")).is_err());
        assert!(
            FileDisk::create(Path::new(".")).is_ok() && FileDisk::create(Path::new("/")).is_ok()
        );
    }
}
