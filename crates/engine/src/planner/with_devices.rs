//! Planners and devices: rows of a planner may be on devices, or the planner may be a device's own.

use stepwell_base::SlotIndex;
use stepwell_base::rules::Rules;
use stepwell_mem::PolicyKind;

use super::Planner;

impl Planner {
    /// Replaces the rules, some of which tests switch off.
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Number of slots pinned for mini-batches alone: 0 if nothing is in flight.
    pub fn pinned(&self) -> usize {
        let pinned = self.cache.slots() - self.cache.unpinned();
        // A row that never leaves memory may also be on a device.
        pinned.saturating_sub(self.kept + self.above)
    }

    /// Number of mini-batches known ahead, and the policy.
    pub(crate) fn knows(&self) -> (usize, PolicyKind) {
        (self.horizon, self.policy)
    }

    /// Whether rows may have to be evicted, so that keys of coming mini-batches are followed.
    pub(crate) fn follows(&self) -> bool {
        self.follows
    }

    /// Makes this the planner of a device: it lists evicted rows whether they changed or not, and
    /// if a mini-batch has more rows than slots, the rest stays below.
    pub(crate) fn of_device(self) -> Self {
        Self { is_above: true, ..self }
    }

    /// Number of rows of a mini-batch of `count` rows that get no slot: the last of the rows
    /// without one.
    pub(super) fn left_below(&self, count: usize) -> usize {
        if self.is_above { count.saturating_sub(self.cache.slots()) } else { 0 }
    }

    /// Pins the row in `slot` here because it gets a slot on a device.
    pub(crate) fn keep_for_above(&mut self, slot: SlotIndex) {
        self.cache.pin(slot);
        self.above += 1;
    }

    /// Releases the pin when the row in `slot` leaves its device.
    pub(crate) fn let_go_above(&mut self, slot: SlotIndex) {
        self.cache.unpin(slot);
        self.above -= 1;
    }
}
