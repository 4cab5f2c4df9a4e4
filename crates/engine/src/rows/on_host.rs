//! Rows of a mini-batch that stay on the host because the devices have no slots left for them. They
//! are read and summed with the visiting rows, and updated in place.

use std::sync::Arc;

use pulp::Arch;
use stepwell_base::slab::{Rows, RowsMut};
use stepwell_base::{Key, SlotIndex};
use stepwell_optim::Storage;

use super::EmbeddingBags;
use super::update::{Workspace, step_row};
use super::working::WorkingRows;
use super::workspaces::refill;
use crate::device::LanesRead;
use crate::device_tier::DeviceTier;
use crate::group::{Group, group_of};
use crate::table_spec::TableSpec;
use crate::working_set::Part;

/// Number of rows that one thread takes at a time.
const GRAIN: usize = 512;

/// The slots of the rows with these numbers.
fn slots_of(numbers: &[u32], slots: &[SlotIndex]) -> Vec<SlotIndex> {
    numbers.iter().map(|row| slots[*row as usize]).collect()
}

/// Calls `work` on parts of `rows`, which have these numbers in the request, on several threads.
fn share(rows: RowsMut<'_>, numbers: &[u32], work: &(impl Fn(RowsMut<'_>, &[u32]) + Sync)) {
    if numbers.len() <= GRAIN {
        return work(rows, numbers);
    }
    let (left, right) = rows.split_at(numbers.len() / 2);
    let (before, after) = numbers.split_at(numbers.len() / 2);
    rayon::join(|| share(left, before, work), || share(right, after, work));
}

impl EmbeddingBags {
    /// Copies rows of `parts` that stay on the host to where they are read with visiting rows.
    pub(super) fn bring_below(
        &self,
        devices: &DeviceTier,
        parts: &[Part],
        groups: &[Arc<Group>],
        read: LanesRead,
    ) {
        let parts = parts.iter().enumerate();
        for (table, part) in parts.filter(|(_, part)| !part.above.below.is_empty()) {
            let (_, group) = group_of(groups, table);
            let lanes = devices.lanes_read(table, &self.tables[table], read);
            let (below, visited) = (&*part.above.below, group.visited(table));
            let places = slots_of(below, &visited.slots);
            let mut visiting = visited.slab.hold(&places);
            share(visiting.rows_mut(), below, &|mut places, numbers| {
                let slots = slots_of(numbers, &part.rows.slots);
                let held = group.slab.hold(&slots);
                for index in 0..numbers.len() {
                    places.row(index)[..lanes].copy_from_slice(&held.row(index)[..lanes]);
                }
            });
        }
    }

    /// Updates the rows that stay on the host, from their places among the visiting `rows`: by the
    /// sums of their gradients, or with their new values.
    pub(super) fn step_below(&self, rows: &WorkingRows<'_>) {
        for (number, (rows_of, table)) in rows.tables.iter().zip(&self.tables).enumerate() {
            if rows_of.below.is_empty() {
                continue;
            }
            let (_, group) = group_of(rows.groups, number);
            let steps = group.devices().is_some_and(|devices| devices.steps(number));
            let (slots, visiting) = (slots_of(rows_of.below, rows_of.slots), rows_of.rows());
            let mut held = group.slab.hold(&slots);
            share(held.rows_mut(), rows_of.below, &|mut places, numbers| match steps {
                true => {
                    let keys = &rows_of.request.distinct;
                    self.step_some(table, keys, &mut places, numbers, visiting);
                }
                false => {
                    for (index, row) in numbers.iter().enumerate() {
                        let row = &visiting.row(*row as usize)[..table.row_lanes()];
                        places.row(index).copy_from_slice(row);
                    }
                }
            });
        }
    }

    /// Updates the rows of `table` with these `numbers`, in their `places`, by the sums of their
    /// gradients.
    fn step_some(
        &self,
        table: &TableSpec,
        keys: &[Key],
        places: &mut RowsMut<'_>,
        numbers: &[u32],
        sums: Rows<'_>,
    ) {
        let (width, lanes, storage) = (table.weight_count(), table.model_lanes(), table.storage);
        let mut workspace = self.workspaces.take(Workspace::default);
        Arch::new().dispatch(|| {
            refill(&mut workspace.weights, width);
            let room = &mut workspace.weights;
            for (index, number) in numbers.iter().enumerate() {
                let sum = &sums.row(*number as usize)[..width];
                let (model, key) = (&mut places.row(index)[..lanes], keys[*number as usize]);
                match storage {
                    Storage::F32 => {
                        step_row(table, Storage::F32, model, key, self.steps, sum, room);
                    }
                    other => step_row(table, other, model, key, self.steps, sum, room),
                }
            }
        });
        self.workspaces.put_back(workspace);
    }
}
