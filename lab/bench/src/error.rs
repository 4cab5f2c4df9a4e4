//! Errors of benchmarks.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A disk error.
    #[error(transparent)]
    Disk(#[from] stepwell_disk::Error),
    /// A store error.
    #[error(transparent)]
    Store(#[from] stepwell_ssd::Error),
    /// No slot for a row.
    #[error(transparent)]
    NoPlace(#[from] stepwell_mem::NoPlace),
    /// The arguments cannot be.
    #[error("{0}")]
    Arguments(String),
    /// A device refused.
    #[error(transparent)]
    Device(#[from] stepwell_device::Error),
    /// A kernel's result differs from plain loops.
    #[error("kernel {kernel} computed a wrong result, from element {at} on")]
    WrongKernel {
        /// Name of the kernel.
        kernel: String,
        /// First wrong element.
        at: usize,
    },
    /// A row was read back with different bytes.
    #[error("a wrong row was read: key {key:016x}, {why}")]
    WrongRow {
        /// Key of the row.
        key: u64,
        /// How the row differs.
        why: String,
    },
}
