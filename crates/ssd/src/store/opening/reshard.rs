//! Makes a store of some key shards from snapshots of stores that have them.
//!
//! - **Why.** Moves a table from n stores to m without rewriting its rows: it takes only links, and
//!   an index for each store.
//! - **How.** Segments of each source that may have keys of the new store are linked under numbers
//!   of the new store. For each, the manifest names the key shards that count in it: those of the
//!   new store that its source had. All versions of a key then come from one line of stores, whose
//!   numbers rise, and versions count as in each of them. A segment that several sources have is
//!   linked once. Rows that do not count are stale from the start, and merges eventually drop them.
//! - **Failure.** The manifest is written last: until then, there is no store, and a second run
//!   sets the files aside.
//! - **Cost.** A link a segment. Of each footer, one byte a row and the blocks with keys of the new
//!   store; see [`Verify`]. Then a change of the index for each of its rows.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use stepwell_base::counted;
use stepwell_disk::{Disk, Placed};

use super::directories::{Disks, Locked, home, lock_new, refuse_twice};
use super::load::{self, as_made};
use super::set_aside::{number_free, set_aside_unnamed};
use super::verify::Verify;
use crate::identity::{Origin, StoreId};
use crate::key_shard::KeyShardSet;
use crate::manifest::{MANIFEST_NAME, Manifest, SEGMENTS_MAX};
use crate::numbers::SegmentNumber;
use crate::options::StoreOptions;
use crate::segment::entry::SegmentEntry;
use crate::segment::{self, SegmentFile, Spot};
use crate::stats::Counters;
use crate::store::core::Store;
use crate::{Error, Result};

/// A snapshot to take segments from.
struct Source {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
}

/// A segment that may have keys of the new store.
struct Found<'a> {
    source: &'a Source,
    entry: &'a SegmentEntry,
    origin: Origin,
    /// Key shards of the new store that count in the segment.
    counting: KeyShardSet,
    /// Whether no other key shards count in the segment for its sources.
    whole: bool,
}

impl Store {
    /// Makes a store of the key shards in `options` from snapshots of stores that have them, in
    /// directories without a store: links segments, or copies them from other file systems, and
    /// writes no row. The sources do not change.
    ///
    /// The new store takes up to the space of all sources, although links add none: merges rewrite
    /// its rows where too much of a segment does not count, until space is within the setting, and
    /// writers wait for them as usual.
    ///
    /// ```
    /// use std::path::Path;
    /// use std::sync::Arc;
    ///
    /// use stepwell_base::Key;
    /// use stepwell_disk::{Disk, MemDisk};
    /// use stepwell_ssd::{KeyShardSet, Store, StoreOptions, Verify};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let world = MemDisk::new();
    /// let directory = |name: &str| world.create_directory(Path::new(name));
    /// let of_part = |number, count| StoreOptions {
    ///     key_shards: KeyShardSet::part(number, count),
    ///     ..StoreOptions::new(0, 8)
    /// };
    ///
    /// // A thousand rows in one store, and a snapshot of it.
    /// let store = Store::create(directory("/one")?, StoreOptions::new(0, 8))?;
    /// let keys: Vec<Key> = (0..1000).map(Key).collect();
    /// let rows: Vec<u8> = (0..1000u64).flat_map(u64::to_le_bytes).collect();
    /// store.put_many(&keys, &vec![1; 1000], &rows)?;
    /// directory("/snapshot")?;
    /// store.snapshot(Path::new("/snapshot"))?;
    ///
    /// // The same rows in two stores.
    /// let sources = [Path::new("/snapshot")];
    /// let half = |number, name| {
    ///     let disks = vec![directory(name)?];
    ///     Store::restore_shards(disks, &sources, Verify::default(), of_part(number, 2))
    /// };
    /// let (first, second) = (half(0, "/first")?, half(1, "/second")?);
    /// assert_eq!(first.len() + second.len(), 1000);
    /// assert!(first.contains(Key(1)) && !second.contains(Key(1)));
    /// assert!(second.put_many(&[Key(1)], &[2], &[0; 8]).is_err(), "the first one has that key");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Store::restore`], except that sources of format version 1 are refused; if a key
    /// shard is in none or several of the sources; and if sources differ in page size or in the
    /// step before which rows are expired.
    pub fn restore_shards(
        disks: Vec<Arc<dyn Disk>>,
        sources: &[&Path],
        verify: Verify,
        options: StoreOptions,
    ) -> Result<Self> {
        options.check()?;
        refuse_twice(&disks)?;
        let read = sources.iter().map(|path| Source::read(home(&disks)?, path, &options));
        let sources = read.collect::<Result<Vec<Source>>>()?;
        let first = check_sources(&sources, options.key_shards)?;
        let locks = lock_new(&disks)?;
        let number = number_free(&disks)?;
        set_aside_unnamed(&disks, &[], &[])?;
        let mut manifest = manifest_of(first, &sources, &options);
        manifest.directories = disks.iter().map(|disk| disk.path().display().to_string()).collect();
        let counters = Counters::new(disks.len());
        link_all(&disks, &sources, &mut manifest, number, verify, &options, &counters)?;
        let options = as_made(options, &manifest);
        options.check()?;
        let loaded = load::count(&disks, &options, &manifest, &counters, None)?;
        check_rows(&sources, options.key_shards, loaded.index.rows())?;
        manifest.rows = loaded.index.rows();
        for disk in disks.iter().skip(1) {
            disk.sync_directory()?;
        }
        manifest.store(home(&disks)?, &counters)?;
        Self::assemble_loaded(Locked { disks, locks }, options, manifest, loaded, counters)
    }
}

