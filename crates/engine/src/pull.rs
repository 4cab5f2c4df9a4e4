//! The puller: carries out what the planner decided, unit by unit, in order.
//!
//! For each unit it first copies the victims out of their slots into staging, then fills the slots
//! from staging, the store, or the initial value. Being one thread, it is what orders a slot's
//! reuse after its victim's copy, and a refill after the write-back that it depends on.
//!
//! Reads of the store are asked for when a unit begins and waited for when it is finished, so that
//! the disk works on later units while rows of an earlier one are copied:
//!
//! ```text
//!   unit 7   stage victims ─ begin: forward, ask ─────────────────── finish: wait, copy up
//!   unit 8                     stage victims ─ begin: forward, ask ─────────────────── finish
//! ```
//!
//! That is as right as one after the other: what a unit fills is pinned from then on, so no later
//! unit's victim is among it, and what was not in staging when the unit began is in the store.
//!
//! Cost: one copy per row down, one per row up.
//! Bounds: [`PIECES`] look-ups, and one, of [`PIECE_BYTES`] of rows are under way at a time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use stepwell_base::rules::Rule;
use stepwell_base::{Key, SlotIndex};
use stepwell_mem::Victim;
use stepwell_ssd::{Lookup, Reader, Ticket};

use crate::group::TrafficCount;
use crate::staging::StagedRows;
use crate::unit::Fill;
use crate::{Group, Result};

/// Bytes of rows that one look-up in the store brings at most.
const PIECE_BYTES: usize = 1 << 20;
/// Look-ups under way.
const PIECES: usize = 4;

/// Fills and empties the slots of one table group.
#[derive(Debug)]
pub struct Puller {
    group: Arc<Group>,
    /// Victims of the unit at hand that were staged already.
    staged: usize,
    piece_rows: usize,
    slots: Vec<SlotIndex>,
    /// None until the store has a row.
    reader: Option<Reader>,
    idle: Vec<Lookup>,
}

/// A unit's fills under way.
#[derive(Debug, Default)]
pub struct Pull {
    /// Fills that staging did not have, as places in the list of fills, ascending.
    missing: Vec<u32>,
    /// How many of them were asked for.
    asked: usize,
    pieces: VecDeque<(Ticket, Range<usize>)>,
}

impl Puller {
    /// A puller for `group`.
    pub fn new(group: Arc<Group>) -> Self {
        let piece_rows = (PIECE_BYTES / group.spec().row_bytes()).max(1);
        let (slots, idle) = (Vec::new(), Vec::new());
        Self { group, staged: 0, piece_rows, slots, reader: None, idle }
    }

    /// Bytes of the read buffers, and of the lists for `units` units that bring `rows` rows
    /// together.
    pub fn bytes_max(row_bytes: usize, rows: u64) -> u64 {
        let piece = PIECE_BYTES.max(row_bytes) as u64;
        // The rows of a piece, and about as much again for its pages while they are scattered.
        piece * 2 * (PIECES as u64 + 1) + rows * (size_of::<SlotIndex>() + size_of::<u32>()) as u64
    }

    /// Copies `victims` into staging and hands each full chunk to `send`. Returns false when
    /// staging is full: call again with the same victims once something landed.
    pub fn stage(&mut self, victims: &[Victim], send: &mut dyn FnMut(Arc<StagedRows>)) -> bool {
        while self.staged < victims.len() {
            let Some(chunk) = self.group.staging.take() else { return false };
            let count = (victims.len() - self.staged).min(self.group.staging.chunk_rows());
            let part = &victims[self.staged..self.staged + count];
            let chunk = self.copy_down(part, chunk);
            send(self.group.staging.stage(chunk));
            self.staged += count;
        }
        self.staged = 0;
        true
    }

    fn copy_down(&mut self, victims: &[Victim], mut chunk: StagedRows) -> StagedRows {
        self.slots.clear();
        self.slots.extend(victims.iter().map(|victim| victim.slot));
        let held = self.group.slab.hold(&self.slots);
        for (index, victim) in victims.iter().enumerate() {
            chunk.keys.push(victim.key);
            let row = held.row(index);
            chunk.used.push(self.group.spec().history(row).used);
            chunk.rows.extend_from_slice(row);
        }
        chunk
    }

    /// Begins to fill the slots of `fills`, whose unit's victims were staged: what is on its way
    /// down is copied up at once, the store is asked for the others.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn begin(&mut self, fills: &mut [Fill]) -> Result<Pull> {
        let mut pull = Pull::default();
        self.forward(fills);
        pull.missing.extend((0..).zip(&*fills).filter(|(_, f)| !f.from_below).map(|(at, _)| at));
        if self.reader.is_none() && !self.group.store.is_empty() {
            self.reader = Some(self.group.store.reader()?);
        }
        self.ask(&mut pull, fills, 0)?;
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

    /// Asks the store for as much as may be under way; for `least` pieces of this pull even if
    /// later ones have taken all the room.
    fn ask(&mut self, pull: &mut Pull, fills: &[Fill], least: usize) -> Result<()> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        while pull.asked < pull.missing.len()
            && (reader.in_flight() < PIECES || pull.pieces.len() < least)
        {
            let piece = pull.asked..pull.missing.len().min(pull.asked + self.piece_rows);
            let mut lookup = self.idle.pop().unwrap_or_default();
            lookup.keys.clear();
            lookup.found.clear();
            let keys = pull.missing[piece.clone()].iter().map(|place| fills[*place as usize].key);
            lookup.keys.extend(keys);
            pull.asked = piece.end;
            pull.pieces.push_back((reader.submit(lookup)?, piece));
        }
        Ok(())
    }

    /// Waits for what `pull` asked for; afterwards every slot of `fills` has its row.
    ///
    /// # Errors
    /// When the store cannot be read; no slot then counts as filled.
    pub fn finish(&mut self, mut pull: Pull, fills: &mut [Fill]) -> Result<()> {
        if self.reader.is_none() {
            let nothing = Lookup { found: vec![false; pull.missing.len()], ..Lookup::default() };
            self.copy_up(&pull.missing, fills, &nothing);
            return Ok(());
        }
        loop {
            self.ask(&mut pull, fills, 1)?;
            let (Some(reader), Some((ticket, piece))) = (&mut self.reader, pull.pieces.pop_front())
            else {
                break;
            };
            let lookup = reader.wait(ticket)?;
            self.copy_up(&pull.missing[piece], fills, &lookup);
            self.idle.push(lookup);
        }
        Ok(())
    }

    /// Fills the slots of `places` from what was found, or with initial values.
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
                    // In the order of creation, as the rule forbids.
                    false => Key(group.traffic.count().initialized + count.initialized),
                };
                group.tables()[usize::from(fill.table)].initial_row(key, row);
                count.initialized += 1;
            }
        }
        group.traffic.pulled(count);
    }
}
