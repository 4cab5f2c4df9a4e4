//! Sizes of segments, which grow with the store.
//!
//! - **Why.** Manifests name every segment, and merges and openings look at each one: many
//!   thousands are slow, millions impractical.
//! - **How.** Segments have the configured size until there are many
//!   ([`SEGMENTS_MANY`](crate::SEGMENTS_MANY)); then new ones, including results of merges, have
//!   twice the size, and so on. Smaller segments are merged into larger ones as they go stale.

use std::sync::OnceLock;

use crate::index;
use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::options::{SEGMENT_BYTES_MAX, SPACE_HARD, StoreOptions};
use crate::segment_table::Table;
use crate::space_target::Target;

/// The least bytes of a row in an index.
const INDEX_ROW_BYTES: u64 = 8;
/// A segment takes no more deletions once they exceed its rows divided by this.
const DELETIONS_PART: u32 = 4;
/// Number of keys deleted before the open segment's room is checked again.
pub(crate) const DELETED_AT_ONCE: u32 = 1024;

/// Sizes of a full segment.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// The most bytes of the segment's file.
    pub(crate) bytes: u64,
    pub(crate) rows: u32,
    layout: Layout,
    /// Space target with segments of this size, computed on first use: most sizes are never used.
    target: OnceLock<Target>,
}

impl Size {
    fn new(options: &StoreOptions, bytes: u64) -> Self {
        let layout = options.layout();
        Self { bytes, rows: layout.rows_max(bytes), layout, target: OnceLock::new() }
    }

    /// Space target with segments of this size.
    pub(crate) fn target(&self) -> &Target {
        self.target.get_or_init(|| Target::new(&self.layout, self.bytes))
    }

    /// Number of deletions above which a segment takes no more.
    pub(crate) fn deletions_before_end(&self) -> u32 {
        self.rows / DELETIONS_PART
    }

    /// The most deletions of a segment that is not merged.
    pub(crate) fn deletions(&self) -> u32 {
        self.deletions_before_end() + DELETED_AT_ONCE
    }
}

/// The sizes that a store's segments may have, in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    sizes: Vec<Size>,
    many: u64,
}

impl Sizes {
    pub(crate) fn new(options: &StoreOptions) -> Self {
        let doubled = |bytes: &u64| bytes.checked_mul(2).filter(|more| *more <= SEGMENT_BYTES_MAX);
        let all = std::iter::successors(Some(options.segment_bytes), doubled);
        let sizes = all.map(|bytes| Size::new(options, bytes)).collect();
        Self { sizes, many: options.segments_many.max(1) }
    }

    /// The configured size.
    pub(crate) fn least(&self) -> &Size {
        &self.sizes[0]
    }

    /// The size for a store whose files take `bytes_files` bytes.
    pub(crate) fn at(&self, bytes_files: u64) -> &Size {
        let enough = |size: &&Size| bytes_files / size.bytes < self.many;
        self.sizes.iter().find(enough).unwrap_or(&self.sizes[self.sizes.len() - 1])
    }

    /// The most rows that an index of `index_bytes_max` bytes holds.
    pub(crate) fn index_rows(index_bytes_max: u64) -> u64 {
        index_bytes_max / INDEX_ROW_BYTES
    }

    /// The largest size of segments whose rows fit an index of `index_bytes_max` bytes.
    pub(crate) fn most(&self, index_bytes_max: u64) -> &Size {
        let rows = Self::index_rows(index_bytes_max) as f64;
        self.at((rows * self.least().target().row_full() * SPACE_HARD) as u64)
    }
}

impl StoreOptions {
    /// Bytes of an index for the rows of `stores`, merged into one store that gets no more rows.
    pub fn index_bytes_of(&self, stores: &[Manifest]) -> u64 {
        let layout = stores.first().map_or_else(|| self.layout(), Manifest::layout);
        let pages = layout.pages(self.segment_rows()).max(1);
        let entries = stores.iter().flat_map(|store| &store.segments);
        let slots = entries.map(|entry| Table::span_of(pages, layout.pages(entry.rows)));
        // Plus slots that an open store adds.
        let slots = slots.map(u64::from).sum::<u64>() + 8;
        let rows = stores.iter().map(Manifest::rows_all).sum();
        index::bytes_enough(rows, slots * u64::from(pages)).max(Self::INDEX_BYTES_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SEGMENTS_MANY;

    #[test]
    fn segments_grow_with_the_store() {
        let options = StoreOptions::new(0, 256);
        let sizes = Sizes::new(&options);
        let at = |bytes: u64| sizes.at(bytes).bytes >> 20;
        assert_eq!([at(0), at(200 << 30), at(256 << 30), at(1 << 40)], [64, 64, 128, 512]);
        assert_eq!(at(30 << 40), 8 << 10);
        assert_eq!(at(u64::MAX), 64 << 10, "and no further");
        assert!(((30u64 << 40) / sizes.at(30 << 40).bytes) < SEGMENTS_MANY);
        assert_eq!(sizes.most(1 << 30).bytes, 64 << 20);
        assert!(sizes.most(64 << 30).bytes > 64 << 20);
    }
}
