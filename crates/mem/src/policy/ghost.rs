//! A memory of evicted rows: tags in the order of eviction, the oldest forgotten first.
//!
//! - **How.** Entries are in the spare bytes of the slots' records, one in each, independent of the
//!   row in the slot: 16 bits of a tag and the time of eviction. The bucket of a tag is the records
//!   of two adjacent cache lines. Time advances by one with every [`PERIODS`]-th of `most`
//!   evictions. An entry counts as long as fewer than about `most` rows were evicted after it;
//!   expired entries are overwritten, and in a full bucket the oldest is. So, as in
//!   S3-FIFO's own implementation, no list is needed.
//!
//! ```text
//! records      [ line ][ line ][ line ][ line ]      four records each
//! buckets      └── 0 ─────────┘
//!                      └── 1 ─────────┘              each line is part of two
//! ```
//!
//! - **Bounds.** About `most` entries count. A bucket that overflows forgets some early. An entry
//!   not overwritten during four times `most` evictions counts again, as time has 8 bits: since a
//!   bucket of eight entries then receives some 28 others, this hardly happens.
//! - **Cost.** No bytes of its own; two adjacent cache lines per look-up.

use stepwell_base::SlotIndex;

use crate::records::{PER_LINE, Records, Spare};

/// Time of a vacant entry.
const VACANT: u8 = 0;
/// Maximum units of time for which an entry counts.
const PERIODS: u64 = 64;

/// Tags of evicted rows.
#[derive(Debug)]
pub(super) struct Ghost {
    /// Number of evicted rows, and number per unit of time.
    left: u64,
    unit: u64,
    /// Units of time for which an entry counts.
    periods: u8,
}

/// An entry as stored in a record.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u16,
    time: u8,
}

impl Entry {
    fn of(spare: Spare) -> Self {
        Self { tag: u16::from_le_bytes([spare[0], spare[1]]), time: spare[2] }
    }

    fn spare(self) -> Spare {
        let [low, high] = self.tag.to_le_bytes();
        [low, high, self.time]
    }

    /// Units of time since it was made; the maximum if it is vacant.
    fn age(self, now: u8) -> u8 {
        match self.time {
            VACANT => u8::MAX,
            time if now >= time => now - time,
            time => u8::MAX - time + now,
        }
    }
}

impl Ghost {
    /// A memory of about `most` rows.
    pub(super) fn new(most: usize) -> Self {
        let unit = (most as u64).div_ceil(PERIODS).max(1);
        Self { left: 0, unit, periods: (most as u64).div_ceil(unit) as u8 }
    }

    /// The current time, never [`VACANT`].
    fn now(&self) -> u8 {
        (self.left / self.unit % u64::from(u8::MAX)) as u8 + 1
    }

    /// The slots whose records are the bucket of `tag`.
    fn bucket(records: &Records, tag: u32) -> impl Iterator<Item = SlotIndex> + use<> {
        let lines = records.slots().div_ceil(PER_LINE);
        let buckets = lines.saturating_sub(1).max(1) as u64;
        let first = ((u64::from(tag) * buckets) >> 32) as usize * PER_LINE;
        let slots = first..(first + 2 * PER_LINE).min(records.slots());
        slots.map(|slot| SlotIndex(slot as u32))
    }

    /// Prefetches the bucket of `tag`.
    #[inline]
    pub(super) fn prefetch(&self, records: &Records, tag: u32) {
        if self.left > 0 {
            let lines = Self::bucket(records, tag).step_by(PER_LINE);
            lines.for_each(|slot| records.prefetch(slot));
        }
    }

    /// Records that a row was evicted.
    pub(super) fn insert(&mut self, records: &mut Records, tag: u32) {
        self.left += 1;
        let now = self.now();
        let worth = |slot: &SlotIndex| {
            let entry = Entry::of(records.spare(*slot));
            (entry.time != VACANT && entry.tag == tag as u16, entry.age(now))
        };
        if let Some(slot) = Self::bucket(records, tag).max_by_key(worth) {
            records.set_spare(slot, Entry { tag: tag as u16, time: now }.spare());
        }
    }

    /// Whether a row with this tag was evicted recently; forgets it.
    pub(super) fn take(&mut self, records: &mut Records, tag: u32) -> bool {
        if self.left == 0 {
            return false;
        }
        let now = self.now();
        let found = Self::bucket(records, tag).find(|slot| {
            let entry = Entry::of(records.spare(*slot));
            entry.tag == tag as u16 && entry.age(now) < self.periods
        });
        if let Some(slot) = found {
            records.set_spare(slot, Entry { tag: 0, time: VACANT }.spare());
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::Key;

    use super::*;
    use crate::policy::tag_of;

    #[test]
    fn the_last_that_left_are_known_and_no_others() {
        for slots in [1111, 100_003] {
            let most = slots * 9 / 10;
            let (mut records, mut ghost) = (Records::new(slots), Ghost::new(most));
            let last = 5 * most as u64;
            (0..last).for_each(|key| ghost.insert(&mut records, tag_of(Key(key))));
            let mut known = |keys: std::ops::Range<u64>| {
                keys.filter(|key| ghost.take(&mut records, tag_of(Key(*key)))).count()
            };
            let recent = known(last - most as u64..last);
            assert!(recent * 100 > most * 85, "{recent} of {most}");
            assert!(known(0..last) * 1000 < most, "but for tags that collide");
        }
    }

    #[test]
    fn a_row_that_left_twice_is_known_by_its_last_leaving() {
        let (mut records, mut ghost) = (Records::new(3), Ghost::new(2));
        for tag in [7, 8, 7, 9] {
            ghost.insert(&mut records, tag);
        }
        assert!(ghost.take(&mut records, 7) && !ghost.take(&mut records, 7));
        assert!(!ghost.take(&mut records, 8));
        assert!(ghost.take(&mut records, 9));
    }
}
