//! Result of a sweep.

use std::collections::HashSet;

use stepwell_base::Key;

use crate::numbers::SegmentNumber;
use crate::options::StoreOptions;
use crate::segment_sizes::Sizes;

/// A sweep may look for one key per this many bytes of the index.
const INDEX_BYTES_PER_KEY: u64 = 1024;
const KEYS_MIN: u64 = 2 << 10;
const KEYS_MAX: u64 = 4 << 20;
/// Bytes of a key in a sweep's map, which exists twice while it grows.
const KEY_BYTES: u64 = 40;

/// Result of a sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Deleted keys that no segment has a version of.
    pub(super) unneeded: HashSet<Key>,
    /// Numbers of the segments to merge, each alone, in reverse order.
    pub(super) todo: Vec<SegmentNumber>,
    /// Number of deletions when a sweep found nothing to merge; while it stays the same, there is
    /// no other sweep.
    pub(super) in_vain: Option<u64>,
}

impl Sweep {
    /// Whether no deletion of this key in the sweep's segments is needed: no segment has an older
    /// version, and any put since is newer. If the key was put and deleted since, the later
    /// deletion is needed, but it is in another segment.
    pub(super) fn is_unneeded(&self, key: Key) -> bool {
        self.unneeded.contains(&key)
    }

    /// The most keys that a sweep looks for; at least as many as a segment has deletions.
    pub(super) fn keys_max(options: &StoreOptions) -> u64 {
        let of_segment = 2 * Sizes::new(options).most(options.index_bytes_max).deletions();
        let keys = (options.index_bytes_max / INDEX_BYTES_PER_KEY).clamp(KEYS_MIN, KEYS_MAX);
        keys.max(of_segment.into())
    }

    /// The most bytes of a sweep.
    pub(crate) fn bytes_max(options: &StoreOptions) -> u64 {
        Self::keys_max(options) * KEY_BYTES
    }
}
