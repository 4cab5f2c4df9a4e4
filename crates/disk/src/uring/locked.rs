//! Limits the memory that this process registers with the system.
//!
//! - **Why.** Registered memory counts against the limit on locked memory (`ulimit -l`), as do the
//!   rings themselves, unless the process is privileged to lock more. A ring is more valuable than
//!   a registered arena, so arenas must leave room for rings.
//! - **How.** One count for the process. Without the privilege, arenas take at most half of the
//!   limit.
//! - **Concurrency.** `REGISTERED_BYTES` is atomic; a [`Share`] returns its bytes when dropped.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

static REGISTERED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes that may be registered while this exists.
#[derive(Debug)]
pub(super) struct Share(u64);

impl Share {
    /// Returns a share of `bytes` bytes; `None` if it would leave too little for rings.
    pub(super) fn take(bytes: u64) -> Option<Self> {
        Self::take_of(bytes, bytes_max())
    }

    fn take_of(bytes: u64, bytes_max: u64) -> Option<Self> {
        let add = |taken: u64| taken.checked_add(bytes).filter(|after| *after <= bytes_max);
        REGISTERED_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Self(bytes))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        REGISTERED_BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

fn bytes_max() -> u64 {
    let privileged =
        |sets: rustix::thread::CapabilitySets| sets.effective.contains(CapabilitySet::IPC_LOCK);
    if capabilities(None).is_ok_and(privileged) {
        return u64::MAX;
    }
    getrlimit(Resource::Memlock).current.map_or(u64::MAX, |limit| limit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded_and_given_back() {
        // Far above what rings of other tests take concurrently.
        const GIB: u64 = 1 << 30;
        let first = Share::take_of(60 * GIB, 100 * GIB).unwrap();
        assert!(Share::take_of(60 * GIB, 100 * GIB).is_none());
        let second = Share::take_of(30 * GIB, 100 * GIB).unwrap();
        drop(first);
        let third = Share::take_of(60 * GIB, 100 * GIB).unwrap();
        assert!(Share::take_of(u64::MAX, 100 * GIB).is_none(), "no overflow");
        drop((second, third));
        assert!(Share::take_of(99 * GIB, 100 * GIB).is_some());
    }
}
