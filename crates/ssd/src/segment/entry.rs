//! Segments as manifests name them.

use serde::{Deserialize, Serialize};

use crate::numbers::SegmentNumber;

/// A segment as a manifest names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentEntry {
    /// Number of the segment.
    pub segment: u64,
    /// Rows in the segment, live and stale.
    pub rows: u32,
    /// Length of the segment's file, in bytes.
    pub bytes: u64,
    /// Checksum of the segment's tail, which covers all other sums in the file; 16 hexadecimal
    /// digits.
    pub checksum: String,
    /// Index of the segment's origin among the manifest's; `None` if this store made the segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<u32>,
    /// Number of the segment at its origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
}

impl SegmentEntry {
    /// A segment made by the manifest's store.
    pub(crate) fn new(segment: SegmentNumber, rows: u32, bytes: u64, checksum: String) -> Self {
        let segment = segment.into();
        Self { segment, rows, bytes, checksum, origin: None, number: None }
    }

    /// Number of the segment here.
    pub(crate) fn here(&self) -> SegmentNumber {
        SegmentNumber::of_manifest(self.segment)
    }

    /// The checksum as a number; 0 if it is not one, which no tail's checksum matches.
    pub(crate) fn sum(&self) -> u64 {
        u64::from_str_radix(&self.checksum, 16).unwrap_or_default()
    }
}
