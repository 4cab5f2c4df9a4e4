//! A memory of rows that left: tags in the order of leaving, the oldest forgotten first.
//!
//! How: buckets of eight entries, each 16 bits of a tag and the time of its leaving. Time goes on
//! by one with each [`PERIODS_MAX`]-th part of `most` rows that leave. An entry counts as long as
//! fewer than about `most` rows left after it; expired ones are overwritten, and in a full bucket
//! the oldest. So no list is kept, as in S3-FIFO's own implementation.
//!
//! Bounds: about `most` entries count. A bucket that overflows forgets some early; with a third
//! more entries than `most` that is rare. An entry that nobody overwrote for eight times `most`
//! leavings counts again, for time has 16 bits.
//! Cost: 5.3 bytes per row remembered; a cache line a look-up.

/// Entries of a bucket: as many as a cache line holds.
const WAYS: usize = 8;
/// Times start from one.
const VACANT: u32 = 0;
/// Units of time for which an entry counts, at most.
const PERIODS_MAX: u16 = 1 << 13;

/// Tags of rows that left.
#[derive(Debug)]
pub(super) struct Ghost {
    /// `tag << 16 | time of leaving`, or [`VACANT`].
    entries: Box<[u32]>,
    /// Rows that left, and those of a unit of time.
    left: u64,
    unit: u64,
    /// Units of time for which an entry counts.
    periods: u16,
}

impl Ghost {
    /// Room for `most` rows.
    pub(super) fn new(most: usize) -> Self {
        let buckets = Self::buckets_for(most);
        let unit = (most as u64).div_ceil(u64::from(PERIODS_MAX)).max(1);
        let periods = (most as u64).div_ceil(unit) as u16;
        Self { entries: vec![VACANT; buckets * WAYS].into(), left: 0, unit, periods }
    }

    const fn buckets_for(most: usize) -> usize {
        (most * 4 / 3).div_ceil(WAYS) + 1
    }

    /// Bytes for each row remembered, rounded up.
    pub(super) const BYTES_PER_ROW: usize = 6;

    /// Bytes beside those.
    pub(super) const BYTES_FIXED: usize = 2 * WAYS * size_of::<u32>();

    /// The time now, never 0.
    fn now(&self) -> u16 {
        (self.left / self.unit % u64::from(u16::MAX)) as u16 + 1
    }

    /// How long ago an entry was made.
    fn age(now: u16, entry: u32) -> u16 {
        let made = entry as u16;
        if now >= made { now - made } else { u16::MAX - made + now }
    }

    fn bucket(&mut self, tag: u32) -> &mut [u32] {
        let buckets = self.entries.len() / WAYS;
        let bucket = ((u64::from(tag) * buckets as u64) >> 32) as usize;
        &mut self.entries[bucket * WAYS..][..WAYS]
    }

    /// A row left.
    pub(super) fn insert(&mut self, tag: u32) {
        self.left += 1;
        let now = self.now();
        let age = |entry: u32| if entry == VACANT { u16::MAX } else { Self::age(now, entry) };
        let same = |entry: u32| entry != VACANT && entry >> 16 == tag & 0xFFFF;
        let oldest = self.bucket(tag).iter_mut().max_by_key(|entry| (same(**entry), age(**entry)));
        if let Some(entry) = oldest {
            *entry = tag << 16 | u32::from(now);
        }
    }

    /// Whether a row of this tag left not long ago; it is forgotten.
    pub(super) fn take(&mut self, tag: u32) -> bool {
        let now = self.now();
        let periods = self.periods;
        let found = self.bucket(tag).iter_mut().find(|entry| {
            let fresh = **entry != VACANT && Self::age(now, **entry) < periods;
            fresh && **entry >> 16 == tag & 0xFFFF
        });
        found.is_some_and(|entry| std::mem::replace(entry, VACANT) != VACANT)
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::Key;

    use super::*;
    use crate::policy::tag_of;

    #[test]
    fn the_last_that_left_are_known_and_no_others() {
        let mut ghost = Ghost::new(1000);
        (0..5000).for_each(|key| ghost.insert(tag_of(Key(key))));
        let known = (4000..5000).filter(|key| ghost.take(tag_of(Key(*key)))).count();
        assert!(known > 900, "{known}");
        assert_eq!((0..5000).filter(|key| ghost.take(tag_of(Key(*key)))).count(), 0);
    }

    #[test]
    fn a_row_that_left_twice_is_known_by_its_last_leaving() {
        let mut ghost = Ghost::new(2);
        for tag in [7, 8, 7, 9] {
            ghost.insert(tag);
        }
        assert!(ghost.take(7) && !ghost.take(7));
        assert!(!ghost.take(8));
        assert!(ghost.take(9));
    }
}
