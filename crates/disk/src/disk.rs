//! Directories of files and what is asked of them.
//!
//! Why       A store must be tested on a disk that fills up, fails and loses power; and its reads
//!           must be able to go through another engine without a change above.
//! How       A [`Disk`] is one directory. Reads of many places are *submitted* and *completed*
//!           apart: [`Disk::submit`] takes requests that own their buffers and gives a [`Ticket`];
//!           [`Ticket::wait`] gives the requests back, filled. Several tickets may be in flight,
//!           of several threads, over several files. [`File::read_at`] is for single places.
//!
//! ```text
//!   submit([ (file, offset, buffer) … ]) ──► ticket        … other work, other tickets …
//!   ticket.wait()                        ──► [ (file, offset, buffer filled) … ]  in that order
//! ```
//!
//! Durability  What `write_at` wrote survives a crash once [`File::sync`] returned; a new name
//!           survives once [`Disk::sync_directory`] or a [`Disk::rename`] in that directory
//!           returned. Before that, all, parts or none of it may survive.
//! Not here  Appending, truncation, locks, permissions, directory trees: nothing above needs them.
//! Failure   Every error names operation, path and place. A short read is an error. An operation
//!           that failed may have done a part of its work.
//! Bounds    Buffers of reads are the caller's, from submission to completion; an implementation
//!           bounds what it has in flight and lets `submit` wait for room.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::Result;

/// One directory of files, and the way to others of the same world.
///
/// Names are relative to the directory; `rename` alone may name a file in a directory below it.
pub trait Disk: Send + Sync + fmt::Debug {
    /// The directory.
    fn path(&self) -> &Path;

    /// Another directory that exists.
    ///
    /// # Errors
    /// When there is no directory at `path`.
    fn directory(&self, path: &Path) -> Result<Arc<dyn Disk>>;

    /// Another directory, made with its parents where it does not exist.
    ///
    /// # Errors
    /// When it cannot be made.
    fn create_directory(&self, path: &Path) -> Result<Arc<dyn Disk>>;

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

    /// Gives a file another name, replacing what had it: after a crash there is the old state or
    /// the new one. Makes the directory below where `to` names one; syncs both directories.
    ///
    /// # Errors
    /// When there is no such file (`NotFound`), or the system refuses.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Names of the files in the directory, sorted; directories are left out.
    ///
    /// # Errors
    /// When the directory cannot be read.
    fn list(&self) -> Result<Vec<String>>;

    /// Puts the file under the same name into `directory`, which exists: as a hard link where the
    /// file system can, as a synced copy otherwise. The name is durable once that directory is
    /// synced. A linked file must never be written again under either name.
    ///
    /// # Errors
    /// When the name is taken there (`AlreadyExists`), or the system refuses.
    fn link_into(&self, name: &str, directory: &Path) -> Result<Placed>;

    /// Makes the directory's names durable.
    ///
    /// # Errors
    /// When the system refuses.
    fn sync_directory(&self) -> Result<()>;

    /// Starts reads; waits first while too many bytes are in flight.
    ///
    /// # Errors
    /// When no reader can be started; errors of the reads themselves come from [`Ticket::wait`].
    fn submit(&self, reads: Vec<Read>) -> Result<Ticket>;

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
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Fills all of `buffer` from `offset` on.
    ///
    /// # Errors
    /// When the file ends before (`UnexpectedEof`), or the system refuses.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// When the system refuses: what of it is durable is then unknown.
    fn sync(&self) -> Result<()>;
}

/// A place to read from and the buffer to fill; its length is what is read.
#[derive(Debug)]
pub struct Read {
    /// The file.
    pub file: Arc<dyn File>,
    /// Where to start.
    pub offset: u64,
    /// What to fill.
    pub buffer: Vec<u8>,
}

impl Read {
    /// Performs the read here and now.
    ///
    /// # Errors
    /// Those of [`File::read_at`].
    pub fn perform(&mut self) -> Result<()> {
        self.file.read_at(self.offset, &mut self.buffer)
    }
}

/// Reads that an implementation has under way.
pub trait Pending: Send {
    /// Waits for all of them.
    ///
    /// # Errors
    /// The error of the first one, in order of submission, that failed.
    fn wait(self: Box<Self>) -> Result<Vec<Read>>;
}

/// A promise of reads that were submitted together. Dropping it forgets them.
#[must_use = "reads are complete only after `wait`"]
pub struct Ticket(Box<dyn Pending>);

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

impl Ticket {
    /// A ticket for what `pending` has under way.
    pub fn new(pending: impl Pending + 'static) -> Self {
        Self(Box::new(pending))
    }

    /// Performs the reads in order in this thread; the ticket holds their outcome.
    pub fn performed(mut reads: Vec<Read>) -> Self {
        let outcome = reads.iter_mut().try_for_each(Read::perform);
        Self::new(Performed(outcome.map(|()| reads)))
    }

    /// Waits for the reads and gives them back, filled, in order of submission.
    ///
    /// # Errors
    /// The error of the first one, in that order, that failed.
    pub fn wait(self) -> Result<Vec<Read>> {
        self.0.wait()
    }
}

struct Performed(Result<Vec<Read>>);

impl Pending for Performed {
    fn wait(self: Box<Self>) -> Result<Vec<Read>> {
        self.0
    }
}