impl Source {
    fn read(world: &dyn Disk, path: &Path, options: &StoreOptions) -> Result<Self> {
        let disk = world.directory(path)?;
        let manifest = Manifest::load(&*disk)?;
        manifest.check(options, &*disk)?;
        Ok(Self { disk, manifest })
    }

    fn mismatch(&self, why: String) -> Error {
        Error::Mismatch { path: self.disk.path().join(MANIFEST_NAME), why }
    }
}

/// Refuses sources that do not fit together; returns the first.
fn check_sources(sources: &[Source], ours: KeyShardSet) -> Result<&Source> {
    let mut found = KeyShardSet::NONE;
    for (number, source) in sources.iter().enumerate() {
        let (manifest, first) = (&source.manifest, &sources[0].manifest);
        let theirs = manifest.key_shards & ours;
        let twice = theirs & found;
        if !twice.is_empty() {
            let has_some = |other: &&Source| !(other.manifest.key_shards & twice).is_empty();
            let other = sources[..number].iter().find(has_some).unwrap_or(source).disk.path();
            let why = format!(
                "has key shards {twice}, and so has {}: give snapshots of one time, each only \
                 once",
                other.display()
            );
            return Err(source.mismatch(why));
        }
        found = found | theirs;
        if manifest.page_bytes != first.page_bytes {
            let why = format!(
                "has pages of {} bytes, and {} has {}: only stores of one page size can be joined",
                manifest.page_bytes,
                sources[0].disk.path().display(),
                first.page_bytes
            );
            return Err(source.mismatch(why));
        }
        if manifest.expire_before != first.expire_before {
            let why = format!(
                "expired rows before step {}, and {} before {}: expire both before the same step, \
                 then take snapshots",
                manifest.expire_before,
                sources[0].disk.path().display(),
                first.expire_before
            );
            return Err(source.mismatch(why));
        }
    }
    let missing = ours.without(found);
    match sources.first().filter(|_| missing.is_empty()) {
        Some(first) => Ok(first),
        None => Err(Error::Options(format!(
            "key shards {missing} are in none of {}: give a snapshot of each store of the table",
            counted(sources.len() as u64, "source")
        ))),
    }
}

