//! Builds the index from footers.
//!
//! - **How.** The index is built in parts, a thread each ([`Index::part`]). Segment after segment,
//!   each row is added unless the index points at a newer version, or a deletion of the same
//!   segment killed it. Then the other deletions are applied ([`row_versions`](crate::row_versions)
//!   defines which version counts and what a deletion kills). Threads also read footers ahead and
//!   sort the rows of a few of them by shard of the index ([`Relay`](super::ordered_work::Relay)),
//!   to keep the lines of a shard in the cache.
//!
//! ```text
//!  footers ──read──► rows by shard ──► part 0, thread 0  ─┐
//!  of some segments      │        └──► part 1, thread 1  ─┴─► the index
//! ```
//!
//! - **Invariants.**
//!   - SSD-I15: every shard gets its rows in the order they were put, and no place has more bits
//!     than expected: so places, counts and bytes don't depend on threads or sorting. If a part is
//!     full before the whole index would be, one thread tries again, and its result counts.
//! - **Bounds.** For each thread the footer of a segment, a map of its deletions, and the rows of
//!   some segments ([`StoreOptions::rows_together`]) twice, sorted and not; one more such list; and
//!   [`StoreOptions::deletions_held`] deletions in all; those of further segments are read again.

mod attempt;
mod loader;
mod read_segment;

use std::sync::Arc;

use stepwell_base::scatter::Scatter;
use stepwell_disk::Disk;
use tracing::debug;

use self::attempt::Order;
pub(crate) use self::attempt::listed_bytes;
use self::loader::Loader;
pub(in crate::store) use self::loader::{file_places, find};
pub(in crate::store) use self::read_segment::{Loaded, Read, own_deletions, read_segment};
use crate::index::Index;
use crate::manifest::{MANIFEST_NAME, Manifest};
use crate::options::StoreOptions;
use crate::segment::SegmentFile;
use crate::stats::Counters;
use crate::{Error, Result};

/// Number of secrets under which an index grown from empty is tried.
const SECRETS_MAX: u32 = 4;
/// Opens the segments that the manifest names; reads and checks everything but pages. `files` are
/// the segments' files in order, if they are open already.
pub(in crate::store) fn load(
    disks: &[Arc<dyn Disk>],
    options: &StoreOptions,
    manifest: &Manifest,
    counters: &Counters,
    files: Option<Vec<Arc<SegmentFile>>>,
) -> Result<Loaded> {
    let loaded = count(disks, options, manifest, counters, files)?;
    check_rows(loaded.index.rows(), manifest, &*disks[0])?;
    Ok(loaded)
}

/// [`load`] for a manifest whose number of rows is a guess.
pub(in crate::store) fn count(
    disks: &[Arc<dyn Disk>],
    options: &StoreOptions,
    manifest: &Manifest,
    counters: &Counters,
    files: Option<Vec<Arc<SegmentFile>>>,
) -> Result<Loaded> {
    let loader = Loader::new(disks, options, manifest, counters, files)?;
    let hint = manifest.rows.max(options.rows_hint);
    // Planned for its rows, each shard is rounded up; grown from empty, as when the rows were put,
    // it takes as much as then. Another secret takes a little more or less: if most rows fit,
    // others are tried.
    let mut loaded = loader.load(hint);
    let tries = if options.index_seed.is_none() { SECRETS_MAX } else { 1 };
    for number in 0..tries {
        match loaded {
            Err(Error::IndexFull { rows, .. }) if number == 0 || rows > manifest.rows / 4 * 3 => {
                debug!(store = %disks[0].path().display(), tries = number + 1, "index is rebuilt");
                loaded = loader.load(0);
            }
            _ => break,
        }
    }
    loaded
}

impl Loader<'_> {
    /// Loads into an index planned for `hint` rows, or grown row by row if that is 0.
    fn load(&self, hint: u64) -> Result<Loaded> {
        let scatter = Scatter::new(self.options.index_seed);
        // Grown row by row, a shard depends on the progress of all others: only one thread will do.
        let threads = self.options.threads_opening(self.manifest.rows_all());
        let threads = if hint == 0 { 1 } else { threads };
        match self.load_with(hint, scatter, threads) {
            // A part was full; one thread finds out whether the whole index is.
            Err(Error::IndexFull { .. }) if threads > 1 => self.load_with(hint, scatter, 1),
            loaded => loaded,
        }
    }

    fn load_with(&self, hint: u64, scatter: Scatter, threads: usize) -> Result<Loaded> {
        let layout = self.manifest.layout();
        let rows_expected = self.manifest.rows_all().max(hint.saturating_mul(2));
        let places = rows_expected / u64::from(layout.rows_per_page) + 8 * u64::from(self.pages);
        // No loaded row has a place above these (SSD-I15).
        let loaded = self.owners.len() as u64 * u64::from(self.pages);
        let places = if hint == 0 { 0 } else { places.max(loaded) };
        let bytes_max = self.options.index_bytes_max;
        let index = Index::new(bytes_max, hint, places, scatter);
        // An index grown row by row reaches the same size only if rows come in the same order.
        let order = if hint == 0 { Order::AsPut } else { Order::ByShard };
        attempt::run(self, index, bytes_max, threads, order)
    }
}

/// Checks the number of rows against a manifest in `home`.
pub(in crate::store) fn check_rows(found: u64, manifest: &Manifest, home: &dyn Disk) -> Result<()> {
    if found == manifest.rows {
        return Ok(());
    }
    let why = format!("{found} rows were found, the manifest counts {}", manifest.rows);
    Err(Error::Damaged { path: home.path().join(MANIFEST_NAME), offset: 0, why })
}

/// The options with the pages and key shards that the store was made with.
pub(super) fn as_made(options: StoreOptions, manifest: &Manifest) -> StoreOptions {
    let (page_bytes, key_shards) = (manifest.page_bytes as usize, manifest.key_shards);
    StoreOptions { page_bytes, key_shards, ..options }
}

/// Checks a store as opening it would: reads everything but pages.
pub(crate) fn verify(
    disks: &[Arc<dyn Disk>],
    manifest: &Manifest,
    options: &StoreOptions,
    counters: &Counters,
) -> Result<()> {
    load(disks, options, manifest, counters, None).map(drop)
}
