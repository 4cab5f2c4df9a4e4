//! A held file, which may be closed and opened again.

use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, TryLockError};
use std::time::SystemTime;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tracing::warn;

use crate::descriptor::Opened;
use crate::file::Mode;
use crate::mutex::lock;

/// Identifies a file, whatever its name. Inode numbers are reused, times of birth are not, but some
/// file systems have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) born: Option<SystemTime>,
}

/// A file that was made or opened and is still held.
#[derive(Debug)]
pub(super) struct Handle {
    /// Path with which it was made or opened.
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    pub(super) mode: Mode,
    used: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) opened: Option<Arc<Opened>>,
    /// Seat on the circle, while the file is open and not kept.
    pub(super) seat: Option<usize>,
    /// Number of reasons to keep it open.
    pub(super) keepers: usize,
    /// Current path, if the file was renamed.
    pub(super) renamed: Option<Box<Path>>,
    /// Error of the sync before the file was closed; the next sync returns it.
    pub(super) failed: Option<io::Error>,
    /// Whether the holder was dropped.
    pub(super) gone: bool,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        let (device, inode) = (metadata.dev(), metadata.ino());
        Self { device, inode, born: metadata.created().ok() }
    }

    /// The file that a path refers to; `None` if there is none.
    pub(super) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }
}

impl Handle {
    pub(super) fn new(file: &fs::File, path: PathBuf, mode: Mode) -> io::Result<Self> {
        let (identity, used) = (Identity::of(&file.metadata()?), AtomicBool::new(true));
        Ok(Self { path, identity, mode, used, state: Mutex::default() })
    }

    /// Records a use; writes no memory if one was already recorded.
    pub(super) fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was used since the last call.
    pub(super) fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether its current name refers to its file.
    pub(super) fn has_name(&self) -> bool {
        Identity::at(self.name(&self.lock())) == Some(self.identity)
    }

    /// The current name of its file.
    pub(super) fn name<'a>(&'a self, state: &'a State) -> &'a Path {
        state.renamed.as_deref().unwrap_or(&self.path)
    }

    /// Reopens the file, if its name still refers to it.
    pub(super) fn open(&self, state: &State) -> io::Result<fs::File> {
        let path = self.name(state);
        // Checked first: opening a pipe would wait for its other end.
        self.check(fs::metadata(path))?;
        let file = OpenOptions::new().read(true).write(self.mode.writable).open(path)?;
        self.check(file.metadata())?;
        if self.mode.direct {
            set_direct(&file)?;
        }
        Ok(file)
    }

    /// Whether `path`, which refers to its file, is the name it was opened under or renamed to.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let state = self.lock();
        let own = self.name(&state);
        // Another name of the same file does not count; another spelling of its name does.
        let directory = |path: &Path| Identity::at(path.parent().unwrap_or(path));
        own == path || (own.file_name() == path.file_name() && directory(own) == directory(path))
    }

    fn check(&self, found: io::Result<Metadata>) -> io::Result<()> {
        let gone = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(
                io::ErrorKind::NotFound,
                "another process removed or moved it while it was in use",
            ),
            _ => error,
        };
        if Identity::of(&found.map_err(gone)?) == self.identity {
            return Ok(());
        }
        Err(io::Error::other("another process put another file in its place while it was in use"))
    }
}

impl State {
    /// The open file, if no operation uses it and it need not stay open.
    pub(super) fn idle(&mut self) -> Option<&Opened> {
        if self.keepers > 0 {
            return None;
        }
        Some(Arc::get_mut(self.opened.as_mut()?)?)
    }
}

/// Logs the first file system without direct I/O, not every file on it.
static NOT_DIRECT: Once = Once::new();

/// Makes an open file bypass the system's cache, if the file system supports that.
///
/// The mode is set on the open file, since opening with it may make a new file and then fail.
pub(in crate::file_disk) fn set_direct(file: &fs::File) -> io::Result<()> {
    let flags = fcntl_getfl(file).and_then(|flags| fcntl_setfl(file, flags | OFlags::DIRECT));
    match flags {
        Ok(()) => Ok(()),
        Err(error @ (Errno::INVAL | Errno::OPNOTSUPP)) => {
            NOT_DIRECT.call_once(|| {
                warn!(%error, "direct I/O is refused: files there use the system's cache");
            });
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
