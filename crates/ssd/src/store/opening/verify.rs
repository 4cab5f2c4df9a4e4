//! Extent of the checks when a store is made of a snapshot.

use stepwell_disk::Placed;

/// Extent to which segments are read and checked when a store is made of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Only the parts that opening reads: manifests, headers, tails, and in footers the lists and
    /// the blocks with keys of the new store, each against its checksum. Of copied segments, every
    /// byte.
    /// Other pages are checked when they are read. The cost grows with the number of rows, not with
    /// their bytes.
    #[default]
    Listed,
    /// Every byte of every segment.
    Everything,
}

impl Verify {
    /// Whether a segment is read completely if it was placed like this.
    pub(super) fn reads_all(self, placed: Placed) -> bool {
        self == Self::Everything || placed == Placed::Copied
    }
}
