//! Visits: weights of a mini-batch's rows come to the host, and gradients go to the device, which
//! applies the optimizer.
//!
//! ```text
//!   device slab ── rows_read ──► lanes ──► pinned ──► a slab of visitors, as requested
//!   device slab ◄─ rows_step ─── lanes ◄── pinned ◄── gradients, each in its row's place
//! ```
//!
//! The code for the host's slab also reads and writes the slab of visitors, so pooling, sums, stale
//! reads and messages between ranks are the same. Rows whose history the host decides on visit
//! whole. The slots that a fetch sent or found stay on the device for sending results.

mod launches;
mod lists;
mod visit;

use std::sync::Arc;
use std::time::Instant;

use stepwell_base::SlotIndex;
use stepwell_base::slab::Rows;
use stepwell_optim::Storage;

use self::lists::listed;
pub(super) use self::visit::Visit;
use crate::Result;
use crate::device_tier::describe::{self, describe};
use crate::device_tier::key_table::Tables;
use crate::device_tier::tier::{DeviceTier, OneDevice};
use crate::group::Group;
use crate::table_spec::TableSpec;
use crate::working_set::{OnDevice, Part};

/// Rows of one table that are sent back, changed or with the sums of their gradients.
#[derive(Debug)]
pub(crate) struct RowsSent<'a> {
    /// Number of the table's group.
    pub(crate) group: usize,
    pub(crate) above: &'a [OnDevice],
    pub(crate) rows: Rows<'a>,
}

/// The lanes that a mini-batch reads of each of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LanesRead {
    /// Weights; all lanes if the host updates the rows.
    Weights,
    /// All lanes.
    All,
}

/// The visits of a mini-batch on one device whose results are sent there.
struct Results<'a> {
    /// Rows that the device updates by the sums of their gradients.
    stepped: Vec<Visit<'a>>,
    /// Rows that the host updated.
    whole: Vec<Visit<'a>>,
    /// Number of words of the lists that have the rows' slots.
    slots: usize,
}

impl DeviceTier {
    /// Copies the lanes of the rows of `parts` that mini-batch `number` reads to where they visit.
    ///
    /// # Errors
    /// If a device fails.
    pub(crate) fn fetch(
        &self,
        parts: &[Part],
        groups: &[Arc<Group>],
        tables: &[TableSpec],
        number: u32,
        read: LanesRead,
    ) -> Result<()> {
        let begin = Instant::now();
        let visits: Vec<Vec<Visit<'_>>> = (0..self.len())
            .map(|device| self.visits(parts, groups, tables, device, read))
            .collect();
        for (device, visits) in visits.iter().enumerate() {
            self.ask(device, number, visits, parts)?;
        }
        for (one, visits) in self.devices.iter().zip(&visits) {
            let mut visitor = one.visitor();
            visitor.fetched.wait()?;
            visitor.check(one, visits)?;
            let (_, lanes) = Visit::end(visits);
            let arrived = visitor.lanes_host.read(lanes)?;
            visits.iter().for_each(|visit| seat(visit, &arrived[visit.lanes()], groups));
        }
        self.waited(begin.elapsed());
        Ok(())
    }

    /// Number of lanes that a mini-batch reads of a row of table `number`, which is `table`.
    pub(crate) fn lanes_read(&self, number: usize, table: &TableSpec, read: LanesRead) -> usize {
        match read == LanesRead::All || self.plan.whole[number] {
            true => table.row_lanes(),
            false => table.weight_lanes(),
        }
    }

