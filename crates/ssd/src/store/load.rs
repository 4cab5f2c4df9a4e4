//! Building the index from footers.
//!
//! Which version of a row counts: the one with the highest birth, that is of the segment it was
//! first put into; of two with one birth the one in the segment with the higher number, and there
//! the later one. A deletion counts against the rows of earlier births, and of its own birth
//! against those before it. The rule does not ask in which order segments are read.
//!
//! Bounds   4 bytes for each page, and the deletions, until the store is open.

use std::collections::HashMap;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::scatter::Scatter;
use stepwell_disk::Disk;

use super::open::Disks;
use crate::index::{Ahead, Asked, Index, Place};
use crate::layout::Layout;
use crate::segment::{self, Deletion, Footer, SegmentFile, Tail};
use crate::stats::Counters;
use crate::table::{Sealed, Segment, Table};
use crate::{Error, MANIFEST_NAME, Manifest, Result, SegmentEntry, StoreOptions};

/// Stands for the birth of a page whose rows have several.
const MIXED: u32 = u32::MAX;
/// Secrets under which an index grown from nothing is tried.
const SECRETS_MAX: u32 = 4;

/// Rows that are added together.
const ROWS_AT_ONCE: usize = 4096;

/// A row as a footer lists it.
struct Listed {
    row: u32,
    key: Key,
    birth: u32,
}

/// An index being built.
pub(super) struct Loading<'a> {
    pub(super) index: Index,
    pub(super) table: Table,
    layout: Layout,
    counters: &'a Counters,
    /// Bytes of segments that may yet go through the page cache.
    cached_left: u64,
    /// The one birth of the rows on each page of each slot, or [`MIXED`].
    births: Vec<Vec<u32>>,
    sources: Vec<Source>,
    deletions: HashMap<Key, Deletion>,
}

/// A segment and the end of its footer.
struct Source {
    file: Arc<SegmentFile>,
    bytes: u64,
    tail: Tail,
    footer: Footer,
}

