//! Bounds of a reader: memory, concurrent requests, tries, time.

use std::time::Duration;

/// Bounds of all requests.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most bytes of a range that is requested ahead.
    pub range_bytes: u64,
    /// The most ranges in flight of one reader.
    pub ranges: usize,
    /// The most tries of a request.
    pub tries: u32,
    /// Time limit for making a connection.
    pub connect: Duration,
    /// Time limit for one request; if it returned bytes by then, the next one continues after them.
    pub request: Duration,
    /// Wait before the second try; each following one is twice as long, up to [`Self::wait_most`].
    pub wait: Duration,
    /// The longest wait between two tries.
    pub wait_most: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            range_bytes: 8 << 20,
            ranges: 4,
            tries: 6,
            connect: Duration::from_secs(10),
            request: Duration::from_secs(60),
            wait: Duration::from_millis(200),
            wait_most: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Wait after `tried` tries.
    pub(crate) fn wait_before(&self, tried: u32) -> Duration {
        self.wait.saturating_mul(1 << tried.saturating_sub(1).min(16)).min(self.wait_most)
    }
}
