//! Rows that devices pool and update in place, for a dense part that is on devices as well.

use std::sync::Arc;

use stepwell_mem::Occurrence;

use super::EmbeddingBags;
use super::sums::occurrence;
use super::working::WorkingRows;
use crate::Result;
use crate::blocks::Blocks;
use crate::device::{PoolAsked, PooledAt};
use crate::device_tier::DeviceTier;
use crate::group::{Group, devices_above};
use crate::working_set::Part;

/// The devices that pool.
fn on_devices(groups: &[Arc<Group>]) -> &DeviceTier {
    let Some(devices) = devices_above(groups) else { panic!("pooled rows are on devices") };
    devices
}

impl EmbeddingBags {
    /// Makes each device pool rows into its buffers in `at`, for mini-batches whose rows are all
    /// on devices.
    pub fn pool_on_devices(&mut self, at: Vec<Arc<PooledAt>>) {
        self.pooled_at = at;
    }

    /// Whether all rows of `parts` are on devices that pool, and are read as they are there.
    pub(super) fn can_pool(&self, parts: &[Part], groups: &[Arc<Group>]) -> bool {
        let pools = !self.pooled_at.is_empty()
            && devices_above(groups).is_some_and(|devices| devices.pools());
        let read_as_they_are =
            !self.stale.looks_back() && !self.lends && self.admissions.iter().all(Option::is_none);
        pools
            && read_as_they_are
            && self.columns.of_fields.iter().all(|fields| !fields.is_empty())
            && parts.iter().all(|part| part.above.below.is_empty())
    }

    /// Makes devices pool the rows of mini-batch `number`.
    pub(super) fn pool(
        &self,
        number: u32,
        parts: &[Part],
        groups: &[Arc<Group>],
        trains: bool,
    ) -> Result<()> {
        let examples = parts.first().zip(self.columns.of_fields.first());
        let examples = examples.map_or(0, |(part, of)| part.request.ends.len() / of.len());
        on_devices(groups).pool(&PoolAsked {
            parts,
            groups,
            tables: &self.tables,
            columns: &self.columns,
            blocks: Blocks::new(examples, self.blocks),
            at: &self.pooled_at,
            number,
            step: trains.then_some(self.steps + 1),
        })
    }

    /// Makes devices update the rows that they pooled, once queued passes give them gradients;
    /// called before the host waits for results of these passes. Does nothing if the host updates
    /// the rows.
    ///
    /// # Errors
    /// If a device fails.
    pub fn update_early(&self, rows: &WorkingRows<'_>) -> Result<()> {
        match rows.pooled && rows.trains {
            true => on_devices(rows.groups).update(&self.pooled_at, rows.number),
            false => Ok(()),
        }
    }

    /// Ends a step whose rows devices pooled and update: records how each row occurs, if a policy
    /// needs it.
    pub(super) fn note_occurrences(&self, rows: &mut WorkingRows<'_>, labels: &[f32]) {
        assert!(on_devices(rows.groups).are_updated(), "devices update the rows that they pooled");
        for (table, fields) in rows.tables.iter_mut().zip(&self.columns.of_fields) {
            let (bags, fields) = (table.bags, fields.len());
            // Every row occurs; an unset occurrence would mean that it doesn't.
            let once = Occurrence { examples: 1, ..Occurrence::default() };
            table.occurrences.clear();
            table.occurrences.resize(table.request.distinct.len(), once);
            if self.weighs_occurrences {
                for (row, seen) in table.occurrences.iter_mut().enumerate() {
                    *seen = occurrence(bags.of(row), fields, labels);
                }
            }
        }
        rows.groups.iter().for_each(|group| group.set_steps(self.steps));
    }
}
