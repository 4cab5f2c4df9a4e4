//! The puller carries out the planner's decisions, unit by unit, in order.
//!
//! For each unit it first copies the victims out of their slots into staging, then fills the slots
//! from staging, the store, or the initial value. As a single thread, it orders a slot's reuse
//! after the copy of its victim, and a refill after the write-back that it depends on.
//!
//! A unit is filled piece by piece, several units at once. Only [`Puller::wait`] waits for the
//! disk. Between pieces of work, finished reads are taken and others started, so that the disk
//! works while rows are copied:
//!
//! ```text
//!   unit 7   stage victims ─ begin: forward ─ ask ─ ask ─── copy up ─── copy up
//!   unit 8                     stage victims ─ begin: forward ──── ask ─── copy up
//! ```
//!
//! This is as correct as filling unit by unit: slots that a unit fills are pinned from then on, so
//! they contain no later unit's victims, and rows not in staging when the unit begins are in the
//! store.
//!
//! - **Cost.** One copy per evicted row, one per filled row.
//! - **Bounds.** At most [`PIECES`] look-ups are in flight, each of as many bytes of rows as the
//!   store writes at once.

mod harvester;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use stepwell_base::rules::Rule;
use stepwell_base::stage::Progress;
use stepwell_base::{Key, SlotIndex};
use stepwell_disk::Wait;
use stepwell_mem::Victim;
use stepwell_ssd::{Lookup, Reader, Ticket};

use self::harvester::Harvester;
use crate::Result;
use crate::group::{Group, TrafficCount};
use crate::staging::StagedRows;
use crate::unit::Fill;

/// Maximum number of look-ups in flight.
const PIECES: usize = 4;

/// Fills and empties the slots of one table group.
#[derive(Debug)]
pub struct Puller {
    group: Arc<Group>,
    /// Number of the current unit's victims that were staged already.
    staged: usize,
    piece_rows: usize,
    slots: Vec<SlotIndex>,
    /// `None` until the store has a row.
    reader: Option<Reader>,
    idle: Vec<Lookup>,
    harvester: Harvester,
}

/// A unit's fills in progress.
#[derive(Debug, Default)]
pub struct Pull {
    /// Fills that were not in staging, as positions in the list of fills.
    missing: Vec<u32>,
    /// Number of `missing` that were requested.
    asked: usize,
    pieces: VecDeque<(Ticket, Range<usize>)>,
}

impl Pull {
    /// Whether every slot has its row.
    pub fn is_done(&self) -> bool {
        self.asked == self.missing.len() && self.pieces.is_empty()
    }
}

impl Puller {
    /// A puller for `group`.
    pub fn new(group: Arc<Group>) -> Self {
        let piece_rows =
            (group.store.options().buffer_bytes as usize / group.spec().row_bytes()).max(1);
        let harvester = Harvester::new(&group);
        let (slots, idle) = (Vec::new(), Vec::new());
        Self { group, staged: 0, piece_rows, slots, reader: None, idle, harvester }
    }

    /// Bytes of the read buffers, which hold `transfer` bytes or a row of `row_bytes`, plus lists
    /// for units that fill `rows` rows together.
    pub fn bytes_max(row_bytes: usize, transfer: u64, rows: u64) -> u64 {
        let piece = transfer.max(row_bytes as u64);
        // The rows of a piece, and about as much again for its pages while rows are copied out.
        piece * 2 * PIECES as u64 + rows * (size_of::<SlotIndex>() + size_of::<u32>()) as u64
    }

    /// Copies the next of `victims` into a staging buffer and passes it to `send`. Call again with
    /// the same victims until it returns `Done`; `Blocked` while staging is full.
    pub fn stage(&mut self, victims: &[Victim], send: impl FnOnce(Arc<StagedRows>)) -> Progress {
        if self.staged == victims.len() {
            self.staged = 0;
            return Progress::Done;
        }
        let Some(buffer) = self.group.staging.take() else { return Progress::Blocked };
        let count = (victims.len() - self.staged).min(self.group.staging.buffer_rows());
        let part = &victims[self.staged..self.staged + count];
        let buffer = self.copy_down(part, buffer);
        send(self.group.staging.stage(buffer));
        self.staged += count;
        Progress::Progressed
    }

    fn copy_down(&mut self, victims: &[Victim], mut buffer: StagedRows) -> StagedRows {
        self.slots.clear();
        self.slots.extend(victims.iter().map(|victim| victim.slot));
        if self.group.rules.hold(Rule::ForgetHarvested) {
            self.harvester.forget(victims.iter().map(|victim| victim.key));
        }
        let held = self.group.slab.hold(&self.slots);
        for (index, victim) in victims.iter().enumerate() {
            buffer.keys.push(victim.key);
            let row = held.row(index);
            buffer.used.push(self.group.spec().history(row).used);
            buffer.rows.extend_from_slice(row);
        }
        buffer
    }

