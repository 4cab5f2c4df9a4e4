//! The puller: carries out what the planner decided, unit by unit, in order.
//!
//! For each unit it first copies the victims out of their slots into staging, then fills the slots
//! from staging, the store, or the initial value. Being one thread, it is what orders a slot's
//! reuse after its victim's copy, and a refill after the write-back that it depends on.
//!
//! Cost: one copy per row down, one per row up; reads of the store are batched, at most
//! [`PIECE_BYTES`] of rows at a time.

use std::sync::Arc;

use stepwell_base::{Key, SlotIndex};
use stepwell_mem::Victim;

use crate::group::TrafficCount;
use crate::staging::Chunk;
use crate::unit::Fill;
use crate::{Group, Result};

/// Bytes of rows that one batched read of the store brings at most.
const PIECE_BYTES: usize = 4 << 20;

/// Fills and empties the slots of one table group.
#[derive(Debug)]
pub struct Puller {
    group: Arc<Group>,
    /// Victims of the unit at hand that were staged already.
    staged: usize,
    piece_rows: usize,
    slots: Vec<SlotIndex>,
    missing: Vec<usize>,
    keys: Vec<Key>,
    rows: Vec<f32>,
    found: Vec<bool>,
}

impl Puller {
    /// A puller for `group`.
    pub fn new(group: Arc<Group>) -> Self {
        let piece_rows = (PIECE_BYTES / group.spec.row_bytes()).max(1);
        Self {
            group,
            staged: 0,
            piece_rows,
            slots: Vec::new(),
            missing: Vec::new(),
            keys: Vec::new(),
            rows: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Bytes of the read buffer and lists for units of at most `rows` fills.
    pub fn bytes_max(row_bytes: usize, rows: u64) -> u64 {
        let piece = PIECE_BYTES.max(row_bytes) as u64;
        // The rows of a piece, and about as much again for its pages while they are scattered.
        piece * 2 + rows * (size_of::<SlotIndex>() + size_of::<usize>()) as u64
    }

    /// Copies `victims` into staging and hands each full chunk to `send`. Returns false when
    /// staging is full: call again with the same victims once something landed.
    pub fn stage(&mut self, victims: &[Victim], send: &mut dyn FnMut(Arc<Chunk>)) -> bool {
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

    fn copy_down(&mut self, victims: &[Victim], mut chunk: Chunk) -> Chunk {
        self.slots.clear();
        self.slots.extend(victims.iter().map(|victim| victim.slot));
        let held = self.group.slab.hold(&self.slots);
        for (index, victim) in victims.iter().enumerate() {
            chunk.keys.push(victim.key);
            chunk.used.push(0);
            chunk.rows.extend_from_slice(held.row(index));
        }
        chunk
    }

    /// Fills the slots of `fills`, whose unit's victims were staged.
    ///
    /// # Errors
    /// When the store cannot be read; no slot then counts as filled.
    pub fn fill(&mut self, fills: &mut [Fill]) -> Result<()> {
        if fills.is_empty() {
            return Ok(());
        }
        let group = Arc::clone(&self.group);
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        slots.extend(fills.iter().map(|fill| fill.slot));
        let mut held = group.slab.hold(&slots);
        let mut rows = held.rows_mut();
        let mut count = TrafficCount::default();
        group.staging.forward(fills.iter().map(|fill| &fill.key), |place, row| {
            rows.row(place).copy_from_slice(row);
            self.missing.push(place);
        });
        self.missing.iter().for_each(|place| fills[*place].from_below = true);
        count.forwarded = self.missing.len() as u64;
        self.missing.clear();
        self.missing.extend((0..fills.len()).filter(|place| !fills[*place].from_below));
        let missing = std::mem::take(&mut self.missing);
        for piece in missing.chunks(self.piece_rows) {
            self.read(fills, piece)?;
            self.copy_up(fills, piece, &mut rows, &mut count);
        }
        self.missing = missing;
        self.missing.clear();
        group.traffic.pulled(count);
        drop(held);
        self.slots = slots;
        Ok(())
    }

    fn read(&mut self, fills: &[Fill], piece: &[usize]) -> Result<()> {
        self.keys.clear();
        self.keys.extend(piece.iter().map(|place| fills[*place].key));
        self.found.clear();
        self.found.resize(piece.len(), false);
        if self.group.store.is_empty() {
            return Ok(());
        }
        self.rows.resize(piece.len() * self.group.spec.row_lanes(), 0.0);
        let bytes = bytemuck::cast_slice_mut(&mut self.rows);
        self.group.store.get_many(&self.keys, bytes, &mut self.found)?;
        Ok(())
    }

    fn copy_up(
        &self,
        fills: &mut [Fill],
        piece: &[usize],
        rows: &mut stepwell_base::slab::RowsMut<'_>,
        count: &mut TrafficCount,
    ) {
        let lanes = self.group.spec.row_lanes();
        for (index, place) in piece.iter().enumerate() {
            let row = rows.row(*place);
            if self.found[index] {
                row.copy_from_slice(&self.rows[index * lanes..(index + 1) * lanes]);
                fills[*place].from_below = true;
                count.refilled += 1;
            } else {
                self.group.spec.initial_row(fills[*place].key, row);
                count.initialized += 1;
            }
        }
    }
}
