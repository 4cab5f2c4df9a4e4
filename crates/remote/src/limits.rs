//! What a reader may take: memory, requests at once, tries, time.

use std::time::Duration;

/// Bounds of all requests.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of the ranges that are asked for ahead.
    pub range_bytes: u64,
    /// Ranges that are under way for one reader.
    pub ranges: usize,
    /// Times that something is asked for, before it is an error.
    pub tries: u32,
    /// The longest that making a connection takes.
    pub connect: Duration,
    /// The longest that one request takes; an answer that brought bytes until then is gone on with.
    pub request: Duration,
    /// The wait before the second try; each further one is twice as long, up to
    /// [`Self::wait_most`].
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
    /// The wait before try number `tried`, counted from 0.
    pub(crate) fn wait_before(&self, tried: u32) -> Duration {
        self.wait.saturating_mul(1 << tried.saturating_sub(1).min(16)).min(self.wait_most)
    }
}
