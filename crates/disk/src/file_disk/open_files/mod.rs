//! A bounded number of open files, for any number of handles.
//!
//! - **Why.** A store holds a file for every segment, but a process may have only a few hundred
//!   files open (`ulimit -n`).
//! - **How.** A [`Handle`] identifies its file by name, device, inode and time of birth. The file
//!   is open while it is used and afterwards as long as the bound allows; then it is closed, and
//!   reopened for the next use. Using an open file takes only the handle's own lock.
//!
//! ```text
//!   handle ──► open? ──yes──► a share of the descriptor, held until the operation is done
//!                └─no─► a permit ─► open ──► is it the same file? ──► a seat on the circle
//!                         └─ none free: the circle closes a file that was not used recently
//! ```
//!
//! - **Names.** A file stays usable after its name is removed. Therefore live handles are found by
//!   inode: before [`OpenFiles::remove`] or [`OpenFiles::remove_tree`] removes a name, or
//!   [`OpenFiles::rename`] gives it to another file, its handles are opened and stay open (they are
//!   *kept*). Handles of a renamed file, or of files below a renamed directory, follow the new
//!   name. If anything else removes, moves or replaces a file, reopening notices it and fails.
//! - **Locks.** `names`: shared while a file is opened for a new handle, exclusive while a name is
//!   removed. Then `handle.state`: a thread never waits for a second one while it holds one, except
//!   to rename, which only one thread does at a time. Then `circle` or `living`, never
//!   held during a system call. The circle only tries to lock a state.
//! - **Failure.** A file with unsynced writes is synced before it is closed, since the system
//!   reports failed writes only while the file is open. The error is returned by the handle's next
//!   sync. If the system has no descriptor left (`EMFILE`, `ENFILE`), files are closed and the call
//!   is retried, for a fifth of a second.
//! - **Bounds.** `bound` files are open; in addition, one for each thread or queue that finds all
//!   of them in use, and all kept files. A handle takes about 300 bytes.
//! - **Cost.** Using an open file: a lock and a count, some tens of nanoseconds. Reopening one:
//!   closing another, and four to six system calls, 6 µs.

mod circle;
mod handle;
mod names;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use stepwell_base::is_exhausted;
use tracing::debug;

use self::circle::{Circle, Idle};
pub(super) use self::handle::set_direct;
use self::handle::{Handle, Identity, State};
use crate::descriptor::{Access, Descriptor, Opened};
use crate::file::Mode;
use crate::gauge::{Gauge, OpenFilesStats, Permit};
use crate::mutex::lock;

/// Divisor of the system's limit that gives the default bound, between `BOUND_MIN` and `BOUND_MAX`.
const PART_OF_LIMIT: u64 = 3;
const BOUND_MIN: u64 = 8;
const BOUND_MAX: u64 = 4096;

/// The most calls without a free descriptor, and the pause if no file can be closed.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// One in this many open files is closed when the system has no descriptor left.
const RELIEF: usize = 8;

/// The open files of some directories, with a bound.
#[derive(Clone, Debug)]
pub struct OpenFiles(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bound: usize,
    gauge: Arc<Gauge>,
    circle: Mutex<Circle>,
    living: Mutex<Living>,
    names: RwLock<()>,
}

/// All handles by device, inode and a number of their own.
#[derive(Debug, Default)]
struct Living {
    handles: BTreeMap<(u64, u64, u64), Arc<Handle>>,
    numbers: u64,
}

/// The bound on open files for a limit of the system.
fn part_of(limit: Option<u64>) -> usize {
    limit.map_or(BOUND_MAX, |limit| (limit / PART_OF_LIMIT).clamp(BOUND_MIN, BOUND_MAX)) as usize
}

impl OpenFiles {
    /// Makes a bound of `bound` open files.
    ///
    /// # Panics
    /// If the bound is 0.
    pub fn new(bound: usize) -> Self {
        assert!(bound > 0, "at least one file is open");
        Self(Arc::new(Shared {
            bound,
            gauge: Arc::default(),
            circle: Mutex::default(),
            living: Mutex::default(),
            names: RwLock::default(),
        }))
    }

    /// The default for all directories of the process: a third of the system's limit (`ulimit -n`)
    /// when this is first called, from 8 to 4096.
    pub fn of_process() -> Self {
        static OF_PROCESS: LazyLock<OpenFiles> =
            LazyLock::new(|| OpenFiles::new(part_of(getrlimit(Resource::Nofile).current)));
        OF_PROCESS.clone()
    }

    /// Current numbers.
    pub fn stats(&self) -> OpenFilesStats {
        let gauge = &self.0.gauge;
        OpenFilesStats {
            bound: self.0.bound,
            open: gauge.open(),
            most: gauge.most(),
            kept: gauge.kept.load(Relaxed),
            handles: lock(&self.0.living).handles.len(),
            opened_again: gauge.opened_again.load(Relaxed),
        }
    }

    /// Makes a call that needs a descriptor; if none is left, closes some files and retries.
    pub(crate) fn with_relief<T>(&self, call: impl Fn() -> io::Result<T>) -> io::Result<T> {
        for _ in 1..TRIES {
            match call() {
                Err(error) if is_exhausted(&error) => {
                    debug!(open = self.0.gauge.open(), %error, "idle files are closed");
                    self.relieve();
                }
                outcome => return outcome,
            }
        }
        call()
    }

    /// Closes some files; if all are in use, waits a little.
    fn relieve(&self) {
        let some = (self.0.gauge.open() / RELIEF).max(1);
        if (0..some).take_while(|_| self.close_one()).count() == 0 {
            thread::sleep(PAUSE);
        }
    }

