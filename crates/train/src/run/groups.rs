//! Opens the table groups of a run with the rows that it begins with.

use std::sync::Arc;

use stepwell_engine::{Begin, Checkpoint, DeviceTier, GivenRows, Group, Rewrite};
use stepwell_settings::Config;
use stepwell_ssd::{Compaction, Executor, ExecutorOptions, KeyShardSet, StoreOptions};

use tracing::info;

use super::surroundings::Surroundings;
use crate::Result;
use crate::capacity::Capacity;
use crate::machine::RowPlaces;
use crate::models::Model;
use crate::pretrained::Pretrained;
use crate::warm_start::{GroupOrigin, Inheritance};

/// Inputs for opening table groups.
pub(super) struct Opening<'a> {
    pub(super) capacity: &'a Capacity,
    pub(super) model: &'a Model,
    /// The checkpoint that has the rows.
    pub(super) from: Option<&'a Checkpoint>,
    /// Whether rows are only scored, and never change.
    pub(super) scores: bool,
    /// How the checkpoint's rows map to this model's groups; `None` if groups are unchanged.
    pub(super) inherited: Option<&'a Inheritance>,
    pub(super) config: &'a Config,
}

impl Opening<'_> {
    /// All table groups, below the devices `above`, if any.
    pub(super) fn groups(
        &self,
        around: &Surroundings,
        place: &dyn RowPlaces,
        above: Option<&Arc<DeviceTier>>,
    ) -> Result<Vec<Arc<Group>>> {
        let machine = &around.machine;
        // All groups' stores share one set of threads.
        let executor = Executor::new(ExecutorOptions::default());
        // A rank's store accepts only the keys that the rank owns.
        let ranks = machine.ranks.as_ref().map(|ranks| &ranks.fabric);
        let key_shards = ranks
            .map_or(KeyShardSet::ALL, |fabric| KeyShardSet::part(fabric.rank(), fabric.size()));
        let tables = self.model.tables();
        let mut groups = Vec::new();
        for number in 0..self.capacity.tiers.groups.len() {
            let options = |options: StoreOptions| StoreOptions {
                // Stores of unchanging rows merge nothing.
                compaction: if self.scores { Compaction::Inline } else { machine.compaction },
                index_seed: machine.index_seed,
                executor: Some(executor.clone()),
                stop: around.stop.clone(),
                key_shards,
                ..options
            };
            let at = (place.directory(number)?, self.begin(number, around));
            let group =
                self.capacity.tiers.open(number, tables, at, options, (machine.rules, above))?;
            self.rewrite(number, &group, (around, key_shards))?;
            self.give(number, &group, (around, key_shards))?;
            groups.push(group);
        }
        Ok(groups)
    }

    /// Rows that the store of group `number` begins with.
    fn begin<'a>(&'a self, number: usize, around: &'a Surroundings) -> Begin<'a> {
        let origin = self.inherited.map(|of| &of.groups[number]);
        match (self.from, origin, around.rows.from.get(number)) {
            (Some(checkpoint), None, _) => Begin::Checkpoint(checkpoint, number),
            (Some(checkpoint), Some(GroupOrigin::Linked(there)), _) => {
                Begin::Checkpoint(checkpoint, *there)
            }
            (None, _, Some(snapshot)) => Begin::Snapshot(snapshot),
            _ => Begin::Empty,
        }
    }

    /// Gives rows of new tables of group `number` the embeddings that settings name.
    fn give(
        &self,
        number: usize,
        group: &Group,
        (around, key_shards): (&Surroundings, KeyShardSet),
    ) -> Result<()> {
        let known = match (self.from, self.inherited) {
            (None, _) if around.rows.from.is_empty() => &[][..],
            (Some(_), Some(inherited)) => inherited.tables(),
            _ => return Ok(()),
        };
        for table in &self.model.groups()[number].tables {
            let table = &self.model.tables()[*table];
            if known.iter().any(|known| known.name == table.name) {
                continue;
            }
            let Some(pretrained) = Pretrained::of(self.config, &table.name)? else { continue };
            let step = self.from.map_or(0, |from| from.step);
            let rows = GivenRows { table, step, key_shards };
            let count = pretrained.put_into(rows, &group.store, &around.stop)?;
            info!(table = table.name, count, "pretrained embeddings");
            (around.on_note)(&pretrained.note(&table.name, count));
        }
        Ok(())
    }

    /// Rewrites the checkpoint's rows into group `number`, if their layout changed.
    fn rewrite(
        &self,
        number: usize,
        group: &Group,
        (around, key_shards): (&Surroundings, KeyShardSet),
    ) -> Result<()> {
        let (Some(checkpoint), Some(inherited)) = (self.from, self.inherited) else {
            return Ok(());
        };
        let GroupOrigin::Rewritten(tables) = &inherited.groups[number] else { return Ok(()) };
        for (there, here) in tables {
            let (was, now) = (&inherited.tables()[*there], &self.model.tables()[*here]);
            let rewrite = Rewrite { checkpoint, table: *there, was, now, key_shards };
            rewrite.put_into(&group.store, &around.stop)?;
        }
        Ok(())
    }
}
