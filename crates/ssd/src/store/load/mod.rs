//! Builds the index from footers.
//!
//! - **How.** The index is built in parts, a thread each ([`Index::part`]). Segment after segment,
//!   each row is added unless the index points at a newer version, or a deletion of the same
//!   segment killed it. Then the other deletions are applied ([`versions`](crate::versions) defines
//!   which version counts and what a deletion kills). Threads also read footers ahead and sort the
//!   rows of a few of them by shard of the index ([`Relay`](super::relay::Relay)), to keep the
//!   lines of a shard in the cache.
//!
//! ```text
//!  footers ──read──► rows by shard ──► part 0, thread 0  ─┐
//!  of some segments      │        └──► part 1, thread 1  ─┴─► the index
//! ```
//!
//! - **Invariants.**
//!   - I1 Every shard gets its rows in the order they were put, and no place has more bits than
//!     expected: so places, counts and bytes don't depend on threads or sorting. If a part is full
//!     before the whole index would be, one thread tries again, and its result counts.
//! - **Bounds.** For each thread the footer of a segment, a map of its deletions, and the rows of
//!   some segments ([`StoreOptions::rows_together`]) twice, sorted and not; one more such list; and
//!   [`DELETIONS_HELD`] deletions in all: those of further segments are read again.

mod attempt;

use std::collections::HashMap;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::scatter::Scatter;
use stepwell_disk::Disk;

use attempt::Order;
pub(crate) use attempt::listed_bytes;

use crate::index::Index;
use crate::numbers::Slot;
use crate::segment::footer::Counting;
use crate::segment::{self, Deletion, SegmentFile, Spot};
use crate::stats::Counters;
use crate::table::{Sealed, Segment, Table};
use crate::versions::{Provenance, ROW_UNMOVED};
use crate::{Error, MANIFEST_NAME, Manifest, Result, SegmentEntry, StoreOptions};

/// Number of secrets under which an index grown from empty is tried.
const SECRETS_MAX: u32 = 4;
/// The most deletions that are kept from the first reading of footers.
pub(crate) const DELETIONS_HELD: usize = 1 << 20;

/// What an open store knows about its segments.
pub(super) struct Loaded {
    pub(super) index: Index,
    pub(super) table: Table,
}

/// A store being opened.
struct Loader<'a> {
    disks: &'a [Arc<dyn Disk>],
    options: &'a StoreOptions,
    manifest: &'a Manifest,
    counters: &'a Counters,
    /// Where the segments are, in order.
    sources: Vec<Source>,
    /// Number of places of a slot.
    pages: u32,
    /// The first slot of each segment; larger ones take several.
    firsts: Vec<Slot>,
    /// The segment of each slot, by its index in the manifest.
    owners: Vec<u32>,
}

/// A segment's file.
enum Source {
    Opened(Arc<SegmentFile>),
    At(Spot),
}

/// What is known about a segment whose footer was read.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) file: Arc<SegmentFile>,
    pub(super) provenance: Provenance,
    pub(super) sealed: Sealed,
    /// Rows that don't count here: rows of other key shards, and, if the listing left them out,
    /// rows killed by a deletion in the same segment.
    pub(super) uncounted: u32,
}

/// Opens what the manifest names; reads and checks everything but pages. `files` are its segments
/// in order, if they are open already.
pub(super) fn load(
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
pub(super) fn count(
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
                loaded = loader.load(0);
            }
            _ => break,
        }
    }
    loaded
}

