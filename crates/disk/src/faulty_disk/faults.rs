//! Faults, and when they happen.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use crate::error::Operation;
use crate::mutex::lock;

/// Whether a failure is temporary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// The next such operation succeeds.
    Once,
    /// All later operations of the kind fail, too.
    FromThenOn,
}

/// An operation that fails.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The kind to count; `None` counts all.
    pub operation: Option<Operation>,
    /// Number of operations of the kind that succeed first.
    pub after: u64,
    /// The error's kind.
    pub kind: io::ErrorKind,
    /// Whether the failure is temporary.
    pub lasting: Lasting,
}

/// An operation that fails with an error of the system.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// The kind to count; `None` counts all.
    pub operation: Option<Operation>,
    /// Number of operations of the kind that succeed first.
    pub after: u64,
    /// The system's error.
    pub reason: Reason,
    /// Whether the failure is temporary.
    pub lasting: Lasting,
}

/// Why the system refuses an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `ENOSPC`: the disk is full.
    DiskFull,
    /// `EDQUOT`: the user's quota is used up.
    QuotaUsedUp,
    /// `EMFILE`: the process has reached its limit of open files.
    TooManyOpenFiles,
    /// `ENFILE`: the system has reached its limit of open files.
    TooManyOpenFilesInAll,
    /// `EIO`: the device failed.
    DeviceError,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::DiskFull,
        Self::QuotaUsedUp,
        Self::TooManyOpenFiles,
        Self::TooManyOpenFilesInAll,
        Self::DeviceError,
    ];

    /// The system's error with the right number.
    pub fn error(self) -> io::Error {
        let number = match self {
            Self::DiskFull => Errno::NOSPC,
            Self::QuotaUsedUp => Errno::DQUOT,
            Self::TooManyOpenFiles => Errno::MFILE,
            Self::TooManyOpenFilesInAll => Errno::NFILE,
            Self::DeviceError => Errno::IO,
        };
        number.into()
    }
}

/// A read that returns a wrong bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flip {
    /// Number of correct reads first.
    pub after: u64,
    /// The wrong bit, counted from the lowest of the first byte, modulo the bits read.
    pub bit: u64,
}

/// Faults of a disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// An operation that fails.
    pub failure: Option<Failure>,
    /// An operation that the system refuses.
    pub refusal: Option<Refusal>,
    /// The most files that may be held: making or opening another fails as if the process had too
    /// many open.
    pub files_max: Option<u64>,
    /// Number of mutating operations before the power fails.
    pub cut_after: Option<u64>,
    /// Number of reads before one finds the file's end half-way.
    pub short_read_after: Option<u64>,
    /// A read that silently returns a wrong bit.
    pub flip: Option<Flip>,
    /// Number of writes before one silently goes to the following block.
    pub misdirected_write_after: Option<u64>,
    /// Number of writes before one silently does nothing.
    pub lost_write_after: Option<u64>,
    /// Whether files cannot be linked, as between two file systems.
    pub no_links: bool,
    /// Additional time of every operation.
    pub delay: Duration,
}

/// Outcome of an operation, as decided by the faults.
#[derive(Debug)]
pub(super) enum Fate {
    Happens,
    /// A write stops half-way.
    Torn(io::Error),
    /// A read finds the file's end half-way.
    Short(io::Error),
    /// A read returns a wrong bit.
    Flipped(u64),
    /// A write goes elsewhere.
    Misdirected,
    /// A write reports success but does nothing.
    Lost,
    Fails(io::Error),
}

/// Faults and counts of all directories reached from one faulty disk.
#[derive(Clone, Debug)]
pub(super) struct Fates(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    counts: BTreeMap<Operation, u64>,
    /// Number of operations that went wrong.
    fired: u64,
    held: u64,
}

