//! The rows of a mini-batch as a step reads them: in their slots, or as older versions.

use std::sync::Arc;

use stepwell_base::slab::{Held, Rows, RowsMut, Slab};
use stepwell_base::{Key, SlotIndex};
use stepwell_mem::Occurrence;
use stepwell_optim::{Storage, Weights};

use crate::device_tier::visited::Visited;
use crate::group::Group;
use crate::request::{BagsByRow, Request};
use crate::table_spec::TableSpec;
use crate::working_set::{Askers, OnDevice, Part};

/// The rows of a mini-batch, held as long as this lives.
#[derive(Debug)]
pub struct WorkingRows<'a> {
    pub(super) tables: Vec<TableRows<'a>>,
    pub(super) groups: &'a [Arc<Group>],
    /// Whether the rows are held for training.
    pub(super) trains: bool,
    /// Number of the mini-batch.
    pub(super) number: u32,
    /// Whether devices pooled the rows; then none of their weights is here.
    pub(super) pooled: bool,
}

impl WorkingRows<'_> {
    /// Whether devices pooled the rows and will update them; then no weights are here to gather.
    pub fn are_pooled(&self) -> bool {
        self.pooled
    }

    /// The distinct keys of a table, in order of first occurrence.
    pub(crate) fn keys(&self, table: usize) -> &[Key] {
        &self.tables[table].request.distinct
    }

    /// Row of each occurrence in a table.
    pub(crate) fn occurrence_rows(&self, table: usize) -> &[u32] {
        &self.tables[table].request.occurrence_rows
    }

    /// Copies the weights of a table's distinct rows to `weights` (rows, weights).
    pub(crate) fn copy_weights(&self, table: usize, weights: &mut [f32]) {
        let rows = &self.tables[table];
        assert_eq!(weights.len(), rows.len() * rows.width(), "lanes for all rows");
        for (row, weights) in weights.chunks_exact_mut(rows.width()).enumerate() {
            rows.weights(row).copy_to(weights);
        }
    }
}

/// The rows of one table, by their number in the request.
#[derive(Debug)]
pub(super) struct TableRows<'a> {
    pub(super) request: &'a Request,
    /// The bags of each row, if it is trained.
    pub(super) bags: &'a BagsByRow,
    /// The rows that each rank requested, if there are several ranks.
    pub(super) askers: &'a Askers,
    /// How each row occurs, set once it was trained.
    pub(super) occurrences: &'a mut Vec<Occurrence>,
    /// Where the rows are on devices, if any.
    pub(super) above: &'a [OnDevice],
    /// Numbers of the rows that stay on the host nevertheless, and the host slots, by number.
    pub(super) below: &'a [u32],
    pub(super) slots: &'a [SlotIndex],
    held: Held<'a>,
    /// Weights that are read instead of the slab's. // (rows read elsewhere, weights)
    elsewhere: Vec<f32>,
    /// For each row its position in `elsewhere` plus one, or zero; empty if no row is read there.
    places: Vec<u32>,
    /// Number of weights of a row, and their storage in the slab.
    width: usize,
    storage: Storage,
    row_lanes: usize,
}

impl<'a> TableRows<'a> {
    /// The rows of `part` in `slab`.
    pub(super) fn new(part: &'a mut Part, slab: &'a Slab, table: &TableSpec) -> Self {
        Self::of(part, slab, None, table.weight_count(), table.storage)
    }

    /// The rows of `part` on devices, where they visit the host.
    pub(super) fn visiting(part: &'a mut Part, at: &'a Visited, table: &TableSpec) -> Self {
        let slots = &at.slots[..part.request.distinct.len()];
        Self::of(part, &at.slab, Some(slots), table.weight_count(), table.storage)
    }

    /// The rows of `part` in the order of its request, in a slab of f32 weights.
    pub(super) fn of_guests(part: &'a mut Part, slab: &'a Slab) -> Self {
        Self::of(part, slab, None, slab.row_lanes(), Storage::F32)
    }

    fn of(
        part: &'a mut Part,
        slab: &'a Slab,
        slots: Option<&'a [SlotIndex]>,
        width: usize,
        storage: Storage,
    ) -> Self {
        let rows = &mut part.rows;
        Self {
            request: &part.request,
            bags: &rows.bags,
            askers: &part.askers,
            occurrences: &mut rows.occurrences,
            above: &part.above.devices,
            below: &part.above.below,
            slots: &rows.slots,
            held: slab.hold(slots.unwrap_or(&rows.slots)),
            elsewhere: Vec::new(),
            places: Vec::new(),
            width,
            storage,
            row_lanes: slab.row_lanes(),
        }
    }

    /// Storage of weights in the slab.
    pub(super) fn storage(&self) -> Storage {
        self.storage
    }

    /// Number of weights of a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Bytes for `rows` rows of `width` weights that are all read elsewhere.
    pub(super) fn elsewhere_bytes_max(rows: u64, width: u64) -> u64 {
        rows * (width + 1) * size_of::<f32>() as u64
    }

    /// How often row `row` occurs in the mini-batch.
    pub(super) fn occurrences_of(&self, row: usize) -> usize {
        let bags = self.bags.of(row);
        if self.askers.counts.is_empty() {
            return bags.len();
        }
        bags.iter().map(|asked| self.askers.counts[*asked as usize] as usize).sum()
    }

    /// Number of lanes of a row in the slab.
    pub(super) fn row_lanes(&self) -> usize {
        self.row_lanes
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// The weights of row `row` that are read.
    #[inline]
    pub(super) fn weights(&self, row: usize) -> Weights<'_> {
        if let Some(place) = self.places.get(row)
            && *place > 0
        {
            let start = (*place as usize - 1) * self.width;
            return Weights::F32(&self.elsewhere[start..start + self.width]);
        }
        self.held_weights(row)
    }

    /// The weights of row `row` in the slab, even if others are read instead.
    #[inline]
    pub(super) fn held_weights(&self, row: usize) -> Weights<'_> {
        self.storage.view(self.held.row(row), self.width)
    }

    /// Whether any row is read elsewhere than in the slab.
    pub(super) fn looks_elsewhere(&self) -> bool {
        !self.places.is_empty()
    }

    /// Whether row `row` is read elsewhere than in the slab.
    pub(super) fn is_elsewhere(&self, row: usize) -> bool {
        self.places.get(row).is_some_and(|place| *place > 0)
    }

    /// Row `row` in the slab, even if other weights are read instead. // (row lanes)
    #[inline]
    pub(super) fn held(&self, row: usize) -> &[f32] {
        self.held.row(row)
    }

    /// The rows in the slab.
    #[inline]
    pub(super) fn rows(&self) -> Rows<'_> {
        self.held.rows()
    }

    /// Reads the weights that `fill` writes instead of row `row`'s.
    pub(super) fn replace(&mut self, row: usize, fill: impl FnOnce(&mut [f32])) {
        if self.places.is_empty() {
            self.places.resize(self.held.len(), 0);
            self.elsewhere.reserve_exact(self.held.len() * self.width);
        }
        let start = self.elsewhere.len();
        self.elsewhere.resize(start + self.width, 0.0);
        fill(&mut self.elsewhere[start..]);
        self.places[row] = (start / self.width + 1) as u32;
    }

    /// The rows of the slab for writing, and for each row how it occurs.
    pub(super) fn for_update(&mut self) -> (RowsMut<'_>, &mut [Occurrence]) {
        (self.held.rows_mut(), self.occurrences)
    }

    /// The rows of the slab for writing.
    pub(super) fn rows_mut(&mut self) -> RowsMut<'_> {
        self.held.rows_mut()
    }
}
