//! Statistics of a parameter server.

use crate::operation::What;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Bytes copied to the application's memory: data that is not pinned, and refreshes of pinned
    /// caches.
    pub bytes_up: u64,
    /// Bytes copied from it: data that is not pinned, and updates from a device.
    pub bytes_down: u64,
    /// Bytes of updates sent to shards, including this rank's own.
    pub bytes_pushed: u64,
    /// Bytes of rows received from shards, including this rank's own.
    pub bytes_pulled: u64,
    /// Accesses of local data that the application chose not to fetch.
    pub fetches_avoided: u64,
    /// Bytes of these accesses.
    pub fetch_bytes_avoided: u64,
    /// Accesses of local data that the application chose not to save.
    pub saves_avoided: u64,
    /// Bytes of these accesses.
    pub save_bytes_avoided: u64,
    /// Accesses of local data in place.
    pub handed_out: u64,
    /// Accesses of local data that a buffer still had, so that it was not fetched.
    pub handed_over: u64,
    /// Requests that were foreseen.
    pub foreseen: u64,
    /// Requests that were not foreseen.
    pub not_foreseen: u64,
    /// Seconds that the application waited in Read.
    pub read_seconds: f64,
    /// Seconds that it waited in PreUpdate.
    pub pre_update_seconds: f64,
    /// Seconds that it waited in LocalAccess.
    pub local_access_seconds: f64,
    /// The most bytes of the budget that were allocated at once.
    pub peak_bytes: u64,
}

impl Statistics {
    pub(crate) fn waited(&mut self, what: What, seconds: f64) {
        *match what {
            What::Read(..) => &mut self.read_seconds,
            What::PreUpdate(_) => &mut self.pre_update_seconds,
            What::Local(..) => &mut self.local_access_seconds,
        } += seconds;
    }
}
