//! A run's use of its devices, and what they cost the host.

use stepwell_base::ByteCount;
use stepwell_base::budget::Budget;
use stepwell_device::{Offer, Wanted as WantedOfDevices};
use stepwell_engine::{DevicePlan, DeviceShare, Error as EngineError, Load, TierPlan};
use stepwell_settings::DensePlace;

use super::wanted::Wanted;
use crate::dense::DeviceDense;
use crate::exchange::Exchange;
use crate::models::Model;
use crate::run_plan::RunPlan;
use crate::step::TrainedModel;
use crate::{Error, Result};

/// Part of a device's offered memory for rows, if not set.
const PART: (u64, u64) = (9, 10);

/// Host bytes of the order check for a slot: a range of bytes, its last write and the reads since.
const CHECK_BYTES_OF_SLOT: u64 = 320;
/// Host bytes of the order check for a device, regardless of slots: clocks, queues and stacks of
/// streams.
const CHECK_BYTES: u64 = 4 << 20;

/// A run's use of its devices.
#[derive(Clone, Debug)]
pub struct DeviceRoom {
    /// The devices of a rank.
    pub offer: Offer,
    /// Memory for rows on each device.
    pub rows: DevicePlan,
    /// Memory for the dense part on each device, and pinned on the host for each.
    pub dense: (u64, u64),
}

impl DeviceRoom {
    /// Name of the bound on the memory of emulated devices.
    pub(super) const EMULATED: &'static str = "emulated devices";
    /// Name of the bound on their record of all accesses.
    pub(super) const CHECKED: &'static str = "order of accesses";

    /// Divides the memory of the devices of `offer`.
    pub(super) fn plan(
        plan: &RunPlan<'_>,
        model: &Model,
        (tiers, load): (&TierPlan, &Load),
        offer: &Offer,
    ) -> Result<Self> {
        if plan.dense.place == DensePlace::Device {
            let wrong = |why| format!("train.dense is device: {why}; or choose train.dense = host");
            offer.check_can_multiply().map_err(|why| Error::Config(wrong(why)))?;
        }
        let dense = dense_bytes(plan, model, offer.len());
        let hbm = hbm(plan.tiers.hbm, offer, ByteCount(dense.0))?;
        let lends = Exchange::borrowed_rows(plan, model).is_some();
        let (devices, lookup) = (offer.len(), plan.tiers.lookup);
        let pooling = TrainedModel::pool_shape(model, plan, devices);
        let by_use = (model.by_use(), plan.tiers.warm_up);
        let share = DeviceShare { hbm, devices, lends, lookup, pooling, by_use };
        let rows = DevicePlan::new(tiers, model.tables(), load, share);
        let rows = rows.map_err(|error| too_full(error, plan.tiers.hbm, (offer, dense.0)))?;
        Ok(Self { offer: offer.clone(), rows, dense })
    }

    /// Adds the host's memory for the devices.
    pub(super) fn add_host(&self, tiers: &TierPlan, load: &Load, budget: &mut Budget) {
        self.rows.add_host(tiers, load, budget);
        if self.dense.1 > 0 {
            let why = format!("of {} devices", self.offer.len());
            budget.add("copies of the dense part", self.dense.1 * self.offer.len() as u64, why);
        }
        if self.offer.emulated {
            let (bytes, devices) = (self.device_bytes(), self.offer.len());
            let why = format!("{devices} of {}", ByteCount(bytes));
            budget.add(Self::EMULATED, bytes * devices as u64, why);
            let slots: usize = self.rows.slots.iter().sum();
            let bytes = CHECK_BYTES + CHECK_BYTES_OF_SLOT * slots as u64;
            let why = format!("{devices} devices of {slots} slots: the last access of each");
            budget.add(Self::CHECKED, bytes * devices as u64, why);
        }
    }

    /// Bytes to take of each device.
    pub fn device_bytes(&self) -> u64 {
        self.rows.device_bytes() + self.dense.0
    }

