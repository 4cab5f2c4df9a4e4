//! A directory of the machine's file system.
//!
//! How       Plain positioned reads and writes of the standard library; submitted reads go to a
//!           pool of [`READER_THREADS`] threads, shared with every directory reached from here.
//! Cost      A submitted read is one system call and its share of a lock.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::readers::Readers;
use crate::{Disk, Error, File, Operation, Placed, Read, Result, Ticket, name};

/// Threads that perform submitted reads, unless told otherwise.
pub const READER_THREADS: usize = 8;

/// A directory of the machine's file system.
#[derive(Clone, Debug)]
pub struct FileDisk {
    path: PathBuf,
    readers: Arc<Readers>,
}

impl FileDisk {
    /// The directory `path`, which exists.
    ///
    /// # Errors
    /// When it does not, or is no directory.
    pub fn open(path: &Path) -> Result<Self> {
        Self::with_threads(path, READER_THREADS)
    }

    /// The directory `path`, made with its parents where it does not exist.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path) -> Result<Self> {
        make_directory(path)?;
        Self::open(path)
    }

    /// [`FileDisk::open`] with another number of reading threads.
    ///
    /// # Errors
    /// When there is no directory at `path`.
    pub fn with_threads(path: &Path, threads: usize) -> Result<Self> {
        Self::over(path, Arc::new(Readers::new(threads)))
    }

    fn over(path: &Path, readers: Arc<Readers>) -> Result<Self> {
        let metadata = named(Operation::Open, path, fs::metadata(path))?;
        if !metadata.is_dir() {
            let error = io::Error::from(io::ErrorKind::NotADirectory);
            return Err(Error::io(Operation::Open, path, error));
        }
        Ok(Self { path: path.to_owned(), readers })
    }

    fn resolve(&self, name: &str) -> Result<PathBuf> {
        name::resolve(&self.path, name)
    }
}

fn named<T>(operation: Operation, path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|source| Error::io(operation, path, source))
}

fn make_directory(path: &Path) -> Result<()> {
    named(Operation::CreateDirectory, path, fs::create_dir_all(path))
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
        Ok(Arc::new(Self::over(path, Arc::clone(&self.readers))?))
    }

    fn create_directory(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        make_directory(path)?;
        self.directory(path)
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let path = self.resolve(name)?;
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        Ok(Arc::new(SystemFile { file: named(Operation::Create, &path, opened)?, path }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        let path = self.resolve(name)?;
        let file = named(Operation::Open, &path, fs::File::open(&path))?;
        Ok(Arc::new(SystemFile { file, path }))
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
        let (from, to) = (self.resolve(from)?, self.resolve(to)?);
        let into = to.parent().unwrap_or(&self.path);
        if into != self.path {
            make_directory(into)?;
        }
        named(Operation::Rename, &from, fs::rename(&from, &to))?;
        if into != self.path {
            sync_directory(into)?;
        }
        sync_directory(&self.path)
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

    fn sync_directory(&self) -> Result<()> {
        sync_directory(&self.path)
    }

    fn submit(&self, reads: Vec<Read>) -> Result<Ticket> {
        self.readers.submit(reads, &self.path)
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

#[derive(Debug)]
struct SystemFile {
    file: fs::File,
    path: PathBuf,
}

impl File for SystemFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(named(Operation::Measure, &self.path, self.file.metadata())?.len())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(bytes, offset);
        let place = |e| Error::io_at(Operation::Write, &self.path, offset, bytes.len(), e);
        written.map_err(place)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(buffer, offset);
        let bytes = buffer.len();
        read.map_err(|e| Error::io_at(Operation::Read, &self.path, offset, bytes, e))
    }

    fn sync(&self) -> Result<()> {
        named(Operation::Sync, &self.path, self.file.sync_all())
    }
}

#[cfg(test)]
mod tests {
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
}