impl Fates {
    pub(super) fn new(faults: Faults) -> Self {
        Self(Arc::new(Mutex::new(State { faults, ..State::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    pub(super) fn begin_anew(&self, faults: Faults) {
        let mut state = self.lock();
        (state.faults, state.counts, state.fired) = (faults, BTreeMap::new(), 0);
    }

    /// Counts another held file, unless the limit is reached.
    pub(super) fn hold(&self) -> io::Result<Held> {
        let mut state = self.lock();
        if state.faults.files_max.is_some_and(|max| state.held >= max) {
            state.fired += 1;
            return Err(Reason::TooManyOpenFiles.error());
        }
        state.held += 1;
        Ok(Held(self.clone()))
    }

    pub(super) fn held(&self) -> u64 {
        self.lock().held
    }

    pub(super) fn has_no_links(&self) -> bool {
        self.lock().faults.no_links
    }

    pub(super) fn count(&self, operation: Operation) -> u64 {
        self.lock().counts.get(&operation).copied().unwrap_or(0)
    }

    pub(super) fn mutations(&self) -> u64 {
        self.lock().mutations()
    }

    pub(super) fn fired(&self) -> u64 {
        self.lock().fired
    }

    /// Decides what happens to the next operation; sleeps for the delay.
    pub(super) fn next(&self, operation: Operation) -> Fate {
        let mut state = self.lock();
        let (delay, fate) = (state.faults.delay, state.next(operation));
        state.fired += u64::from(!matches!(fate, Fate::Happens));
        drop(state);
        if !delay.is_zero() {
            thread::sleep(delay);
        }
        fate
    }
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
            // Counted, so that later operations find the power gone; only the first one is torn.
            *self.counts.entry(Operation::Write).or_default() += u64::from(operation.mutates());
            let error = io::Error::other("the power is gone");
            let first = self.faults.cut_after == Some(mutations);
            return if first { Fate::Torn(error) } else { Fate::Fails(error) };
        }
        let all: u64 = self.counts.values().sum();
        let of_kind = self.counts.entry(operation).or_default();
        let before = *of_kind;
        *of_kind += 1;
        let (failure, refusal) = (self.faults.failure, self.faults.refusal);
        if let Some(it) = failure.filter(|it| it.due().meets(operation, all, before)) {
            return Fate::Fails(it.kind.into());
        }
        if let Some(it) = refusal.filter(|it| it.due().meets(operation, all, before)) {
            return Fate::Fails(it.reason.error());
        }
        match operation {
            Operation::Read => self.of_read(before),
            Operation::Write => self.of_write(before),
            _ => Fate::Happens,
        }
    }

    fn of_read(&self, before: u64) -> Fate {
        if self.faults.short_read_after == Some(before) {
            return Fate::Short(io::ErrorKind::UnexpectedEof.into());
        }
        match self.faults.flip {
            Some(Flip { after, bit }) if after == before => Fate::Flipped(bit),
            _ => Fate::Happens,
        }
    }

    fn of_write(&self, before: u64) -> Fate {
        if self.faults.lost_write_after == Some(before) {
            return Fate::Lost;
        }
        if self.faults.misdirected_write_after == Some(before) {
            return Fate::Misdirected;
        }
        Fate::Happens
    }
}

/// Operations that a fault affects.
#[derive(Clone, Copy)]
struct Due {
    operation: Option<Operation>,
    after: u64,
    lasting: Lasting,
}

impl Failure {
    fn due(&self) -> Due {
        Due { operation: self.operation, after: self.after, lasting: self.lasting }
    }
}

impl Refusal {
    fn due(&self) -> Due {
        Due { operation: self.operation, after: self.after, lasting: self.lasting }
    }
}

impl Due {
    /// Whether the fault affects an operation after `all` others, `of_kind` of its own kind.
    fn meets(&self, operation: Operation, all: u64, of_kind: u64) -> bool {
        let count = match self.operation {
            None => all,
            Some(kind) if kind == operation => of_kind,
            Some(_) => return false,
        };
        match self.lasting {
            Lasting::Once => count == self.after,
            Lasting::FromThenOn => count >= self.after,
        }
    }
}

/// A held file; dropping this ends the count.
#[derive(Debug)]
pub(super) struct Held(Fates);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.lock().held -= 1;
    }
}
