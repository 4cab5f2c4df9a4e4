//! Directories of files, and operations on them.
//!
//! - **Why.** A store must be tested on a disk that fills up, fails and loses power; and the engine
//!   behind its reads must be replaceable without changing callers.
//! - **How.** A [`Disk`] is one directory. [`File::read_at`] and [`File::write_at`] are
//!   synchronous; many concurrent reads and writes go through a [`Queue`], which accepts files of
//!   any directory of the same world. A *direct* file bypasses the system's cache: it is read and
//!   written in whole blocks of [`BLOCK_BYTES`], using a [`Buffer`](crate::Buffer).
//!
//! - **Durability.** Written bytes survive a crash once [`File::sync`] has returned. A new name of
//!   a file or directory survives once [`Disk::sync_directory`] or a [`Disk::rename`] in its
//!   directory has returned. Before that, all, parts or none may survive, and a directory whose
//!   name is lost is lost with its contents. This also holds for direct files.
//!   [`Disk::create_directory`] syncs all that it makes.
//! - **Locks.** Locks are advisory: [`Disk::lock`] marks a directory as in use and does not
//!   restrict access to its files. They end with their holder, even if its process is killed.
//! - **Names.** Files are identified by their name in the directory, directories by their path.
//! - **Not here.** Appending, permissions, symbolic links: no caller needs them.
//! - **Failure.** Every error names operation, path and place. A short read is an error. A failed
//!   operation may have been carried out in part.
//! - **Bounds.** Buffers belong to the caller; a queue documents its own bounds. Any number of
//!   [`File`]s may be held: the disk limits how many the system has open at once.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

#[cfg(doc)]
use crate::buffer::BLOCK_BYTES;
use crate::buffer::Buffer;
use crate::file::File;
use crate::gauge::OpenFilesStats;
use crate::queue::{Queue, QueueOptions};
use crate::{Error, Result, name};

