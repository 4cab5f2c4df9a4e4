//! Makes the report from what the parts of a run counted.

use std::sync::Arc;

use serde_json::Value;
use stepwell_engine::{Group, ModelDigest, Planner};
use stepwell_nn::Precision;
use stepwell_settings::Config;

use super::surroundings::Surroundings;
use crate::Result;
use crate::capacity::Capacity;
use crate::models::kernels;
use crate::pipeline::{Counters, Outcome};
use crate::report::{
    self, ColumnIds, DeviceReport, DiskTier, Exchanged, HostTier, Processor, Report, StoppedEarly,
    Tiers,
};
use crate::run_plan::RunPlan;

pub(super) fn assemble(
    around: &Surroundings,
    capacity: &Capacity,
    groups: &[Arc<Group>],
    counters: &Counters,
    outcome: Outcome,
    digest: Option<&ModelDigest>,
    plan: &RunPlan<'_>,
) -> Result<Report> {
    let ranks = exchanged(around, counters, &outcome);
    let ids_by_column = ids_by_column(&outcome);
    let measured = outcome.measured;
    let mut tiers = tiers(capacity, groups, &outcome.planners, counters);
    tiers.disk.reads_per_example = tiers.disk.reads as f64 / measured.examples.max(1) as f64;
    let model_digest = match digest {
        Some(digest) => Some(digest.finish(&outcome.steps.model.dense()?)),
        None => None,
    };
    Ok(Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        interrupted: false,
        through: measured.through,
        examples: measured.examples,
        steps: measured.steps,
        steps_before: 0,
        skipped_lines: counters.skipped(),
        cut_lists: Vec::new(),
        wall_seconds: 0.0,
        digest_seconds: 0.0,
        train_seconds: measured.trained_at,
        examples_per_second: 0.0,
        before: None,
        eval: measured.evaluations.last().map(|last| last.metrics.clone()).unwrap_or_default(),
        ids_by_column,
        by_group: None,
        recall: None,
        by_value: None,
        eval_by_epoch: measured.eval,
        evaluations: measured.evaluations,
        stopped_early: measured.early.map(StoppedEarly::of),
        progressive: measured.progressive.last().cloned().unwrap_or_default(),
        progressive_by_epoch: measured.progressive,
        best_possible: measured.best,
        tiers,
        processor: Processor::default(),
        compute_seconds: outcome.steps.compute_seconds(),
        profile: outcome.steps.model.profile().kernels(),
        layers: outcome.steps.model.profile().layers(),
        ranks,
        by_rank: Vec::new(),
        stages: outcome.times.iter().map(Into::into).collect(),
        rows: digest.map(ModelDigest::rows),
        model_digest,
        kernels: computed_by(plan.dense.precision, capacity),
        peak_rss_bytes: None,
        budget_bytes: capacity.budget.total(),
        budget: report::bounds(&capacity.budget),
        config: with_rates(around.settings.clone(), plan.config),
    })
}

/// `settings`, with the learning rates that follow from others.
fn with_rates(mut settings: Value, config: &Config) -> Value {
    for (key, rate) in
        [("optim.rows.lr", config.row_rate()), ("optim.dense.lr", config.dense_rate())]
    {
        if let Some(unset @ Value::Null) = settings.get_mut(key) {
            *unset = rate.into();
        }
    }
    settings
}

/// Ids without a row, by column and table: a column may have several fields.
fn ids_by_column(outcome: &Outcome) -> Vec<ColumnIds> {
    let model = outcome.steps.model.model();
    let columns = model.features().columns_of_fields();
    let mut found: Vec<ColumnIds> = Vec::new();
    let of_tables = model.tables().iter().zip(columns).zip(&outcome.measured.without_row);
    for ((table, columns), counts) in of_tables {
        for (column, count) in columns.into_iter().zip(counts) {
            let (column, table) = (column.to_owned(), table.name.clone());
            let known = found.iter_mut().find(|of| of.column == column && of.table == table);
            match known {
                Some(known) => {
                    known.ids += count.ids;
                    known.without_row += count.without_row;
                }
                None => {
                    let (ids, without_row) = (count.ids, count.without_row);
                    found.push(ColumnIds { column, table, ids, without_row });
                }
            }
        }
    }
    found
}