    /// Notes that rows would use more of `tiers.hbm` if the host had more slots.
    pub(super) fn tight(&self, tiers: &TierPlan, wanted: &Wanted<'_>) -> Option<String> {
        let given = wanted.plan.tiers.hbm?;
        let mut slots = tiers.groups.iter().zip(&self.rows.slots);
        let is_half = slots.any(|(group, slots)| *slots == group.slots / 2 / self.offer.len());
        let used = ByteCount(self.rows.device_bytes());
        (is_half && used < given).then(|| {
            format!(
                "tiers.hbm: each device uses {used} of {given}, because devices hold at most half \
                 as many rows as the host: raise tiers.dram to use more"
            )
        })
    }

    /// Memory to take on the offered devices; emulated devices have `workers` threads each.
    pub(crate) fn wanted(&self, workers: usize) -> WantedOfDevices {
        WantedOfDevices {
            memory_bytes: self.device_bytes(),
            pinned_bytes: self.rows.moving_bytes + self.dense.1,
            workers,
        }
    }

    /// The memory of each device by use: a name, bytes, and their purpose.
    pub fn budget(&self) -> Budget {
        let mut budget = Budget::default();
        let slots: usize = self.rows.slots.iter().sum();
        let beside = self.rows.moving_bytes + self.rows.tables_bytes + self.rows.pooling_bytes();
        let rows = self.rows.device_bytes() - beside;
        budget.add("rows", rows, format!("tiers.hbm: {slots} slots"));
        if self.rows.tables_bytes > 0 {
            let why = "tiers.lookup: two entries per row, each a key and a slot";
            budget.add("hash tables", self.rows.tables_bytes, why);
        }
        let why = "rows in transit, lists, weights and gradients of a mini-batch";
        budget.add("moving rows", self.rows.moving_bytes, why);
        let pooling = self.rows.pooling_bytes();
        if pooling > 0 {
            let why = "weights and gradients of other devices";
            budget.add("pooling rows", pooling, why);
        }
        if self.dense.0 > 0 {
            budget.add("dense part", self.dense.0, "train.dense: parameters, layers, gradients");
        }
        budget
    }
}

/// Bytes of the dense part on each of `devices` devices, and pinned on the host for each.
pub(super) fn dense_bytes(plan: &RunPlan<'_>, model: &Model, devices: usize) -> (u64, u64) {
    match plan.dense.place {
        DensePlace::Host => (0, 0),
        DensePlace::Device => DeviceDense::bytes_max(model, plan, devices),
    }
}

/// Explains that a full device holds no row, if its memory for rows, `hbm`, is not set.
fn too_full(error: EngineError, hbm: Option<ByteCount>, (offer, dense): (&Offer, u64)) -> Error {
    let is_full = hbm.is_none() && !offer.emulated;
    match error {
        EngineError::NoRowOnDevice { tables, least, .. } if is_full => {
            let (name, free) = (offer.least(), ByteCount(offer.memory_bytes));
            let least = least.div_ceil(PART.0).saturating_mul(PART.1).saturating_add(dense);
            Error::Config(format!(
                "{name} has {free} free, but a row of table '{tables}' takes {} with its buffers: \
                 free some memory, choose another device or none, or lower data.mini_batch",
                ByteCount(least)
            ))
        }
        other => other.into(),
    }
}

/// Bytes of each device for rows and for moving them, next to the dense part; `given` if set.
fn hbm(given: Option<ByteCount>, offer: &Offer, dense: ByteCount) -> Result<ByteCount> {
    let Some(offered) = offer.memory_bytes.checked_sub(dense.0) else {
        let (names, offered) = (offer.least(), ByteCount(offer.memory_bytes));
        return Err(Error::Config(format!(
            "train.dense = device takes {dense} of each device, but {names} has {offered} free: \
             choose train.dense = host, or lower data.mini_batch"
        )));
    };
    let Some(hbm) = given else {
        return Ok(ByteCount(offered / PART.1 * PART.0));
    };
    if !offer.emulated && hbm.0 > offered {
        let (names, offered) = (offer.least(), ByteCount(offered));
        return Err(Error::Config(format!(
            "tiers.hbm = {hbm}, but {names} has {offered} free next to the dense part: lower it, \
             or leave it out"
        )));
    }
    Ok(hbm)
}

/// Threads of each device: a stream each for lifting rows, lowering rows, steps and the dense part;
/// and one that plans for it.
pub(super) const THREADS: u64 = 5;
