//! Identity of data.

/// Distinguishes data from other data, and from later versions of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Length.
    pub(crate) bytes: u64,
    /// Modification time, in nanoseconds since 1970.
    pub(crate) modified: i64,
    /// Version of an object, as reported by its server.
    pub(crate) version: String,
}
