//! What can go wrong with a device.

use stepwell_base::ByteCount;

/// What can go wrong with a device.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool has no room for a buffer.
    #[error("{device}: no room for {what} ({wanted}): {free} of {memory} are free")]
    OutOfMemory {
        /// Which device.
        device: String,
        /// For what.
        what: &'static str,
        /// Bytes that were asked for.
        wanted: ByteCount,
        /// Bytes that nobody has.
        free: ByteCount,
        /// All bytes.
        memory: ByteCount,
    },
    /// The device is gone; nothing that was on it can be read any more.
    #[error("{device} is lost: {why}")]
    Lost {
        /// Which device.
        device: String,
        /// What its driver says.
        why: String,
    },
    /// A kernel failed, or could not be started.
    #[error("{device}: kernel {kernel} failed: {why}")]
    Kernel {
        /// Which device.
        device: String,
        /// Which kernel.
        kernel: &'static str,
        /// What its driver says.
        why: String,
    },
    /// Two accesses that nothing puts in order, of which one writes.
    #[error("{device}: {later} of {what} is not ordered after {earlier}")]
    Unordered {
        /// Which device.
        device: String,
        /// The memory.
        what: String,
        /// The access that came second.
        later: String,
        /// The one before.
        earlier: String,
    },
    /// A call of the driver failed.
    #[error("{device}: {call}: {why}")]
    Driver {
        /// Which device.
        device: String,
        /// Which call.
        call: &'static str,
        /// What it says.
        why: String,
    },
}

/// What a device comes to.
pub type Result<T> = std::result::Result<T, Error>;
