//! What can go wrong, one line each.

use stepwell_base::{ByteCount, NO_THREAD};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operating error of the parameter server.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another rank is gone, or the way to it.
    #[error(transparent)]
    Fabric(#[from] stepwell_fabric::Error),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] stepwell_device::Error),
    /// A setting that cannot be.
    #[error("{0}")]
    Setting(String),
    /// A key that its table does not have.
    #[error("table '{table}' has no key {key}; it was given {rows} keys")]
    NoKey {
        /// The table's name.
        table: String,
        /// The key.
        key: u64,
        /// How many it has.
        rows: usize,
    },
    /// A table of another number.
    #[error("there is no table {number}: {count} were set up")]
    NoTable {
        /// The number.
        number: usize,
        /// Tables there are.
        count: usize,
    },
    /// Less memory than double buffering needs.
    #[error(
        "{budget} bytes of memory are less than twice the {peak} bytes that the application uses \
         at its peak, which are {most}: 2 x {peak} = {need} bytes are needed beside {indexes} \
         bytes of indexes; raise the budget to {total} bytes, or access less at once"
    )]
    Budget {
        /// Bytes there are.
        budget: u64,
        /// Bytes in use at the peak.
        peak: u64,
        /// What is in use there.
        most: String,
        /// Twice that.
        need: u64,
        /// What indexes take on the device.
        indexes: u64,
        /// What would do.
        total: u64,
    },
    /// An access that could never be served.
    #[error(
        "an access of {wanted} ({what}) beside {held} that the application holds is more than \
         the {pool} of access buffers: release some first, or raise the budget"
    )]
    TooLarge {
        /// Bytes asked for.
        wanted: ByteCount,
        /// For what.
        what: String,
        /// Bytes that were not given back.
        held: ByteCount,
        /// Bytes of all buffers.
        pool: ByteCount,
    },
    /// Local data is held and asked for again.
    #[error("local data '{0}' is held by the application: release it before it is accessed again")]
    Twice(String),
    /// A worker that never waits went too far ahead.
    #[error(
        "table '{table}' is {clocks} clocks ahead of its shards, the most there may be: read or \
         pre-update it before its next clock, which waits for them"
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
        /// Which.
        call: &'static str,
        /// Why not.
        why: String,
    },
    /// Ranks were set up unlike.
    #[error(
        "rank {rank} has another table '{table}' than this one: name, keys, row length, initial \
         values and order of updates must be alike"
    )]
    Unlike {
        /// Who.
        rank: usize,
        /// The table's name.
        table: String,
    },
    /// A thread did not start.
    #[error("no thread for {name}: {why}{NO_THREAD}")]
    NoThread {
        /// For whom.
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
