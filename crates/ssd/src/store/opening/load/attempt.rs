//! One attempt to load: an index of one size, under one secret, by some threads.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use stepwell_base::Key;
use stepwell_disk::Buffer;

use super::loader::{Loader, Source};
use super::read_segment::{Known, Loaded, Read, own_deletions, read_segment};
use crate::index::{Ahead, ByPart, Index, Parting, Place};
use crate::numbers::{PageNumber, PageOf};
use crate::row_versions::Deletion;
use crate::segment::reader::row_of;
use crate::segment_table::Table;
use crate::store::opening::ordered_work::Relay;
use crate::{Error, Result};

/// The order in which rows are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As they were put, segment by segment.
    AsPut,
    /// By shard of the index, some segments at a time.
    ByShard,
}

/// A row of a segment.
#[derive(Clone, Copy)]
struct Listed {
    key: Key,
    place: Place,
}

/// Bytes of a list of `rows` rows.
pub(crate) const fn listed_bytes(rows: u64) -> u64 {
    rows * size_of::<Listed>() as u64
}

/// Deletions of some segments, kept until all rows are added.
#[derive(Default)]
struct Deletions {
    /// Deletions by index of the segment in the manifest.
    held: HashMap<usize, Vec<Deletion>>,
    count: usize,
}

/// An attempt to load: an index of one size, under one secret.
struct Try<'a> {
    loader: &'a Loader<'a>,
    parting: Parting,
    order: Order,
    /// Facts about each segment, by its index in the manifest.
    known: Vec<OnceLock<Known>>,
    deletions: Mutex<Deletions>,
}

/// A thread's part of the index, and what it found.
struct Hand {
    part: usize,
    index: Index,
    /// Number of rows of each segment that went stale.
    stale: Vec<u32>,
    /// The last page that was read to find out whether a row is dead.
    page: Option<(PageOf, Buffer)>,
}

/// Loads the segments of `loader` into `index`, which may take `bytes_max` bytes.
pub(in crate::store) fn run(
    loader: &Loader<'_>,
    index: Index,
    bytes_max: u64,
    threads: usize,
    order: Order,
) -> Result<Loaded> {
    assert!(threads == 1 || order == Order::ByShard, "parts are filled shard by shard");
    let segments = loader.manifest.segments.len();
    let parting = index.parting(threads);
    let stale = vec![0; segments];
    let hand = |(part, index)| Hand { part, index, stale: stale.clone(), page: None };
    let mut hands: Vec<Hand> = index.part(&parting).into_iter().enumerate().map(hand).collect();
    let known = (0..segments).map(|_| OnceLock::new()).collect();
    let mut tried = Try { loader, parting, order, known, deletions: Mutex::default() };
    tried.run(&mut hands)?;
    let table = tried.table(&hands);
    let parts = hands.into_iter().map(|hand| hand.index).collect();
    let index = Index::whole(parts, &parting, bytes_max);
    Ok(Loaded { index, table })
}

