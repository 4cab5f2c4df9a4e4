//! A device, for callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;
use stepwell_base::ByteCount;

use crate::check::Checker;
use crate::driver::{About, Driver};
use crate::memory::{Buffer, Kind, Pinned, Region};
use crate::pool::Pool;
use crate::shared::Shared;
use crate::{Error, Result};

/// Last id of a memory region; ids are unique, so that the check of order confuses no regions.
static REGIONS: AtomicU64 = AtomicU64::new(0);

/// A device; clones refer to the same one.
#[derive(Clone, Debug)]
pub struct Device(pub(crate) Arc<Shared>);

impl Device {
    /// A device with at most `memory_bytes` of its own memory and `pinned_bytes` of the host's; a
    /// `checker`, if given, checks the order of accesses.
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        memory_bytes: u64,
        pinned_bytes: u64,
        checker: Option<Arc<Checker>>,
    ) -> Self {
        let memory = Pool::new(memory_bytes.min(driver.about().memory_bytes));
        Self(Arc::new(Shared { driver, checker, memory, pinned: Pool::new(pinned_bytes) }))
    }

    /// Describes the device.
    pub fn about(&self) -> &About {
        self.0.driver.about()
    }

    /// Bytes of its memory in the pool: total, free, and maximum used.
    pub fn memory(&self) -> [ByteCount; 3] {
        let pool = &self.0.memory;
        [pool.bytes(), pool.free(), pool.peak()].map(ByteCount)
    }

    /// Bytes of the pool that a buffer of `bytes` bytes takes.
    pub fn bytes_counted(bytes: u64) -> u64 {
        Pool::counted(bytes as usize)
    }

    /// Allocates memory for `len` elements with unspecified values; `what` names it in messages.
    ///
    /// # Errors
    /// If the pool or the device has no room.
    pub fn buffer<T: Pod>(&self, len: usize, what: &'static str) -> Result<Buffer<T>> {
        Ok(Buffer::of(self.region(size_of::<T>().checked_mul(len), what, Kind::Device)?, len))
    }

    /// Allocates zeroed host memory that streams of this device copy to and from.
    ///
    /// # Errors
    /// If the pool or the host has no room.
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

    /// Whether the order of accesses is checked; if not, callers needn't specify the rows that a
    /// kernel touches.
    pub fn checks_order(&self) -> bool {
        self.0.checker.is_some()
    }

    /// Checks that the device can multiply matrices.
    ///
    /// # Errors
    /// If it can't: what is missing.
    pub fn check_can_multiply(&self) -> Result<()> {
        self.0.driver.workspace_bytes().map(drop)
    }

    /// Whether `other` is the same device.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
