//! Building the index from footers.
//!
//! How       The index is made in parts, a thread each ([`Index::part`]). Segment after segment,
//!           each row is pointed at unless what is pointed at already is newer, or a deletion of
//!           the same segment killed it; then the other deletions, which kill what is left. Which
//!           of two versions counts and what a deletion kills is [`rule`](crate::rule)'s to say.
//!           The threads read footers ahead, too, and list each one's rows by part ([`Relay`]).
//!
//! ```text
//!  footers ──read──► rows by part ──► part 0, thread 0  ─┐
//!  of some segments      │       └──► part 1, thread 1  ─┴─► the index
//! ```
//!
//! Invariants  I1 Every part gets its rows in the order in which one thread would have got them,
//!           and no place has more bits than were foretold: so places, counts and bytes are those
//!           of one thread. Where a part is full before the index would be, one thread tries again,
//!           and what it finds counts.
//! Bounds    For each thread the footer of a segment and a list of its rows, and one such list
//!           more; maps of their deletions, and [`DELETIONS_HELD`] deletions of all; those of
//!           more segments are read a second time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use stepwell_base::Key;
use stepwell_base::scatter::Scatter;
use stepwell_disk::{Buffer, Disk};

use super::relay::Relay;
use crate::index::{Ahead, Index, Parting, Place};
use crate::rule::{Lie, ROW_UNMOVED};
use crate::segment::footer::Counting;
use crate::segment::reader::row_of;
use crate::segment::{self, Deletion, SegmentFile};
use crate::stats::Counters;
use crate::table::{Sealed, Segment, Table};
use crate::{Error, MANIFEST_NAME, Manifest, Result, SegmentEntry, StoreOptions};

/// Secrets under which an index grown from nothing is tried.
const SECRETS_MAX: u32 = 4;
/// Deletions that are kept from the first time that footers are read.
pub(crate) const DELETIONS_HELD: usize = 1 << 20;

/// What an open store knows of its segments.
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
    /// Places of a slot.
    pages: u32,
    /// Of each segment its first slot; larger ones take several.
    firsts: Vec<u32>,
    /// Of each slot its segment.
    owners: Vec<u32>,
}

/// A segment's file.
enum Source {
    Opened(Arc<SegmentFile>),
    /// Directory, and whether it goes through the page cache.
    Lies(usize, bool),
}

/// What is known of a segment whose footer was read.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) file: Arc<SegmentFile>,
    pub(super) lie: Lie,
    pub(super) sealed: Sealed,
    /// Rows of key shards that do not count here.
    pub(super) others: u32,
}

/// The rows of a segment that one part of the index has.
#[derive(Default)]
struct Rows {
    keys: Vec<Key>,
    /// Their numbers in the segment.
    numbers: Vec<u32>,
}

/// The rows of a segment by part, and what [`own_deletions`] says.
struct Batch {
    parts: Vec<Rows>,
    own: HashMap<Key, u32>,
}

/// Deletions of some segments, until all rows were added.
#[derive(Default)]
struct Deletions {
    held: HashMap<usize, Vec<Deletion>>,
    count: usize,
}

/// A try to load: an index of one size, under one secret.
struct Try<'a> {
    loader: &'a Loader<'a>,
    parting: Parting,
    threads: usize,
    /// By slot, which is the place among the manifest's segments.
    known: Vec<OnceLock<Known>>,
    deletions: Mutex<Deletions>,
}

/// A thread's part of the index, and what it found.
struct Hand {
    part: usize,
    index: Index,
    /// Rows of each slot that went stale.
    stale: Vec<u32>,
    /// The page that was read last to tell whether a row is dead.
    page: Option<((u32, u32), Buffer)>,
}

/// Opens what the manifest names, everything but pages being read and checked; `files` are its
/// segments in order where they were opened before.
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

