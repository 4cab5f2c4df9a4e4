//! Places on the host for rows that visit from devices.

use stepwell_base::SlotIndex;
use stepwell_base::slab::Slab;

use super::sizes::DevicePlan;
use crate::{Error, Result};

/// Where the rows of one table are on the host while they visit.
#[derive(Debug)]
pub(crate) struct Visited {
    /// One slot for each row of the request, in its order.
    pub(crate) slab: Slab,
    pub(crate) slots: Vec<SlotIndex>,
}

impl Visited {
    /// Makes room for the rows of table `number`.
    pub(crate) fn new(plan: &DevicePlan, number: usize) -> Result<Self> {
        let (rows, lanes) = (plan.rows_max[number], plan.visit_lanes[number]);
        let bytes = (rows * lanes * size_of::<f32>()) as u64;
        let slab = Slab::new(rows.max(1), lanes).map_err(|source| Error::Slab { bytes, source })?;
        Ok(Self { slab, slots: (0..rows as u32).map(SlotIndex).collect() })
    }
}
