//! Directories of files and what is asked of them.
//!
//! - **Why.** A store must be tested on a disk that fills up, fails and loses power; and its reads
//!   must be able to go through another engine without a change above.
//! - **How.** A [`Disk`] is one directory. [`File::read_at`] and [`File::write_at`] are for single
//!   places and wait; many reads and writes at once go through a [`Queue`], which takes files of
//!   any directory of the same world. A *direct* file passes the system's cache by: it is read and
//!   written in whole blocks of [`BLOCK_BYTES`], from and to a [`Buffer`](crate::Buffer).
//!
//! - **Durability.** What was written survives a crash once [`File::sync`] returned; a new name,
//!   that of a file or of a directory, survives once [`Disk::sync_directory`] or a [`Disk::rename`]
//!   in the directory that it is in returned. Before that, all, parts or none of it may survive,
//!   and whatever lies below a directory whose name is lost is lost with it. This holds for direct
//!   files too. [`Disk::create_directory`] has synced all that it made.
//! - **Locks.** are advice among programs: [`Disk::lock`] says who has a directory in use and keeps
//!   nobody from its files. They end with their holder, also where its process is killed.
//! - **Names.** Files are called by their name in the directory, directories by their path.
//! - **Not here.** Appending, permissions, making links: nothing above needs them.
//! - **Failure.** Every error names operation, path and place. A short read is an error. An
//!   operation that failed may have done a part of its work.
//! - **Bounds.** Buffers are the caller's; a queue states its own bounds. Any number of [`File`]s
//!   may be held: how many of them the system has open at once is a matter of the disk's.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

#[cfg(doc)]
use crate::BLOCK_BYTES;
use crate::{Access, Descriptor, OpenFilesStats, Queue, QueueOptions, Result, name};

/// One directory of files, and the way to others of the same world.
///
/// Names are relative to the directory; `rename` alone may name what is in a directory below it.
pub trait Disk: Send + Sync + fmt::Debug {
    /// The directory.
    fn path(&self) -> &Path;

    /// Another directory that exists.
    ///
    /// # Errors
    /// When there is no directory at `path`.
    fn directory(&self, path: &Path) -> Result<Arc<dyn Disk>>;

    /// Another directory, made with its parents where it does not exist. What was made survives a
    /// crash: each new name was synced before anything was put below it.
    ///
    /// # Errors
    /// When it cannot be made, or made durable; it is gone again then, its parents may stay.
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

    /// Makes a new, empty directory in one that exists. Its name survives a crash once the
    /// directory that it is in is synced.
    ///
    /// # Errors
    /// When the name is taken (`AlreadyExists`), there is nothing to make it in (`NotFound`), or
    /// the system refuses.
    fn make_directory(&self, path: &Path) -> Result<()>;

    /// Removes a directory that is empty. The removal need not survive a crash before the directory
    /// that it was in is synced.
    ///
    /// # Errors
    /// When there is none (`NotFound`), it is no directory (`NotADirectory`) or not empty
    /// (`DirectoryNotEmpty`), or the system refuses.
    fn remove_directory(&self, path: &Path) -> Result<()>;

    /// Removes a directory with all in it, in no order: after a crash any part of it may be there
    /// until the directory that it was in is synced. Of links, what they lead to stays.
    ///
    /// # Errors
    /// When there is none (`NotFound`), or the system refuses; a part may be gone then.
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

    /// What tells a directory from all others there are, as long as it exists: it keeps it under
    /// every name, and a copy of it has another. A link to it counts as itself.
    ///
    /// # Errors
    /// When there is none at `path` (`NotFound`), or the system refuses.
    fn identity(&self, path: &Path) -> Result<Identity>;

