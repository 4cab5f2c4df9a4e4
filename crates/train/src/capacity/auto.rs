//! Chooses a run's devices if none are named: those that give rows the most room.
//!
//! - **How.** Rows get as much of each device as of the one with the least room, so a full device
//!   reduces the others: it is left out if the others alone have more. The devices with the least
//!   room are dropped until a plan fits; a note gives the reason for each.
//! - **Failure.** Without devices, everything is on the host, unless settings give devices memory
//!   or work: then the plan reports why that is impossible.

use stepwell_base::ByteCount;
use stepwell_base::owner::RankOf;
use stepwell_device::{Choice, Offer};
use stepwell_engine::{Load, TierPlan};
use stepwell_settings::DensePlace;

use super::devices::{DeviceRoom, dense_bytes};
use crate::Result;
use crate::models::Model;
use crate::run_plan::RunPlan;

/// Whether settings give devices memory or work, without naming devices.
fn insists(plan: &RunPlan<'_>) -> bool {
    plan.tiers.hbm.is_some() || plan.dense.place == DensePlace::Device
}

/// The devices of rank `part` of `parts`, which divide `offer`; `None` and a note if they cannot
/// and none were named.
pub(crate) fn part(
    plan: &RunPlan<'_>,
    offer: Offer,
    of: RankOf,
    note: &dyn Fn(String),
) -> std::result::Result<Option<Offer>, String> {
    let is_asked = *plan.device != Choice::Auto || plan.dense.place == DensePlace::Device;
    match offer.part(of.rank, of.ranks) {
        Err(why) if !is_asked => {
            note(format!("no GPU is used: {why}"));
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Plans the devices of `offer` that can be used, or all if they were named; notes say why others
/// are not used.
pub(super) fn plan(
    plan: &RunPlan<'_>,
    model: &Model,
    (tiers, load): (&TierPlan, &Load),
    offer: &Offer,
) -> Result<(Option<DeviceRoom>, Vec<String>)> {
    let room_of = |offer: &Offer| DeviceRoom::plan(plan, model, (tiers, load), offer);
    if *plan.device != Choice::Auto {
        return room_of(offer).map(|room| (Some(room), Vec::new()));
    }
    // Devices with the most memory come first.
    let mut order: Vec<usize> = (0..offer.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(offer.free()[*place]));
    let (mut count, why) = most_room(plan, model, offer, &order);
    let left_out = |place: &usize| {
        let (name, free) = (&offer.names[*place], ByteCount(offer.free()[*place]));
        format!("{name} is not used: {free} are free, {why}")
    };
    let mut notes: Vec<String> = order[count..].iter().map(left_out).collect();
    loop {
        let mut places = order[..count].to_vec();
        places.sort_unstable();
        match room_of(&offer.only(places)) {
            Ok(room) => return Ok((Some(room), notes)),
            Err(error) if count == 1 && insists(plan) => return Err(error),
            Err(error) if count == 1 => {
                return Ok((None, vec![format!("no GPU is used: {error}")]));
            }
            Err(error) => {
                count -= 1;
                notes.push(format!("{} is not used: {error}", offer.names[order[count]]));
            }
        }
    }
}

/// The number of devices in `order` to take, at least one, and why not the others.
fn most_room(
    plan: &RunPlan<'_>,
    model: &Model,
    offer: &Offer,
    order: &[usize],
) -> (usize, &'static str) {
    let free = |count: usize| offer.free()[order[count - 1]];
    let all = order.len();
    let Some(hbm) = plan.tiers.hbm else {
        let most = (1..=all).max_by_key(|count| u128::from(free(*count)) * *count as u128);
        return (most.unwrap_or(all), "and rows have more space without it");
    };
    let wanted = hbm.0.saturating_add(dense_bytes(plan, model, all).0);
    let with_room = (1..=all).filter(|count| free(*count) >= wanted).count();
    (with_room.max(1), "less than tiers.hbm and the dense part need")
}