    /// A permit for another open file, exceeding the bound if all are in use.
    fn permit(&self) -> Permit {
        self.idle_permit().unwrap_or_else(|| Permit::take_beyond(&self.0.gauge))
    }

    /// A permit for another open file, or `None` if all are in use.
    fn idle_permit(&self) -> Option<Permit> {
        loop {
            let permit = Permit::take(&self.0.gauge, self.0.bound);
            if permit.is_some() || !self.close_one() {
                return permit;
            }
        }
    }

    /// Closes a file; returns false if all are in use.
    fn close_one(&self) -> bool {
        let found = lock(&self.0.circle).idle();
        match found {
            Some(Idle::Closed(_)) => true,
            Some(Idle::Unsynced(handle)) => self.sync_and_close(&handle),
            None => false,
        }
    }

    /// Syncs and closes a file, unless it is in use again.
    fn sync_and_close(&self, handle: &Handle) -> bool {
        let Some(mut state) = handle.try_lock() else { return false };
        let Some(opened) = state.idle() else { return false };
        if let Err(error) = opened.sync() {
            state.failed.get_or_insert(error);
        }
        self.close(&mut state);
        true
    }

    fn close(&self, state: &mut State) {
        if let Some(seat) = state.seat.take() {
            lock(&self.0.circle).vacate(seat);
        }
        state.opened = None;
    }

    /// Opens a file for a new handle; `open` makes or opens the file at a path.
    pub(super) fn open_with(
        &self,
        path: PathBuf,
        mode: Mode,
        open: impl Fn(&Path) -> io::Result<fs::File>,
    ) -> io::Result<Holder> {
        let _names = self.0.names.read().unwrap_or_else(PoisonError::into_inner);
        let permit = self.permit();
        let file = self.with_relief(|| open(&path))?;
        let handle = Arc::new(Handle::new(&file, path, mode)?);
        // A new file counts as written.
        self.settle(&handle, &mut handle.lock(), Opened::new(file, permit, mode.writable));
        let number = lock(&self.0.living).add(&handle);
        Ok(Holder { files: self.clone(), handle, number })
    }

    fn open_again(
        &self,
        handle: &Arc<Handle>,
        state: &mut State,
        permit: Permit,
    ) -> io::Result<()> {
        let file = self.with_relief(|| handle.open(state))?;
        self.settle(handle, state, Opened::new(file, permit, false));
        self.0.gauge.opened_again.fetch_add(1, Relaxed);
        Ok(())
    }

    fn settle(&self, handle: &Arc<Handle>, state: &mut State, opened: Opened) {
        state.opened = Some(Arc::new(opened));
        state.seat = Some(lock(&self.0.circle).seat(handle));
    }
}

impl Living {
    fn add(&mut self, handle: &Arc<Handle>) -> u64 {
        self.numbers += 1;
        let Identity { device, inode, .. } = handle.identity;
        self.handles.insert((device, inode, self.numbers), Arc::clone(handle));
        self.numbers
    }

    /// The live handles of a file.
    fn of(&self, Identity { device, inode, .. }: Identity) -> Vec<Arc<Handle>> {
        let range = (device, inode, 0)..=(device, inode, u64::MAX);
        self.handles.range(range).map(|(_, handle)| Arc::clone(handle)).collect()
    }
}

/// A live handle; dropping it closes the file and removes the handle.
#[derive(Debug)]
pub(super) struct Holder {
    files: OpenFiles,
    handle: Arc<Handle>,
    number: u64,
}

impl Holder {
    pub(super) fn path(&self) -> &Path {
        &self.handle.path
    }

    pub(super) fn mode(&self) -> Mode {
        self.handle.mode
    }

    /// Returns a descriptor, reopening the file if needed.
    pub(super) fn descriptor(&self, access: Access) -> io::Result<Descriptor> {
        match self.descriptor_in(access, || Some(self.files.permit()))? {
            Some(descriptor) => Ok(descriptor),
            None => unreachable!("there is a permit, beyond the bound if necessary"),
        }
    }

    /// Returns a descriptor; `None` if the file would have to be reopened while all are in use.
    pub(super) fn descriptor_if_idle(&self, access: Access) -> io::Result<Option<Descriptor>> {
        self.descriptor_in(access, || self.files.idle_permit())
    }

    fn descriptor_in(
        &self,
        access: Access,
        permit: impl FnOnce() -> Option<Permit>,
    ) -> io::Result<Option<Descriptor>> {
        self.handle.touch();
        let access = if self.handle.mode.writable { access } else { Access::Read };
        let mut state = self.handle.lock();
        if state.opened.is_none() {
            let Some(permit) = permit() else { return Ok(None) };
            self.files.open_again(&self.handle, &mut state, permit)?;
        }
        Ok(state.opened.as_ref().map(|opened| Descriptor::of(opened, access)))
    }

    /// Makes everything written durable; returns the error of an earlier sync on closing, if it
    /// failed.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut state = self.handle.lock();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        if state.opened.is_none() && self.handle.mode.writable {
            // The file was synced when it was closed.
            return Ok(());
        }
        drop(state);
        self.descriptor(Access::Read)?.opened().sync()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let Identity { device, inode, .. } = self.handle.identity;
        lock(&self.files.0.living).handles.remove(&(device, inode, self.number));
        let mut state = self.handle.lock();
        if state.keepers > 0 {
            self.files.0.gauge.kept.fetch_sub(1, Relaxed);
        }
        state.gone = true;
        self.files.close(&mut state);
    }
}

#[cfg(test)]
mod tests;
