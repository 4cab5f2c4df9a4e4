//! Which of a mini-batch's rows are on which device.

use std::sync::Arc;

use stepwell_base::owner::{RankOf, owner};
use stepwell_base::{Key, SlotIndex};
use stepwell_device::Event;

use crate::Part;
use crate::planner::NO_SLOT;

/// A device's rows of one table in a mini-batch.
#[derive(Debug, Default)]
pub(crate) struct OnDevice {
    /// Keys of the rows.
    pub(crate) keys: Vec<Key>, // (rows of the device)
    /// Numbers of the rows in the request.
    pub(crate) rows: Vec<u32>, // (rows of the device)
    /// Slots of the rows on the device, pinned from plan to retire.
    pub(crate) slots: Vec<SlotIndex>, // (rows of the device)
}

impl OnDevice {
    fn clear(&mut self) {
        self.keys.clear();
        self.rows.clear();
        self.slots.clear();
    }

    /// Removes the rows that got no slot, and appends their numbers to `below`.
    fn leave(&mut self, below: &mut Vec<u32>) {
        if !self.slots.contains(&NO_SLOT) {
            return;
        }
        let mut slots = std::mem::take(&mut self.slots);
        self.keep(below, |index, _| slots[index] != NO_SLOT);
        slots.retain(|slot| *slot != NO_SLOT);
        self.slots = slots;
    }

    /// Removes the rows for which `stays` (of index and key) is false, and appends their numbers to
    /// `below`.
    fn keep(&mut self, below: &mut Vec<u32>, stays: impl Fn(usize, Key) -> bool) {
        let mut kept = 0;
        for index in 0..self.keys.len() {
            if stays(index, self.keys[index]) {
                self.keys[kept] = self.keys[index];
                self.rows[kept] = self.rows[index];
                kept += 1;
            } else {
                below.push(self.rows[index]);
            }
        }
        self.keys.truncate(kept);
        self.rows.truncate(kept);
    }

    /// Bytes of the lists for `rows` rows; each row is on a device or on the host.
    pub(crate) fn bytes_max(rows: u64) -> u64 {
        rows * (size_of::<Key>() + size_of::<u32>() + size_of::<SlotIndex>()) as u64
    }
}

/// The device that has a key, among the `devices` of a rank: devices of all ranks own key shards as
/// that many ranks would.
pub(crate) fn device_of(key: Key, of: RankOf, devices: usize) -> usize {
    if devices == 1 {
        return 0;
    }
    owner(key, of.ranks * devices) - of.rank * devices
}

/// Where the rows of one table and mini-batch are on devices.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) devices: Vec<OnDevice>,
    /// Numbers in the request of rows that stay on the host.
    pub(crate) below: Vec<u32>,
    /// Events, by device, after which all rows of the unit are lifted.
    pub(crate) lifted: Option<Arc<Vec<Event>>>,
}

impl Places {
    /// Clears the lists and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.devices.iter_mut().for_each(OnDevice::clear);
        self.below.clear();
        self.lifted = None;
    }

    /// Keeps only rows that `may_go_up` on device `device`: the others stay on the host.
    pub(super) fn keep_below(&mut self, device: usize, may_go_up: impl Fn(Key) -> bool) {
        self.devices[device].keep(&mut self.below, |_, key| may_go_up(key));
    }

    /// Moves rows that got no slot on device `device` to `below`; returns their number.
    pub(crate) fn leave_below(&mut self, device: usize) -> usize {
        let Self { devices, below, .. } = self;
        let before = below.len();
        devices[device].leave(below);
        below.len() - before
    }
}

impl Part {
    /// Divides the part's rows among the `devices` devices of a rank.
    pub(crate) fn share_out(&mut self, of: RankOf, devices: usize) {
        self.above.clear();
        self.above.devices.resize_with(devices, OnDevice::default);
        for (row, key) in self.request.distinct.iter().enumerate() {
            let on = &mut self.above.devices[device_of(*key, of, devices)];
            on.keys.push(*key);
            on.rows.push(row as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_a_rank_share_out_what_the_rank_owns() {
        for (ranks, devices) in [(1, 1), (1, 4), (2, 2), (3, 5), (8, 8)] {
            let mut seen = vec![false; devices];
            for key in (0..5000).map(Key) {
                let rank = owner(key, ranks);
                seen[device_of(key, RankOf { rank, ranks }, devices)] = true;
            }
            assert!(seen.iter().all(|seen| *seen), "{ranks} ranks of {devices}");
        }
    }
}
