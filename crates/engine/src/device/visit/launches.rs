//! What a device is given to do for a mini-batch whose rows visit.

use stepwell_base::rules::Rule;
use stepwell_device::Arg;
use stepwell_kernels::{UpdateTable, named};

use super::{Visit, Visitor};
use crate::device::pieces::MoveRows;
use crate::device::tier::{DeviceTier, OneDevice};
use crate::{Part, Result};

impl Visitor {
    /// Begins a mini-batch on device `device`: after the one before, and once its rows are there.
    pub(in crate::device) fn begin(
        &self,
        (tier, device): (&DeviceTier, usize),
        parts: &[Part],
    ) -> Result<()> {
        // What the step before sent was read from the same memory.
        self.sent.wait()?;
        if tier.rules.hold(Rule::WaitForLifted)
            && let Some(lifted) = parts.first().and_then(|part| part.above.lifted.as_ref())
        {
            self.stream.wait(&lifted[device])?;
        }
        Ok(())
    }

    /// Reads the lanes of `visits`, one after another.
    pub(in crate::device) fn read(&self, one: &OneDevice, visits: &[Visit<'_>]) -> Result<()> {
        let (slots, _) = Visit::end(visits);
        for visit in visits.iter().filter(|visit| !visit.on.slots.is_empty()) {
            let at = one.slabs[visit.group];
            let args = vec![
                Arg::rows(&one.rows, vec![visit.rows_at(one)]),
                Arg::part(&self.lanes, visit.lanes()),
                Arg::first(&self.lists, slots),
                Arg::u64(at.first_lane as u64),
                Arg::u32(visit.slots as u32),
                Arg::u32(visit.on.slots.len() as u32),
                Arg::u32(at.row_lanes as u32),
                Arg::u32(0),
                Arg::u32(visit.lanes as u32),
            ];
            self.stream.launch(named("rows_read"), visit.lanes().len(), args)?;
        }
        Ok(())
    }

    /// The optimizer changes the rows of `stepped`.
    pub(super) fn step(
        &self,
        one: &OneDevice,
        stepped: &[Visit<'_>],
        (described, items, words): (&[UpdateTable], u32, usize),
    ) -> Result<()> {
        let rows = || stepped.iter().map(|visit| visit.rows_at(one)).collect();
        let count = described.len();
        let tables = || {
            [
                Arg::rows(&one.rows, rows()),
                Arg::first(&self.lists, words),
                Arg::first(&self.tables, count),
                Arg::u32(count as u32),
                Arg::u32(items),
            ]
        };
        let sums = Arg::first(&self.lanes, Visit::end(stepped).1);
        let args = tables().into_iter().chain([sums]).collect();
        self.stream.launch(named("rows_step"), items as usize, args)?;
        let counts = |table: &UpdateTable| table.rule == stepwell_kernels::RULE_ADAM;
        if described.iter().any(counts) {
            let args = tables().into_iter().collect();
            self.stream.launch(named("rows_count"), items as usize, args)?;
        }
        Ok(())
    }

    /// The rows of `visit` are what they became on the host.
    pub(super) fn put_back(&self, one: &OneDevice, visit: &Visit<'_>, words: usize) -> Result<()> {
        let at = one.slabs[visit.group];
        let slab = Arg::rows(&one.rows, vec![visit.rows_at(one)]);
        let list = (Arg::first(&self.lists, words), visit.slots, visit.on.slots.len());
        let rows = Arg::part(&self.lanes, visit.lanes());
        self.stream.move_rows("rows_up", [rows, slab], at, list)
    }
}