impl<'a> Loading<'a> {
    pub(super) fn load(
        disks: &Disks,
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
        disks: &Disks,
        options: &StoreOptions,
        manifest: &Manifest,
        counters: &'a Counters,
    ) -> Result<Self> {
        let layout = options.layout();
        let rows_most = manifest.segments.iter().map(|entry| entry.rows).max().unwrap_or(0);
        let pages = layout.pages(rows_most.max(options.segment_rows())).max(1);
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
            table: Table::new(pages),
            layout,
            counters,
            cached_left: options.cached_bytes,
            births: Vec::new(),
            sources: Vec::new(),
            deletions: HashMap::new(),
        };
        let homes = find(disks, manifest)?;
        for (entry, directory) in manifest.segments.iter().zip(homes) {
            options.go_on()?;
            loading.open(&*disks[directory], directory, entry)?;
        }
        for slot in 0..loading.sources.len() {
            options.go_on()?;
            loading.add(slot)?;
        }
        if loading.index.rows() != manifest.rows {
            let found = loading.index.rows();
            let why = format!("{found} rows are there, {} are named", manifest.rows);
            let path = disks[0].path().join(MANIFEST_NAME);
            return Err(Error::Damaged { path, offset: 0, why });
        }
        Ok(loading)
    }

    /// Reads the ends of a segment; slots are given in order of segment numbers.
    fn open(&mut self, disk: &dyn Disk, directory: usize, entry: &SegmentEntry) -> Result<()> {
        let cached = self.cached_left >= entry.bytes;
        self.cached_left -= if cached { entry.bytes } else { 0 };
        let file = Arc::new(SegmentFile::open_as(disk, directory, entry.segment, cached)?);
        let tail = file.check(&self.layout, entry, self.counters)?;
        let footer = file.footer(&self.layout, &tail, self.counters)?;
        for deletion in &footer.deletions {
            let newest = self.deletions.entry(deletion.key).or_insert(*deletion);
            if (newest.birth, newest.row) < (deletion.birth, deletion.row) {
                *newest = *deletion;
            }
        }
        self.sources.push(Source { file, bytes: entry.bytes, tail, footer });
        Ok(())
    }

    /// Adds the rows of a segment.
    fn add(&mut self, at: usize) -> Result<()> {
        let Source { file, bytes, tail, footer } = &self.sources[at];
        let (file, bytes, tail, footer) = (Arc::clone(file), *bytes, *tail, footer.clone());
        let birth_min = footer.runs.iter().map(|run| run.birth).min().unwrap_or(u32::MAX);
        let slot = self.table.insert(Segment::new(Arc::clone(&file), birth_min));
        assert!(slot as usize == at, "slots are given in order");
        self.births.push(Vec::with_capacity(self.layout.pages(tail.counts.rows) as usize));
        let (layout, counters) = (self.layout, self.counters);
        let mut rows = Vec::with_capacity(ROWS_AT_ONCE);
        file.for_each_key(&layout, &tail, &footer, counters, &mut |row, key, birth| {
            rows.push(Listed { row, key, birth });
            if rows.len() == ROWS_AT_ONCE { self.add_rows(slot, &mut rows) } else { Ok(()) }
        })?;
        self.add_rows(slot, &mut rows)?;
        let deleted_last = footer.deletions.iter().map(|deletion| deletion.birth).max();
        let sealed = Sealed { bytes, tail, deleted_last: deleted_last.unwrap_or(0) };
        self.table.seal(slot, sealed, birth_min, 0);
        Ok(())
    }

    /// Adds rows of one segment, asking for what they will need ahead.
    fn add_rows(&mut self, slot: u32, rows: &mut Vec<Listed>) -> Result<()> {
        let number = self.sources[slot as usize].file.number;
        let mut ahead = Ahead::new(&self.index, rows.len(), |at| rows[at].key);
        for listed in rows.iter() {
            let asked = ahead.next(&self.index);
            self.add_row(slot, number, listed, &asked)?;
        }
        rows.clear();
        Ok(())
    }

    fn add_row(&mut self, slot: u32, number: u64, listed: &Listed, asked: &Asked) -> Result<()> {
        let Listed { row, key, birth } = *listed;
        let page = self.layout.page_of(row);
        self.note_birth(slot, page, birth);
        self.table.appended(slot, 1);
        let dead = |deletion: &Deletion| {
            let own = deletion.birth == birth && number == u64::from(birth);
            birth < deletion.birth || (own && row < deletion.row)
        };
        if !self.deletions.is_empty() && self.deletions.get(&key).is_some_and(dead) {
            self.table.went_stale(slot);
            return Ok(());
        }
        let place = self.table.place(slot, page);
        let Some(old) = self.index.put_asked(asked, place)? else { return Ok(()) };
        if self.birth(old, key)? > birth {
            // The one that was there is newer after all.
            self.index.put_asked(asked, old)?;
            self.table.went_stale(slot);
        } else {
            let old = self.table.page(old).0;
            self.table.went_stale(old);
        }
        Ok(())
    }

    fn note_birth(&mut self, slot: u32, page: u32, birth: u32) {
        let births = &mut self.births[slot as usize];
        match births.get_mut(page as usize - 1) {
            None => births.push(birth),
            Some(noted) if *noted != birth => *noted = MIXED,
            Some(_) => {}
        }
    }

    /// The birth of the row of `key` at a place.
    fn birth(&self, place: Place, key: Key) -> Result<u32> {
        let (slot, page) = self.table.page(place);
        let noted = self.births[slot as usize][page as usize - 1];
        if noted != MIXED {
            return Ok(noted);
        }
        let Source { file, tail, footer, .. } = &self.sources[slot as usize];
        let rows = file.keys_of_page(&self.layout, tail, footer, page, self.counters)?;
        let birth = rows.iter().rev().find(|(of, _)| *of == key).map(|(_, birth)| *birth);
        birth.ok_or_else(|| file.damaged(0, "the footer changed while it was read"))
    }
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
