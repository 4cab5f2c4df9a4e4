//! Salvages every intact row of a damaged store into a new one.
//!
//! - **How.** The rows of each segment are found through its footer or, if that is damaged, its
//!   intact pages; the version of a key that counts is determined as at opening. A row whose newest
//!   version is lost is lost: an older version never replaces it. The remaining rows are then put
//!   into the new store, in the order of their segments.
//! - **Failure.** If a page and its segment's footer are both damaged, the page's keys are unknown:
//!   such pages are counted, and older versions of their rows may be salvaged. With a footer, its
//!   deletions are lost: rows that only they deleted reappear. A run that fails half-way leaves
//!   some rows in the new store, so callers must not place that store where it could be taken for
//!   complete.
//! - **Bounds.** A map of all keys: about 50 bytes each.

mod salvaged;
mod spots;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_disk::{Disk, Error as DiskError, Operation};
use tracing::info;

pub use self::salvaged::Salvaged;
use self::spots::{spots_named, spots_of_all};
use crate::check::Listed;
use crate::key_shard::KeyShardSet;
use crate::layout::Layout;
use crate::manifest::{MANIFEST_NAME, Manifest};
use crate::numbers::{Birth, Births, PageNumber, PageOf};
use crate::options::StoreOptions;
use crate::row_versions::{Deletion, Provenance};
use crate::segment::{self, PageRead, SegmentFile, Spot, page};
use crate::stats::Counters;
use crate::store::{Batch, Store};
use crate::{Error, Result, lock};

/// The most keys of lost rows that are kept for the report.
const KEYS_LOST_MAX: usize = 100_000;

/// The newest version of a key found so far.
#[derive(Clone, Copy)]
struct Version {
    /// Page of the version; the segment is an index into [`Repair::segments`].
    at: PageOf,
    row: u32,
    /// Birth of the version; `None` if unknown, on a damaged page.
    birth: Option<Birth>,
}

/// State of a segment during repair.
#[derive(Clone, Copy)]
struct Found {
    spot: Spot,
    provenance: Provenance,
}

struct Repair<'a> {
    disks: &'a [Arc<dyn Disk>],
    segments: Vec<Found>,
    newest: HashMap<Key, Version>,
    deletions: Vec<Deletion>,
    damaged: HashSet<PageOf>,
    salvaged: Salvaged,
}

/// Salvages the store in `disks` into a new one in `into`, and commits it. An intact manifest
/// decides which segments count; without one, all segments found do. The result, like a snapshot,
/// has only a manifest and segments.
///
/// # Errors
/// If the store is open; if nothing shows its table and row size; if `into` has a store or
/// segments; or if a disk fails.
pub fn repair(
    disks: &[Arc<dyn Disk>],
    into: Arc<dyn Disk>,
    options: impl FnOnce(u32, usize) -> StoreOptions,
) -> Result<Salvaged> {
    let none = || Error::Options("a store needs at least one directory".to_owned());
    let home = disks.first().ok_or_else(none)?;
    refuse_source(disks, &*into)?;
    let _locks = lock::shared(disks)?;
    let mut salvaged = Salvaged::default();
    let (layout, key_shards, spots, expire_before) = match Manifest::load(&**home) {
        Ok(manifest) => {
            salvaged.rows_named = manifest.rows;
            let spots = spots_named(disks, &manifest, &mut salvaged)?;
            (manifest.layout(), manifest.key_shards, spots, manifest.expire_before)
        }
        // Damaged or missing data is skipped, but what cannot be read now may be readable later.
        Err(error @ (Error::Version { .. } | Error::Disk(_))) => return Err(error),
        Err(_) => {
            salvaged.manifest_lost = true;
            let spots = spots_of_all(disks, &mut salvaged)?;
            let layout = spots.first().map(|spot| spot.layout);
            let layout = layout.ok_or_else(|| nothing_tells(&**home))?;
            (layout, KeyShardSet::ALL, spots, 0)
        }
    };
    let options = StoreOptions { key_shards, ..options(layout.table, layout.row_bytes) };
    let store = Store::create(Arc::clone(&into), options)?;
    let provenance = |spot: &Spot| {
        let number = spot.origin.number;
        let births = Births { least: Birth::MIN, greatest: number.birth() };
        Provenance { number, merged: true, births }
    };
    let mut repair = Repair {
        disks,
        segments: spots
            .into_iter()
            .map(|spot| Found { spot, provenance: provenance(&spot) })
            .collect(),
        newest: HashMap::new(),
        deletions: Vec::new(),
        damaged: HashSet::new(),
        salvaged,
    };
    repair.look()?;
    repair.delete();
    repair.count_lost();
    repair.put(&store, expire_before)?;
    store.commit()?;
    repair.salvaged.rows = store.len();
    drop(store);
    lock::remove(&*into)?;
    let Salvaged { rows, rows_lost, pages_damaged, segments_lost, .. } = repair.salvaged;
    let store = into.path().display();
    info!(%store, rows, rows_lost, pages_damaged, segments_lost, "rows repaired");
    Ok(repair.salvaged)
}

