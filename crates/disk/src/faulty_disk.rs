//! A disk that fails on demand, around another one.
//!
//! Fault model  What is asked for in [`Faults`] and nothing else:
//! - *failure*: the n-th operation, of one kind or of all, returns an error of a given kind and
//!   does nothing; once, or from then on (a full disk is `StorageFull` on every write from then
//!   on). Operations before and other operations after are untouched.
//! - *cut*: after n operations that mutate, the power is gone. If the next one is a write, the
//!   first half of its bytes still reach the file. From then on every operation fails. What of the
//!   written bytes survives is then the question to [`crate::MemDisk::crash`].
//! - *delay*: every operation takes so much longer.
//!
//! Counts go on over all directories reached from one faulty disk, from the time it was made or
//! [`FaultyDisk::inflict`] was last called.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Disk, Error, File, Operation, Placed, Read, Result, Ticket};

/// Whether a failure goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// The next such operation succeeds again.
    Once,
    /// All later ones of the kind fail too.
    FromThenOn,
}

/// An operation that fails.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The kind to count; all kinds where there is none.
    pub operation: Option<Operation>,
    /// How many of the kind succeed before.
    pub after: u64,
    /// The error's kind.
    pub kind: io::ErrorKind,
    /// Whether it goes away.
    pub lasting: Lasting,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// An operation that fails.
    pub failure: Option<Failure>,
    /// After how many mutating operations the power is gone.
    pub cut_after: Option<u64>,
    /// What every operation takes longer.
    pub delay: Duration,
}

/// A disk that fails on demand.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    counts: BTreeMap<Operation, u64>,
}

/// What becomes of an operation.
enum Fate {
    Happens,
    /// Half a write happens, then nothing.
    Torn(io::Error),
    Fails(io::Error),
}

impl State {
    fn mutations(&self) -> u64 {
        self.counts.iter().filter(|(kind, _)| kind.mutates()).map(|(_, count)| count).sum()
    }

    fn next(&mut self, operation: Operation) -> Fate {
        let mutations = self.mutations();
        let cut = self
            .faults
            .cut_after
            .is_some_and(|after| mutations > after || (mutations == after && operation.mutates()));
        if cut {
            // Counted, so that everything later finds the power gone; the first one is torn.
            *self.counts.entry(Operation::Write).or_default() += u64::from(operation.mutates());
            let error = io::Error::other("the power is gone");
            let first = self.faults.cut_after == Some(mutations);
            return if first { Fate::Torn(error) } else { Fate::Fails(error) };
        }
        let all: u64 = self.counts.values().sum();
        let of_kind = self.counts.entry(operation).or_default();
        let before = *of_kind;
        *of_kind += 1;
        let Some(failure) = self.faults.failure else { return Fate::Happens };
        let count = match failure.operation {
            None => all,
            Some(kind) if kind == operation => before,
            Some(_) => return Fate::Happens,
        };
        let due = match failure.lasting {
            Lasting::Once => count == failure.after,
            Lasting::FromThenOn => count >= failure.after,
        };
        if due { Fate::Fails(failure.kind.into()) } else { Fate::Happens }
    }
}

impl FaultyDisk {
    /// The disk `inner` with faults.
    pub fn new(inner: Arc<dyn Disk>, faults: Faults) -> Self {
        let state = State { faults, counts: BTreeMap::new() };
        Self { inner, state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other faults from now on; counts begin anew.
    pub fn inflict(&self, faults: Faults) {
        *self.lock() = State { faults, counts: BTreeMap::new() };
    }

    /// Operations of one kind so far.
    pub fn count(&self, operation: Operation) -> u64 {
        self.lock().counts.get(&operation).copied().unwrap_or(0)
    }

    /// Mutating operations so far.
    pub fn mutations(&self) -> u64 {
        self.lock().mutations()
    }

    fn wrap(&self, inner: Arc<dyn Disk>) -> Arc<dyn Disk> {
        Arc::new(Self { inner, state: Arc::clone(&self.state) })
    }

    fn file(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile { inner, state: Arc::clone(&self.state) })
    }

    fn before(&self, operation: Operation, name: &str) -> Result<()> {
        match fate(&self.state, operation) {
            Fate::Happens => Ok(()),
            Fate::Torn(error) | Fate::Fails(error) => {
                let path =
                    if name.is_empty() { self.path().to_owned() } else { self.path().join(name) };
                Err(Error::io(operation, &path, error))
            }
        }
    }
}

fn fate(state: &Mutex<State>, operation: Operation) -> Fate {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let (delay, fate) = (state.faults.delay, state.next(operation));
    drop(state);
    if !delay.is_zero() {
        std::thread::sleep(delay);
    }
    fate
}

impl Disk for FaultyDisk {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn directory(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        self.before(Operation::Open, "")?;
        Ok(self.wrap(self.inner.directory(path)?))
    }

    fn create_directory(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        self.before(Operation::CreateDirectory, "")?;
        Ok(self.wrap(self.inner.create_directory(path)?))
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        self.before(Operation::Create, name)?;
        Ok(self.file(self.inner.create(name)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.before(Operation::Open, name)?;
        Ok(self.file(self.inner.open(name)?))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.before(Operation::List, name)?;
        self.inner.exists(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.before(Operation::Remove, name)?;
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.before(Operation::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.before(Operation::List, "")?;
        self.inner.list()
    }

    fn link_into(&self, name: &str, directory: &Path) -> Result<Placed> {
        self.before(Operation::Link, name)?;
        self.inner.link_into(name, directory)
    }

    fn sync_directory(&self) -> Result<()> {
        self.before(Operation::SyncDirectory, "")?;
        self.inner.sync_directory()
    }

    fn submit(&self, reads: Vec<Read>) -> Result<Ticket> {
        // The files are faulty ones: each read meets its fate where it is performed.
        self.inner.submit(reads)
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn File>,
    state: Arc<Mutex<State>>,
}

impl FaultyFile {
    fn before(&self, operation: Operation, offset: u64, bytes: usize) -> Result<()> {
        match fate(&self.state, operation) {
            Fate::Happens => Ok(()),
            Fate::Torn(error) | Fate::Fails(error) => {
                Err(Error::io_at(operation, self.path(), offset, bytes, error))
            }
        }
    }
}

impl File for FaultyFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        self.before(Operation::Measure, 0, 0)?;
        self.inner.len()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let error = match fate(&self.state, Operation::Write) {
            Fate::Happens => return self.inner.write_at(offset, bytes),
            Fate::Torn(error) => {
                self.inner.write_at(offset, &bytes[..bytes.len() / 2])?;
                error
            }
            Fate::Fails(error) => error,
        };
        Err(Error::io_at(Operation::Write, self.path(), offset, bytes.len(), error))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.before(Operation::Read, offset, buffer.len())?;
        self.inner.read_at(offset, buffer)
    }

    fn sync(&self) -> Result<()> {
        self.before(Operation::Sync, 0, 0)?;
        self.inner.sync()
    }
}