/// The same of a manifest that only guesses how many rows there are.
pub(super) fn count(
    disks: &[Arc<dyn Disk>],
    options: &StoreOptions,
    manifest: &Manifest,
    counters: &Counters,
    files: Option<Vec<Arc<SegmentFile>>>,
) -> Result<Loaded> {
    let loader = Loader::new(disks, options, manifest, counters, files)?;
    let hint = manifest.rows.max(options.rows_hint);
    // Planned for its rows at once, each shard is rounded up; grown from nothing, as it was
    // when they were put, it takes what it took then. Under another secret that is a little
    // more or less: where most rows fit, others get their turn.
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
            firsts.push(owners.len() as u32);
            let span = Table::span_of(pages, layout.pages(entry.rows));
            owners.resize(owners.len() + span as usize, segment);
        }
        let mut cached_left = options.cached_bytes;
        let spot = |(entry, directory): (&SegmentEntry, usize)| {
            let cached = cached_left >= entry.bytes;
            cached_left -= if cached { entry.bytes } else { 0 };
            Source::Lies(directory, cached)
        };
        let sources = match files {
            Some(files) => files.into_iter().map(Source::Opened).collect(),
            None => manifest.segments.iter().zip(find(disks, manifest)?).map(spot).collect(),
        };
        Ok(Self { disks, options, manifest, counters, sources, pages, firsts, owners })
    }

    /// Loads into an index that is planned for `hint` rows, or grows row by row where that is 0.
    fn load(&self, hint: u64) -> Result<Loaded> {
        let scatter = Scatter::new(self.options.index_seed);
        // Grown row by row, a shard's form hangs on how far all others are: one thread tells.
        let threads = self.options.threads_opening(self.manifest.rows_all());
        let threads = if hint == 0 { 1 } else { threads };
        match self.load_with(hint, scatter, threads) {
            // A part was full; whether the index would have been, one thread finds out.
            Err(Error::IndexFull { .. }) if threads > 1 => self.load_with(hint, scatter, 1),
            loaded => loaded,
        }
    }

    fn load_with(&self, hint: u64, scatter: Scatter, threads: usize) -> Result<Loaded> {
        let layout = self.manifest.layout();
        let segments = self.manifest.segments.len();
        let rows_expected = self.manifest.rows_all().max(hint.saturating_mul(2));
        let places = rows_expected / u64::from(layout.rows_per_page) + 8 * u64::from(self.pages);
        // What is loaded has no place above these (I1).
        let loaded = self.owners.len() as u64 * u64::from(self.pages);
        let places = if hint == 0 { 0 } else { places.max(loaded) };
        let bytes_max = self.options.index_bytes_max;
        let index = Index::new(bytes_max, hint, places, scatter);
        let parting = index.parting(threads);
        let stale = vec![0; segments];
        let hand = |(part, index)| Hand { part, index, stale: stale.clone(), page: None };
        let mut hands: Vec<Hand> = index.part(&parting).into_iter().enumerate().map(hand).collect();
        let known = (0..segments).map(|_| OnceLock::new()).collect();
        let deletions = Mutex::default();
        let mut a_try = Try { loader: self, parting, threads, known, deletions };
        a_try.run(&mut hands)?;
        let table = a_try.table(&hands);
        let parts = hands.into_iter().map(|hand| hand.index).collect();
        let index = Index::whole(parts, &parting, bytes_max);
        Ok(Loaded { index, table })
    }
}

/// Whether so many rows are those that a manifest in `home` names.
pub(super) fn check_rows(found: u64, manifest: &Manifest, home: &dyn Disk) -> Result<()> {
    if found == manifest.rows {
        return Ok(());
    }
    let why = format!("{found} rows are there, {} are named", manifest.rows);
    Err(Error::Damaged { path: home.path().join(MANIFEST_NAME), offset: 0, why })
}