impl Repair<'_> {
    /// Finds the newest version of every key, and the damaged pages.
    fn look(&mut self) -> Result<()> {
        for segment in 0..self.segments.len() as u32 {
            let Some(file) = self.file(segment)? else {
                self.salvaged.segments_lost += 1;
                continue;
            };
            let counters = Counters::new(self.disks.len());
            let listed = self.listed(&file, &counters)?;
            self.salvaged.segments_unlisted += u64::from(listed.is_none());
            if let Some(listed) = &listed {
                self.segments[segment as usize].provenance = listed.provenance;
            }
            let pages = pages_in(&file, listed.as_ref().map(|listed| listed.keys.len()))?;
            let mut unlisted = 0;
            file.for_each_page(pages, &counters, &mut |page| {
                if page.number > PageNumber::HEADER {
                    self.look_at(&file, segment, page, listed.as_ref());
                }
                // Without a list, what follows the last intact page is the rest of the segment, not
                // pages.
                unlisted += u64::from(!page.whole && listed.is_none());
                if page.whole {
                    self.salvaged.pages_damaged += unlisted;
                    self.salvaged.pages_unknown += unlisted;
                    unlisted = 0;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// A segment's file, or `None` if it is missing or cannot be opened.
    fn file(&self, segment: u32) -> Result<Option<SegmentFile>> {
        let spot = &self.segments[segment as usize].spot;
        match SegmentFile::open(&*self.disks[spot.directory], spot) {
            Err(Error::Disk(error)) if !error.is_no_descriptor() => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Reads the rows that an intact footer lists; collects its deletions.
    fn listed(&mut self, file: &SegmentFile, counters: &Counters) -> Result<Option<Listed>> {
        let read = || -> Result<_> {
            let tail = file.tail(file.file.len()?, counters)?;
            Ok((tail, file.footer(&tail, counters)?))
        };
        match read() {
            Ok((tail, mut footer)) => {
                let deletions = footer.deletions.drain(..);
                let counting = |deletion: &Deletion| file.counting.contains_key(deletion.key);
                self.deletions.extend(deletions.filter(counting));
                Ok(Some(Listed::new(file, &tail, footer)))
            }
            Err(error) if error.is_no_descriptor() => Err(error),
            Err(Error::Damaged { .. } | Error::Disk(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn look_at(
        &mut self,
        file: &SegmentFile,
        segment: u32,
        PageRead { number, bytes, whole }: PageRead<'_>,
        listed: Option<&Listed>,
    ) {
        let (layout, place) = (&file.layout, PageOf { segment, page: number });
        if !whole && listed.is_some() {
            self.damaged.insert(place);
            self.salvaged.pages_damaged += 1;
        }
        let rows = match listed {
            Some(listed) => layout.rows_on(number, listed.keys.len() as u32),
            None if whole => rows_on_whole(bytes, layout),
            None => 0,
        };
        for at in 0..rows {
            let row = layout.first_row(number) + at;
            let found = whole.then(|| page::row(bytes, layout, at));
            let birth = found.map(|found| found.birth);
            let (key, birth) = match listed {
                Some(listed) => {
                    (listed.keys[row as usize], birth.or_else(|| listed.birth(row as usize)))
                }
                None => (found.map_or(Key(0), |found| found.key), birth),
            };
            if !file.counting.contains_key(key) {
                continue;
            }
            let version = Version { at: place, row, birth };
            match self.newest.get(&key) {
                Some(newest) if self.is_newer(newest, &version) => {}
                _ => drop(self.newest.insert(key, version)),
            }
        }
    }

    /// Whether `one` is newer than `other`, a version of the same key.
    fn is_newer(&self, one: &Version, other: &Version) -> bool {
        let provenance = |version: &Version| &self.segments[version.at.segment as usize].provenance;
        is_newer((one, provenance(one)), (other, provenance(other)))
    }

    fn delete(&mut self) {
        for deletion in std::mem::take(&mut self.deletions) {
            let Some(newest) = self.newest.get(&deletion.key) else { continue };
            let Version { at, row, birth } = *newest;
            let provenance = &self.segments[at.segment as usize].provenance;
            let dead = match birth {
                Some(birth) => provenance.is_dead_version(birth, row, &deletion),
                None => provenance.is_dead(row, &deletion).unwrap_or(false),
            };
            if dead {
                self.newest.remove(&deletion.key);
            }
        }
    }

    fn count_lost(&mut self) {
        let damaged = &self.damaged;
        let lost = |version: &Version| damaged.contains(&version.at);
        let keys = self.newest.iter().filter(|(_, version)| lost(version)).map(|(key, _)| *key);
        let mut keys: Vec<Key> = keys.collect();
        keys.sort_unstable();
        self.salvaged.rows_lost = keys.len() as u64;
        keys.truncate(KEYS_LOST_MAX);
        self.salvaged.keys_lost = keys;
    }

    /// Puts the intact rows that count.
    fn put(&mut self, store: &Store, expire_before: u32) -> Result<()> {
        store.expire_before(expire_before)?;
        let mut batch = Batch::new(store);
        for segment in 0..self.segments.len() as u32 {
            let Some(file) = self.file(segment)? else { continue };
            let (layout, counters) = (file.layout, Counters::new(self.disks.len()));
            file.for_each_page(pages_in(&file, None)?, &counters, &mut |page| {
                let PageRead { number, bytes, whole } = page;
                let rows =
                    if whole && number > PageNumber::HEADER { layout.rows_per_page } else { 0 };
                for at in 0..rows {
                    let row = page::row(bytes, &layout, at);
                    let here = |newest: &&Version| {
                        newest.at == PageOf { segment, page: number }
                            && newest.row == layout.first_row(number) + at
                    };
                    if self.newest.get(&row.key).filter(here).is_some() {
                        batch.push(row.key, row.used, row.payload)?;
                    }
                }
                Ok(())
            })?;
        }
        batch.flush()
    }
}

/// Number of pages that may be read from a file. If `rows` is unknown, the footer passes for pages:
/// they have wrong checksums, or rows that no version refers to.
fn pages_in(file: &SegmentFile, rows: Option<usize>) -> Result<u32> {
    let most = file.file.len()? / file.layout.page_bytes as u64;
    let known = rows.map_or(u64::MAX, |rows| 1 + u64::from(file.layout.pages(rows as u32)));
    Ok(most.min(known) as u32)
}

/// Number of rows on an intact page without a list: those before the zeros at its end.
fn rows_on_whole(bytes: &[u8], layout: &Layout) -> u32 {
    let is_row = |at: &u32| page::row(bytes, layout, *at).birth != Birth::MIN;
    (0..layout.rows_per_page).take_while(is_row).count() as u32
}

/// Refuses to salvage a store into one of its own directories.
fn refuse_source(disks: &[Arc<dyn Disk>], into: &dyn Disk) -> Result<()> {
    if into.exists(MANIFEST_NAME)? {
        return Err(Error::Exists { path: into.path().to_owned() });
    }
    let holds = into.list()?.iter().any(|name| segment::number(name).is_some());
    if holds || disks.iter().any(|disk| disk.path() == into.path()) {
        let path = into.path().display();
        return Err(Error::Options(format!("{path} holds segments: choose an empty directory")));
    }
    Ok(())
}

/// Error if neither a manifest nor a header shows the table and row size.
fn nothing_tells(home: &dyn Disk) -> Error {
    let path = home.path().join(MANIFEST_NAME);
    let error = std::io::Error::other("neither the manifest nor any segment's header is intact");
    DiskError::io(Operation::Read, &path, error).into()
}

/// Whether `one` is newer than `other`, a version of the same key, by the provenances of their
/// segments.
fn is_newer(
    (one, of_one): (&Version, &Provenance),
    (other, of_other): (&Version, &Provenance),
) -> bool {
    match (one.birth, other.birth) {
        _ if one.at.segment == other.at.segment => one.row > other.row,
        (Some(one_birth), Some(other_birth)) if one_birth != other_birth => one_birth > other_birth,
        _ => of_one.is_newer(of_other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::SegmentNumber;

    #[test]
    fn births_decide_between_versions_of_two_merges() {
        let merged = |number, least, greatest| Provenance {
            number: SegmentNumber::new(number).unwrap(),
            merged: true,
            births: Births { least: Birth(least), greatest: Birth(greatest) },
        };
        let version = |segment, birth: Option<u32>| Version {
            at: PageOf { segment, page: PageNumber::FIRST },
            row: 0,
            birth: birth.map(Birth),
        };
        // The later version was merged first.
        let (first, second) = (merged(9, 1, 5), merged(10, 2, 3));
        let (late, early) = (version(0, Some(5)), version(1, Some(3)));
        assert!(is_newer((&late, &first), (&early, &second)));
        assert!(!is_newer((&early, &second), (&late, &first)));
        // On damaged pages, births are unknown.
        let (late, early) = (version(0, None), version(1, Some(3)));
        assert!(is_newer((&early, &second), (&late, &first)));
    }
}
