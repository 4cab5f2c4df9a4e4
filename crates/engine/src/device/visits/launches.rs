//! Work queued on a device for a mini-batch whose rows visit.

use stepwell_base::rules::Rule;
use stepwell_device::{Arg, RowsAt};
use stepwell_kernels::{UpdateTable, named};

use super::visit::Visit;
use crate::Result;
use crate::device::transfers::{MoveRows, SlotList};
use crate::device_tier::describe::{SentTables, counts};
use crate::device_tier::tier::{DeviceTier, OneDevice};
use crate::device_tier::visitor::Visitor;
use crate::working_set::Part;

impl Visitor {
    /// Begins a mini-batch on device `device`, after the previous one and after its rows are
    /// lifted.
    pub(in crate::device) fn begin(
        &self,
        tier: &DeviceTier,
        device: usize,
        parts: &[Part],
    ) -> Result<()> {
        // The previous step's results were sent from the same memory.
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

    /// Applies the optimizer to the rows of `stepped`, by the sums of their gradients.
    pub(super) fn step(
        &self,
        one: &OneDevice,
        stepped: &[Visit<'_>],
        described: &[UpdateTable],
        items: u32,
        words: usize,
    ) -> Result<()> {
        let (tables, counts) = (described.len(), counts(described));
        let sent = SentTables { words, tables, items, frequent: 0, counts };
        let rows = || stepped.iter().map(|visit| visit.rows_at(one)).collect();
        let sums = || vec![Arg::first(&self.lanes, Visit::end(stepped).1)];
        self.update(one, sent, &rows, "rows_step", &sums)
    }

    /// Launches `kernel`, with arguments `more`, to change `rows` of the described tables; another
    /// kernel changes the frequent ones. Rows that count their steps do so.
    pub(in crate::device) fn update<'a>(
        &'a self,
        one: &'a OneDevice,
        sent: SentTables,
        rows: &dyn Fn() -> Vec<RowsAt>,
        kernel: &'static str,
        more: &dyn Fn() -> Vec<Arg<'a>>,
    ) -> Result<()> {
        let SentTables { words, tables, items, frequent, counts } = sent;
        let launch = |kernel: &'static str, items: u32, more: Vec<Arg<'a>>| {
            let of_tables = [
                Arg::rows(&one.rows, rows()),
                Arg::first(&self.lists, words),
                Arg::first(&self.tables, tables),
                Arg::u32(tables as u32),
                Arg::u32(items),
            ];
            let args = of_tables.into_iter().chain(more).collect();
            self.stream.launch(named(kernel), items as usize, args)
        };
        launch(kernel, items, more())?;
        if frequent > 0 {
            launch("rows_update_frequent", frequent, more())?;
        }
        if counts {
            launch("rows_count", items, Vec::new())?;
        }
        Ok(())
    }

    /// Writes the rows of `visit` back as the host updated them.
    pub(super) fn put_back(&self, one: &OneDevice, visit: &Visit<'_>, words: usize) -> Result<()> {
        let at = one.slabs[visit.group];
        let slab = Arg::rows(&one.rows, vec![visit.rows_at(one)]);
        let rows = Arg::part(&self.lanes, visit.lanes());
        let words = Arg::first(&self.lists, words);
        let slots = SlotList { words, first: visit.slots, count: visit.on.slots.len() };
        self.stream.move_rows("rows_up", rows, slab, at, slots)
    }
}