    /// Makes a new, empty file for reading and writing.
    ///
    /// # Errors
    /// When the name is taken (`AlreadyExists`), or the system refuses.
    fn create(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Opens a file for reading. It stays readable after its name is removed.
    ///
    /// # Errors
    /// When there is no such file (`NotFound`), or the system refuses.
    fn open(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Makes a new file for direct reading and writing, with room for `bytes` bytes set aside.
    ///
    /// Its length is `bytes` afterwards where the file system sets room aside, and may be 0 where
    /// it does not; who knows the true length in the end says so with [`File::truncate`].
    ///
    /// # Errors
    /// When the name is taken (`AlreadyExists`), there is no room (`StorageFull`; the name is free
    /// again then), or the system refuses.
    fn create_direct(&self, name: &str, bytes: u64) -> Result<Arc<dyn File>>;

    /// Opens a file for direct reading. It stays readable after its name is removed.
    ///
    /// # Errors
    /// When there is no such file (`NotFound`), or the system refuses.
    fn open_direct(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Whether the name is taken.
    ///
    /// # Errors
    /// When the system cannot tell.
    fn exists(&self, name: &str) -> Result<bool>;

    /// Removes a name. The removal need not survive a crash before the directory is synced.
    ///
    /// # Errors
    /// When there is no such file (`NotFound`), or the system refuses.
    fn remove(&self, name: &str) -> Result<()>;

    /// Gives a file, or a directory with all in it, another name: after a crash there is the old
    /// state or the new one. A file replaces a file, a directory an empty one. Makes the directory
    /// below where `to` names one, as `create_directory` does, and syncs both directories.
    ///
    /// # Errors
    /// When there is nothing of the name (`NotFound`), a directory is not empty
    /// (`DirectoryNotEmpty`), or the system refuses.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Names of the files in the directory, sorted; directories are left out.
    ///
    /// # Errors
    /// When the directory cannot be read.
    fn list(&self) -> Result<Vec<String>>;

    /// Names of all there is in the directory, sorted; what of a name is not UTF-8 is replaced.
    ///
    /// # Errors
    /// When the directory cannot be read.
    fn entries(&self) -> Result<Vec<(String, EntryKind)>>;

    /// Puts the file under the same name into `directory`: [`Disk::link_as`].
    ///
    /// # Errors
    /// Those of [`Disk::link_as`].
    fn link_into(&self, name: &str, directory: &Path) -> Result<Placed> {
        self.link_as(name, directory, name)
    }

    /// Puts the file into `directory`, which exists, as `to`: as a hard link where the file system
    /// can, as a synced copy otherwise. The name is durable once that directory is synced. A linked
    /// file must never be written again under either name.
    ///
    /// # Errors
    /// When the name is taken there (`AlreadyExists`), or the system refuses.
    fn link_as(&self, name: &str, directory: &Path, to: &str) -> Result<Placed> {
        if self.try_link(name, directory, to)? {
            return Ok(Placed::Linked);
        }
        crate::copy(&*self.open(name)?, &*self.directory(directory)?, to)?;
        Ok(Placed::Copied)
    }

    /// Puts a hard link to the file into `directory`, which exists, as `to`; says whether the file
    /// system can, which two of them cannot.
    ///
    /// # Errors
    /// When the name is taken there (`AlreadyExists`), there is no such file (`NotFound`), or the
    /// system refuses.
    fn try_link(&self, name: &str, directory: &Path, to: &str) -> Result<bool>;

    /// Bytes that a caller without privileges may still write here, as far as the system tells.
    ///
    /// # Errors
    /// When it does not.
    fn bytes_free(&self) -> Result<u64>;

    /// Makes the directory's names durable, those of files and those of directories.
    ///
    /// # Errors
    /// When the system refuses.
    fn sync_directory(&self) -> Result<()>;

    /// Takes the lock that the name stands for, as its only holder; none where anybody has it.
    ///
    /// An empty file of the name may be made, and stays then: it says nothing, only the lock does.
    /// Whoever removes it while the lock is taken makes a second one possible.
    ///
    /// # Errors
    /// When the system refuses, or knows no locks here.
    fn lock(&self, name: &str) -> Result<Option<Box<dyn Lock>>>;

    /// Takes the lock that the name stands for, with any other holders that share it; none where
    /// somebody has it alone. Makes no file and works on media that cannot be written: where there
    /// is no file of the name, or the system knows no locks, nobody can have it alone, and what is
    /// taken then need not keep anybody out.
    ///
    /// # Errors
    /// When the system refuses.
    fn lock_shared(&self, name: &str) -> Result<Option<Box<dyn Lock>>>;

    /// A queue of reads and writes of this world's files.
    ///
    /// # Errors
    /// When the system refuses what it needs.
    ///
    /// # Panics
    /// When the depth is 0.
    fn queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>>;

    /// How many files are open, where the system bounds that.
    fn open_files(&self) -> Option<OpenFilesStats> {
        None
    }

    /// The whole of a small file.
    ///
    /// # Errors
    /// When it holds more than `bytes_max` bytes, or cannot be read.
    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let file = self.open(name)?;
        let bytes = file.len()?;
        if bytes > bytes_max {
            let path = file.path().to_owned();
            return Err(crate::Error::TooLarge { path, bytes, bytes_max });
        }
        let mut whole = vec![0; bytes as usize];
        file.read_at(0, &mut whole)?;
        Ok(whole)
    }
}

/// The directory that `path` lies in; none of a root.
fn parent(path: &Path) -> Option<&Path> {
    let here = Path::new(".");
    let above = path.parent()?;
    match above.as_os_str().is_empty() {
        true => (path != here).then_some(here),
        false => Some(above),
    }
}

/// Makes a directory of which `above` is the parent, and its name durable.
fn make_below<D: Disk + ?Sized>(disk: &D, above: &dyn Disk, path: &Path) -> Result<()> {
    match disk.make_directory(path) {
        // Whoever was faster need not have synced it yet.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => above.sync_directory(),
        Err(error) => Err(error),
        Ok(()) => above.sync_directory().inspect_err(|_| {
            // The first error is the one to report. A second try must sync, so must make it.
            let _ = disk.remove_directory(path);
        }),
    }
}

/// The directory below `disk` that a new name lies in, made where it does not exist.
pub(crate) fn create_for(disk: &dyn Disk, name: &str) -> Result<()> {
    let path = name::resolve(disk.path(), name)?;
    match path.parent() {
        Some(below) if below != disk.path() => disk.create_directory(below).map(drop),
        _ => Ok(()),
    }
}

/// What a name in a directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Neither: a link, a pipe, a device.
    Other,
}

/// What tells one directory from another, see [`Disk::identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The device that it lies on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// A lock that was taken; it is free again when this is dropped.
pub trait Lock: Send + Sync + fmt::Debug {}

/// How a file came into another directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Both names are of one file; no bytes were written.
    Linked,
    /// The bytes were written again.
    Copied,
}