    /// Begins to fill the slots of `fills`, after the unit's victims were staged; rows still in
    /// staging are copied at once.
    ///
    /// # Errors
    /// If the disk cannot make a queue.
    pub fn begin(&mut self, fills: &mut [Fill]) -> Result<Pull> {
        let mut pull = Pull::default();
        self.forward(fills);
        pull.missing.extend((0..).zip(&*fills).filter(|(_, f)| !f.from_below).map(|(at, _)| at));
        if self.reader.is_none() && !self.group.store.is_empty() {
            let mut reader = self.group.store.reader()?;
            self.harvester.look_with(&mut reader);
            self.reader = Some(reader);
        }
        Ok(pull)
    }

    fn forward(&mut self, fills: &mut [Fill]) {
        let group = &self.group;
        if fills.is_empty() || !group.rules.hold(Rule::Forward) {
            return;
        }
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        slots.extend(fills.iter().map(|fill| fill.slot));
        let mut held = group.slab.hold(&slots);
        let (mut rows, mut forwarded) = (held.rows_mut(), Vec::new());
        group.staging.forward(fills.iter().map(|fill| &fill.key), |place, row| {
            rows.row(place).copy_from_slice(row);
            forwarded.push(place);
        });
        forwarded.iter().for_each(|place| fills[*place].from_below = true);
        let forwarded = forwarded.len() as u64;
        group.traffic.pulled(TrafficCount { forwarded, ..TrafficCount::default() });
        drop(held);
        self.slots = slots;
    }

    /// Does the next piece of `pull` if possible; `false` if all pieces are done or wait for the
    /// disk.
    ///
    /// # Errors
    /// If the store cannot be read; the slots then don't count as filled.
    pub fn step(&mut self, pull: &mut Pull, fills: &mut [Fill]) -> Result<bool> {
        let next = pull.asked..pull.missing.len().min(pull.asked + self.piece_rows);
        let Some(reader) = &mut self.reader else {
            // Nothing was ever put into the store.
            let nothing = Lookup { found: vec![false; next.len()], ..Lookup::default() };
            self.copy_up(&pull.missing[next.clone()], fills, &nothing);
            pull.asked = next.end;
            return Ok(!next.is_empty());
        };
        if !next.is_empty() && reader.in_flight() < PIECES {
            let places = &mut pull.missing[next.clone()];
            let taken = self.harvester.fill(&self.group, places, fills);
            pull.asked = next.end;
            let next = next.start + taken..next.end;
            if next.is_empty() {
                return Ok(true);
            }
            let mut lookup = self.idle.pop().unwrap_or_default();
            lookup.keys.clear();
            lookup.found.clear();
            let keys = pull.missing[next.clone()].iter().map(|place| fills[*place as usize].key);
            lookup.keys.extend(keys);
            pull.pieces.push_back((reader.submit(lookup)?, next));
            return Ok(true);
        }
        let done = |(ticket, _): &mut (Ticket, Range<usize>)| reader.is_done(ticket);
        let Some((ticket, piece)) = pull.pieces.pop_front_if(done) else { return Ok(false) };
        let lookup = reader.wait(ticket)?;
        self.copy_up(&pull.missing[piece], fills, &lookup);
        self.idle.push(lookup);
        Ok(true)
    }

    /// Takes finished reads and starts others.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn advance(&mut self) -> Result<()> {
        self.advance_reads(Wait::No)
    }

    /// Like [`Puller::advance`]; waits for a read in flight, if any.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn wait(&mut self) -> Result<()> {
        self.advance_reads(Wait::ForOne)
    }

    fn advance_reads(&mut self, wait: Wait) -> Result<()> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        reader.advance(wait)?;
        self.harvester.keep(reader, &self.group);
        Ok(())
    }

    /// Records that all mini-batches before `number` have their rows.
    pub(crate) fn filled_before(&mut self, number: u32) {
        self.harvester.filled_before(number);
    }

    /// Fills the slots of `places` with the rows in `found`, or with initial values.
    fn copy_up(&mut self, places: &[u32], fills: &mut [Fill], found: &Lookup) {
        let group = &self.group;
        self.slots.clear();
        self.slots.extend(places.iter().map(|place| fills[*place as usize].slot));
        let mut held = group.slab.hold(&self.slots);
        let (mut rows, mut count) = (held.rows_mut(), TrafficCount::default());
        let bytes = group.spec().row_bytes();
        for (index, place) in places.iter().enumerate() {
            let (fill, row) = (&mut fills[*place as usize], rows.row(index));
            if found.found[index] {
                let from = &found.rows[index * bytes..(index + 1) * bytes];
                bytemuck::cast_slice_mut(row).copy_from_slice(from);
                fill.from_below = true;
                count.refilled += 1;
            } else {
                let key = match group.rules.hold(Rule::BeginByKey) {
                    true => fill.key,
                    // In the order of creation, which the rule forbids.
                    false => Key(group.traffic.count().initialized + count.initialized),
                };
                group.tables()[usize::from(fill.table)].initial_row(key, row);
                count.initialized += 1;
            }
        }
        group.traffic.pulled(count);
    }
}