    /// The rows of a mini-batch on device `device`, by group and table.
    pub(super) fn visits<'a>(
        &self,
        parts: &'a [Part],
        groups: &[Arc<Group>],
        tables: &[TableSpec],
        device: usize,
        read: LanesRead,
    ) -> Vec<Visit<'a>> {
        let mut visits = Vec::new();
        for (group, of_group) in groups.iter().enumerate() {
            for table in of_group.members() {
                let lanes = self.lanes_read(*table, &tables[*table], read);
                let on = &parts[*table].above.devices[device];
                Visit::add(&mut visits, *table, group, on, lanes);
            }
        }
        visits
    }

    /// Requests the lanes of `visits` from device `device`, for mini-batch `number`.
    fn ask(&self, device: usize, number: u32, visits: &[Visit<'_>], parts: &[Part]) -> Result<()> {
        let one = &self.devices[device];
        let (_, lanes) = Visit::end(visits);
        let visitor = &mut *one.visitor();
        visitor.begin(self, device, parts)?;
        let words = visitor.list(one, visits)?;
        visitor.listed = Some(number);
        visitor.read(one, visits)?;
        let stream = &visitor.stream;
        stream.down(&visitor.lanes, 0..lanes, &visitor.lanes_host, 0)?;
        stream.record(&visitor.fetched)?;
        self.copied_up(words);
        self.copied_down(lanes);
        if visitor.lookup.is_some() {
            self.copied_down(Tables::WORDS_DOWN);
        }
        Ok(())
    }

    /// Sends the results of step `step`, which is mini-batch `number`, to the devices of its rows:
    /// sums of gradients, which the optimizer applies there, or the rows themselves. `sent` has all
    /// tables, in order.
    ///
    /// # Errors
    /// If a device fails.
    pub(crate) fn send(
        &self,
        sent: &[RowsSent<'_>],
        tables: &[TableSpec],
        number: u32,
        step: u64,
    ) -> Result<()> {
        for device in 0..self.len() {
            let one = &self.devices[device];
            let (mut stepped, mut whole) = (Vec::new(), Vec::new());
            for (table, rows) in sent.iter().enumerate() {
                let (group, on, spec) = (rows.group, &rows.above[device], &tables[table]);
                if self.plan.whole[table] {
                    Visit::add(&mut whole, table, group, on, spec.row_lanes());
                } else {
                    Visit::add(&mut stepped, table, group, on, spec.weight_count());
                }
            }
            // Whole rows' lanes are behind the others'; slots are where the fetch put them.
            let (_, lanes) = Visit::end(&stepped);
            whole.iter_mut().for_each(|visit| visit.first_lane += lanes);
            let slots = listed(&mut stepped, &mut whole);
            let had = one.visitor().listed;
            assert_eq!(had, Some(number), "only the last fetched mini-batch is sent");
            self.send_to(one, &Results { stepped, whole, slots }, sent, tables, step)?;
            one.step_is_over(number, &one.visitor().stream)?;
        }
        Ok(())
    }

    fn send_to(
        &self,
        one: &OneDevice,
        Results { stepped, whole, slots }: &Results<'_>,
        sent: &[RowsSent<'_>],
        tables: &[TableSpec],
        step: u64,
    ) -> Result<()> {
        let all = || stepped.iter().chain(whole);
        let lanes: usize = all().map(|visit| visit.lanes().len()).sum();
        let visitor = &mut *one.visitor();
        // Random numbers for rounding are a function of key and step.
        let rounds = |visit: &&Visit<'_>| tables[visit.table].storage != Storage::F32;
        let rounded: usize = stepped.iter().filter(rounds).map(|visit| visit.on.slots.len()).sum();
        // The slots are there; words for rounding begin at an even word.
        let mut rounding = slots.next_multiple_of(2);
        let rounds_at = rounding..rounding + 2 * rounded;
        let words = rounds_at.end;
        let lists = visitor.lists_host.write(words)?;
        let room = visitor.lanes_host.write(lanes)?;
        let mut described = Vec::with_capacity(stepped.len());
        let mut items = 0;
        for visit in all() {
            let sent = &sent[visit.table];
            let places = room[visit.lanes()].chunks_exact_mut(visit.lanes.max(1));
            places.zip(&visit.on.rows).for_each(|(place, row)| {
                place.copy_from_slice(&sent.rows.row(*row as usize)[..place.len()]);
            });
        }
        for visit in stepped {
            let (spec, at) = (&tables[visit.table], one.slabs[visit.group]);
            let mut table = describe(spec, at, visit.on.slots.len());
            (table.slots, table.sums) = (visit.slots as u32, visit.first_lane as u64);
            table.first_item = items;
            if rounds(&visit) {
                table.rounding = rounding as u32;
                for word in describe::rounding(spec, &visit.on.keys, step) {
                    lists[rounding] = word;
                    rounding += 1;
                }
            }
            items += table.items() as u32;
            described.push(table);
        }
        visitor.tables_host.write(described.len())?.copy_from_slice(&described);
        let stream = &visitor.stream;
        visitor.lists_up(rounds_at.clone())?;
        stream.up(&visitor.lanes_host, 0..lanes, &visitor.lanes, 0)?;
        stream.up(&visitor.tables_host, 0..described.len(), &visitor.tables, 0)?;
        self.copied_up(rounds_at.len() + lanes);
        visitor.step(one, stepped, &described, items, words)?;
        for visit in whole.iter().filter(|visit| !visit.on.slots.is_empty()) {
            visitor.put_back(one, visit, words)?;
        }
        Ok(visitor.stream.record(&visitor.sent)?)
    }
}

/// Copies the arrived rows of `visit` to where they visit.
fn seat(visit: &Visit<'_>, arrived: &[f32], groups: &[Arc<Group>]) {
    let group = &groups[visit.group];
    let visited = group.visited(visit.table);
    let slots = visit.on.rows.iter().map(|row| SlotIndex(*row)).collect::<Vec<SlotIndex>>();
    let mut held = visited.slab.hold(&slots);
    let mut rows = held.rows_mut();
    for (index, lanes) in arrived.chunks_exact(visit.lanes).enumerate() {
        rows.row(index)[..visit.lanes].copy_from_slice(lanes);
    }
}
