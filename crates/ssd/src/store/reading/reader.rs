//! Asynchronous look-ups, with several in flight.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_base::Key;
use stepwell_disk::{Queue, Wait};

use crate::fetch::{Destination, Fetch, Reading, Source};
use crate::harvest::{Beside, Harvest, Wanted};
use crate::read_unit::{ReadUnit, Wasted};
use crate::stats::AGE_PARTS;
use crate::store::core::{Core, Store};
use crate::{Error, Result};

/// Keys to look up and the rows found; its memory can be reused.
#[derive(Clone, Debug, Default)]
pub struct Lookup {
    /// The keys, in any order and possibly repeated.
    pub keys: Vec<Key>,
    /// Rows of the keys that were found; other places keep their bytes. // (keys, row_bytes)
    pub rows: Vec<u8>,
    /// Whether each key has a row. // (keys)
    pub found: Vec<bool>,
}

/// A submitted look-up, to wait for.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "rows are there only after `wait`"]
pub struct Ticket {
    reader: u64,
    number: u32,
}

/// Looks up rows for one thread, with several look-ups in flight on one disk queue.
///
/// A look-up returns the rows as of when it was submitted.
pub struct Reader {
    core: Arc<Core>,
    queue: Box<dyn Queue>,
    active: VecDeque<Active>,
    beside: Beside,
    next_ticket: u32,
    /// Number of this reader among all readers of the process.
    number: u64,
}

static READERS: AtomicU64 = AtomicU64::new(0);

/// A look-up in flight.
struct Active {
    ticket: u32,
    lookup: Lookup,
    fetch: Fetch,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("in_flight", &self.active.len()).finish_non_exhaustive()
    }
}

impl Store {
    /// Makes a reader, for one thread at a time.
    ///
    /// # Errors
    /// If the disk cannot make a queue.
    pub fn reader(&self) -> Result<Reader> {
        let (core, queue) = (Arc::clone(&self.core), self.core.new_queue()?);
        let number = READERS.fetch_add(1, Ordering::Relaxed);
        let (active, beside) = (VecDeque::new(), Beside::default());
        Ok(Reader { core, queue, active, beside, next_ticket: 0, number })
    }
}

impl Reader {
    /// Finds the places of `lookup.keys`, and starts as many reads as there is room for. Resizes
    /// `rows` and `found` to fit the keys.
    ///
    /// # Errors
    /// If the disk fails to start a read: this look-up is dropped, others continue.
    pub fn submit(&mut self, mut lookup: Lookup) -> Result<Ticket> {
        let row_bytes = self.core.layout.row_bytes;
        lookup.rows.resize(lookup.keys.len() * row_bytes, 0);
        lookup.found.resize(lookup.keys.len(), false);
        let fetch = self.core.locate(&mut lookup.destination(row_bytes));
        let ticket = self.next_ticket;
        self.next_ticket = self.next_ticket.wrapping_add(1);
        self.core.looking.fetch_add(1, Ordering::Relaxed);
        self.active.push_back(Active { ticket, lookup, fetch });
        match self.start() {
            Ok(()) => Ok(Ticket { reader: self.number, number: ticket }),
            Err(error) => {
                self.take(self.active.len() - 1);
                Err(error)
            }
        }
    }

    /// Also harvests rows that are `wanted` from the pages that are read; [`Reader::take_harvest`]
    /// returns them. As many pages are read together as pay off, at most `unit_bytes` bytes.
    pub fn harvest(&mut self, wanted: Arc<dyn Wanted>, unit_bytes: usize) {
        self.beside.wanted = Some(wanted);
        let pages = unit_bytes / self.core.layout.page_bytes;
        let pages = u32::try_from(pages).unwrap_or(u32::MAX).min(self.core.reading().pages_max());
        self.beside.unit = ReadUnit::new(pages);
    }

    /// Swaps `harvest` for the rows harvested since the last call.
    pub fn take_harvest(&mut self, harvest: &mut Harvest) {
        harvest.clear();
        std::mem::swap(harvest, &mut self.beside.found);
    }

    /// Reports harvested rows that were useless.
    pub fn harvest_wasted(&mut self, wasted: Wasted) {
        self.beside.unit.waste(wasted);
    }

    /// Calls `live` for each row of `harvest`, with whether a look-up of its key would find it now.
    pub fn live(&self, harvest: &Harvest, mut live: impl FnMut(usize, bool)) {
        let state = self.core.state();
        state.index.get_many(&harvest.keys, |at, place| {
            let found = &harvest.places[at];
            let is_there = place.is_some_and(|place| {
                let at = state.table.page(place);
                at == found.at && state.table.get(at.slot).file.number == found.segment
            });
            live(at, is_there);
        });
    }

    /// Number of look-ups that were submitted and not waited for.
    pub fn in_flight(&self) -> usize {
        self.active.len()
    }

