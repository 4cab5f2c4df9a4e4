//! Salvaging every intact row of a damaged store into a new one.
//!
//! How      What lies where is taken from each segment's footer or, where that is damaged, from
//!          its whole pages; the version of a key that counts is found by the rule of loading. A
//!          row whose newest version is lost is lost: an older one is never put in its place. The
//!          rows that are left are then put into the new store, in the order of their segments.
//! Failure  Of a page without its checksum in a segment without its footer nobody knows which keys
//!          it had: such pages are counted, and older versions of their rows may be salvaged. With
//!          a footer its deletions are lost: rows that only they had deleted are back.
//!          A run that fails half-way leaves part of the rows in the new store: its caller makes
//!          that store where nobody takes it for the whole.
//! Bounds   A map of all keys: about 50 bytes each.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use stepwell_base::Key;
use stepwell_disk::{Disk, Error as DiskError, Operation};

use crate::check::{entries, locate};
use crate::layout::Layout;
use crate::lock;
use crate::segment::{self, Deletion, SegmentFile, page};
use crate::stats::Counters;
use crate::{Error, MANIFEST_NAME, Manifest, Result, Store, StoreOptions};

/// Rows that are put at once.
const PUT_ROWS: usize = 4096;

/// What was salvaged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Salvaged {
    /// Rows in the new store.
    pub rows: u64,
    /// Rows that are lost, and whose keys are known.
    pub rows_lost: u64,
    /// Some of their keys.
    #[serde(skip)]
    pub keys_lost: Vec<Key>,
    /// Damaged pages.
    pub pages_damaged: u64,
    /// Damaged pages whose keys nobody knows.
    pub pages_unknown: u64,
    /// Segments that are missing, or whose files cannot be opened.
    pub segments_lost: u64,
    /// Segments without a whole footer: rows of pages that are missing at their ends are lost, and
    /// so are their deletions.
    pub segments_unlisted: u64,
    /// Rows that the manifest says there were; 0 where it is lost.
    pub rows_named: u64,
    /// Whether the manifest was damaged or missing: segments that no commit named count too.
    pub manifest_lost: bool,
}

/// Keys of lost rows that are kept for the report at most.
const KEYS_LOST_MAX: usize = 100_000;

/// The newest version of a key that was seen.
#[derive(Clone, Copy)]
struct Version {
    birth: u32,
    number: u64,
    page: u32,
    /// Of two on one page, or in one segment, the later counts.
    row: u32,
}

struct Repair<'a> {
    layout: Layout,
    disks: &'a [Arc<dyn Disk>],
    numbers: Vec<u64>,
    newest: HashMap<Key, Version>,
    deletions: Vec<Deletion>,
    damaged: HashMap<(u64, u32), ()>,
    salvaged: Salvaged,
}

/// Salvages the store in `disks` into a new one in `into`, and commits that. Where the manifest is
/// whole it says which segments count; where it is not, all that lie there do. What comes of it is
/// as a snapshot is: nothing but a manifest and segments.
///
/// # Errors
/// When somebody has the store open; when nothing tells what rows these are; when there is a store
/// in `into`; or a disk refuses.
pub fn repair(
    disks: &[Arc<dyn Disk>],
    into: Arc<dyn Disk>,
    options: impl FnOnce(u32, usize) -> StoreOptions,
) -> Result<Salvaged> {
    let none = || Error::Options("a store needs at least one directory".to_owned());
    let home = disks.first().ok_or_else(none)?;
    refuse_source(disks, &*into)?;
    let _locks = lock::shared(disks)?;
    let (mut manifest_lost, mut rows_named) = (false, 0);
    let (layout, numbers, expire_before) = match Manifest::load(&**home) {
        Ok(manifest) => {
            rows_named = manifest.rows;
            let numbers = manifest.segments.iter().map(|entry| entry.segment).collect();
            (manifest.layout(), numbers, manifest.expire_before)
        }
        // What is damaged or missing can be done without; what cannot be read may be read later.
        Err(error @ (Error::Version { .. } | Error::Disk(_))) => return Err(error),
        Err(_) => {
            manifest_lost = true;
            (layout_of_any(disks)?, numbers_of_all(disks)?, 0)
        }
    };
    let store = Store::create(Arc::clone(&into), options(layout.table, layout.row_bytes))?;
    let mut repair = Repair {
        layout,
        disks,
        numbers,
        newest: HashMap::new(),
        deletions: Vec::new(),
        damaged: HashMap::new(),
        salvaged: Salvaged { manifest_lost, rows_named, ..Salvaged::default() },
    };
    repair.look()?;
    repair.delete();
    repair.count_lost();
    repair.put(&store, expire_before)?;
    store.commit()?;
    repair.salvaged.rows = store.len();
    drop(store);
    lock::remove(&*into)?;
    Ok(repair.salvaged)
}

