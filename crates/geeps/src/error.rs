//! Errors, one line each.

use stepwell_base::{ByteCount, NO_THREAD};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operating error of the parameter server.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another rank, or the connection to it, is gone.
    #[error(transparent)]
    Fabric(#[from] stepwell_fabric::Error),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] stepwell_device::Error),
    /// An invalid setting.
    #[error("{0}")]
    Setting(String),
    /// A key that its table does not have.
    #[error("table '{table}' has no key {key}; it was set up with {rows} keys")]
    NoKey {
        /// The table's name.
        table: String,
        /// The key.
        key: u64,
        /// Number of keys.
        rows: usize,
    },
    /// A table number that does not exist.
    #[error("there is no table {number}; the number of tables is {count}")]
    NoTable {
        /// The number.
        number: usize,
        /// Number of tables.
        count: usize,
    },
    /// Less memory than double buffering needs.
    #[error(
        "{budget} bytes of memory are less than twice the application's peak of {peak} bytes \
         ({most}): 2 x {peak} = {need} bytes are needed next to {indexes} bytes of indexes; raise \
         the budget to {total} bytes, or access less at once"
    )]
    Budget {
        /// Budget in bytes.
        budget: u64,
        /// Bytes in use at the peak.
        peak: u64,
        /// Data in use at the peak.
        most: String,
        /// Twice the peak.
        need: u64,
        /// Bytes of indexes on the device.
        indexes: u64,
        /// A sufficient budget.
        total: u64,
    },
    /// An access that could never be served.
    #[error(
        "an access of {wanted} ({what}) plus {held} that the application holds exceeds the {pool} \
         of access buffers: release some first, or raise the budget"
    )]
    TooLarge {
        /// Bytes requested.
        wanted: ByteCount,
        /// Purpose.
        what: String,
        /// Bytes that were not returned.
        held: ByteCount,
        /// Bytes of all buffers.
        pool: ByteCount,
    },
    /// Local data is requested while the application holds it.
    #[error("local data '{0}' is held by the application: release it before accessing it again")]
    Twice(String),
    /// A worker that never waits is too far ahead.
    #[error(
        "table '{table}' is {clocks} clocks ahead of its shards, which is the limit: read or \
         pre-update it before its next clock, so that it waits for them"
    )]
    Ahead {
        /// The table's name.
        table: String,
        /// Clocks that shards have not answered.
        clocks: u64,
    },
    /// A call at the wrong time, or with the wrong buffer.
    #[error("{call}: {why}")]
    Call {
        /// The call.
        call: &'static str,
        /// The reason.
        why: String,
    },
    /// Ranks have different tables.
    #[error(
        "table '{table}' of rank {rank} differs from this rank's: name, keys, row length, initial \
         values and order of updates must be equal"
    )]
    Unlike {
        /// The differing rank.
        rank: usize,
        /// The table's name.
        table: String,
    },
    /// A thread did not start.
    #[error("no thread for {name}: {why}{NO_THREAD}")]
    NoThread {
        /// The thread's purpose.
        name: &'static str,
        /// The system's reason.
        why: String,
    },
    /// A thread panicked.
    #[error("{0} panicked: this is a bug in stepwell")]
    Panicked(&'static str),
}

impl Error {
    pub(crate) fn call(call: &'static str, why: impl Into<String>) -> Self {
        Self::Call { call, why: why.into() }
    }

    pub(crate) fn malformed(rank: usize, why: stepwell_fabric::Malformed) -> Self {
        Self::Fabric(stepwell_fabric::Error::malformed(rank, why))
    }
}
