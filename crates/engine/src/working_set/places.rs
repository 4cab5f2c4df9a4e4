//! Places of a mini-batch's rows on devices.

use std::sync::Arc;

use stepwell_base::{Key, SlotIndex};
use stepwell_device::Event;

/// Slot of a row that has none, because it stays below a device.
pub(crate) const NO_SLOT: SlotIndex = SlotIndex(u32::MAX);

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
    pub(crate) fn keep_below(&mut self, device: usize, may_go_up: impl Fn(Key) -> bool) {
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