/// An open file.
#[expect(clippy::len_without_is_empty, reason = "a length is asked of the system")]
pub trait File: Send + Sync + fmt::Debug {
    /// Where it was made or opened; what messages call it.
    fn path(&self) -> &Path;

    /// Its length.
    ///
    /// # Errors
    /// When the system cannot tell.
    fn len(&self) -> Result<u64>;

    /// Writes all of `bytes` at `offset`; the file grows where it must.
    ///
    /// # Errors
    /// When the system refuses; a part may have been written then.
    ///
    /// # Panics
    /// When the file is direct and offset or length is no multiple of [`BLOCK_BYTES`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Fills all of `buffer` from `offset` on.
    ///
    /// # Errors
    /// When the file ends before (`UnexpectedEof`), or the system refuses.
    ///
    /// # Panics
    /// When the file is direct and offset or length is no multiple of [`BLOCK_BYTES`].
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Sets its length: bytes beyond are gone, bytes that are new are zero.
    ///
    /// # Errors
    /// When the system refuses, or the file was opened for reading.
    fn truncate(&self, bytes: u64) -> Result<()>;

    /// Makes everything written so far, and the length, durable.
    ///
    /// # Errors
    /// When the system refuses: what of it is durable is then unknown.
    fn sync(&self) -> Result<()>;

    /// Whether it was made or opened direct.
    fn is_direct(&self) -> bool;

    /// Whether engines may go to the system's descriptor. A wrapper that must see every operation
    /// says no, and every engine goes through `read_at` and `write_at` then.
    fn has_descriptor(&self) -> bool {
        false
    }

    /// The system's descriptor, open for as long as it is held; none where there is none, or where
    /// so many files are in use that this one should be opened later.
    ///
    /// # Errors
    /// When it had to be opened again, and the system refuses or its name leads to another file.
    fn descriptor(&self, _access: Access) -> Result<Option<Descriptor>> {
        Ok(None)
    }
}
