//! Drawn ranks: several that train one model, in step or out of it, of which every bit is known.

use super::{Launch, Model, Variant};
use crate::dice::Dice;

/// The most ranks of a run: each has stages and stores of its own.
const RANKS_MAX: u64 = 4;

/// Draws how many ranks each process of `variant` has, with dice of its own, so that all else of a
/// seed is what it was.
pub(super) fn add(dice: &mut Dice, model: &Model, variant: &mut Variant) {
    let blocks: u64 = model.get("train.blocks").parse().unwrap_or(1);
    let stale = !model.get("pipeline.staleness").is_empty();
    // Rows that lack nothing and the blocking sum are the model of one rank where blocks are shared
    // out evenly. All processes of a run agree alike.
    let apart = blocks.is_power_of_two() && !stale && dice.chance(30);
    for launch in &mut variant.launches {
        // What devices are refused with, and need at least, is of one rank here.
        if blocks > 1 && launch.machine.hbm.is_none() && dice.chance(40) {
            let most = blocks.min(RANKS_MAX);
            let ranks = if apart { dice.pick(&[1, 2, most]) } else { dice.within(1, most) };
            let lends = !apart && !stale && dice.chance(40);
            join(launch, ranks, lends);
        }
        if apart {
            let settings = &mut launch.machine.settings;
            settings.push(("sync.rows", "bounded".to_owned()));
            settings.push(("sync.staleness", "0".to_owned()));
        }
    }
}

/// Draws whether all processes of a case keep the dense part in tables, with as many ranks; the
/// settings that say so, or none. Then every bit is known, too, but it is another model than that
/// of one rank. Only where the optimizer has no state, which ranks average at every checkpoint,
/// wherever that falls.
pub(super) fn in_tables(
    dice: &mut Dice,
    model: &Model,
    variants: &[Variant],
) -> Vec<(&'static str, String)> {
    let blocks: u64 = model.get("train.blocks").parse().unwrap_or(1);
    let stale = !model.get("pipeline.staleness").is_empty();
    let mut launches = variants.iter().flat_map(|variant| &variant.launches);
    let on_devices = launches.any(|launch| launch.machine.hbm.is_some());
    let can = blocks > 1 && !stale && !on_devices && model.get("optim.dense.kind") == "sgd";
    if !can || !dice.chance(60) {
        return Vec::new();
    }
    let ranks = dice.within(2, blocks.min(RANKS_MAX)).to_string();
    let bound = [("sync.rows", "bounded"), ("sync.staleness", "0")];
    let all = [&[("ranks", &*ranks), ("sync.dense", "geeps")][..], &bound].concat();
    all.into_iter().map(|(key, value)| (key, value.to_owned())).collect()
}

/// Gives a process so many ranks, which may lend rows.
fn join(launch: &mut Launch, ranks: u64, lends: bool) {
    let settings = &mut launch.machine.settings;
    settings.push(("ranks", ranks.to_string()));
    if lends {
        settings.push(("ranks.exchange", "working_set".to_owned()));
    }
}
