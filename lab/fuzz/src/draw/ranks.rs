//! Random ranks: several that train one model, in step or out of step, with a known result bit for
//! bit.

use super::launch::Launch;
use super::model::Model;
use super::variant::Variant;
use crate::dice::Dice;

/// Most ranks of a run: each has its own stages and stores.
const RANKS_MAX: u64 = 4;

/// Draws the number of ranks for each process of `variant`. Uses separate dice, so that the rest of
/// a seed doesn't depend on it.
pub(super) fn add(dice: &mut Dice, model: &Model, variant: &mut Variant) {
    let blocks: u64 = model.get("train.blocks").parse().unwrap_or(1);
    let stale = !model.get("pipeline.staleness").is_empty();
    // Fresh rows and the blocking sum give the model of a single rank if blocks divide evenly. All
    // processes of a run use the same protocol.
    let apart = blocks.is_power_of_two() && !must_be_in_step(model) && dice.chance(30);
    for launch in &mut variant.launches {
        // The known errors and minimums of devices are for a single rank.
        if blocks > 1 && launch.machine.hbm.is_none() && dice.chance(40) {
            let most = blocks.min(RANKS_MAX);
            let ranks = if apart { dice.pick(&[1, 2, most]) } else { dice.within(1, most) };
            let lends = !apart && !stale && dice.chance(40);
            join(launch, ranks, lends);
        }
        let settings = &mut launch.machine.settings;
        if apart {
            settings.push(("sync.rows", "bounded".to_owned()));
            settings.push(("sync.staleness", "0".to_owned()));
        } else if !stale {
            // A day takes over the settings of the one before.
            settings.push(("sync.rows", "exact".to_owned()));
        }
    }
}

/// Whether the program refuses ranks of the model that are out of step.
fn must_be_in_step(model: &Model) -> bool {
    let has = |key: &&str| !model.get(key).is_empty();
    ["pipeline.staleness", "model.batch_norm", "optim.dense.ema"].iter().any(has)
        || model.falls_at_plateaus()
        || model.get("model.kind") == "two_tower"
}

/// Draws whether all processes of a case keep the dense part in tables, with the same number of
/// ranks; returns the corresponding settings, or none. Every bit is known then, too, but the model
/// differs from that of a single rank. Only for optimizers without state, as ranks average that at
/// every checkpoint, wherever it falls.
pub(super) fn in_tables(
    dice: &mut Dice,
    model: &Model,
    variants: &mut [Variant],
) -> Vec<(&'static str, String)> {
    let blocks: u64 = model.get("train.blocks").parse().unwrap_or(1);
    let is_plain = ["l2", "weight_decay", "schedule"]
        .iter()
        .all(|name| model.get(&format!("optim.dense.{name}")).is_empty());
    let is_sgd = model.get("optim.dense.kind") == "sgd" && is_plain;
    let can = blocks > 1 && !must_be_in_step(model) && is_sgd;
    if !can || !dice.chance(60) {
        return Vec::new();
    }
    // The known errors and minimums of devices are for a single rank.
    let launches = variants.iter_mut().flat_map(|variant| &mut variant.launches);
    launches.for_each(|launch| launch.machine.take_devices());
    let ranks = dice.within(2, blocks.min(RANKS_MAX)).to_string();
    let bound = [("sync.rows", "bounded"), ("sync.staleness", "0")];
    let all = [&[("ranks", &*ranks), ("sync.dense", "geeps")][..], &bound].concat();
    all.into_iter().map(|(key, value)| (key, value.to_owned())).collect()
}

/// Gives a process this many ranks, which may lend rows.
fn join(launch: &mut Launch, ranks: u64, lends: bool) {
    let settings = &mut launch.machine.settings;
    settings.push(("ranks", ranks.to_string()));
    if lends {
        settings.push(("ranks.exchange", "working_set".to_owned()));
    }
}
