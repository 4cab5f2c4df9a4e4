//! A device, as callers have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;
use stepwell_base::ByteCount;

use crate::check::Checker;
use crate::driver::Driver;
use crate::memory::{Kind, Region};
use crate::pool::Pool;
use crate::{Buffer, Error, Event, Pinned, Result, Stream};

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its kind and number, as settings and messages name it: `cuda:0`.
    pub name: String,
    /// What its maker calls it.
    pub model: String,
    /// Its number among those of its kind.
    pub number: usize,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Multiprocessors: how many blocks run side by side, roughly.
    pub processors: u32,
}

/// What all that belongs to a device shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) checker: Option<Arc<Checker>>,
    pub(crate) memory: Pool,
    pub(crate) pinned: Pool,
}

impl Shared {
    pub(crate) fn name(&self) -> &str {
        &self.driver.about().name
    }
}

/// Names of memory, so that the check of order never takes one for another.
static REGIONS: AtomicU64 = AtomicU64::new(0);

/// A device; clones are the same one.
#[derive(Clone, Debug)]
pub struct Device(pub(crate) Arc<Shared>);

impl Device {
    /// A device of `memory_bytes` bytes of its own and `pinned_bytes` of the host's, both at most;
    /// whose order is checked where there is a `checker`.
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        (memory_bytes, pinned_bytes): (u64, u64),
        checker: Option<Arc<Checker>>,
    ) -> Self {
        let memory = Pool::new(memory_bytes.min(driver.about().memory_bytes));
        Self(Arc::new(Shared { driver, checker, memory, pinned: Pool::new(pinned_bytes) }))
    }

    /// What it is.
    pub fn about(&self) -> &About {
        self.0.driver.about()
    }

    /// Bytes of its memory that it may have, that nobody has, and that it had at most.
    pub fn memory(&self) -> [ByteCount; 3] {
        let pool = &self.0.memory;
        [pool.bytes(), pool.free(), pool.peak()].map(ByteCount)
    }

    /// Bytes that a buffer of `bytes` bytes takes of the pool.
    pub fn bytes_counted(bytes: u64) -> u64 {
        Pool::counted(bytes as usize)
    }

    /// Memory for `len` elements, whose values are not to be relied on; `what` names it in
    /// messages.
    ///
    /// # Errors
    /// When the pool or the device has no room.
    pub fn buffer<T: Pod>(&self, len: usize, what: &'static str) -> Result<Buffer<T>> {
        Ok(Buffer::of(self.region(size_of::<T>().checked_mul(len), what, Kind::Device)?, len))
    }

    /// Memory of the host, zeros at first, that streams of this device copy to and from.
    ///
    /// # Errors
    /// When the pool or the host has no room.
    pub fn pinned<T: Pod>(&self, len: usize, what: &'static str) -> Result<Pinned<T>> {
        Ok(Pinned::of(self.region(size_of::<T>().checked_mul(len), what, Kind::Pinned)?, len))
    }

    pub(crate) fn region(
        &self,
        bytes: Option<usize>,
        what: &'static str,
        kind: Kind,
    ) -> Result<Arc<Region>> {
        let pool = kind.pool(&self.0);
        let no_room = || Error::OutOfMemory {
            device: self.0.name().to_owned(),
            what,
            wanted: ByteCount(bytes.map_or(u64::MAX, Pool::counted)),
            free: ByteCount(pool.free()),
            memory: ByteCount(pool.bytes()),
        };
        let bytes = bytes.filter(|bytes| pool.take(*bytes)).ok_or_else(no_room)?;
        let address = match kind {
            Kind::Device => self.0.driver.allocate(bytes),
            Kind::Pinned => self.0.driver.allocate_pinned(bytes),
        };
        let address = address.map_err(|mut error| {
            pool.give_back(bytes);
            if let Error::OutOfMemory { what: of_what, .. } = &mut error {
                *of_what = what;
            }
            error
        })?;
        let id = REGIONS.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Region { device: Arc::clone(&self.0), address, bytes, id, what, kind }))
    }

    /// A new stream, named in messages.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn stream(&self, name: &'static str) -> Result<Stream> {
        Stream::new(Arc::clone(&self.0), name)
    }

    /// A new event, which is over as long as nobody recorded it.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn event(&self) -> Result<Event> {
        Event::new(Arc::clone(&self.0))
    }

    /// Whether the order of accesses is checked: who tells which rows a kernel touches need not,
    /// where it is not.
    pub fn checks_order(&self) -> bool {
        self.0.checker.is_some()
    }

    /// Whether it multiplies.
    ///
    /// # Errors
    /// When it does not: what it lacks.
    pub fn multiplies(&self) -> Result<()> {
        self.0.driver.workspace_bytes().map(drop)
    }

    /// Whether `other` is the same device.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
