//! What goes wrong, and when.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use crate::Operation;

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

/// An operation that the system refuses, with the error that it gives then.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// The kind to count; all kinds where there is none.
    pub operation: Option<Operation>,
    /// How many of the kind succeed before.
    pub after: u64,
    /// What the system says.
    pub reason: Reason,
    /// Whether it goes away.
    pub lasting: Lasting,
}

/// Why the system refuses an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `ENOSPC`: the disk is full.
    DiskFull,
    /// `EDQUOT`: a user's part of the disk is.
    QuotaUsedUp,
    /// `EMFILE`: the process has as many files open as it may.
    TooManyOpenFiles,
    /// `ENFILE`: the system has.
    TooManyOpenFilesInAll,
    /// `EIO`: the device failed.
    DeviceError,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::DiskFull,
        Self::QuotaUsedUp,
        Self::TooManyOpenFiles,
        Self::TooManyOpenFilesInAll,
        Self::DeviceError,
    ];

    /// The system's error, by its number.
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
    /// How many reads are right before.
    pub after: u64,
    /// The bit of the bytes read, counted from the lowest of the first byte and round again.
    pub bit: u64,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// An operation that fails.
    pub failure: Option<Failure>,
    /// An operation that the system refuses.
    pub refusal: Option<Refusal>,
    /// How many files may be held at once: making or opening one more is refused as it is where
    /// the process has too many open.
    pub files_max: Option<u64>,
    /// After how many mutating operations the power is gone.
    pub cut_after: Option<u64>,
    /// After how many reads one finds the file's end half way.
    pub short_read_after: Option<u64>,
    /// A read that returns a wrong bit, without a word.
    pub flip: Option<Flip>,
    /// After how many writes one lands a block further on, without a word.
    pub misdirected_write_after: Option<u64>,
    /// After how many writes one does nothing, without a word.
    pub lost_write_after: Option<u64>,
    /// Whether files cannot be linked, as from one file system to another.
    pub no_links: bool,
    /// What every operation takes longer.
    pub delay: Duration,
}

/// What becomes of an operation.
#[derive(Debug)]
pub(super) enum Fate {
    Happens,
    /// Half a write happens, then nothing.
    Torn(io::Error),
    /// Half a read happens, then the file ends.
    Short(io::Error),
    /// A read happens, but for a bit.
    Flipped(u64),
    /// A write happens elsewhere.
    Misdirected,
    /// A write is said to happen.
    Lost,
    Fails(io::Error),
}

/// Faults and counts, shared by all that is reached from one faulty disk.
#[derive(Clone, Debug)]
pub(super) struct Fates(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    counts: BTreeMap<Operation, u64>,
    /// Operations that were not what they should have been.
    fired: u64,
    held: u64,
}

impl Fates {
    pub(super) fn new(faults: Faults) -> Self {
        Self(Arc::new(Mutex::new(State { faults, ..State::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin_anew(&self, faults: Faults) {
        let mut state = self.lock();
        (state.faults, state.counts, state.fired) = (faults, BTreeMap::new(), 0);
    }

    /// Room for another file that is held, unless there are as many as may be.
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

    /// What becomes of the next operation; takes the time of the delay.
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

/// Which operations are met.
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
    /// Whether it meets an operation with `all` before it, `of_kind` of its own kind.
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

/// One of the files that are held; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Held(Fates);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.lock().held -= 1;
    }
}
