//! Divides the rows of a rank among its devices.

use stepwell_base::Key;
use stepwell_base::owner::{RankOf, owner};

use crate::working_set::{OnDevice, Part};

/// The device that has a key, among the `devices` of a rank: devices of all ranks own key shards as
/// that many ranks would.
fn device_of(key: Key, of: RankOf, devices: usize) -> usize {
    if devices == 1 {
        return 0;
    }
    owner(key, of.ranks * devices) - of.rank * devices
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
