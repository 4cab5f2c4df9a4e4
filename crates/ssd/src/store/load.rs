//! Building the index from footers.
//!
//! How      Segment after segment, each row is pointed at unless what is pointed at already is
//!          newer, or a deletion of the same segment killed it; then the other deletions, which
//!          kill what is left. Which of two versions counts and what a deletion kills is
//!          [`rule`](crate::rule)'s to say.
//! Bounds   The footer of one segment and a map of its deletions, and [`DELETIONS_HELD`] deletions
//!          of all; those of more segments are read a second time.

use std::collections::HashMap;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::scatter::Scatter;
use stepwell_disk::{Buffer, Disk};

use crate::index::{Ahead, Index};
use crate::rule::{Lie, ROW_UNMOVED};
use crate::segment::footer::Counting;
use crate::segment::reader::row_of;
use crate::segment::{self, Deletion, SegmentFile, Spot};
use crate::stats::Counters;
use crate::table::{Sealed, Segment, Table};
use crate::{Error, MANIFEST_NAME, Manifest, Result, SegmentEntry, StoreOptions};

/// Secrets under which an index grown from nothing is tried.
const SECRETS_MAX: u32 = 4;
/// Rows that are added together.
const ROWS_AT_ONCE: usize = 4096;
/// Deletions that are kept from the first time that footers are read.
pub(crate) const DELETIONS_HELD: usize = 1 << 20;

/// An index being built.
pub(super) struct Loading<'a> {
    pub(super) index: Index,
    pub(super) table: Table,
    counters: &'a Counters,
    /// Bytes of segments that may yet go through the page cache.
    cached_left: u64,
    /// Deletions of some slots.
    deletions: Vec<Option<Vec<Deletion>>>,
    deletions_held: usize,
    /// The page that was read last to tell whether a row is dead.
    page: Option<((u32, u32), Buffer)>,
}

impl<'a> Loading<'a> {
    pub(super) fn load(
        disks: &[Arc<dyn Disk>],
        options: &StoreOptions,
        manifest: &Manifest,
        counters: &'a Counters,
    ) -> Result<Self> {
        let loaded = Self::count(disks, options, manifest, counters)?;
        let (found, named) = (loaded.index.rows(), manifest.rows);
        if found != named {
            let why = format!("{found} rows are there, {named} are named");
            let path = disks[0].path().join(MANIFEST_NAME);
            return Err(Error::Damaged { path, offset: 0, why });
        }
        Ok(loaded)
    }

    /// The same of a manifest that only guesses how many rows there are.
    pub(super) fn count(
        disks: &[Arc<dyn Disk>],
        options: &StoreOptions,
        manifest: &Manifest,
        counters: &'a Counters,
    ) -> Result<Self> {
        let hint = manifest.rows.max(options.rows_hint);
        // Planned for its rows at once, each shard is rounded up; grown from nothing, as it was
        // when they were put, it takes what it took then. Under another secret that is a little
        // more or less: where most rows fit, others get their turn.
        let mut loaded = Self::load_for(hint, disks, options, manifest, counters);
        let tries = if options.index_seed.is_none() { SECRETS_MAX } else { 1 };
        for number in 0..tries {
            match loaded {
                Err(Error::IndexFull { rows, .. })
                    if number == 0 || rows > manifest.rows / 4 * 3 =>
                {
                    loaded = Self::load_for(0, disks, options, manifest, counters);
                }
                _ => break,
            }
        }
        loaded
    }

    /// Loads into an index that is planned for `hint` rows, or grows row by row where that is 0.
    fn load_for(
        hint: u64,
        disks: &[Arc<dyn Disk>],
        options: &StoreOptions,
        manifest: &Manifest,
        counters: &'a Counters,
    ) -> Result<Self> {
        let layout = manifest.layout();
        let pages = layout.pages(options.segment_rows()).max(1);
        let rows_all: u64 = manifest.segments.iter().map(|entry| u64::from(entry.rows)).sum();
        let places = rows_all.max(hint.saturating_mul(2)) / u64::from(layout.rows_per_page);
        let places = if hint == 0 { 0 } else { places + 8 * u64::from(pages) };
        let mut loading = Self {
            index: Index::new(
                options.index_bytes_max,
                hint,
                places,
                Scatter::new(options.index_seed),
            ),
            table: Table::new(pages, disks.len()),
            counters,
            cached_left: options.cached_bytes,
            deletions: Vec::new(),
            deletions_held: 0,
            page: None,
        };
        let homes = find(disks, manifest)?;
        for (entry, directory) in manifest.segments.iter().zip(homes) {
            options.go_on()?;
            loading.add(&*disks[directory], manifest.spot(entry, directory), entry)?;
        }
        for (at, slot) in loading.table.in_order().into_iter().enumerate() {
            options.go_on()?;
            loading.delete(at, slot)?;
        }
        Ok(loading)
    }