impl Try<'_> {
    fn run(&mut self, hands: &mut [Hand]) -> Result<()> {
        let segments = self.known.len();
        let this = &*self;
        let rows = Relay {
            segments,
            read: &|slot| this.read(slot),
            work: &|hand: &mut Hand, slot, batch: &Batch| this.add(hand, slot as u32, batch),
        };
        rows.run(hands)?;
        let counted = |known: &OnceLock<Known>| known.get().map(|k| k.sealed.tail.counts.deletions);
        if this.known.iter().filter_map(counted).all(|count| count == 0) {
            return Ok(());
        }
        let deletions = Relay {
            segments,
            read: &|slot| this.deletions_of(slot),
            work: &|hand: &mut Hand, _, deletions: &Vec<Deletion>| this.delete(hand, deletions),
        };
        deletions.run(hands)
    }

    /// Reads all of a segment but its pages; slots are in order of segment numbers.
    fn read(&self, slot: usize) -> Result<Batch> {
        let Loader { disks, options, manifest, counters, .. } = *self.loader;
        options.go_on()?;
        let entry = &manifest.segments[slot];
        let opened = match &self.loader.sources[slot] {
            Source::Opened(file) => Arc::clone(file),
            Source::Lies(directory, cached) => {
                let disk = &*disks[*directory];
                Arc::new(open_segment(disk, manifest, entry, *directory, *cached)?)
            }
        };
        let (known, rows, deletions) = read_segment(opened, entry, counters)?;
        let own = own_deletions(&deletions, &known.lie);
        self.hold(slot, deletions);
        let known = self.known[slot].set(known);
        assert!(known.is_ok(), "a segment is read once");
        Ok(Batch { parts: self.by_part(rows), own })
    }

    /// Rows by the part of the index that has their keys.
    fn by_part(&self, all: Vec<(u32, Key)>) -> Vec<Rows> {
        // Parts are even, but for chance.
        let share = all.len() / self.threads;
        let room = if self.threads == 1 { share } else { share + share / 16 + 64 };
        let rows = || Rows { keys: Vec::with_capacity(room), numbers: Vec::with_capacity(room) };
        let mut parts: Vec<Rows> = (0..self.threads).map(|_| rows()).collect();
        for (number, key) in all {
            let part = if self.threads == 1 { 0 } else { self.parting.of(key) };
            parts[part].keys.push(key);
            parts[part].numbers.push(number);
        }
        parts
    }

    /// Keeps a segment's deletions until all rows were added, as far as there is room.
    fn hold(&self, slot: usize, found: Vec<Deletion>) {
        let mut deletions = self.deletions.lock().unwrap_or_else(PoisonError::into_inner);
        if !found.is_empty() && found.len() <= DELETIONS_HELD - deletions.count {
            deletions.count += found.len();
            deletions.held.insert(slot, found);
        }
    }

    /// The deletions of a segment, once all rows were added.
    fn deletions_of(&self, slot: usize) -> Result<Vec<Deletion>> {
        self.loader.options.go_on()?;
        let mut deletions = self.deletions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = deletions.held.remove(&slot) {
            return Ok(held);
        }
        drop(deletions);
        let known = self.known(slot as u32);
        known.file.deletions(&known.sealed.tail, self.loader.counters)
    }

    fn known(&self, slot: u32) -> &Known {
        #[expect(clippy::expect_used, reason = "a segment was read before places name it")]
        self.known[slot as usize].get().expect("a segment that was read")
    }

    fn place(&self, slot: u32, page: u32) -> Place {
        let first = u64::from(self.loader.firsts[slot as usize]);
        Place(first * u64::from(self.loader.pages) + u64::from(page - 1))
    }

    /// The segment and page of a place.
    fn page_of(&self, place: Place) -> (u32, u32) {
        let Loader { pages, firsts, owners, .. } = self.loader;
        let segment = owners[(place.0 / u64::from(*pages)) as usize];
        let first = u64::from(firsts[segment as usize]) * u64::from(*pages);
        (segment, (place.0 - first) as u32 + 1)
    }

    /// Adds a part's rows of one segment, asking for what they will need ahead.
    fn add(&self, hand: &mut Hand, slot: u32, batch: &Batch) -> Result<()> {
        let Known { file, lie, .. } = self.known(slot);
        let Rows { keys, numbers } = &batch.parts[hand.part];
        let mut ahead = Ahead::new(&hand.index, keys.len(), |at| keys[at]);
        for (key, row) in keys.iter().zip(numbers.iter().copied()) {
            let asked = ahead.next(&hand.index);
            if !batch.own.is_empty() && batch.own.get(key).is_some_and(|before| row < *before) {
                hand.stale[slot as usize] += 1;
                continue;
            }
            let place = self.place(slot, file.layout.page_of(row));
            let Some(old) = hand.index.put_asked(&asked, place)? else { continue };
            let (of, _) = self.page_of(old);
            if of != slot && self.known(of).lie.is_newer(lie) {
                hand.index.put_asked(&asked, old)?;
                hand.stale[slot as usize] += 1;
            } else {
                hand.stale[of as usize] += 1;
            }
        }
        Ok(())
    }

    /// Lets the deletions of a segment kill what they do in a part.
    fn delete(&self, hand: &mut Hand, deletions: &[Deletion]) -> Result<()> {
        let own = |deletion: &&Deletion| self.parting.of(deletion.key) == hand.part;
        for deletion in deletions.iter().filter(own) {
            let Some(place) = hand.index.get(deletion.key) else { continue };
            let (of, page) = self.page_of(place);
            if self.is_dead(&mut hand.page, (of, page), deletion)? {
                hand.index.remove(deletion.key);
                hand.stale[of as usize] += 1;
            }
        }
        Ok(())
    }

    /// Whether the version of a deletion's key on a page is dead by it.
    fn is_dead(
        &self,
        last: &mut Option<((u32, u32), Buffer)>,
        (slot, page): (u32, u32),
        deletion: &Deletion,
    ) -> Result<bool> {
        let Known { file, lie, sealed, .. } = self.known(slot);
        // What a deletion of the same segment kills was left out.
        if let Some(dead) = lie.is_dead((u32::MAX, u32::MAX), deletion) {
            return Ok(dead);
        }
        let bytes = match last.take().filter(|(of, _)| *of == (slot, page)) {
            Some((_, bytes)) => bytes,
            None => match file.page(page, self.loader.counters) {
                Ok(bytes) => bytes,
                // Whoever wants the row is told; whether it is there, counting tells.
                Err(Error::Damaged { .. }) => return Ok(false),
                Err(error) => return Err(error),
            },
        };
        let found = row_of(&bytes, &file.layout, page, sealed.tail.counts.rows, deletion.key);
        let dead = found.is_some_and(|(at, row)| lie.is_dead_version(row.birth, at, deletion));
        *last = Some(((slot, page), bytes));
        Ok(dead)
    }

    /// All segments, in their slots.
    fn table(self, hands: &[Hand]) -> Table {
        let mut table = Table::new(self.loader.pages, self.loader.disks.len());
        for (slot, known) in self.known.into_iter().enumerate() {
            #[expect(clippy::expect_used, reason = "all segments were read")]
            let known = known.into_inner().expect("a segment that was read");
            let stale: u32 = hands.iter().map(|hand| hand.stale[slot]).sum();
            let first = known.insert_into(&mut table, stale);
            assert!(first == self.loader.firsts[slot], "slots are given in order");
        }
        table
    }
}

