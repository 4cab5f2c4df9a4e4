//! Rows that go stale while a scan begins: they still belong to its version.
//!
//! A scan begins at one moment, but reads the lists of keys afterwards. Until it has read a
//! segment's list, each row of that segment that is replaced or deleted is recorded here.

use std::collections::HashMap;

use stepwell_base::Key;

use crate::numbers::{PageNumber, Slot, SlotPage};

/// Records for the scan that is beginning; only one begins at a time.
#[derive(Debug, Default)]
pub(super) struct StaleInScan {
    /// For each watched slot, page and key of each row that went stale.
    stale: HashMap<Slot, Vec<(PageNumber, Key)>>,
    count: usize,
}

impl StaleInScan {
    /// Watches the segments in `slots`.
    pub(super) fn over(slots: impl Iterator<Item = Slot>) -> Self {
        Self { stale: slots.map(|slot| (slot, Vec::new())).collect(), count: 0 }
    }

    /// Records that the row of `key` on a page went stale.
    #[inline]
    pub(super) fn note(&mut self, SlotPage { slot, page }: SlotPage, key: Key) {
        if self.stale.is_empty() {
            return;
        }
        if let Some(stale) = self.stale.get_mut(&slot) {
            stale.push((page, key));
            self.count += 1;
        }
    }

    /// Whether a slot is watched.
    pub(super) fn has(&self, slot: Slot) -> bool {
        self.stale.contains_key(&slot)
    }

    /// Returns the rows recorded for a slot, and stops watching it.
    pub(super) fn take(&mut self, slot: Slot) -> Vec<(PageNumber, Key)> {
        let stale = self.stale.remove(&slot).unwrap_or_default();
        self.count -= stale.len();
        stale
    }

    /// Number of rows recorded.
    pub(super) fn len(&self) -> usize {
        self.count
    }
}
