//! Counts ids without a row, by field, when nothing is trained.
//!
//! - **How.** The plan records for each filled slot whether its row came from staging or the store.
//!   A bit per slot remembers this until the slot is filled again; preloaded rows came from the
//!   store, too. Units are passed in the order in which they are read.
//! - **Bounds.** A bit per slot.

use std::sync::Arc;

use stepwell_base::SlotIndex;

use crate::group::{Group, group_of};
use crate::mini_batch::MiniBatch;
use crate::stages::Unit;

/// Ids that were looked up in a field of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdCount {
    /// Number of occurrences.
    pub ids: u64,
    /// Number of occurrences without a row.
    pub without_row: u64,
}

/// Counts ids and ids without a row.
#[derive(Debug)]
pub struct WithoutRow {
    groups: Vec<Arc<Group>>,
    /// Slots whose rows were initialized, by group. // (groups) of (slots / 64)
    initial: Vec<Vec<u64>>,
    /// Counts by table and field.
    counts: Vec<Vec<IdCount>>,
    /// Whether each row of the current mini-batch is missing. // (rows)
    rows: Vec<bool>,
}

impl WithoutRow {
    /// Counts for tables with these numbers of `fields`, over the rows of `groups`; `None` if rows
    /// are on devices, which have other slots.
    pub fn new(groups: &[Arc<Group>], fields: &[usize]) -> Option<Self> {
        if groups.iter().any(|group| group.devices().is_some()) {
            return None;
        }
        let bits = |group: &Arc<Group>| vec![0; group.slab.slots().div_ceil(64)];
        Some(Self {
            groups: groups.to_vec(),
            initial: groups.iter().map(bits).collect(),
            counts: fields.iter().map(|fields| vec![IdCount::default(); *fields]).collect(),
            rows: Vec::new(),
        })
    }

    /// Begins to read the mini-batches of `unit`.
    pub fn begin<C>(&mut self, unit: &Unit<C>) {
        for (bits, part) in self.initial.iter_mut().zip(&unit.moves) {
            for fill in &part.fills {
                let (word, bit) = place_of(fill.slot);
                bits[word] = if fill.from_below { bits[word] & !bit } else { bits[word] | bit };
            }
        }
    }

    /// Counts the ids of a mini-batch of the current unit.
    pub fn count<C>(&mut self, mini: &MiniBatch<C>) {
        for (table, part) in mini.parts.iter().enumerate() {
            let (number, group) = group_of(&self.groups, table);
            let (bits, slots) = (&self.initial[number], &part.rows.slots);
            let is_initial = |slot: &SlotIndex| {
                let (word, bit) = place_of(*slot);
                bits[word] & bit != 0
            };
            self.rows.clear();
            self.rows.extend(slots.iter().map(is_initial));
            group.add_expired(table, slots, &mut self.rows);
            let of_fields = &mut self.counts[table];
            let fields = of_fields.len().max(1);
            for bag in 0..part.request.ends.len() {
                let rows = &part.request.occurrence_rows[part.request.occurrences(bag)];
                let count = &mut of_fields[bag % fields];
                count.ids += rows.len() as u64;
                let without = rows.iter().filter(|row| self.rows[**row as usize]).count();
                count.without_row += without as u64;
            }
        }
    }

    /// Counts by table and field.
    pub fn counts(&self) -> &[Vec<IdCount>] {
        &self.counts
    }
}

/// The word and the bit of a slot.
fn place_of(slot: SlotIndex) -> (usize, u64) {
    (slot.0 as usize / 64, 1 << (slot.0 % 64))
}
