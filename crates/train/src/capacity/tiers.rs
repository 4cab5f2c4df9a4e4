//! The tiers of a run, and its demands on them.

use stepwell_base::ByteCount;
use stepwell_engine::{Load, TableLoad, TableSpec, TierOptions, TierPlan};
use stepwell_settings::{TableConfig, TierConfig};

use super::wanted::Wanted;
use crate::Result;
use crate::models::named;
use crate::run_plan::{Batching, RunPlan};

/// Approximate bytes of a staging buffer's rows.
const STAGING_BUFFER_BYTES: usize = 2 << 20;

/// The tiers of a run.
pub(super) fn tiers(wanted: &Wanted<'_>, options: TierOptions) -> Result<TierPlan> {
    let Wanted { plan, model, .. } = wanted;
    let features = model.features();
    let (expected, most) = (features.expected_by_table(), features.ids_by_table());
    let tables = model.tables().iter().zip(expected).zip(most);
    // Sizes that are set are kept, and rows on devices are a part of those in memory.
    let is_shared = plan.tiers.dram.is_none() && wanted.offer.is_none();
    let examples = wanted.examples.filter(|_| is_shared);
    let scored = rows_to_score(wanted);
    let loads: Vec<TableLoad> = tables
        .enumerate()
        .map(|(number, ((table, expected), ids_max))| {
            let given = given(&plan.config.tables, table).map(|bytes| bytes.0);
            let asked = examples.map(|examples| examples.saturating_mul(ids_max));
            let scored = scored.as_ref().map(|rows| rows[number]);
            let rows_max = asked.into_iter().chain(scored).min().filter(|_| given.is_none());
            TableLoad { given, expected, ids_max, rows_max }
        })
        .collect();
    Ok(TierPlan::new(model.tables(), model.groups(), &loads, options)?)
}

/// Rows of each table that scoring can use in memory: the checkpoint's rows and a quarter more,
/// plus the ids of the mini-batches in flight.
fn rows_to_score(wanted: &Wanted<'_>) -> Option<Vec<u64>> {
    let Wanted { plan: RunPlan { batching, .. }, model, offer, .. } = wanted;
    let rows = wanted.before.as_ref().filter(|_| wanted.scores && offer.is_none())?;
    let on_their_way = (batching.lookahead + 2).saturating_mul(batching.batch()) as u64;
    let ids = model.features().ids_by_table();
    let mut by_table: Vec<u64> =
        ids.into_iter().map(|ids| ids.saturating_mul(on_their_way)).collect();
    for (group, rows) in model.groups().iter().zip(rows) {
        // Tables of a group share its slots.
        if let Some(first) = group.tables.first() {
            by_table[*first] = by_table[*first].saturating_add(rows.saturating_add(rows / 4));
        }
    }
    Some(by_table)
}

/// Bytes of memory that the settings of `tables` give `table`.
pub(super) fn given(tables: &[TableConfig], table: &TableSpec) -> Option<ByteCount> {
    named(tables, &table.name).dram
}

/// Memory and index of all tables together if `memory` doesn't share them out.
pub(super) fn tier_options(tiers: &TierConfig, batching: Batching) -> TierOptions {
    TierOptions {
        dram: tiers.dram.unwrap_or(TierConfig::DRAM),
        index: tiers.index.unwrap_or(TierConfig::INDEX),
        page_cache: tiers.page_cache,
        harvest: tiers.harvest.unwrap_or(TierConfig::HARVEST),
        read_unit: tiers.read_unit,
        segment: tiers.segment.unwrap_or(TierConfig::SEGMENT),
        space: tiers.space,
        policy: tiers.policy,
        staging_buffer_bytes: STAGING_BUFFER_BYTES,
        horizon: (batching.horizon + 1) * batching.per_batch,
        ..TierOptions::default()
    }
}

/// The run's demands on its tiers.
pub(super) fn load(wanted: &Wanted<'_>) -> Load {
    let RunPlan { batching, storage, .. } = wanted.plan;
    Load {
        mini_batch: batching.mini_batch as u64,
        batch: batching.batch() as u64,
        lookahead: batching.lookahead as u64,
        staleness: batching.staleness as u64,
        sketch_bytes: wanted.model.sketch_bytes().to_vec(),
        saves: storage.saves(),
        // Stores of the first format, which do not describe their rows, are rewritten.
        unchanged: wanted.scores && wanted.before.is_some(),
        examples: wanted.examples,
    }
}
