//! Rows that devices pool and update where they lie, for a dense part that is there as well.

use std::sync::Arc;

use rayon::prelude::*;
use stepwell_mem::Occurrence;

use super::sums::occurrence;
use super::{Blocks, EmbeddingBags, WorkingRows};
use crate::device::{DeviceTier, PoolAsked, PooledAt};
use crate::group::devices_above;
use crate::{Group, Part, Result};

/// Rows that one thread takes at a time.
const GRAIN: usize = 4096;

impl EmbeddingBags {
    /// Lets devices pool rows into what a dense part has `at` each of them, where all rows of a
    /// mini-batch are there.
    pub fn pool_on_devices(&mut self, at: Vec<Arc<PooledAt>>) {
        self.pooled_at = at;
    }

    /// Has devices pool the rows of mini-batch `number`, if they can; says whether they do.
    pub(super) fn pool(
        &self,
        number: u32,
        (parts, groups): (&[Part], &[Arc<Group>]),
        trains: bool,
    ) -> Result<bool> {
        let Some(devices) = devices_above(groups).filter(|tier| self.can_pool(tier, parts)) else {
            return Ok(false);
        };
        let fields = &self.columns.of_fields;
        let mut examples =
            parts.iter().zip(fields).map(|(part, of)| part.request.ends.len() / of.len());
        let Some(examples) = examples.next() else { return Ok(false) };
        devices.pool(&PoolAsked {
            parts,
            groups,
            tables: &self.tables,
            columns: &self.columns,
            blocks: Blocks::new(examples, self.blocks),
            at: &self.pooled_at,
            number,
            step: trains.then_some(self.steps + 1),
        })?;
        Ok(true)
    }

    /// Whether all rows of `parts` are on devices that pool, and nobody else wants to see them.
    fn can_pool(&self, devices: &DeviceTier, parts: &[Part]) -> bool {
        let reads_as_they_are = !self.stale.looks_back()
            && !self.lends
            && self.witness.is_none()
            && self.admissions.iter().all(Option::is_none);
        devices.pools()
            && !self.pooled_at.is_empty()
            && reads_as_they_are
            && parts.iter().all(|part| part.above.below.is_empty())
            && self.columns.of_fields.iter().all(|fields| !fields.is_empty())
    }

    /// Ends a step whose rows devices pooled: they update them by the gradients that they have,
    /// while the threads of the calling pool note how each row occurs.
    pub(super) fn update_in_place(&self, rows: &mut WorkingRows<'_>, labels: &[f32]) -> Result<()> {
        let Some(devices) = devices_above(rows.groups) else {
            panic!("rows that devices pooled are on devices")
        };
        devices.update(&self.pooled_at, rows.number)?;
        for (table, fields) in rows.tables.iter_mut().zip(&self.columns.of_fields) {
            let (bags, fields) = (table.bags, fields.len());
            table.occurrences.resize(table.request.distinct.len(), Occurrence::default());
            let pieces = table.occurrences.par_chunks_mut(GRAIN).enumerate();
            pieces.for_each(|(piece, occurrences)| {
                for (index, seen) in occurrences.iter_mut().enumerate() {
                    *seen = occurrence((bags.of(piece * GRAIN + index), fields), labels);
                }
            });
        }
        rows.groups.iter().for_each(|group| group.set_steps(self.steps));
        Ok(())
    }
}