/// The manifest of the new store without segments; its number of rows is a guess.
fn manifest_of(first: &Source, sources: &[Source], options: &StoreOptions) -> Manifest {
    let id = options.id.unwrap_or_else(StoreId::drawn);
    let mut manifest = Manifest::empty(id, &first.manifest.layout());
    manifest.key_shards = options.key_shards;
    manifest.expire_before = first.manifest.expire_before;
    for Source { manifest: theirs, .. } in sources {
        manifest.commit = manifest.commit.max(theirs.commit);
        manifest.next_seq = manifest.next_seq.max(theirs.next_seq);
        // Above every birth, so that rows put into the new store are newer.
        manifest.next_segment = manifest.next_segment.max(theirs.next_segment);
        let taken = (theirs.key_shards & options.key_shards).len() as u64;
        manifest.rows += (theirs.rows / theirs.key_shards.len() as u64 + 1) * taken;
    }
    manifest
}

/// The segments of all sources in which key shards of `ours` count, each once.
fn find_all(sources: &[Source], ours: KeyShardSet) -> Vec<Found<'_>> {
    let mut found: Vec<Found<'_>> = Vec::new();
    let mut known = HashMap::new();
    for source in sources {
        for entry in &source.manifest.segments {
            let (origin, theirs) = (source.manifest.origin(entry), source.manifest.counting(entry));
            let counting = theirs & ours;
            if counting.is_empty() {
                continue;
            }
            // Stores of version 2 have no ids: the checksum distinguishes them.
            let same = (origin.store, origin.number, entry.bytes, &entry.checksum);
            let at = *known.entry(same).or_insert(found.len());
            match found.get_mut(at) {
                Some(known) => {
                    known.counting = known.counting | counting;
                    known.whole &= counting == theirs;
                }
                None => {
                    let whole = counting == theirs;
                    found.push(Found { source, entry, origin, counting, whole });
                }
            }
        }
    }
    found
}

/// Links the segments that may have rows or deletions that count, and names them in `manifest`.
fn link_all(
    disks: &Disks,
    sources: &[Source],
    manifest: &mut Manifest,
    mut number: u64,
    verify: Verify,
    options: &StoreOptions,
    counters: &Counters,
) -> Result<()> {
    for found in find_all(sources, options.key_shards) {
        options.go_on()?;
        let Found { source, entry, origin, counting, whole } = found;
        let spot = Spot { counting, ..source.manifest.spot(entry, 0) };
        let file = SegmentFile::open(&*source.disk, &spot)?;
        let tail = file.check(entry, counters)?;
        if !whole && !file.may_count(&tail, counters)? {
            continue;
        }
        let directory = manifest.segments.len() % disks.len();
        let next = SegmentNumber::new(number).ok_or_else(|| too_many(number))?;
        let (from, to) = (segment::name(entry.here()), segment::name(next));
        let placed = source.disk.link_as(&from, disks[directory].path(), &to)?;
        if placed == Placed::Copied {
            counters.wrote(directory, entry.bytes as usize);
        }
        if verify.reads_all(placed) {
            let spot = Spot { directory, number: next, ..spot };
            let checked = SegmentFile::open(&*disks[directory], &spot)?.check_all(entry, counters);
            checked.map_err(|error| error.found_in(source.disk.path().join(from)))?;
        }
        let named = SegmentEntry::new(next, entry.rows, entry.bytes, entry.checksum.clone());
        manifest.name(origin, counting, named);
        number += 1;
    }
    manifest.next_segment = manifest.next_segment.max(number);
    let too_high = manifest.next_segment > SegmentNumber::END.into();
    if too_high || manifest.segments.len() > SEGMENTS_MAX {
        return Err(too_many(manifest.next_segment));
    }
    Ok(())
}

fn too_many(number: u64) -> Error {
    Error::Options(format!(
        "the segments of the sources would have numbers up to {number}, more than a store may \
         have: copy their rows into a new one"
    ))
}

/// Checks the number of rows, if all key shards of all sources are in `ours`.
fn check_rows(sources: &[Source], ours: KeyShardSet, rows: u64) -> Result<()> {
    let all_ours = |source: &Source| source.manifest.key_shards.without(ours).is_empty();
    let named: u64 = sources.iter().map(|source| source.manifest.rows).sum();
    match sources.first() {
        Some(first) if sources.iter().all(all_ours) && named != rows => {
            let path = first.disk.path().join(MANIFEST_NAME);
            let why = format!("{rows} rows were found, all manifests count {named}");
            Err(Error::Damaged { path, offset: 0, why })
        }
        _ => Ok(()),
    }
}
