//! Errors of devices.

use stepwell_base::ByteCount;

/// An error of a device.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool has no room for a buffer.
    #[error("{device}: no room for {what} ({wanted}): {free} of {memory} are free")]
    OutOfMemory {
        /// Name of the device.
        device: String,
        /// Purpose of the memory.
        what: &'static str,
        /// Requested bytes.
        wanted: ByteCount,
        /// Free bytes.
        free: ByteCount,
        /// Total bytes.
        memory: ByteCount,
    },
    /// The device is gone; its contents can't be read any more.
    #[error("{device} is lost: {why}")]
    Lost {
        /// Name of the device.
        device: String,
        /// The driver's message.
        why: String,
    },
    /// A kernel failed, or could not be started.
    #[error("{device}: kernel {kernel} failed: {why}")]
    Kernel {
        /// Name of the device.
        device: String,
        /// Name of the kernel.
        kernel: &'static str,
        /// The driver's message.
        why: String,
    },
    /// Two unordered accesses, at least one of them a write.
    #[error("{device}: {later} of {what} is not ordered after {earlier}")]
    Unordered {
        /// Name of the device.
        device: String,
        /// The memory.
        what: String,
        /// The second access.
        later: String,
        /// The first access.
        earlier: String,
    },
    /// A call of the driver failed.
    #[error("{device}: {call}: {why}")]
    Driver {
        /// Name of the device.
        device: String,
        /// Name of the call.
        call: &'static str,
        /// The driver's message.
        why: String,
    },
}

/// Result of an operation on a device.
pub type Result<T> = std::result::Result<T, Error>;