impl Try<'_> {
    fn run(&mut self, hands: &mut [Hand]) -> Result<()> {
        let this = &*self;
        let groups = this.groups();
        let rows = Relay {
            items: groups.len(),
            read: &|at| this.read(groups[at].clone()),
            work: &|hand: &mut Hand, _, rows: &ByPart<Listed>| this.add(hand, rows),
        };
        rows.run(hands)?;
        let counted = |known: &OnceLock<Known>| known.get().map(|k| k.sealed.tail.counts.deletions);
        if this.known.iter().filter_map(counted).all(|count| count == 0) {
            return Ok(());
        }
        let deletions = Relay {
            items: this.known.len(),
            read: &|segment| this.deletions_of(segment),
            work: &|hand: &mut Hand, _, deletions: &Vec<Deletion>| this.delete(hand, deletions),
        };
        deletions.run(hands)
    }

    /// Segments whose rows are added together, in order.
    fn groups(&self) -> Vec<Range<usize>> {
        let rows_max = match self.order {
            Order::AsPut => 0,
            Order::ByShard => self.loader.options.rows_together(),
        };
        let mut groups: Vec<Range<usize>> = Vec::new();
        let mut rows = 0;
        for (segment, entry) in self.loader.manifest.segments.iter().enumerate() {
            rows += u64::from(entry.rows);
            match groups.last_mut() {
                Some(group) if rows <= rows_max => group.end = segment + 1,
                _ => {
                    groups.push(segment..segment + 1);
                    rows = u64::from(entry.rows);
                }
            }
        }
        groups
    }

    /// Reads everything but the pages of some segments, and lists the rows that count.
    fn read(&self, segments: Range<usize>) -> Result<ByPart<Listed>> {
        let entries = &self.loader.manifest.segments[segments.clone()];
        let named: u64 = entries.iter().map(|entry| u64::from(entry.rows)).sum();
        // The manifest's row counts are not verified yet, hence the cap.
        let mut rows = Vec::with_capacity(named.min(self.loader.options.rows_together()) as usize);
        for segment in segments {
            self.read_one(segment, &mut rows)?;
        }
        Ok(match self.order {
            Order::AsPut => ByPart::whole(rows),
            Order::ByShard => self.parting.sort(&rows, |row| row.key),
        })
    }

    /// Reads a segment, and adds the rows that count to `listed`.
    fn read_one(&self, segment: usize, listed: &mut Vec<Listed>) -> Result<()> {
        let Loader { disks, options, manifest, counters, .. } = *self.loader;
        options.go_on()?;
        let entry = &manifest.segments[segment];
        let opened = match &self.loader.sources[segment] {
            Source::Opened(file) => Arc::clone(file),
            Source::At(place) => Arc::new(place.open(disks, manifest, entry)?),
        };
        let Read { mut known, rows, deletions } = read_segment(opened, entry, counters)?;
        let own = own_deletions(&deletions, &known.provenance);
        self.hold(segment, deletions);
        listed.reserve_exact(rows.len());
        for (row, key) in rows {
            if !own.is_empty() && own.get(&key).is_some_and(|before| row < *before) {
                known.uncounted += 1;
                continue;
            }
            let place = self.place(segment, known.file.layout.page_of(row));
            listed.push(Listed { key, place });
        }
        let known = self.known[segment].set(known);
        assert!(known.is_ok(), "a segment is read only once");
        Ok(())
    }

    /// Keeps a segment's deletions until all rows are added, if there is room.
    fn hold(&self, segment: usize, found: Vec<Deletion>) {
        let mut deletions = self.deletions.lock().unwrap_or_else(PoisonError::into_inner);
        let most = self.loader.options.deletions_held();
        if !found.is_empty() && found.len() <= most - deletions.count {
            deletions.count += found.len();
            deletions.held.insert(segment, found);
        }
    }

    /// The deletions of a segment, after all rows were added.
    fn deletions_of(&self, segment: usize) -> Result<Vec<Deletion>> {
        self.loader.options.go_on()?;
        let mut deletions = self.deletions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = deletions.held.remove(&segment) {
            return Ok(held);
        }
        drop(deletions);
        let known = self.known(segment as u32);
        known.file.deletions(&known.sealed.tail, self.loader.counters)
    }

    fn known(&self, segment: u32) -> &Known {
        #[expect(clippy::expect_used, reason = "a segment was read before places name it")]
        self.known[segment as usize].get().expect("a segment that was read")
    }

    fn place(&self, segment: usize, page: PageNumber) -> Place {
        let first = u64::from(self.loader.firsts[segment].0);
        Place(first * u64::from(self.loader.pages) + u64::from(page - PageNumber::FIRST))
    }

    fn page_of(&self, place: Place) -> PageOf {
        let Loader { pages, firsts, owners, .. } = self.loader;
        let segment = owners[(place.0 / u64::from(*pages)) as usize];
        let first = u64::from(firsts[segment as usize].0) * u64::from(*pages);
        PageOf { segment, page: PageNumber::FIRST + (place.0 - first) as u32 }
    }

    /// Adds a part's rows, prefetching the index.
    fn add(&self, hand: &mut Hand, rows: &ByPart<Listed>) -> Result<()> {
        let rows = rows.of(hand.part);
        let mut ahead = Ahead::new(&hand.index, rows.len(), |at| rows[at].key);
        for row in rows {
            let asked = ahead.next(&hand.index);
            let Some(old) = hand.index.put_asked(&asked, row.place)? else { continue };
            let [of, here] = [old, row.place].map(|place| self.page_of(place).segment);
            let is_newer =
                |of, than| self.known(of).provenance.is_newer(&self.known(than).provenance);
            if of != here && is_newer(of, here) {
                hand.index.put_asked(&asked, old)?;
                hand.stale[here as usize] += 1;
            } else {
                hand.stale[of as usize] += 1;
            }
        }
        Ok(())
    }

    /// Applies a segment's deletions to a part.
    fn delete(&self, hand: &mut Hand, deletions: &[Deletion]) -> Result<()> {
        let own = |deletion: &&Deletion| self.parting.of(deletion.key) == hand.part;
        for deletion in deletions.iter().filter(own) {
            let Some(place) = hand.index.get(deletion.key) else { continue };
            let at = self.page_of(place);
            if self.is_dead(&mut hand.page, at, deletion)? {
                hand.index.remove(deletion.key);
                hand.stale[at.segment as usize] += 1;
            }
        }
        Ok(())
    }

    /// Whether the deletion kills the version of its key on a page.
    fn is_dead(
        &self,
        last: &mut Option<(PageOf, Buffer)>,
        at: PageOf,
        deletion: &Deletion,
    ) -> Result<bool> {
        let Known { file, provenance, sealed, .. } = self.known(at.segment);
        // Rows killed by a deletion of their own segment were not listed.
        if let Some(dead) = provenance.is_dead(u32::MAX, deletion) {
            return Ok(dead);
        }
        let bytes = match last.take().filter(|(of, _)| *of == at) {
            Some((_, bytes)) => bytes,
            None => match file.page(at.page, self.loader.counters) {
                Ok(bytes) => bytes,
                // Look-ups of the row will report it; the row count shows whether it is alive.
                Err(Error::Damaged { .. }) => return Ok(false),
                Err(error) => return Err(error),
            },
        };
        let found = row_of(&bytes, &file.layout, at.page, sealed.tail.counts.rows, deletion.key);
        let dead = found
            .is_some_and(|(row_at, row)| provenance.is_dead_version(row.birth, row_at, deletion));
        *last = Some((at, bytes));
        Ok(dead)
    }

    /// All segments, in their slots.
    fn table(self, hands: &[Hand]) -> Table {
        let mut table = Table::new(self.loader.pages, self.loader.disks.len());
        for (segment, known) in self.known.into_iter().enumerate() {
            #[expect(clippy::expect_used, reason = "all segments were read")]
            let known = known.into_inner().expect("a segment that was read");
            let stale: u32 = hands.iter().map(|hand| hand.stale[segment]).sum();
            let first = known.insert_into(&mut table, stale);
            assert!(first == self.loader.firsts[segment], "slots are given in order");
        }
        table
    }
}