impl<'a> Loader<'a> {
    fn new(
        disks: &'a [Arc<dyn Disk>],
        options: &'a StoreOptions,
        manifest: &'a Manifest,
        counters: &'a Counters,
        files: Option<Vec<Arc<SegmentFile>>>,
    ) -> Result<Self> {
        let layout = manifest.layout();
        let pages = layout.pages(options.segment_rows()).max(1);
        let (mut firsts, mut owners) = (Vec::new(), Vec::new());
        for (segment, entry) in (0..).zip(&manifest.segments) {
            firsts.push(Slot(owners.len() as u32));
            let span = Table::span_of(pages, layout.pages(entry.rows));
            owners.resize(owners.len() + span as usize, segment);
        }
        let sources = match files {
            Some(files) => files.into_iter().map(Source::Opened).collect(),
            None => spots(disks, options, manifest)?.into_iter().map(Source::At).collect(),
        };
        Ok(Self { disks, options, manifest, counters, sources, pages, firsts, owners })
    }

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
        // No loaded row has a place above these (I1).
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
pub(super) fn check_rows(found: u64, manifest: &Manifest, home: &dyn Disk) -> Result<()> {
    if found == manifest.rows {
        return Ok(());
    }
    let why = format!("{found} rows were found, the manifest counts {}", manifest.rows);
    Err(Error::Damaged { path: home.path().join(MANIFEST_NAME), offset: 0, why })
}

impl Known {
    /// Puts the segment into a slot; `stale` of the rows that count are stale.
    pub(super) fn insert_into(self, table: &mut Table, stale: u32) -> Slot {
        let Self { file, provenance, sealed, uncounted } = self;
        let (rows, pages) = (sealed.tail.counts.rows, file.layout.pages(sealed.tail.counts.rows));
        let segment =
            Segment { rows, live: rows - uncounted - stale, ..Segment::new(file, provenance) };
        let slot = table.insert(segment, pages);
        table.seal(slot, sealed, provenance, 0);
        slot
    }
}

/// A segment that was read.
pub(super) struct Read {
    pub(super) known: Known,
    /// Its rows that count, with their numbers, in order.
    pub(super) rows: Vec<(u32, Key)>,
    /// Its deletions that count.
    pub(super) deletions: Vec<Deletion>,
}

/// Reads a segment and checks it against its entry.
pub(super) fn read_segment(
    file: Arc<SegmentFile>,
    entry: &SegmentEntry,
    counters: &Counters,
) -> Result<Read> {
    let tail = file.check(entry, counters)?;
    let Counting { rows, deletions, provenance } = file.counting(&tail, counters)?;
    let deleted_last = deletions.iter().map(|deletion| deletion.birth).max();
    let sealed = Sealed { bytes: entry.bytes, tail, deleted_last };
    let uncounted = tail.counts.rows - rows.len() as u32;
    Ok(Read { known: Known { file, provenance, sealed, uncounted }, rows, deletions })
}

/// For each key with a deletion in the segment its rows were put into, the row number below which
/// the deletion kills them.
pub(super) fn own_deletions(deletions: &[Deletion], provenance: &Provenance) -> HashMap<Key, u32> {
    let mut own: HashMap<Key, u32> = HashMap::new();
    for Deletion { key, birth, row } in deletions {
        if !provenance.merged && *birth == provenance.number.birth() && *row < ROW_UNMOVED {
            let before = own.entry(*key).or_insert(*row);
            *before = (*before).max(*row);
        }
    }
    own
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

/// How to open each segment that the manifest names; the first ones use the page cache.
pub(super) fn spots(
    disks: &[Arc<dyn Disk>],
    options: &StoreOptions,
    manifest: &Manifest,
) -> Result<Vec<Spot>> {
    let mut cached_left = options.cached_bytes;
    let spot = |(entry, directory): (&SegmentEntry, usize)| {
        let cached = cached_left >= entry.bytes;
        cached_left -= if cached { entry.bytes } else { 0 };
        Spot { cached, ..manifest.spot(entry, directory) }
    };
    Ok(manifest.segments.iter().zip(find(disks, manifest)?).map(spot).collect())
}

/// The directory of each segment that the manifest names.
pub(super) fn find(disks: &[Arc<dyn Disk>], manifest: &Manifest) -> Result<Vec<usize>> {
    let mut homes = HashMap::new();
    for (directory, disk) in disks.iter().enumerate() {
        for name in disk.list()? {
            if let Some(number) = segment::number(&name) {
                homes.entry(number).or_insert(directory);
            }
        }
    }
    let lost = |entry: &&SegmentEntry| !homes.contains_key(&entry.segment);
    if let Some(first) = manifest.segments.iter().find(lost) {
        return Err(Error::Lost {
            path: disks[0].path().join(MANIFEST_NAME),
            count: manifest.segments.iter().filter(lost).count(),
            first: segment::name(first.here()),
            directories: manifest.directories.clone(),
        });
    }
    Ok(manifest.segments.iter().map(|entry| homes[&entry.segment]).collect())
}
