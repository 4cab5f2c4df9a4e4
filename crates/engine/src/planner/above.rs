//! What a planner has to do with devices: its rows may lie on them, or it may be the planner of
//! one.

use stepwell_base::SlotIndex;
use stepwell_base::rules::Rules;
use stepwell_mem::PolicyKind;

use super::Planner;

/// The slot of a row that has none, because it stays below a device.
pub(crate) const NO_SLOT: SlotIndex = SlotIndex(u32::MAX);

impl Planner {
    /// The same with some rule switched off, for tests.
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Slots that are pinned for mini-batches alone: none where nothing is in flight.
    pub fn pinned(&self) -> usize {
        let pinned = self.cache.slots() - self.cache.unpinned();
        // A row that never leaves may be on a device, too.
        pinned.saturating_sub(self.kept + self.above)
    }

    /// Mini-batches that it knows ahead, and the policy.
    pub(crate) fn knows(&self) -> (usize, PolicyKind) {
        (self.horizon, self.policy)
    }

    /// Whether rows may have to leave, so that it looks at the keys of coming mini-batches.
    pub(crate) fn follows(&self) -> bool {
        self.follows
    }

    /// The same as the planner of a device: it lists rows that leave whether they were changed or
    /// not, and where a mini-batch has more rows than there are slots the rest stays below.
    pub(crate) fn of_device(self) -> Self {
        Self { is_above: true, ..self }
    }

    /// Where the mini-batch at hand, of `count` rows, finds fewer slots: how many of its rows get
    /// none, the last ones of those that have none yet.
    pub(super) fn left_below(&self, count: usize) -> usize {
        if self.is_above { count.saturating_sub(self.cache.slots()) } else { 0 }
    }

    /// The row in `slot` gets a slot on a device: it stays here until it has left that.
    pub(crate) fn keep_for_above(&mut self, slot: SlotIndex) {
        self.cache.pin(slot);
        self.above += 1;
    }

    /// The row in `slot` leaves its device.
    pub(crate) fn let_go_above(&mut self, slot: SlotIndex) {
        self.cache.unpin(slot);
        self.above -= 1;
    }
}
