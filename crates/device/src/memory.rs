//! Memory of a device, and host memory that it copies to and from.
//!
//! - **Invariants.** Device memory is never a slice on the host: it is identified by an address on
//!   the device, and only operations of streams access it. Pinned memory is a slice for the host as
//!   long as no conflicting operation is in flight, which each access asserts.
//! - **Life.** Memory is freed once it has no owners and no operation uses it.

#![expect(unsafe_code, reason = "memory that a driver gave is lent as a slice")]

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytemuck::Pod;

use crate::Result;
use crate::access::{Access, Mode, Touched};
use crate::pool::Pool;
use crate::shared::Shared;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    Pinned,
}

impl Kind {
    pub(crate) fn pool(self, of: &Shared) -> &Pool {
        match self {
            Self::Device => &of.memory,
            Self::Pinned => &of.pinned,
        }
    }
}

/// A region of memory.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) device: Arc<Shared>,
    pub(crate) address: u64,
    pub(crate) bytes: usize,
    pub(crate) id: u64,
    pub(crate) what: &'static str,
    pub(crate) kind: Kind,
}

impl Region {
    pub(crate) fn access(&self, mode: Mode, touched: Touched) -> Access {
        Access { region: self.id, bytes: self.bytes, mode, touched }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match self.kind {
            Kind::Device => self.device.driver.free(self.address, self.bytes),
            Kind::Pinned => self.device.driver.free_pinned(self.address, self.bytes),
        }
        self.kind.pool(&self.device).give_back(self.bytes);
        if let Some(checker) = &self.device.checker {
            checker.forget(self.id);
        }
    }
}

/// Memory of a device. // (len) of T
#[derive(Debug)]
pub struct Buffer<T> {
    pub(crate) region: Arc<Region>,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    pub(crate) fn of(region: Arc<Region>, len: usize) -> Self {
        Self { region, len, of: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Range of bytes of elements `range`.
    pub(crate) fn bytes(&self, range: Range<usize>) -> Range<usize> {
        bytes_of::<T>(range, self.len, self.region.what)
    }
}

fn bytes_of<T>(range: Range<usize>, len: usize, what: &str) -> Range<usize> {
    assert!(range.start <= range.end && range.end <= len, "{range:?} of {len} of {what}");
    range.start * size_of::<T>()..range.end * size_of::<T>()
}

/// Counts of operations in flight on pinned memory.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    reads: AtomicU32,
    writes: AtomicU32,
}

/// An operation in flight; dropping this ends it.
#[derive(Debug)]
pub(crate) struct Flight {
    of: Arc<Flights>,
    mode: Mode,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.of.counter(self.mode).fetch_sub(1, Ordering::Release);
    }
}

impl Flights {
    fn counter(&self, mode: Mode) -> &AtomicU32 {
        match mode {
            Mode::Read => &self.reads,
            Mode::Write | Mode::Atomic => &self.writes,
        }
    }
}

/// Host memory that streams copy to and from. // (len) of T
#[derive(Debug)]
pub struct Pinned<T> {
    pub(crate) region: Arc<Region>,
    pub(crate) flights: Arc<Flights>,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Pod> Pinned<T> {
    pub(crate) fn of(region: Arc<Region>, len: usize) -> Self {
        Self { region, flights: Arc::default(), len, of: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn bytes(&self, range: Range<usize>) -> Range<usize> {
        bytes_of::<T>(range, self.len, self.region.what)
    }

    /// Begins an operation.
    pub(crate) fn fly(&self, mode: Mode) -> Flight {
        self.flights.counter(mode).fetch_add(1, Ordering::Relaxed);
        Flight { of: Arc::clone(&self.flights), mode }
    }

    /// The first `len` elements, for reading.
    ///
    /// # Errors
    /// If an earlier operation's writes are not ordered before this.
    ///
    /// # Panics
    /// If an operation that writes here is not over, because nobody waited for it.
    #[track_caller]
    pub fn read(&mut self, len: usize) -> Result<&[T]> {
        self.check(len, Mode::Read)?;
        let address = self.region.address as usize as *const T;
        // SAFETY: the driver allocated this many bytes, initially zeros, aligned for any type; T is
        // plain data; no operation writes them, and none can begin while `self` is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(address, len) })
    }

    /// The first `len` elements, for writing.
    ///
    /// # Errors
    /// If an earlier operation is not ordered before this.
    ///
    /// # Panics
    /// If an operation that reads or writes here is not over, because nobody waited for it.
    #[track_caller]
    pub fn write(&mut self, len: usize) -> Result<&mut [T]> {
        self.check(len, Mode::Write)?;
        let address = self.region.address as usize as *mut T;
        // SAFETY: as for reading; no operation reads them either.
        Ok(unsafe { std::slice::from_raw_parts_mut(address, len) })
    }

    #[track_caller]
    fn check(&self, len: usize, mode: Mode) -> Result<()> {
        let bytes = self.bytes(0..len);
        if let Some(checker) = &self.region.device.checker {
            let access = self.region.access(mode, Touched::Bytes(bytes));
            checker.host(self.region.device.name(), self.region.what, access)?;
        }
        let writes = self.flights.writes.load(Ordering::Acquire);
        let reads = self.flights.reads.load(Ordering::Acquire);
        let clash = writes > 0 || mode == Mode::Write && reads > 0;
        assert!(!clash, "the host uses {} while it is copied", self.region.what);
        Ok(())
    }
}
