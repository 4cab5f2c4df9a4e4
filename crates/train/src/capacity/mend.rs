//! Settings that reduce a part of the capacity plan.

use stepwell_engine::TierPlan;

use super::devices::DeviceRoom;
use super::wanted::{LEARNING, Wanted};
use crate::exchange::Exchange;
use crate::run_plan::RunPlan;

/// The settings that reduce the bound `bound`, if the command has them; `None` if the bound follows
/// from the data, from the checkpoint, or from no setting.
pub(super) fn of(bound: &str, wanted: &Wanted<'_>) -> Option<&'static str> {
    let Wanted { plan: RunPlan { config, data, tiers, .. }, scores, .. } = *wanted;
    // If `memory` is too small, the sizes that it decides are the least for a mini-batch.
    let shared = config.memory.is_some();
    // A checkpoint's model and mini-batches are fixed.
    let mini_batch = (!scores).then_some("data.mini_batch");
    Some(match bound {
        TierPlan::ROWS_IN_MEMORY if shared && tiers.dram.is_none() => mini_batch?,
        TierPlan::ROWS_IN_MEMORY => "tiers.dram",
        // The size of the index follows from the checkpoint's rows.
        "store index" if scores => return None,
        "store index" if shared && tiers.index.is_none() => match (wanted.from, tiers.dram) {
            (Some(_), _) => return None,
            (None, Some(_)) => "tiers.dram",
            (None, None) => mini_batch?,
        },
        "store index" => "tiers.index",
        "store row lists" | "store write buffers" | "store compaction" | "store opening"
            if shared && tiers.segment.is_none() =>
        {
            return None;
        }
        "store row lists" | "store write buffers" | "store compaction" => "tiers.segment",
        "store opening" | "store scan" if scores => "tiers.segment",
        "store opening" | "store scan" => "tiers.segment or tiers.index",
        "rows going down" if scores => "tiers.dram",
        "rows going down" => "tiers.dram or model.dim",
        "rows read elsewhere" => mini_batch?,
        // The number of examples in data is given.
        "scores" if data.paths.is_empty() && data.eval_paths.is_empty() => "synth.examples",
        "source" if data.streams > 1 => "data.streams",
        "reading" => "threads",
        "shuffle" if !scores => "data.shuffle",
        "data cache" => "data.skip_max, or leave data.cache out",
        Exchange::ROWS_OF_OTHERS | Exchange::MESSAGES => "data.mini_batch, model.dim or ranks",
        Exchange::BORROWED => "data.batch or data.mini_batch, or leave ranks.exchange out",
        "batches" | "planning" if scores => "data.batch or pipeline.horizon",
        "batches" | "planning" => "data.mini_batch, data.batch or pipeline.horizon",
        "rows harvested" if shared && tiers.harvest.is_none() => return None,
        "rows harvested" => "tiers.harvest",
        "rows coming up" | "rows to move" => "data.batch or pipeline.lookahead",
        "stale rows" | "admission" if scores => return None,
        "admission" => "rows.sketch",
        "stale rows" => "pipeline.staleness or data.mini_batch",
        DeviceRoom::EMULATED | DeviceRoom::CHECKED => "tiers.hbm, or choose fewer devices",
        "copies of the dense part"
        | "copies to devices"
        | "rows that visit"
        | "keys on devices"
        | "lists for devices"
        | "planning for devices"
            if scores =>
        {
            "the number of devices"
        }
        "copies of the dense part" => "data.mini_batch, or choose train.dense = host",
        "copies to devices" | "rows that visit" => "data.mini_batch, or choose fewer devices",
        "keys on devices" | "lists for devices" | "planning for devices" => {
            "data.mini_batch, or choose fewer devices"
        }
        "training" if scores => "threads",
        "training" | LEARNING => "model.hidden, model.dim, data.mini_batch or threads",
        _ => return None,
    })
}
