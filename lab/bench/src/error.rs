//! What can go wrong with a benchmark.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] stepwell_disk::Error),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] stepwell_ssd::Error),
    /// A row found no slot.
    #[error(transparent)]
    NoPlace(#[from] stepwell_mem::NoPlace),
    /// The arguments cannot be.
    #[error("{0}")]
    Arguments(String),
    /// A device refused.
    #[error(transparent)]
    Device(#[from] stepwell_device::Error),
    /// A kernel left something else than plain loops do.
    #[error("kernel {kernel} leaves something else than it should, from element {at} on")]
    WrongKernel {
        /// Its name.
        kernel: String,
        /// The first element that is wrong.
        at: usize,
    },
    /// A row came back with other bytes than were put.
    #[error("a wrong row came back: key {key:016x}, {why}")]
    WrongRow {
        /// Its key.
        key: u64,
        /// What is wrong.
        why: String,
    },
}
