//! How `memory` is shared out: what no setting gives a figure gets what is left beside all else.
//!
//! - **How.** Rows in memory are the measure: the index has room for [`ROWS_ON_DISK`] rows for each
//!   of their slots, and a segment and what is harvested take a part in [`PART`] of their bytes.
//!   They get the most with which the sum of the plan is at most `memory`. An index beside rows of
//!   a given size gets the most itself.
//! - **Failure.** Memory in which the least of that does not fit is refused with the sum that does,
//!   and with the part that is largest then.

use stepwell_base::ByteCount;
use stepwell_engine::TierOptions;
use stepwell_settings::TierConfig;

use super::apart::Apart;
use super::{Capacity, Wanted, given, load, tier_options, tiers};
use crate::{Error, Result};

/// Rows that the index has room for, for each that memory has a slot for.
const ROWS_ON_DISK: u64 = 8;
/// The least of these, where memory has a figure: a checkpoint puts all of its rows on disk.
const ROWS_ON_DISK_MIN: u64 = 2;
/// Part of the bytes of rows in memory that is harvested at most, and that a segment is long.
const PART: u64 = 16;
/// The shortest segments that memory is saved by.
const SEGMENT_MIN: u64 = 4 << 20;
/// Rows in memory get as much at least, or what no mini-batch needs more than.
const DRAM_MIN: u64 = 32 << 20;
/// Bytes of an index by which its parts are measured.
const INDEX_WHOLE: u64 = 1 << 50;
/// Halvings of what is not known of the best size.
const HALVINGS: u32 = 16;

/// The largest tiers with which the run takes at most `memory`.
pub(super) fn share_out(wanted: &Wanted<'_>, apart: &Apart, memory: ByteCount) -> Result<Capacity> {
    let ranks = (wanted.ranks.threads * wanted.ranks.processes) as u64;
    let room = memory.0 / ranks;
    let with = |bytes: u64| Capacity::with(wanted, apart, options(wanted, bytes)?);
    let mut low = least(wanted, room)?;
    let mut best = with(low)?;
    if best.budget.total() > room {
        return Err(too_little(&best, memory, ranks));
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
            // More rows are too many, for memory or for a given index, or none asks for them.
            None => high = middle,
        }
    }
    Ok(best)
}

/// What tiers have together if the one that is measured by gets `bytes`: rows in memory, or the
/// index beside rows of a given size.
fn options(wanted: &Wanted<'_>, bytes: u64) -> Result<TierOptions> {
    let given = &wanted.config.tiers;
    let dram = given.dram.map_or(bytes, |dram| dram.0);
    let part = dram / PART;
    let segment = part.clamp(SEGMENT_MIN, TierConfig::SEGMENT.0) >> 20 << 20;
    let mut options = TierOptions {
        dram: ByteCount(dram),
        index: given.index.unwrap_or(ByteCount(INDEX_WHOLE)),
        harvest: given.harvest.unwrap_or(ByteCount(part.min(TierConfig::HARVEST.0))),
        segment: given.segment.unwrap_or(ByteCount(segment)),
        ..tier_options(wanted.config)
    };
    options.index = match (given.dram, given.index) {
        (_, Some(index)) => index,
        (Some(_), None) => ByteCount(bytes),
        (None, None) => ByteCount(tiers(wanted, options.clone())?.index_for(ROWS_ON_DISK)),
    };
    Ok(options)
}

/// The fewest bytes of what is measured by.
fn least(wanted: &Wanted<'_>, room: u64) -> Result<u64> {
    let TierConfig { dram, index, .. } = wanted.config.tiers;
    // Enough to look at, whatever comes of it.
    let whole = room.saturating_add(of_tables(wanted)).saturating_add(DRAM_MIN);
    let dram = dram.map_or(whole, |dram| dram.0);
    let index_whole = index.unwrap_or(ByteCount(INDEX_WHOLE));
    let plain = tier_options(wanted.config);
    let plan = tiers(wanted, TierOptions { dram: ByteCount(dram), index: index_whole, ..plain })?;
    Ok(match wanted.config.tiers.dram {
        Some(_) => plan.index_for(ROWS_ON_DISK_MIN),
        None => {
            let least = plan.dram_least(wanted.model.tables(), &load(wanted));
            least.min(DRAM_MIN.saturating_add(of_tables(wanted)))
        }
    })
}

/// Bytes of memory that tables were given.
fn of_tables(wanted: &Wanted<'_>) -> u64 {
    let of_each = wanted.model.tables().iter().filter_map(|table| given(wanted.config, table));
    of_each.fold(0, |sum, bytes| sum.saturating_add(bytes.0))
}

fn too_little(least: &Capacity, memory: ByteCount, ranks: u64) -> Error {
    let bytes = least.budget.total().saturating_mul(ranks);
    let of_ranks = if ranks > 1 { format!(", its {ranks} ranks together") } else { String::new() };
    Error::Config(format!(
        "memory = {memory}, and the run needs {}MiB at least{of_ranks}: raise it; {}",
        bytes.div_ceil(1 << 20),
        least.largest()
    ))
}
