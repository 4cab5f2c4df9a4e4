//! Errors of a simulation.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a simulation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The slab has no slot left for a row.
    #[error(transparent)]
    NoPlace(#[from] stepwell_mem::NoPlace),
    /// A trace cannot be read, or its curves cannot be drawn.
    #[error("{0}")]
    Trace(String),
    /// An argument is out of range.
    #[error("{0}")]
    Arguments(String),
}