    /// Adds a segment; slots are given in order of segment numbers.
    fn add(&mut self, disk: &dyn Disk, spot: Spot, entry: &SegmentEntry) -> Result<()> {
        let cached = self.cached_left >= entry.bytes;
        self.cached_left -= if cached { entry.bytes } else { 0 };
        let file = Arc::new(SegmentFile::open(disk, &Spot { cached, ..spot })?);
        let tail = file.check(entry, self.counters)?;
        let Counting { rows, deletions, lie } = file.counting(&tail, self.counters)?;
        let pages = file.layout.pages(tail.counts.rows);
        let slot = self.table.insert(Segment::new(Arc::clone(&file), lie), pages);
        // Rows that do not count are stale from the start.
        self.table.appended(slot, rows.len() as u32);
        self.table.appended_stale(slot, tail.counts.rows - rows.len() as u32);
        let own = own_deletions(&deletions, &lie);
        for rows in rows.chunks(ROWS_AT_ONCE) {
            self.add_rows(slot, rows, &own)?;
        }
        let deleted_last = deletions.iter().map(|deletion| deletion.birth).max();
        let sealed = Sealed { bytes: entry.bytes, tail, deleted_last: deleted_last.unwrap_or(0) };
        self.table.seal(slot, sealed, lie, 0);
        self.hold(deletions);
        Ok(())
    }

    /// Keeps a segment's deletions until all rows were added, as far as there is room.
    fn hold(&mut self, deletions: Vec<Deletion>) {
        let room = DELETIONS_HELD - self.deletions_held;
        let held = Some(deletions).filter(|deletions| deletions.len() <= room);
        self.deletions_held += held.as_ref().map_or(0, Vec::len);
        self.deletions.push(held);
    }

    /// Adds rows of one segment, asking for what they will need ahead.
    fn add_rows(&mut self, slot: u32, rows: &[(u32, Key)], own: &HashMap<Key, u32>) -> Result<()> {
        let segment = self.table.get(slot);
        let (layout, lie) = (segment.file.layout, segment.lie);
        let mut ahead = Ahead::new(&self.index, rows.len(), |at| rows[at].1);
        for (row, key) in rows {
            let asked = ahead.next(&self.index);
            if !own.is_empty() && own.get(key).is_some_and(|before| row < before) {
                self.table.went_stale(slot);
                continue;
            }
            let place = self.table.place(slot, layout.page_of(*row));
            let Some(old) = self.index.put_asked(&asked, place)? else { continue };
            let (of, _) = self.table.page(old);
            if of != slot && self.table.get(of).lie.is_newer(&lie) {
                self.index.put_asked(&asked, old)?;
                self.table.went_stale(slot);
            } else {
                self.table.went_stale(of);
            }
        }
        Ok(())
    }

    /// Lets the deletions of a segment kill what they do.
    fn delete(&mut self, at: usize, slot: u32) -> Result<()> {
        let held = self.deletions[at].take();
        let deletions = match held {
            Some(deletions) => deletions,
            None => {
                let segment = self.table.get(slot);
                let tail = segment.sealed.map(|sealed| sealed.tail).unwrap_or_default();
                segment.file.deletions(&tail, self.counters)?
            }
        };
        for deletion in deletions {
            let Some(place) = self.index.get(deletion.key) else { continue };
            let (of, page) = self.table.page(place);
            if self.is_dead(of, page, &deletion)? {
                self.index.remove(deletion.key);
                self.table.went_stale(of);
            }
        }
        Ok(())
    }

    /// Whether the version of a deletion's key on a page is dead by it.
    fn is_dead(&mut self, slot: u32, page: u32, deletion: &Deletion) -> Result<bool> {
        let segment = self.table.get(slot);
        let (file, lie, rows) = (Arc::clone(&segment.file), segment.lie, segment.rows);
        // What a deletion of the same segment kills was left out.
        if let Some(dead) = lie.is_dead((u32::MAX, u32::MAX), deletion) {
            return Ok(dead);
        }
        let bytes = match self.page.take().filter(|(of, _)| *of == (slot, page)) {
            Some((_, bytes)) => bytes,
            None => match file.page(page, self.counters) {
                Ok(bytes) => bytes,
                // Whoever wants the row is told; whether it is there, counting tells.
                Err(Error::Damaged { .. }) => return Ok(false),
                Err(error) => return Err(error),
            },
        };
        let found = row_of(&bytes, &file.layout, page, rows, deletion.key);
        let dead = found.is_some_and(|(at, row)| lie.is_dead_version(row.birth, at, deletion));
        self.page = Some(((slot, page), bytes));
        Ok(dead)
    }
}

/// Of each key the row before which a deletion in the segment that rows were put into killed what
/// lies there.
fn own_deletions(deletions: &[Deletion], lie: &Lie) -> HashMap<Key, u32> {
    let mut own: HashMap<Key, u32> = HashMap::new();
    for Deletion { key, birth, row } in deletions {
        if !lie.merged && *birth == lie.number && *row < ROW_UNMOVED {
            let before = own.entry(*key).or_insert(*row);
            *before = (*before).max(*row);
        }
    }
    own
}

/// The options of a store that keeps the pages and key shards that it was made with.
pub(super) fn as_made(options: StoreOptions, manifest: &Manifest) -> StoreOptions {
    let (page_bytes, key_shards) = (manifest.page_bytes as usize, manifest.key_shards);
    StoreOptions { page_bytes, key_shards, ..options }
}

/// What a reader of a manifest finds wrong, as opening would: everything but pages is read.
pub(crate) fn verify(
    disks: &[Arc<dyn Disk>],
    manifest: &Manifest,
    options: &StoreOptions,
    counters: &Counters,
) -> Result<()> {
    Loading::load(disks, options, manifest, counters).map(drop)
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
            first: segment::name(first.segment),
            directories: manifest.directories.clone(),
        });
    }
    Ok(manifest.segments.iter().map(|entry| homes[&entry.segment]).collect())
}
