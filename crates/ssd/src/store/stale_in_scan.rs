//! Rows that go stale while a scan begins: they are of its version still.
//!
//! A scan begins at one moment, but reads the lists of keys after it. Until it has read that of a
//! segment, each row there that is replaced or deleted is noted here.

use std::collections::HashMap;

use stepwell_base::Key;

/// What is noted for the scan that is beginning; one begins at a time.
#[derive(Debug, Default)]
pub(super) struct StaleInScan {
    /// By slot: page and key of each row that went stale. Slots that are not here are not watched.
    stale: HashMap<u32, Vec<(u32, Key)>>,
    count: usize,
}

impl StaleInScan {
    /// Watches the segments of such slots.
    pub(super) fn over(slots: impl Iterator<Item = u32>) -> Self {
        Self { stale: slots.map(|slot| (slot, Vec::new())).collect(), count: 0 }
    }

    /// The row of `key` on a page goes stale.
    #[inline]
    pub(super) fn note(&mut self, slot: u32, page: u32, key: Key) {
        if self.stale.is_empty() {
            return;
        }
        if let Some(stale) = self.stale.get_mut(&slot) {
            stale.push((page, key));
            self.count += 1;
        }
    }

    /// Whether rows of a slot are noted.
    pub(super) fn has(&self, slot: u32) -> bool {
        self.stale.contains_key(&slot)
    }

    /// What was noted of a slot, which is watched no longer.
    pub(super) fn take(&mut self, slot: u32) -> Vec<(u32, Key)> {
        let stale = self.stale.remove(&slot).unwrap_or_default();
        self.count -= stale.len();
        stale
    }

    /// How many rows are noted.
    pub(super) fn len(&self) -> usize {
        self.count
    }
}