    /// Waits for a look-up; others progress concurrently.
    ///
    /// # Errors
    /// If a page cannot be read or is damaged. The look-up has then ended, too.
    ///
    /// # Panics
    /// If the ticket is another reader's.
    pub fn wait(&mut self, ticket: Ticket) -> Result<Lookup> {
        let at = self.at(&ticket);
        let mut outcome = Ok(());
        while outcome.is_ok() && !self.active[at].fetch.is_done() {
            outcome = self.advance(Wait::ForOne);
        }
        let Active { lookup, fetch, .. } = self.take(at);
        outcome?;
        self.core.end_fetch(fetch, lookup.keys.len())?;
        // Reads of other look-ups use the room that became free. If the disk fails, their `wait`
        // returns the error.
        let _ = self.start();
        Ok(lookup)
    }

    /// Starts as many reads as there is room for, and processes finished ones.
    ///
    /// # Errors
    /// If the disk fails; reads in flight continue.
    pub fn advance(&mut self, wait: Wait) -> Result<()> {
        if self.active.is_empty() {
            return Ok(());
        }
        self.start()?;
        if self.complete(wait)? > 0 {
            self.start()?;
        }
        Ok(())
    }

    /// Whether all reads of a look-up are done, so that [`Reader::wait`] does not wait.
    ///
    /// # Panics
    /// If the ticket is another reader's.
    pub fn is_done(&self, ticket: &Ticket) -> bool {
        self.active[self.at(ticket)].fetch.is_done()
    }

    fn at(&self, ticket: &Ticket) -> usize {
        let at = self.active.iter().position(|active| active.ticket == ticket.number);
        assert!(ticket.reader == self.number && at.is_some(), "a ticket of this reader");
        at.unwrap_or_default()
    }

    /// Removes a look-up; its reads in flight are ignored when they finish.
    fn take(&mut self, at: usize) -> Active {
        self.core.looking.fetch_sub(1, Ordering::Relaxed);
        let Some(active) = self.active.remove(at) else { unreachable!("a look-up in flight") };
        active
    }

    fn start(&mut self) -> Result<()> {
        let unit = self.beside.unit.pages();
        let reading = Reading { unit, ..self.core.reading() };
        for active in &mut self.active {
            active.fetch.start(reading, active.ticket, &mut *self.queue)?;
        }
        Ok(())
    }

    fn complete(&mut self, wait: Wait) -> Result<usize> {
        let (core, active, beside) = (&self.core, &mut self.active, &mut self.beside);
        let finished = self.queue.complete(wait, &mut |done| {
            let ticket = (done.token >> 32) as u32;
            if let Some(active) = active.iter_mut().find(|active| active.ticket == ticket) {
                let Active { lookup, fetch, .. } = active;
                let mut destination = lookup.going_on(core.layout.row_bytes);
                fetch.done(core.reading(), done, &mut destination, beside);
            }
        })?;
        Ok(finished)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.core.looking.fetch_sub(self.active.len(), Ordering::Relaxed);
    }
}

impl Lookup {
    /// Makes a look-up of `keys`.
    pub fn new(keys: Vec<Key>) -> Self {
        Self { keys, ..Self::default() }
    }

    fn destination(&mut self, row_bytes: usize) -> Destination<'_> {
        Destination::new(&self.keys, &mut self.rows, &mut self.found, row_bytes)
    }

    fn going_on(&mut self, row_bytes: usize) -> Destination<'_> {
        Destination::going_on(&self.keys, &mut self.rows, &mut self.found, row_bytes)
    }
}

impl Core {
    pub(in crate::store) fn reading(&self) -> Reading<'_> {
        let queue_bytes = self.options.reader_bytes();
        Reading { layout: &self.layout, counters: &self.counters, queue_bytes, unit: 1 }
    }

    pub(super) fn end_fetch(&self, fetch: Fetch, keys: usize) -> Result<()> {
        fetch.end(&self.counters, keys)
    }

    /// Finds all places at one moment and copies rows that are in memory.
    pub(super) fn locate(&self, destination: &mut Destination<'_>) -> Fetch {
        let state = self.state();
        let mut fetch = Fetch::new(state.expire_before);
        let keys = destination.keys;
        state.index.get_many(keys, &mut |at, place| {
            let Some(place) = place else {
                fetch.absent += 1;
                return;
            };
            let page = state.table.page(place);
            let held = state.pages(page.slot);
            if let Some(row) = held.and_then(|pages| pages.find(page.page, keys[at])) {
                if row.used >= state.expire_before {
                    destination.put(at, row.payload);
                }
                fetch.buffered += 1;
                return;
            }
            fetch.want(page, at as u32);
        });
        fetch.sort(|slot| {
            let segment = state.table.get(slot);
            let (file, rows) = (Arc::clone(&segment.file), segment.rows);
            let is_sealed = segment.sealed.is_some();
            let since = state.next_seq.saturating_sub(segment.sealed_at);
            let since = if is_sealed { since } else { 0 };
            let age = since as f64 / state.next_seq.max(1) as f64 * AGE_PARTS as f64;
            Source { slot, file, rows, is_sealed, age: (age as usize).min(AGE_PARTS - 1) }
        });
        fetch
    }
}

impl From<crate::index::Full> for Error {
    fn from(full: crate::index::Full) -> Self {
        let crate::index::Full { rows, bytes, growth, bytes_max } = full;
        Self::IndexFull { rows, bytes, growth, bytes_max }
    }
}
