//! The capacity plan: every bound of a run, before it begins. The engine plans the tiers
//! ([`TierPlan`](stepwell_engine::TierPlan)).

mod apart;
mod auto;
mod bounds;
mod devices;
mod disk;
mod expected;
mod memory;
mod mend;
#[cfg(test)]
mod tests;
mod tiers;
mod wanted;

use stepwell_engine::TableSpec;
use stepwell_settings::{Config, DensePlace};

use self::apart::Apart;
pub(crate) use self::auto::part;
pub use self::bounds::Capacity;
pub use self::devices::DeviceRoom;
pub use self::expected::Expected;
pub(crate) use self::expected::rows_by_group;
use self::tiers::tier_options;
pub(crate) use self::wanted::{BLOCK_BYTES, RanksHere, Wanted};
use crate::run_plan::Batching;
use crate::{Error, Result};

impl Capacity {
    /// Divides the memory among its uses.
    ///
    /// # Errors
    /// `memory` is too little, `tiers.dram` holds no row, or the store's settings don't fit
    /// together.
    pub(crate) fn plan(wanted: &Wanted<'_>) -> Result<Self> {
        let Wanted { plan, offer, .. } = wanted;
        if offer.is_none() && plan.dense.place == DensePlace::Device {
            return Err(Error::Config(format!(
                "train.dense = device needs a device, but device = {}: choose a device, such as \
                 emulated:1, or train.dense = host",
                plan.device
            )));
        }
        let apart = Apart::of(wanted)?;
        let mut capacity = match plan.config.memory {
            Some(memory) => memory::share_out(wanted, &apart, memory)?,
            None => Self::with(wanted, &apart, tier_options(plan.tiers, plan.batching))?,
        };
        capacity.lacks = capacity.lack(wanted);
        Ok(capacity)
    }
}

/// Bytes of `slots` slots of `table` with index and metadata: the `tiers.dram` that gives a model
/// of this one table exactly that many slots.
pub fn slab_bytes(config: &Config, table: &TableSpec, slots: u64) -> u64 {
    tier_options(&config.tiers, Batching::of(config)).slab_bytes(slots, table.row_lanes())
}
