//! The puller's side of harvesting.

use std::sync::Arc;

use stepwell_base::{Key, SlotIndex};
use stepwell_ssd::{Harvest, Reader, Wanted, Wasted};

use crate::group::{Group, TrafficCount};
use crate::harvest::{Basket, HarvestSize, Outlook};
use crate::unit::Fill;

/// Moves rows of one table group from pages into the basket, and from there into their slots.
#[derive(Debug)]
pub(super) struct Harvester {
    basket: Basket,
    /// The first mini-batch whose rows are not all in their slots.
    now: u32,
    unit_bytes: usize,
    outlook: Option<Arc<Outlook>>,
    harvest: Harvest,
    /// Whether each row of `harvest` is in staging.
    staged_too: Vec<bool>,
    /// Fills whose rows are in the basket, and their places.
    found: Vec<(u32, u32)>,
    slots: Vec<SlotIndex>,
}

impl Harvester {
    /// A harvester for `group`.
    pub(super) fn new(group: &Group) -> Self {
        let (size, outlook) = group.outlook.clone().unzip();
        let HarvestSize { rows, unit_bytes } = size.unwrap_or_default();
        Self {
            basket: Basket::new(rows, group.spec().row_lanes()),
            now: 0,
            unit_bytes,
            outlook,
            harvest: Harvest::default(),
            staged_too: Vec::new(),
            found: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Makes `reader` look for wanted rows.
    pub(super) fn look_with(&self, reader: &mut Reader) {
        if let Some(outlook) = &self.outlook {
            reader.harvest(Arc::clone(outlook) as Arc<dyn Wanted>, self.unit_bytes);
        }
    }

    /// Drops the rows of `keys`, which are being staged and will replace the store's.
    pub(super) fn forget(&mut self, keys: impl Iterator<Item = Key>) {
        let Self { basket, found, .. } = self;
        found.clear();
        basket.find_each(keys, found);
        found.iter().for_each(|(_, place)| basket.forget(*place));
    }

    /// Keeps the rows that `reader` harvested, if they are the newest versions.
    pub(super) fn keep(&mut self, reader: &mut Reader, group: &Group) {
        let Some(outlook) = &self.outlook else { return };
        let Self { harvest, basket, staged_too, now, .. } = self;
        reader.take_harvest(harvest);
        if harvest.keys.is_empty() {
            return;
        }
        // Check staging first: a row that landed before this has another place in the index.
        staged_too.clear();
        staged_too.resize(harvest.keys.len(), false);
        group.staging.forward(harvest.keys.iter(), |at, _| staged_too[at] = true);
        let row_bytes = group.spec().row_bytes();
        let mut wasted = Wasted::default();
        harvest.keys.iter().for_each(|key| basket.prefetch(*key));
        reader.live(harvest, |at, is_live| {
            let key = harvest.keys[at];
            let row = &harvest.rows[at * row_bytes..(at + 1) * row_bytes];
            let is_new = match (is_live, staged_too[at], outlook.next_use(key)) {
                (true, false, Some(next)) => basket.put(key, next, row, *now),
                _ => false,
            };
            let around = harvest.is_around(at);
            wasted.around += u32::from(!is_new && around);
            wasted.asked += u32::from(!is_new && !around);
        });
        let count = basket.take_count();
        wasted.dropped = count.dropped as u32;
        reader.harvest_wasted(wasted);
        group.traffic.harvested(count);
        self.look_on();
    }

    /// Records that all mini-batches before `number` have their rows.
    pub(super) fn filled_before(&mut self, number: u32) {
        self.now = number;
        self.look_on();
    }

    /// Updates up to which use rows are worth harvesting.
    fn look_on(&self) {
        if let Some(outlook) = &self.outlook {
            outlook.look_until(self.basket.useful_until(self.now));
        }
    }

    /// Fills the slots of the `places` whose rows were harvested, and moves these places to the
    /// front; returns their number.
    pub(super) fn fill(&mut self, group: &Group, places: &mut [u32], fills: &mut [Fill]) -> usize {
        let Self { basket, found, slots, .. } = self;
        found.clear();
        basket.find_each(places.iter().map(|place| fills[*place as usize].key), found);
        if found.is_empty() {
            return 0;
        }
        slots.clear();
        slots.extend(found.iter().map(|(at, _)| fills[places[*at as usize] as usize].slot));
        let mut held = group.slab.hold(slots);
        let mut rows = held.rows_mut();
        for (number, (at, place)) in found.iter().enumerate() {
            rows.row(number).copy_from_slice(basket.take(*place));
            fills[places[*at as usize] as usize].from_below = true;
            // Numbers ascend, so a place swapped to a later position was not visited yet.
            places.swap(*at as usize, number);
        }
        drop(held);
        let refilled = found.len() as u64;
        group.traffic.pulled(TrafficCount { refilled, ..TrafficCount::default() });
        group.traffic.harvested(basket.take_count());
        self.look_on();
        self.found.len()
    }
}