/// One directory of files, with access to other directories of the same world.
///
/// Names are relative to the directory; only `rename` may name files in a directory below it.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Path of the directory.
    fn path(&self) -> &Path;

    /// Opens another, existing directory.
    ///
    /// # Errors
    /// If there is no directory at `path`.
    fn directory(&self, path: &Path) -> Result<Arc<dyn Disk>>;

    /// Opens another directory, creating it and its parents if needed. New directories survive a
    /// crash: each new name is synced before anything is put below it.
    ///
    /// # Errors
    /// If it cannot be made, or made durable; it is then removed again, but its parents may stay.
    fn create_directory(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        match (self.directory(path), parent(path)) {
            (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound => {
                let above = self.create_directory(above)?;
                make_below(self, &*above, path)?;
                self.directory(path)
            }
            (found, _) => found,
        }
    }

    /// Makes a new, empty directory in an existing one. Its name survives a crash once the parent
    /// directory is synced.
    ///
    /// # Errors
    /// If the name is taken (`AlreadyExists`), the parent is missing (`NotFound`), or the system
    /// refuses.
    fn make_directory(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory. The removal may not survive a crash until the parent directory
    /// is synced.
    ///
    /// # Errors
    /// If it is missing (`NotFound`), no directory (`NotADirectory`) or not empty
    /// (`DirectoryNotEmpty`), or the system refuses.
    fn remove_directory(&self, path: &Path) -> Result<()>;

    /// Removes a directory with its contents, in no particular order: until the parent directory is
    /// synced, any part may reappear after a crash. Links are removed, not their targets.
    ///
    /// # Errors
    /// If it is missing (`NotFound`), or the system refuses; a part may be gone then.
    fn remove_tree(&self, path: &Path) -> Result<()> {
        let inside = self.directory(path)?;
        for (name, kind) in inside.entries()? {
            match kind {
                EntryKind::Directory => inside.remove_tree(&inside.path().join(name))?,
                EntryKind::File | EntryKind::Other => inside.remove(&name)?,
            }
        }
        self.remove_directory(path)
    }

    /// Identifies a directory as long as it exists: renaming keeps the identity, and a copy has
    /// another one. A link counts as itself, not as its target.
    ///
    /// # Errors
    /// If nothing is at `path` (`NotFound`), or the system refuses.
    fn identity(&self, path: &Path) -> Result<Identity>;

    /// Makes a new, empty file for reading and writing.
    ///
    /// # Errors
    /// If the name is taken (`AlreadyExists`), or the system refuses.
    fn create(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Opens a file for reading. It stays readable after its name is removed.
    ///
    /// # Errors
    /// If there is no such file (`NotFound`), or the system refuses.
    fn open(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Makes a new file for direct reading and writing, and allocates `bytes` bytes for it.
    ///
    /// The file's length is then `bytes` if the file system can allocate, and may be 0 otherwise;
    /// set the final length with [`File::truncate`].
    ///
    /// # Errors
    /// If the name is taken (`AlreadyExists`), there is no room (`StorageFull`; the name is then
    /// free again), or the system refuses.
    fn create_direct(&self, name: &str, bytes: u64) -> Result<Arc<dyn File>>;

    /// Opens a file for direct reading. It stays readable after its name is removed.
    ///
    /// # Errors
    /// If there is no such file (`NotFound`), or the system refuses.
    fn open_direct(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Whether the name is taken.
    ///
    /// # Errors
    /// If the system cannot tell.
    fn exists(&self, name: &str) -> Result<bool>;

    /// Removes a name. The removal may not survive a crash until the directory is synced.
    ///
    /// # Errors
    /// If there is no such file (`NotFound`), or the system refuses.
    fn remove(&self, name: &str) -> Result<()>;

    /// Renames a file, or a directory with its contents, atomically: after a crash, either the old
    /// or the new state exists. A file replaces a file, a directory an empty one. If `to` names a
    /// directory below this one, creates it like `create_directory`. Syncs both directories.
    ///
    /// # Errors
    /// If nothing has the name (`NotFound`), a directory is not empty (`DirectoryNotEmpty`), or the
    /// system refuses.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Names of the files in the directory, sorted, without directories.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn list(&self) -> Result<Vec<String>>;

    /// Names of all entries in the directory, sorted; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn entries(&self) -> Result<Vec<(String, EntryKind)>>;

    /// Calls [`Disk::link_as`] with the same name.
    ///
    /// # Errors
    /// Same as [`Disk::link_as`].
    fn link_into(&self, name: &str, directory: &Path) -> Result<Placed> {
        self.link_as(name, directory, name)
    }

    /// Puts the file into the existing `directory` as `to`: a hard link if the file system can make
    /// one, otherwise a synced copy. The name is durable once that directory is synced. A linked
    /// file must never be written again under either name.
    ///
    /// # Errors
    /// If the name is taken there (`AlreadyExists`), or the system refuses.
    fn link_as(&self, name: &str, directory: &Path, to: &str) -> Result<Placed> {
        if self.try_link(name, directory, to)? {
            return Ok(Placed::Linked);
        }
        copy(&*self.open(name)?, &*self.directory(directory)?, to)?;
        Ok(Placed::Copied)
    }

    /// Puts a hard link to the file into the existing `directory` as `to`; returns false if that is
    /// impossible, as between two file systems.
    ///
    /// # Errors
    /// If the name is taken there (`AlreadyExists`), there is no such file (`NotFound`), or the
    /// system refuses.
    fn try_link(&self, name: &str, directory: &Path, to: &str) -> Result<bool>;

    /// Bytes that an unprivileged caller may still write here, by the system's account.
    ///
    /// # Errors
    /// If the system cannot tell.
    fn bytes_free(&self) -> Result<u64>;

    /// Makes the names of files and directories in this directory durable.
    ///
    /// # Errors
    /// If the system refuses.
    fn sync_directory(&self) -> Result<()>;

    /// Takes the lock of the given name exclusively; `None` if it is held.
    ///
    /// May make an empty file of that name, which stays: only the lock matters, not the file.
    /// Removing the file while the lock is held makes a second lock possible.
    ///
    /// # Errors
    /// If the system refuses, or does not support locks here.
    fn lock(&self, name: &str) -> Result<Option<Box<dyn Lock>>>;

    /// Takes the lock of the given name, which others may share; `None` if it is held exclusively.
    /// Makes no file and works on read-only media. If there is no file of that name, or the system
    /// does not support locks, no one can hold it exclusively; the returned lock then need not
    /// exclude anyone.
    ///
    /// # Errors
    /// If the system refuses.
    fn lock_shared(&self, name: &str) -> Result<Option<Box<dyn Lock>>>;

    /// Makes a queue for reads and writes of this world's files.
    ///
    /// # Errors
    /// If the system refuses resources for it.
    ///
    /// # Panics
    /// If the depth is 0.
    fn queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>>;

    /// Numbers of open files, if the disk limits them.
    fn open_files(&self) -> Option<OpenFilesStats> {
        None
    }

    /// Reads a small file completely.
    ///
    /// # Errors
    /// If it has more than `bytes_max` bytes, or cannot be read.
    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let file = self.open(name)?;
        let bytes = file.len()?;
        if bytes > bytes_max {
            let path = file.path().to_owned();
            return Err(Error::TooLarge { path, bytes, bytes_max });
        }
        let mut whole = vec![0; bytes as usize];
        file.read_at(0, &mut whole)?;
        Ok(whole)
    }
}

/// Bytes of one read and one write.
const COPY_BYTES: usize = 1 << 20;

/// Copies a file into a new one in a directory, and syncs it; removes the copy if it fails. The
/// length of a direct file must be a multiple of a block.
///
/// # Errors
/// If the name is taken there (`AlreadyExists`), or the system refuses.
pub fn copy(from: &dyn File, directory: &dyn Disk, to: &str) -> Result<()> {
    let bytes = from.len()?;
    let target = directory.create(to)?;
    let copied = || -> Result<()> {
        let mut buffer = Buffer::new(COPY_BYTES);
        for offset in (0..bytes).step_by(COPY_BYTES) {
            let part = (bytes - offset).min(COPY_BYTES as u64) as usize;
            let buffer = &mut buffer[..part];
            from.read_at(offset, buffer)?;
            target.write_at(offset, buffer)?;
        }
        target.sync()
    };
    copied().inspect_err(|_| {
        // The first error is the one to report; only what this call made is removed.
        let _ = directory.remove(to);
    })
}

/// The parent directory of `path`; `None` for a root.
fn parent(path: &Path) -> Option<&Path> {
    let here = Path::new(".");
    let above = path.parent()?;
    match above.as_os_str().is_empty() {
        true => (path != here).then_some(here),
        false => Some(above),
    }
}

/// Makes a directory in its parent `above`, and its name durable.
fn make_below<D: Disk + ?Sized>(disk: &D, above: &dyn Disk, path: &Path) -> Result<()> {
    match disk.make_directory(path) {
        // The other maker may not have synced it yet.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => above.sync_directory(),
        Err(error) => Err(error),
        Ok(()) => above.sync_directory().inspect_err(|_| {
            // The first error is the one to report. Removed, since a retry must make it again to
            // sync it.
            let _ = disk.remove_directory(path);
        }),
    }
}

/// Creates the directory below `disk` for a new name, if it does not exist.
pub(crate) fn create_for(disk: &dyn Disk, name: &str) -> Result<()> {
    let path = name::resolve(disk.path(), name)?;
    match path.parent() {
        Some(below) if below != disk.path() => disk.create_directory(below).map(drop),
        _ => Ok(()),
    }
}

/// Kind of an entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Neither: a link, a pipe, a device.
    Other,
}

/// Identity of a directory, see [`Disk::identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number of the device with the directory.
    pub device: u64,
    /// Inode number on that device.
    pub inode: u64,
}

/// A lock, which is released when this is dropped.
pub trait Lock: Send + Sync + fmt::Debug {}

/// How a file was put into another directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// As a second name of the same file; no bytes were written.
    Linked,
    /// As a copy of its bytes.
    Copied,
}
