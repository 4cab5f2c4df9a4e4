//! What a parameter server did for its application.

use crate::operation::What;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Bytes that were copied to the application's memory: data that is not pinned, and refreshes
    /// of caches that are.
    pub bytes_up: u64,
    /// Bytes that were copied from it: data that is not pinned, and updates from a device.
    pub bytes_down: u64,
    /// Bytes of updates that were sent to shards, the own one included.
    pub bytes_pushed: u64,
    /// Bytes of rows that came from shards, the own one included.
    pub bytes_pulled: u64,
    /// Accesses of local data that was not fetched, as the application said.
    pub fetches_avoided: u64,
    /// Bytes of these.
    pub fetch_bytes_avoided: u64,
    /// Accesses of local data that was not saved, as the application said.
    pub saves_avoided: u64,
    /// Bytes of these.
    pub save_bytes_avoided: u64,
    /// Accesses of local data that was handed out where it lies.
    pub handed_out: u64,
    /// Accesses of local data that was not fetched, since a buffer still had it.
    pub handed_over: u64,
    /// Requests that were foreseen.
    pub foreseen: u64,
    /// Requests that were not.
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