/// Names what computed the dense part: emulated devices compute the processor's bits, others may
/// not.
fn computed_by(precision: Precision, capacity: &Capacity) -> String {
    let devices = capacity.devices.as_ref().filter(|room| room.dense.0 > 0 && !room.offer.emulated);
    let devices = devices.map(|room| format!(", dense part on {}", room.offer.said()));
    kernels(precision) + &devices.unwrap_or_default()
}

fn exchanged(around: &Surroundings, counters: &Counters, outcome: &Outcome) -> Option<Exchanged> {
    let sent = around.machine.ranks.as_ref()?.fabric.sent();
    let (keys_asked, weights_asked) = counters.asked();
    Some(Exchanged {
        messages_sent: sent.messages,
        bytes_sent: sent.bytes,
        keys_asked,
        weights_asked,
        rows_borrowed: outcome.steps.rows_borrowed,
        rows_early: outcome.steps.rows_early,
        dense_parameters: outcome.steps.model.model().graph().parameter_count() as u64,
        apart: outcome.steps.apart,
    })
}

fn device(capacity: &Capacity, groups: &[Arc<Group>]) -> Option<DeviceReport> {
    let room = capacity.devices.as_ref()?;
    let devices = room.offer.len() as u64;
    Some(DeviceReport {
        names: room.offer.names.clone(),
        slots: room.rows.slots.iter().sum::<usize>() as u64 * devices,
        bytes: room.device_bytes() * devices,
        count: groups.first()?.devices()?.count(),
    })
}

fn tiers(
    capacity: &Capacity,
    groups: &[Arc<Group>],
    planners: &[Planner],
    counters: &Counters,
) -> Tiers {
    let planned = counters.rows.count();
    let mut host = HostTier {
        slots: capacity.tiers.groups.iter().map(|group| group.slots as u64).sum(),
        rows_peak: planners.iter().map(|planner| planner.cache().rows() as u64).sum(),
        hits: planned.hits,
        misses: planned.misses,
        evictions: planned.evictions,
        window: planned.in_flight as f64 / planned.units.max(1) as f64,
        bytes: capacity.budget.bounds().iter().take(groups.len()).map(|bound| bound.bytes).sum(),
        ..HostTier::default()
    };
    let mut disk = DiskTier::default();
    for (group, planner) in groups.iter().zip(planners) {
        let (traffic, stats) = (group.traffic.count(), group.store.stats());
        let row_bytes = group.spec().row_bytes() as u64;
        host.bytes_peak += planner.cache().rows() as u64 * row_bytes;
        host.uses += planner.touches();
        host.forwarded += traffic.forwarded;
        host.refilled += traffic.refilled;
        host.initialized += traffic.initialized;
        host.bytes_filled += (traffic.forwarded + traffic.refilled) * row_bytes;
        host.bytes_evicted += traffic.written_back * row_bytes;
        disk.rows_live += stats.rows_live;
        disk.rows_stale += stats.rows_stale;
        disk.bytes += stats.bytes_files;
        disk.bytes_peak += traffic.disk_bytes_peak;
        disk.index_bytes += stats.index_bytes;
        disk.segments += stats.segments;
        disk.rows_written += traffic.written_back;
        disk.bytes_read += stats.bytes_read;
        disk.bytes_written += stats.bytes_written;
        disk.compactions += stats.compactions;
        disk.lookups += stats.lookups;
        disk.reads += stats.reads;
        disk.pages_read += stats.pages_read;
        disk.harvested += traffic.harvested;
        disk.harvest_used += traffic.harvest_used;
        disk.harvest_dropped += traffic.harvest_dropped;
        // Stores of a process share their open files.
        disk.files_open = disk.files_open.max(stats.files_open);
        disk.files_open_peak = disk.files_open_peak.max(stats.files_open_peak);
        disk.files_open_max = disk.files_open_max.max(stats.files_open_max);
        disk.stores.push(stats);
    }
    let device = device(capacity, groups);
    Tiers { device, host, disk }
}