impl Salvaged {
    /// Whether nothing is lost, as far as anything tells.
    pub fn is_whole(&self) -> bool {
        let unlisted = self.segments_lost + self.segments_unlisted + self.pages_damaged;
        unlisted == 0 && self.rows_lost == 0 && !self.manifest_lost && self.rows >= self.rows_named
    }
}

impl Repair<'_> {
    /// Finds the newest version of every key, and the damaged pages.
    fn look(&mut self) -> Result<()> {
        for number in self.numbers.clone() {
            let Some(file) = readable(self.disks, number)? else {
                self.salvaged.segments_lost += 1;
                continue;
            };
            let counters = Counters::new(self.disks.len());
            let listed = self.listed(&file, &counters)?;
            self.salvaged.segments_unlisted += u64::from(listed.is_none());
            let (layout, listed_rows) = (self.layout, listed.as_ref().map(Vec::len));
            let pages = pages_in(&file, &layout, listed_rows)?;
            let mut unlisted = 0;
            file.for_each_page(&layout, pages, &counters, &mut |page, bytes, whole| {
                if page > 0 {
                    self.look_at((number, page), bytes, whole, listed.as_deref());
                }
                // Behind the last whole page of a segment without a list lies what is left of it.
                unlisted += u64::from(!whole && listed.is_none());
                if whole {
                    self.salvaged.pages_damaged += unlisted;
                    self.salvaged.pages_unknown += unlisted;
                    unlisted = 0;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Keys and births as the footer says, where it is whole; notes its deletions.
    fn listed(
        &mut self,
        file: &SegmentFile,
        counters: &Counters,
    ) -> Result<Option<Vec<(Key, u32)>>> {
        let read = || -> Result<_> {
            let tail = file.tail(&self.layout, file.file.len()?, counters)?;
            let footer = file.footer(&self.layout, &tail, counters)?;
            Ok((entries(file, &self.layout, &tail, &footer, counters)?, footer))
        };
        match read() {
            Ok((keys, footer)) => {
                self.deletions.extend(footer.deletions);
                Ok(Some(keys))
            }
            Err(Error::Damaged { .. } | Error::Disk(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn look_at(
        &mut self,
        (number, page): (u64, u32),
        bytes: &[u8],
        whole: bool,
        listed: Option<&[(Key, u32)]>,
    ) {
        let first = self.layout.first_row(page);
        if !whole && listed.is_some() {
            self.damaged.insert((number, page), ());
            self.salvaged.pages_damaged += 1;
        }
        let rows = match listed {
            Some(listed) => self.layout.rows_on(page, listed.len() as u32),
            None if whole => rows_on_whole(bytes, &self.layout),
            None => 0,
        };
        for at in 0..rows {
            let row = first + at;
            let (key, birth) = match listed {
                Some(listed) => listed[row as usize],
                None => {
                    let row = page::row(bytes, &self.layout, at);
                    (row.key, row.birth)
                }
            };
            let version = Version { birth, number, page, row };
            let newest = self.newest.entry(key).or_insert(version);
            if (newest.birth, newest.number, newest.row) <= (birth, number, row) {
                *newest = version;
            }
        }
    }

    fn delete(&mut self) {
        for deletion in std::mem::take(&mut self.deletions) {
            let Some(newest) = self.newest.get(&deletion.key) else { continue };
            let own = newest.birth == deletion.birth && newest.number == u64::from(newest.birth);
            if newest.birth < deletion.birth || (own && newest.row < deletion.row) {
                self.newest.remove(&deletion.key);
            }
        }
    }

    fn count_lost(&mut self) {
        let damaged = &self.damaged;
        let lost = |version: &Version| damaged.contains_key(&(version.number, version.page));
        let keys = self.newest.iter().filter(|(_, version)| lost(version)).map(|(key, _)| *key);
        let mut keys: Vec<Key> = keys.collect();
        keys.sort_unstable();
        self.salvaged.rows_lost = keys.len() as u64;
        keys.truncate(KEYS_LOST_MAX);
        self.salvaged.keys_lost = keys;
    }

    /// Puts the rows that count and are whole.
    fn put(&mut self, store: &Store, expire_before: u32) -> Result<()> {
        store.expire_before(expire_before)?;
        let mut batch = Batch::default();
        let layout = self.layout;
        for number in &self.numbers {
            let Some(file) = readable(self.disks, *number)? else { continue };
            let counters = Counters::new(self.disks.len());
            let pages = pages_in(&file, &layout, None)?;
            file.for_each_page(&layout, pages, &counters, &mut |page, bytes, whole| {
                let rows = if whole && page > 0 { layout.rows_per_page } else { 0 };
                for at in 0..rows {
                    let row = page::row(bytes, &layout, at);
                    let here = |newest: &&Version| {
                        (newest.number, newest.page) == (*number, page)
                            && newest.row == layout.first_row(page) + at
                    };
                    if self.newest.get(&row.key).filter(here).is_some() {
                        batch.push(store, &row)?;
                    }
                }
                Ok(())
            })?;
        }
        batch.flush(store)
    }
}

/// Rows on their way into the new store.
#[derive(Default)]
struct Batch {
    keys: Vec<Key>,
    used: Vec<u32>,
    rows: Vec<u8>,
}

impl Batch {
    fn push(&mut self, store: &Store, row: &page::Row<'_>) -> Result<()> {
        self.keys.push(row.key);
        self.used.push(row.used);
        self.rows.extend_from_slice(row.payload);
        if self.keys.len() == PUT_ROWS { self.flush(store) } else { Ok(()) }
    }

    fn flush(&mut self, store: &Store) -> Result<()> {
        store.put_many(&self.keys, &self.used, &self.rows)?;
        self.keys.clear();
        self.used.clear();
        self.rows.clear();
        Ok(())
    }
}

/// Pages that may be read of a file, its footer taken for pages where nothing says better: those
/// then do not have their checksums, or hold rows that no version names.
fn pages_in(file: &SegmentFile, layout: &Layout, rows: Option<usize>) -> Result<u32> {
    let most = file.file.len()? / layout.page_bytes as u64;
    let known = rows.map_or(u64::MAX, |rows| 1 + u64::from(layout.pages(rows as u32)));
    Ok(most.min(known) as u32)
}

/// Rows of a whole page that nothing lists: those before the zeros at its end.
fn rows_on_whole(bytes: &[u8], layout: &Layout) -> u32 {
    let is_row = |at: &u32| page::row(bytes, layout, *at).birth != 0;
    (0..layout.rows_per_page).take_while(is_row).count() as u32
}

/// The file of a segment, where there is one that can be opened.
fn readable(disks: &[Arc<dyn Disk>], number: u64) -> Result<Option<SegmentFile>> {
    match locate(disks, number) {
        Err(Error::Disk(_)) => Ok(None),
        located => located,
    }
}

/// Refuses to salvage a store into one of its own directories.
fn refuse_source(disks: &[Arc<dyn Disk>], into: &dyn Disk) -> Result<()> {
    if into.exists(MANIFEST_NAME)? {
        return Err(Error::Exists { path: into.path().to_owned() });
    }
    let holds = into.list()?.iter().any(|name| segment::number(name).is_some());
    if holds || disks.iter().any(|disk| disk.path() == into.path()) {
        let path = into.path().display();
        return Err(Error::Options(format!("{path} holds segments: name an empty directory")));
    }
    Ok(())
}

fn numbers_of_all(disks: &[Arc<dyn Disk>]) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for disk in disks {
        numbers.extend(disk.list()?.iter().filter_map(|name| segment::number(name)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Table and row size as the first whole header says.
fn layout_of_any(disks: &[Arc<dyn Disk>]) -> Result<Layout> {
    for number in numbers_of_all(disks)? {
        let Some(file) = readable(disks, number)? else { continue };
        if let Some(layout) = segment::reader::layout_of(&file)? {
            return Ok(layout);
        }
    }
    let path = disks[0].path().join(MANIFEST_NAME);
    let error = std::io::Error::other("neither a manifest nor a segment's header is whole");
    Err(DiskError::io(Operation::Read, &path, error).into())
}
