//! Exchanges weights and gradients between devices, if there are several.

use std::sync::{Arc, MutexGuard};

use stepwell_base::rules::Rule;

use crate::Result;
use crate::device::pool_asked::PooledAt;
use crate::device::visits::Visit;
use crate::device_tier::tier::DeviceTier;
use crate::device_tier::visitor::Visitor;

/// First lane of each device's rows among the weights of all devices.
pub(super) fn firsts<'a>(visits: &'a [Vec<Visit<'_>>]) -> impl Iterator<Item = usize> + 'a {
    visits.iter().scan(0usize, |end, visits| {
        let first = *end;
        *end = (first + Visit::end(visits).1).next_multiple_of(4);
        Some(first)
    })
}

impl DeviceTier {
    /// Makes every device write the weights of its rows one after another.
    pub(super) fn read_for_others(
        &self,
        visitors: &[MutexGuard<'_, Visitor>],
        visits: &[Vec<Visit<'_>>],
    ) -> Result<()> {
        for ((one, visitor), visits) in self.devices.iter().zip(visitors).zip(visits) {
            visitor.read(one, visits)?;
            visitor.stream.record(&visitor.pool().read)?;
        }
        Ok(())
    }

    /// Makes device `device` copy the weights of all devices.
    pub(super) fn take_from_others(
        &self,
        visitors: &[MutexGuard<'_, Visitor>],
        device: usize,
        visits: &[Vec<Visit<'_>>],
    ) -> Result<()> {
        let visitor = &visitors[device];
        for ((from, first), visits) in visitors.iter().zip(firsts(visits)).zip(visits) {
            let (_, lanes) = Visit::end(visits);
            if self.rules.hold(Rule::WaitForOthers) {
                visitor.stream.wait(&from.pool().read)?;
            }
            if lanes > 0 {
                visitor.stream.across(&from.lanes, 0..lanes, &visitor.pool().rows, first)?;
            }
        }
        Ok(())
    }

    /// Makes the device of `visitor` copy the gradients of all examples.
    pub(super) fn gather_gradients(&self, visitor: &Visitor, at: &[Arc<PooledAt>]) -> Result<()> {
        let (sizes, room, stream) = (self.pool_sizes(), visitor.pool(), &visitor.stream);
        for (device, at) in at.iter().enumerate() {
            let blocks = sizes.all_blocks().part(device, sizes.devices);
            let (first, rows) =
                (blocks.first() * sizes.slot_rows, blocks.count() * sizes.slot_rows);
            let columns = sizes.columns();
            for (from, to, width) in
                [(&at.d_x, &room.d_x, columns), (&at.d_first_order, &room.d_first_order, 1)]
            {
                if rows * width > 0 {
                    stream.across(from, 0..rows * width, to, first * width)?;
                }
            }
        }
        Ok(())
    }
}
