//! Divides `memory` among the tiers without a set size.
//!
//! - **How.** The size of rows in memory decides the others: the index has room for
//!   [`ROWS_ON_DISK`] rows per slot and for the rows of the checkpoint that the run begins with,
//!   and for the expected rows, if given; a segment and harvested rows each take a [`PART`]th of
//!   the rows' bytes. The largest size whose plan stays within `memory` is searched for. If the
//!   size of rows is set, the index size is searched for.
//! - **Failure.** If even the smallest tiers don't fit, the run is refused. The message names the
//!   least sufficient memory, and the largest part of it.

use stepwell_base::ByteCount;
use stepwell_engine::{TierOptions, TierPlan};
use stepwell_settings::TierConfig;

use super::apart::Apart;
use super::bounds::Capacity;
use super::tiers::{given, load, tier_options, tiers};
use super::wanted::Wanted;
use crate::{Error, Result};

/// Rows that the index has room for, per slot in memory.
const ROWS_ON_DISK: u64 = 8;
/// Least value of [`ROWS_ON_DISK`] if the size of rows in memory is set: a checkpoint writes all of
/// them to disk.
const ROWS_ON_DISK_MIN: u64 = 2;
/// Harvested rows, and a segment, each take this fraction of the bytes of rows in memory.
const PART: u64 = 16;
/// Segments aren't made shorter than this to save memory.
const SEGMENT_MIN: u64 = 4 << 20;
/// Least bytes of rows in memory, unless no mini-batch needs as many.
const DRAM_MIN: u64 = 32 << 20;
/// Bytes of an index from which the size per row is computed.
const INDEX_WHOLE: u64 = 1 << 50;
/// Steps of the binary search for the best size.
const HALVINGS: u32 = 16;

/// The largest tiers with which the run takes at most `memory`.
pub(super) fn share_out(wanted: &Wanted<'_>, apart: &Apart, memory: ByteCount) -> Result<Capacity> {
    let ranks = (wanted.ranks.threads * wanted.ranks.processes) as u64;
    let room = memory.0 / ranks;
    let before = wanted.before.iter().flatten().map(|rows| of_rank(wanted, *rows));
    let before: Vec<u64> = before.collect();
    let with = |bytes: u64| Capacity::with(wanted, apart, options(wanted, bytes, &before)?);
    let mut low = least(wanted, room, &before)?;
    let mut best = with(low)?;
    if best.budget.total() > room {
        return Err(too_little(&best, wanted, (memory, ranks)));
    }
    let mut high = room;
    for _ in 0..HALVINGS {
        let middle = low + high.saturating_sub(low) / 2;
        let better = |capacity: &Capacity| {
            let total = capacity.budget.total();
            total > best.budget.total() && total <= room
        };
        match with(middle).ok().filter(better) {
            Some(capacity) => (best, low) = (capacity, middle),
            // More rows don't fit memory or a given index, or nothing asks for them.
            None => high = middle,
        }
    }
    Ok(best)
}

/// Sizes of the tiers if `bytes` go to the searched one: rows in memory, or the index if the size
/// of rows is set.
fn options(wanted: &Wanted<'_>, bytes: u64, before: &[u64]) -> Result<TierOptions> {
    let given = wanted.plan.tiers;
    let dram = given.dram.map_or(bytes, |dram| dram.0);
    let part = dram / PART;
    let segment = part.clamp(SEGMENT_MIN, TierConfig::SEGMENT.0) >> 20 << 20;
    let mut options = TierOptions {
        dram: ByteCount(dram),
        index: given.index.unwrap_or(ByteCount(INDEX_WHOLE)),
        harvest: given.harvest.unwrap_or(ByteCount(part.min(TierConfig::HARVEST.0))),
        segment: given.segment.unwrap_or(ByteCount(segment)),
        ..tier_options(given, wanted.plan.batching)
    };
    options.index = match (given.dram, given.index) {
        (_, Some(index)) => index,
        (Some(_), None) => ByteCount(bytes),
        (None, None) => {
            let plan = tiers(wanted, options.clone())?;
            ByteCount(index_for(wanted, &plan, ROWS_ON_DISK, before))
        }
    };
    Ok(options)
}

/// Least bytes of the searched tier.
fn least(wanted: &Wanted<'_>, room: u64, before: &[u64]) -> Result<u64> {
    let TierConfig { dram, index, .. } = wanted.plan.tiers;
    // Enough bytes to make a plan with.
    let whole = room.saturating_add(of_tables(wanted)).saturating_add(DRAM_MIN);
    let dram = dram.map_or(whole, |dram| dram.0);
    let index_whole = index.unwrap_or(ByteCount(INDEX_WHOLE));
    let plain = tier_options(wanted.plan.tiers, wanted.plan.batching);
    let plan = tiers(wanted, TierOptions { dram: ByteCount(dram), index: index_whole, ..plain })?;
    Ok(match wanted.plan.tiers.dram {
        Some(_) => index_for(wanted, &plan, ROWS_ON_DISK_MIN, before),
        None => {
            let least = plan.dram_least(wanted.model.tables(), &load(wanted));
            least.min(DRAM_MIN.saturating_add(of_tables(wanted)))
        }
    })
}

/// The most of `rows` rows of all ranks that one rank has.
fn of_rank(wanted: &Wanted<'_>, rows: u64) -> u64 {
    let of_rank = rows.div_ceil(wanted.plan.ranks.count as u64);
    // Ranks' shares are even, except for chance.
    if of_rank < rows { of_rank + of_rank / 16 } else { rows }
}

/// Bytes of an index for `times` as many rows as there are slots plus those `before`, or for the
/// expected rows, if these are more.
fn index_for(wanted: &Wanted<'_>, plan: &TierPlan, times: u64, before: &[u64]) -> u64 {
    let expected = wanted.rows.map_or(0, |rows| plan.index_for_all(of_rank(wanted, rows)));
    plan.index_for(times, before).max(expected)
}

/// Bytes of memory set for tables.
fn of_tables(wanted: &Wanted<'_>) -> u64 {
    let tables = &wanted.plan.config.tables;
    let of_each = wanted.model.tables().iter().filter_map(|table| given(tables, table));
    of_each.fold(0, |sum, bytes| sum.saturating_add(bytes.0))
}

fn too_little(least: &Capacity, wanted: &Wanted<'_>, (memory, ranks): (ByteCount, u64)) -> Error {
    let bytes = least.budget.total().saturating_mul(ranks);
    let of_ranks = if ranks > 1 { format!(" for all {ranks} ranks") } else { String::new() };
    Error::Config(format!(
        "memory = {memory}, but the run needs {}MiB at least{of_ranks}: raise it{}",
        bytes.div_ceil(1 << 20),
        least.largest(wanted)
    ))
}