impl Known {
    /// Puts the segment into a slot, with so many of the rows that count stale.
    pub(super) fn insert_into(self, table: &mut Table, stale: u32) -> u32 {
        let Self { file, lie, sealed, others } = self;
        let (rows, pages) = (sealed.tail.counts.rows, file.layout.pages(sealed.tail.counts.rows));
        let segment = Segment { rows, live: rows - others - stale, ..Segment::new(file, lie) };
        let slot = table.insert(segment, pages);
        table.seal(slot, sealed, lie, 0);
        slot
    }
}

pub(super) fn open_segment(
    disk: &dyn Disk,
    manifest: &Manifest,
    entry: &SegmentEntry,
    directory: usize,
    cached: bool,
) -> Result<SegmentFile> {
    SegmentFile::open(disk, &segment::Spot { cached, ..manifest.spot(entry, directory) })
}

/// What is known of a segment, its rows that count with their numbers, and its deletions.
type Read = (Known, Vec<(u32, Key)>, Vec<Deletion>);

/// Checks a segment against its entry; what counts of its rows, in order, and of its deletions.
pub(super) fn read_segment(
    file: Arc<SegmentFile>,
    entry: &SegmentEntry,
    counters: &Counters,
) -> Result<Read> {
    let tail = file.check(entry, counters)?;
    let Counting { rows, deletions, lie } = file.counting(&tail, counters)?;
    let deleted_last = deletions.iter().map(|deletion| deletion.birth).max();
    let sealed = Sealed { bytes: entry.bytes, tail, deleted_last: deleted_last.unwrap_or(0) };
    let others = tail.counts.rows - rows.len() as u32;
    Ok((Known { file, lie, sealed, others }, rows, deletions))
}

/// Of each key the row before which a deletion in the segment that rows were put into killed what
/// lies there.
pub(super) fn own_deletions(deletions: &[Deletion], lie: &Lie) -> HashMap<Key, u32> {
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
    load(disks, options, manifest, counters, None).map(drop)
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
